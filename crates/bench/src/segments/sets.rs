//! The files to archive: the same number of bytes as segments of each size.
//!
//! Every file is written to the disk of its own, so that none is in memory because another was
//! read; what there is too little of is therefore copied, round by round. A repository takes a
//! segment once, so each round of real WAL gets a repository to itself.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use walzip_pgformat::wal::SegmentHeader;

use crate::cancel::Cancel;
use crate::error::Error;
use crate::input;
use crate::input::Input;
use crate::progress::Progress;
use crate::server::{Installation, Settings};

const MEGABYTE: u64 = 1 << 20;
/// How much real WAL a throw-away server writes: the rest of a set repeats it.
const DISTINCT_BYTES: u64 = 256 << 20;
/// How many pgbench transactions each client makes between two looks at the WAL's position.
const TRANSACTIONS: u32 = 2000;

/// What the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Nothing but zeros, as it was published.
    Zeros,
    /// Write-ahead log of a server.
    Wal,
}

impl Content {
    /// The word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Content::Zeros => "zeros",
            Content::Wal => "WAL",
        }
    }
}

/// The files of one content and size.
#[derive(Clone, Debug, Serialize)]
pub struct Set {
    /// What the bytes are.
    pub content: Content,
    /// The size of each file.
    pub segment_bytes: u64,
    /// How many files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Where they come from.
    pub origin: String,
    /// The BLAKE3 hash of the hashes of the files.
    pub blake3: String,
    /// Whether the files are segments that a server wrote, whole and under their names.
    pub genuine: bool,
    #[serde(skip)]
    pub(super) sources: Vec<Source>,
}

/// How the origin of WAL begins that a throw-away server wrote.
const BY_SERVER: &str = "written by ";

impl Set {
    /// Whether a throw-away server wrote it: then it is another every time.
    pub(super) fn is_by_server(&self) -> bool {
        self.content == Content::Wal && self.origin.starts_with(BY_SERVER)
    }
}

/// One file to archive.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Where it is, in the directory of the sources.
    pub(super) path: PathBuf,
    /// Its directory among the targets, and its repository: of its own for each round, and for
    /// each cluster whose WAL is measured on.
    pub(super) group: String,
    pub(super) name: String,
    pub(super) blake3: blake3::Hash,
}

/// Where the files of a set are written.
pub(super) struct Workshop<'a> {
    pub(super) directory: &'a Path,
    pub(super) total_bytes: u64,
    pub(super) cancel: &'a Cancel,
}

/// A segment that stands for many.
struct Original {
    path: PathBuf,
    name: String,
    folder: String,
}

impl Workshop<'_> {
    fn files_of(&self, segment_bytes: u64) -> usize {
        usize::try_from(self.total_bytes.div_ceil(segment_bytes)).unwrap_or(usize::MAX)
    }

    /// Files of zeros, really written.
    pub(super) fn zeros(&self, segment_bytes: u64) -> Result<Set, Error> {
        let mut set = Builder::new(self, Content::Zeros, segment_bytes)?;
        for number in 0..self.files_of(segment_bytes) {
            let name = format!("{:024X}", (1_u128 << 64) + number as u128 + 1);
            set.add("0", &name, io::repeat(0).take(segment_bytes))?;
        }
        Ok(set.finish("written by this experiment".to_owned(), false))
    }

    /// Given segments: copied as they are where they have that size, else cut out of all of
    /// them, one after another, which no archiver would take for segments.
    pub(super) fn given(&self, inputs: &[Input], segment_bytes: u64) -> Result<Set, Error> {
        let genuine: Vec<Original> = inputs
            .iter()
            .filter(|input| input.bytes == segment_bytes)
            .map(|input| Original {
                path: input.path.clone(),
                name: input.name.clone(),
                folder: input.folder.clone(),
            })
            .collect();
        let files = self.files_of(segment_bytes);
        if !genuine.is_empty() {
            return self.repeat(&genuine, segment_bytes, "given");
        }
        let mut set = Builder::new(self, Content::Wal, segment_bytes)?;
        let mut bytes = Endless {
            inputs,
            next: 0,
            file: None,
        };
        for number in 0..files {
            let name = format!("{:024X}", (1_u128 << 64) + number as u128 + 1);
            set.add("0", &name, (&mut bytes).take(segment_bytes))?;
        }
        let origin = format!(
            "cut out of {} given segments, which were repeated where they ended",
            inputs.len()
        );
        Ok(set.finish(origin, false))
    }

    /// Segments that a throw-away server of that segment size writes for pgbench.
    pub(super) fn generated(
        &self,
        installation: &Installation,
        segment_bytes: u64,
        progress: &mut impl Progress,
    ) -> Result<Set, Error> {
        let wanted = self.total_bytes.min(DISTINCT_BYTES).max(segment_bytes);
        let wanted = wanted.div_ceil(segment_bytes) * segment_bytes;
        progress.note(&format!(
            "a throw-away server writes {} MB of WAL in segments of {} MB",
            wanted / MEGABYTE,
            segment_bytes / MEGABYTE
        ));
        let megabytes = u32::try_from(segment_bytes / MEGABYTE).unwrap_or(u32::MAX);
        let kept = 2 * wanted / MEGABYTE + 4 * u64::from(megabytes);
        let settings = Settings::volatile()
            .segment_megabytes(megabytes)
            .set("max_wal_size", format!("{kept}MB"))
            .set("wal_keep_size", format!("{kept}MB"))
            .set("checkpoint_timeout", "1h");
        let server = installation.start(&settings)?;
        let begin = server.wal_position()?;
        let scale = (wanted / (64 * MEGABYTE)).max(1).to_string();
        server.client_output("pgbench", &["-i", "-q", "-n", "-s", &scale])?;
        let transactions = TRANSACTIONS.to_string();
        while server.wal_position()? < begin + wanted + 2 * segment_bytes {
            // Each checkpoint brings page images, as time does to a real server.
            server.sql("CHECKPOINT")?;
            server.client_output("pgbench", &["-n", "-c", "2", "-t", &transactions])?;
        }
        let stopped = server.stop()?;
        let mut originals = input::complete_segments(&stopped.data().join("pg_wal"))?;
        let count = usize::try_from(wanted / segment_bytes).unwrap_or(usize::MAX);
        originals.drain(..originals.len().saturating_sub(count));
        let originals: Vec<Original> = originals
            .into_iter()
            .map(|path| Original {
                name: path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                folder: "pgbench".to_owned(),
                path,
            })
            .collect();
        let origin = format!("{BY_SERVER}{} for pgbench", installation.program.version);
        self.repeat(&originals, segment_bytes, &origin)
    }

    /// Copies of the originals, round by round, until there are enough.
    fn repeat(
        &self,
        originals: &[Original],
        segment_bytes: u64,
        origin: &str,
    ) -> Result<Set, Error> {
        let mut set = Builder::new(self, Content::Wal, segment_bytes)?;
        let files = self.files_of(segment_bytes);
        for (number, original) in originals.iter().cycle().take(files).enumerate() {
            let round = number / originals.len();
            let file =
                File::open(&original.path).map_err(|source| Error::file(&original.path, source))?;
            set.add(
                &format!("{round}-{}", original.folder),
                &original.name,
                file,
            )?;
        }
        let origin = match files > originals.len() {
            true => format!(
                "{origin}: {} segments, taken {:.1} times",
                originals.len(),
                files as f64 / originals.len() as f64
            ),
            false => format!("{origin}: {files} segments"),
        };
        Ok(set.finish(origin, true))
    }
}

/// A set that is being written.
struct Builder<'a> {
    directory: PathBuf,
    cancel: &'a Cancel,
    content: Content,
    segment_bytes: u64,
    sources: Vec<Source>,
}

impl<'a> Builder<'a> {
    fn new(
        workshop: &Workshop<'a>,
        content: Content,
        segment_bytes: u64,
    ) -> Result<Builder<'a>, Error> {
        let name = format!("{}-{}", content.name(), segment_bytes / MEGABYTE);
        let directory = workshop.directory.join(name);
        fs::create_dir_all(&directory).map_err(|source| Error::file(&directory, source))?;
        Ok(Builder {
            directory,
            cancel: workshop.cancel,
            content,
            segment_bytes,
            sources: Vec::new(),
        })
    }

    fn add(&mut self, group: &str, name: &str, mut bytes: impl Read) -> Result<(), Error> {
        if self.cancel.is_requested() {
            return Err(Error::Interrupted);
        }
        let directory = self.directory.join(group);
        let path = directory.join(name);
        let blake3 = fs::create_dir_all(&directory)
            .and_then(|()| copy_and_hash(&mut bytes, &path))
            .map_err(|source| Error::file(&path, source))?;
        self.sources.push(Source {
            path,
            group: group.to_owned(),
            name: name.to_owned(),
            blake3,
        });
        Ok(())
    }

    fn finish(self, origin: String, genuine: bool) -> Set {
        let mut hasher = blake3::Hasher::new();
        for source in &self.sources {
            hasher.update(source.blake3.as_bytes());
        }
        Set {
            content: self.content,
            segment_bytes: self.segment_bytes,
            files: self.sources.len(),
            bytes: self.segment_bytes * self.sources.len() as u64,
            origin,
            blake3: hasher.finalize().to_string(),
            genuine,
            sources: self.sources,
        }
    }
}

fn copy_and_hash(bytes: &mut impl Read, to: &Path) -> io::Result<blake3::Hash> {
    let mut file = File::create(to)?;
    let mut hasher = blake3::Hasher::new();
    let mut piece = vec![0; 1 << 18];
    loop {
        let length = match bytes.read(&mut piece) {
            Ok(0) => return Ok(hasher.finalize()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            length => length?,
        };
        hasher.update(&piece[..length]);
        file.write_all(&piece[..length])?;
    }
}

/// The bytes of all inputs, one after another, again and again.
struct Endless<'a> {
    inputs: &'a [Input],
    next: usize,
    file: Option<File>,
}

impl Read for Endless<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(file) = &mut self.file {
                let length = file.read(to)?;
                if length > 0 || to.is_empty() {
                    return Ok(length);
                }
            }
            // Inputs are not empty, so this ends.
            let input = &self.inputs[self.next % self.inputs.len()];
            self.file = Some(File::open(&input.path)?);
            self.next += 1;
        }
    }
}

/// The cluster that wrote a segment: its system identifier and its major.
pub(super) fn cluster(path: &Path) -> Result<(u64, u32), String> {
    let mut beginning = [0; 64];
    File::open(path)
        .and_then(|mut file| file.read_exact(&mut beginning))
        .map_err(|error| error.to_string())?;
    let header = SegmentHeader::read(&beginning).map_err(|error| error.to_string())?;
    Ok((header.system_id.0, header.version.major))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn inputs(directory: &Path, contents: &[&[u8]]) -> Vec<Input> {
        let write = |(number, content): (usize, &&[u8])| {
            let name = format!("{:024X}", number + 1);
            let path = directory.join(&name);
            fs::write(&path, content).unwrap();
            Input {
                folder: "oltp".to_owned(),
                name,
                bytes: content.len() as u64,
                blake3: String::new(),
                path,
            }
        };
        contents.iter().enumerate().map(write).collect()
    }

    fn contents(set: &Set) -> Vec<Vec<u8>> {
        let read = |source: &Source| fs::read(&source.path).unwrap();
        set.sources.iter().map(read).collect()
    }

    #[test]
    fn segments_of_that_size_are_repeated_in_rounds_and_others_are_cut() {
        let directory = TempDir::new().unwrap();
        let inputs = inputs(directory.path(), &[b"abcd", b"efgh"]);
        let sources = directory.path().join("sources");
        let cancel = Cancel::default();
        let workshop = Workshop {
            directory: &sources,
            total_bytes: 12,
            cancel: &cancel,
        };
        let whole = workshop.given(&inputs, 4).unwrap();
        assert_eq!(contents(&whole), [b"abcd", b"efgh", b"abcd"]);
        assert!(
            whole.genuine && whole.origin.contains("taken 1.5 times"),
            "{}",
            whole.origin
        );
        let groups: Vec<_> = whole.sources.iter().map(|source| &*source.group).collect();
        assert_eq!(groups, ["0-oltp", "0-oltp", "1-oltp"]);
        let cut = workshop.given(&inputs, 3).unwrap();
        assert_eq!(contents(&cut), [b"abc", b"def", b"gha", b"bcd"]);
        assert!(!cut.genuine);
        let zeros = workshop.zeros(6).unwrap();
        assert_eq!(contents(&zeros), [[0; 6], [0; 6]]);
    }
}
