//! The content of a file in another archive: read, unpacked within bounds, compared with its sum.
//!
//! The first bytes say what a file is compressed with, since Barman's names do not. Only brotli has
//! no mark of its own: there the name says it. A segment's first page says how long the segment is,
//! and no more is unpacked than that.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use brotli_decompressor::Decompressor;
use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use sha1::{Digest, Sha1};
use walzip_codec::{Claims, DecodeError, Header, MEMBER_LEN_MAX};
use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal::SegmentHeader;
use walzip_pgformat::wal_file_name::WalFileName;

use super::source::Source;
use crate::files::regular_file;
use crate::wal::content;

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
    let (reader, mut content) = begin(source)?;
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
        _ if is(&walzip_codec::MAGIC) => Box::new(of_walzip(file, source)?),
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

/// What `walzip compress` has made of a WAL file. Its header says which file that was.
fn of_walzip(mut file: BufReader<File>, source: &Source) -> Result<Cursor<Vec<u8>>, Flaw> {
    let damaged = |error: DecodeError| Flaw::Damaged(format!("cannot be unpacked: {error}"));
    let mut packed = Vec::new();
    let mut read = (&mut file).take(MEMBER_LEN_MAX as u64);
    read.read_to_end(&mut packed).map_err(Flaw::Unreadable)?;
    let named = Header::read(&packed).map_err(damaged)?.name;
    if named.is_some_and(|named| named != source.name.to_string()) {
        return Err(Flaw::Damaged("it is another file, renamed".to_owned()));
    }
    let (mut rest, mut content) = (packed.as_slice(), Vec::new());
    while !rest.is_empty() {
        let (original, len) =
            walzip_codec::decode_member(rest, Claims::Bounded).map_err(damaged)?;
        if content.len() + original.len() > MEMBER_LEN_MAX {
            return Err(Flaw::Damaged("it is longer than any segment".to_owned()));
        }
        content.extend_from_slice(&original);
        rest = rest.get(len..).unwrap_or_default();
    }
    Ok(Cursor::new(content))
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

    use liblzma::stream::{Check, LzmaOptions};
    use liblzma::write::XzEncoder;

    use super::*;

    const SIZE: usize = 1 << 20;
    const NAME: &str = "000000010000000000000001";

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

    fn source(directory: &Path, name: &str, content: &[u8]) -> Source {
        let path = directory.join(name);
        std::fs::write(&path, content).expect("written");
        Source::named(&path, name, content.len() as u64).expect("a WAL file's name")
    }

    fn lz4(bytes: &[u8], configure: fn(&mut lz4::EncoderBuilder)) -> Vec<u8> {
        let mut builder = lz4::EncoderBuilder::new();
        configure(&mut builder);
        let mut encoder = builder.build(Vec::new()).expect("an encoder");
        encoder.write_all(bytes).expect("packed");
        let (packed, ended) = encoder.finish();
        ended.expect("packed");
        packed
    }

    fn lzma(bytes: &[u8], stream: Stream) -> Vec<u8> {
        let mut encoder = XzEncoder::new_stream(Vec::new(), stream);
        encoder.write_all(bytes).expect("packed");
        encoder.finish().expect("packed")
    }

    type Pack = fn(&[u8]) -> Vec<u8>;

    /// Each format that has a mark of its own.
    const FORMATS: [(&str, Pack); 8] = [
        ("gz", |bytes| {
            let level = flate2::Compression::new(6);
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).expect("packed");
            encoder.finish().expect("packed")
        }),
        ("bz2", |bytes| {
            let level = bzip2::Compression::new(9);
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).expect("packed");
            encoder.finish().expect("packed")
        }),
        ("zst", |bytes| zstd::encode_all(bytes, 3).expect("packed")),
        ("lz4", |bytes| lz4(bytes, |_| ())),
        ("lz4", |bytes| {
            lz4(bytes, |builder| {
                builder.checksum(lz4::ContentChecksum::NoChecksum);
                builder.block_mode(lz4::BlockMode::Independent);
            })
        }),
        ("xz", |bytes| {
            let stream = Stream::new_easy_encoder(9, Check::Crc64);
            lzma(bytes, stream.expect("an encoder"))
        }),
        ("lzma", |bytes| {
            let options = LzmaOptions::new_preset(6).expect("options");
            let stream = Stream::new_lzma_encoder(&options);
            lzma(bytes, stream.expect("an encoder"))
        }),
        ("wz", |bytes| {
            walzip_codec::encode(bytes, walzip_codec::Level::MIN).expect("encodes")
        }),
    ];

    #[test]
    fn unpacks_each_format_whatever_the_name() {
        let directory = tempfile::tempdir().expect("a directory");
        for (suffix, pack) in FORMATS {
            let packed = pack(&segment());
            for name in [format!("{NAME}.{suffix}"), NAME.to_owned()] {
                let found = unpack(&source(directory.path(), &name, &packed));
                let found = found.unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
                assert!(found == segment(), "{name}");
            }
        }
        let found = unpack(&source(directory.path(), NAME, &segment()));
        assert!(found.expect("plain") == segment());
    }

    #[test]
    fn what_was_packed_in_pieces_is_one_segment() {
        let directory = tempfile::tempdir().expect("a directory");
        let segment = segment();
        let (first, second) = segment.split_at(300_000);
        for (suffix, pack) in FORMATS.iter().filter(|(suffix, _)| *suffix != "lzma") {
            let packed = [pack(first), pack(second)].concat();
            let found = unpack(&source(directory.path(), NAME, &packed));
            let found = found.unwrap_or_else(|flaw| panic!("{suffix}: {flaw}"));
            assert!(found == segment, "{suffix}");
        }
    }

    /// The history in the test below, as the brotli program packs it.
    const BROTLI: [u8; 32] = [
        0x1f, 0x28, 0x00, 0xf8, 0x05, 0xe1, 0x64, 0x99, 0x56, 0x9c, 0x4d, 0xad, 0x34, 0x21, 0x87,
        0x28, 0xe2, 0x90, 0x0c, 0x42, 0x1d, 0x82, 0xa6, 0x43, 0xcd, 0x82, 0xb8, 0xcf, 0x03, 0x47,
        0x29, 0x01,
    ];

    /// Of texts, of which nothing else says how long they are.
    #[test]
    fn every_early_end_is_noticed() {
        let directory = tempfile::tempdir().expect("a directory");
        let short = b"1\t0/2500000\tno recovery target specified\n".to_vec();
        let long = short.repeat(2000);
        let mut packed = vec![("br", short.clone(), BROTLI.to_vec())];
        for (suffix, pack) in FORMATS {
            packed.push((suffix, short.clone(), pack(&short)));
            packed.push((suffix, long.clone(), pack(&long)));
        }
        for (suffix, text, packed) in packed {
            let name = format!("00000002.history.{suffix}");
            let unpacked = |len: usize| unpack(&source(directory.path(), &name, &packed[..len]));
            let whole = unpacked(packed.len());
            assert!(whole.is_ok_and(|found| found == text), "{suffix}");
            for len in 1..packed.len() {
                let found = unpacked(len);
                let is_flaw = matches!(found, Err(Flaw::Damaged(_)));
                assert!(is_flaw, "{suffix}, {len} of {}", packed.len());
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
        let frame = zstd::encode_all(&vec![0u8; 1 << 26][..], 1).expect("packed");
        let begin = zstd::encode_all(&segment()[..], 1).expect("packed");
        let bomb = [begin, frame.repeat(4000)].concat();
        let flaw = unpack(&source(directory.path(), NAME, &bomb)).expect_err("refused");
        assert!(flaw.to_string().contains("more than 1048576 bytes"));
    }
}
