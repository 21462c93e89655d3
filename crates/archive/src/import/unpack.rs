//! The content of a file in another archive: read, unpacked within bounds, compared with its sum.
//!
//! The first bytes say what a file is compressed with, since Barman's names do not. Only brotli has
//! no mark of its own: there the name says it. A segment's first page says how long the segment is,
//! and no more is unpacked than that.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use brotli_decompressor::Decompressor;
use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use sha1::{Digest, Sha1};
use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal::SegmentHeader;
use walzip_pgformat::wal_file_name::WalFileName;

use super::find::Source;
use crate::content;
use crate::regular_file;

const BUFFER_LEN: usize = 256 << 10;
/// More than any history has: a line for each timeline.
const TEXT_LEN_MAX: usize = 16 << 20;
/// What unpacking xz may take: `xz -9` makes it take 65 MiB.
const XZ_MEMORY_MAX: u64 = 128 << 20;

/// Why a file gives no content.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Flaw {
    /// The system did not let us read it.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// It was encrypted by its archiver.
    #[error("it is encrypted, which import does not undo")]
    Encrypted,
    /// It is not what its name says.
    #[error("{0}")]
    Damaged(String),
}

impl From<io::Error> for Flaw {
    /// The system's errors have numbers, those of decoders have none.
    fn from(error: io::Error) -> Flaw {
        match error.raw_os_error() {
            Some(_) => Flaw::Unreadable(error),
            None => Flaw::Damaged(format!("cannot be unpacked: {error}")),
        }
    }
}

/// All of a file's content.
pub(crate) fn unpack(source: &Source) -> Result<Vec<u8>, Flaw> {
    let (mut reader, mut content) = begin(source)?;
    let len_max = match source.name {
        WalFileName::Segment(_) | WalFileName::Partial(_) => {
            let header = SegmentHeader::read(&content);
            let header = header.map_err(|error| Flaw::Damaged(format!("not WAL: {error}")))?;
            header.segment_size as usize
        }
        WalFileName::History(_) | WalFileName::BackupHistory { .. } => TEXT_LEN_MAX,
    };
    let rest = (len_max + 1).saturating_sub(content.len());
    reader.take(rest as u64).read_to_end(&mut content)?;
    if content.len() > len_max {
        let reason = format!("it has more than {len_max} bytes when it is unpacked");
        return Err(Flaw::Damaged(reason));
    }
    check_sum(source, &content)?;
    Ok(content)
}

/// Whose a segment is, by its first page.
pub(crate) fn cluster(source: &Source) -> Result<Option<walzip_repo::ClusterIdentity>, Flaw> {
    let (_, page) = begin(source)?;
    Ok(content::cluster_of_segment(&page))
}

/// The first page, or all there is, and what reads on.
fn begin(source: &Source) -> Result<(Box<dyn Read>, Vec<u8>), Flaw> {
    let (file, _) = regular_file::open(&source.path).map_err(Flaw::Unreadable)?;
    let mut reader = decoder(BufReader::with_capacity(BUFFER_LEN, file), source)?;
    let mut page = Vec::new();
    (&mut reader)
        .take(PAGE_SIZE as u64)
        .read_to_end(&mut page)?;
    Ok((reader, page))
}

fn check_sum(source: &Source, content: &[u8]) -> Result<(), Flaw> {
    let Some(expected) = source.sha1 else {
        return Ok(());
    };
    match Sha1::digest(content).as_slice() == expected {
        true => Ok(()),
        false => Err(Flaw::Damaged(
            "its content does not have the SHA-1 in its name".to_owned(),
        )),
    }
}

/// Whether a file of pgBackRest's is encrypted: openssl's mark.
pub(crate) fn is_encrypted(path: &Path) -> bool {
    let mut mark = [0; 8];
    let read = regular_file::open(path).and_then(|(mut file, _)| file.read_exact(&mut mark));
    read.is_ok() && is_salted(&mark)
}

fn is_salted(beginning: &[u8]) -> bool {
    beginning.starts_with(b"Salted__")
}

/// What unpacks the file, by its first bytes.
fn decoder(mut file: BufReader<File>, source: &Source) -> Result<Box<dyn Read>, Flaw> {
    let beginning = file.fill_buf().map_err(Flaw::Unreadable)?;
    let is = |mark: &[u8]| beginning.starts_with(mark);
    Ok(match beginning {
        _ if is_salted(beginning) => return Err(Flaw::Encrypted),
        _ if is(&[0x1F, 0x8B]) => Box::new(MultiGzDecoder::new(file)),
        _ if is(b"BZh") => Box::new(MultiBzDecoder::new(file)),
        _ if is(&[0x28, 0xB5, 0x2F, 0xFD]) => Box::new(zstd::Decoder::with_buffer(file)?),
        _ if is(&[0x04, 0x22, 0x4D, 0x18]) => Box::new(Lz4Frames::new(file)?),
        // LZMA's older format has no mark; its first bytes are those of its usual settings.
        _ if is(b"\xFD7zXZ\0") || is(&[0x5D, 0, 0]) => {
            let stream = Stream::new_auto_decoder(XZ_MEMORY_MAX, CONCATENATED);
            let stream = stream.map_err(io::Error::from)?;
            Box::new(XzDecoder::new_stream(file, stream))
        }
        _ if source.suffix == Some("br") => {
            // A window of up to 1 GiB, which no archiver asks for.
            if beginning.first().is_some_and(|first| first & 0x7F == 0x11) {
                return Err(Flaw::Damaged("its brotli window is too large".to_owned()));
            }
            Box::new(Decompressor::new(file, BUFFER_LEN))
        }
        _ => match source.suffix {
            Some(suffix) => {
                let reason = format!("its name ends in .{suffix}, its content is not that");
                return Err(Flaw::Damaged(reason));
            }
            None => Box::new(file),
        },
    })
}

/// LZ4 frames, one after the other, the last of which has to end.
struct Lz4Frames<R: BufRead> {
    frame: Option<lz4::Decoder<R>>,
}

impl<R: BufRead> Lz4Frames<R> {
    fn new(reader: R) -> io::Result<Lz4Frames<R>> {
        let frame = Some(lz4::Decoder::new(reader)?);
        Ok(Lz4Frames { frame })
    }
}

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while let Some(frame) = &mut self.frame {
            let read = frame.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            let ended = self.frame.take().map(lz4::Decoder::finish);
            if let Some((mut reader, ended)) = ended {
                ended.map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
                if !reader.fill_buf()?.is_empty() {
                    self.frame = Some(lz4::Decoder::new(reader)?);
                }
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    const SIZE: usize = 1 << 20;

    /// A segment of PostgreSQL 15 with something in it.
    fn segment() -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(0xD110u16.to_le_bytes());
        bytes.extend(2u16.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend((SIZE as u64).to_le_bytes());
        bytes.extend(0u64.to_le_bytes());
        bytes.extend(7u64.to_le_bytes());
        bytes.extend((SIZE as u32).to_le_bytes());
        bytes.extend(8192u32.to_le_bytes());
        let noise = (0u32..).flat_map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes());
        bytes.extend(noise.take(SIZE / 2));
        bytes.resize(SIZE, 0);
        bytes
    }

    /// What a program makes of bytes; nothing where it is not installed.
    fn by(program: &str, arguments: &[&str], bytes: &[u8]) -> Option<Vec<u8>> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut input = child.stdin.take().expect("a pipe");
        let bytes = bytes.to_vec();
        let writer = std::thread::spawn(move || input.write_all(&bytes).expect("written"));
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("written");
        assert!(output.status.success(), "{program}");
        Some(output.stdout)
    }

    fn source(directory: &Path, name: &str, content: &[u8]) -> Source {
        let path = directory.join(name);
        std::fs::write(&path, content).expect("written");
        Source::named(&path, name, content.len() as u64).expect("a WAL file's name")
    }

    const NAME: &str = "000000010000000000000001";

    /// Each program, the ending of its files, and whether its format ends so that an early end
    /// is always noticed.
    const PROGRAMS: [(&str, &[&str], &str); 9] = [
        ("gzip", &["-c"], "gz"),
        ("bzip2", &["-c"], "bz2"),
        ("xz", &["-c", "-9"], "xz"),
        ("xz", &["-c", "--format=lzma"], "lzma"),
        ("zstd", &["-c", "-q"], "zst"),
        ("lz4", &["-c", "-q"], "lz4"),
        ("lz4", &["-c", "-q", "-BD", "-B4", "--content-size"], "lz4"),
        ("lz4", &["-c", "-q", "--no-frame-crc"], "lz4"),
        ("brotli", &["-c"], "br"),
    ];

    #[test]
    fn unpacks_what_each_program_makes_whatever_its_name() {
        let directory = tempfile::tempdir().expect("a directory");
        for (program, arguments, ending) in PROGRAMS {
            let Some(packed) = by(program, arguments, &segment()) else {
                continue;
            };
            let mut names = vec![format!("{NAME}.{ending}")];
            if ending != "br" {
                names.push(NAME.to_owned());
            }
            for name in names {
                let found = unpack(&source(directory.path(), &name, &packed));
                let found = found.unwrap_or_else(|flaw| panic!("{program} {name}: {flaw}"));
                assert!(found == segment(), "{program}");
            }
        }
        let found = unpack(&source(directory.path(), NAME, &segment()));
        assert!(found.expect("plain") == segment());
    }

    #[test]
    fn what_was_packed_in_pieces_is_one_segment() {
        let directory = tempfile::tempdir().expect("a directory");
        let (first, second) = (&segment()[..300_000], &segment()[300_000..]);
        for (program, arguments, ending) in PROGRAMS {
            if ["lzma", "br"].contains(&ending) {
                continue;
            }
            let pieces = [first, second].map(|piece| by(program, arguments, piece));
            let [Some(mut packed), Some(second)] = pieces else {
                continue;
            };
            packed.extend(second);
            let found = unpack(&source(directory.path(), NAME, &packed));
            let found = found.unwrap_or_else(|flaw| panic!("{program}: {flaw}"));
            assert!(found == segment(), "{program}");
        }
    }

    /// Of texts, of which nothing else says how long they are.
    #[test]
    fn every_early_end_is_noticed() {
        let directory = tempfile::tempdir().expect("a directory");
        let text: String = (1..200)
            .map(|n| format!("{n}\t0/{n}000028\tno\n"))
            .collect();
        for (program, arguments, ending) in PROGRAMS {
            let Some(packed) = by(program, arguments, text.as_bytes()) else {
                continue;
            };
            let name = format!("000000C8.history.{ending}");
            let unpacked = |len: usize| unpack(&source(directory.path(), &name, &packed[..len]));
            assert!(unpacked(packed.len()).is_ok_and(|found| found == text.as_bytes()));
            for len in 1..packed.len() {
                let found = unpacked(len);
                let is_flawed = matches!(found, Err(Flaw::Damaged(_)));
                assert!(is_flawed, "{program} {arguments:?} {len}: {found:?}");
            }
        }
    }

    #[test]
    fn what_is_not_what_its_name_says_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let refused = |name: &str, content: &[u8]| {
            let refused = unpack(&source(directory.path(), name, content));
            refused.expect_err("refused").to_string()
        };
        let plain = segment();
        let longer = [&plain[..], &[0]].concat();
        assert!(refused(NAME, &longer).contains("more than 1048576 bytes"));
        assert!(refused(NAME, b"short").contains("not WAL"));
        assert!(refused(&format!("{NAME}.gz"), &plain).contains(".gz"));
        assert!(refused(NAME, b"Salted__12345678").contains("encrypted"));
        let sum = "0".repeat(40);
        assert!(refused(&format!("{NAME}-{sum}"), &plain).contains("SHA-1"));
        assert!(refused("00000002.history", &vec![b'1'; TEXT_LEN_MAX + 1]).contains("more than"));
        assert!(refused(&format!("{NAME}.br"), &[0x11, 0x1E, 0]).contains("window"));
    }

    /// It is not unpacked to its end.
    #[test]
    fn a_bomb_stays_packed() {
        let directory = tempfile::tempdir().expect("a directory");
        let frame = zstd::encode_all(&[0u8; 1 << 26][..], 1).expect("packed");
        let bomb = frame.repeat(4000);
        let bomb = [zstd::encode_all(&segment()[..], 1).expect("packed"), bomb].concat();
        let flaw = unpack(&source(directory.path(), NAME, &bomb)).expect_err("refused");
        assert!(flaw.to_string().contains("more than 1048576 bytes"));
    }
}
