//! A directory laid out as a stopped server's data directory, with segments that wait.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use walzip_pgformat::SystemId;
use walzip_pgformat::control_file::ControlFile;
use walzip_pgformat::wal::SegmentHeader;

use crate::error::Error;
use crate::input::Input;

/// What was archived.
#[derive(Clone, Debug, Serialize)]
pub struct Wal {
    /// How many segments.
    pub segments: usize,
    /// The size of each.
    pub segment_bytes: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The major of the server that wrote them.
    pub major: u32,
    /// The BLAKE3 hash of their hashes.
    pub blake3: String,
}

/// The directory, and what is in it.
pub(crate) struct Place {
    pub(crate) data: PathBuf,
    pub(crate) segments: Vec<Segment>,
    pub(crate) system_id: u64,
    pub(crate) major: u32,
    segment_bytes: u64,
}

/// A segment that waits.
pub(crate) struct Segment {
    pub(crate) name: String,
    pub(super) blake3: String,
}

const STATUS: &str = "pg_wal/archive_status";

impl Place {
    /// Lays it out in a new directory. The segments are one cluster's, as a server's are.
    pub(crate) fn new(data: PathBuf, inputs: &[Input]) -> Result<Place, Error> {
        let header = header_of_all(inputs)?;
        let (system_id, major) = (header.system_id, header.version.major);
        let size = header.segment_size;
        let control_file = control_file(system_id, major, &header);
        let control_file = control_file.ok_or_else(|| {
            Error::Usage(format!(
                "the control file of PostgreSQL {major} is not known"
            ))
        })?;
        let lay_out = || -> io::Result<()> {
            fs::create_dir_all(data.join(STATUS))?;
            fs::create_dir_all(data.join("global"))?;
            fs::write(data.join("global/pg_control"), control_file)?;
            fs::write(data.join("PG_VERSION"), format!("{major}\n"))?;
            for input in inputs {
                fs::copy(&input.path, data.join("pg_wal").join(&input.name))?;
            }
            Ok(())
        };
        lay_out().map_err(|source| Error::file(&data, source))?;
        let segments = inputs.iter().map(|input| Segment {
            name: input.name.clone(),
            blake3: input.blake3.clone(),
        });
        Ok(Place {
            segments: segments.collect(),
            data,
            system_id: system_id.0,
            major,
            segment_bytes: u64::from(size),
        })
    }

    /// What is archived, for the results.
    pub(crate) fn wal(&self) -> Wal {
        let mut hasher = blake3::Hasher::new();
        for segment in &self.segments {
            hasher.update(segment.blake3.as_bytes());
        }
        Wal {
            segments: self.segments.len(),
            segment_bytes: self.segment_bytes,
            bytes: self.segment_bytes * self.segments.len() as u64,
            major: self.major,
            blake3: hasher.finalize().to_string(),
        }
    }

    /// All segments wait, and nothing else is there: an archiver may have left something.
    pub(super) fn make_ready(&self) -> io::Result<()> {
        let pg_wal = self.data.join("pg_wal");
        for entry in fs::read_dir(&pg_wal)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_segment = self.segments.iter().any(|known| name == *known.name);
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false if !is_segment => fs::remove_file(entry.path())?,
                false => {}
            }
        }
        fs::create_dir(self.data.join(STATUS))?;
        for segment in &self.segments {
            fs::write(self.status(&segment.name, "ready"), [])?;
        }
        Ok(())
    }

    /// What a server renames when a segment is archived.
    pub(super) fn archived(&self, name: &str) -> Vec<(PathBuf, PathBuf)> {
        vec![(self.status(name, "ready"), self.status(name, "done"))]
    }

    fn status(&self, name: &str, state: &str) -> PathBuf {
        self.data.join(STATUS).join(format!("{name}.{state}"))
    }

    /// Compares what was got, each under its name, and removes it.
    pub(super) fn compare(&self, directory: &Path) -> io::Result<()> {
        for (number, segment) in self.segments.iter().enumerate() {
            self.compare_one(number, &directory.join(&segment.name))?;
        }
        fs::remove_dir_all(directory)
    }

    /// Compares what was got of a segment.
    pub(crate) fn compare_one(&self, number: usize, path: &Path) -> io::Result<()> {
        let found = crate::input::hash(path)?.to_string();
        match self.segments.get(number) {
            Some(Segment { blake3, .. }) if found == *blake3 => Ok(()),
            Some(Segment { name, .. }) => {
                let reason = "did not come back as it was: its BLAKE3 hash is another";
                Err(io::Error::other(format!("{name} {reason}")))
            }
            None => Err(io::Error::other(format!("there is no segment {number}"))),
        }
    }
}

fn control_file(system_id: SystemId, major: u32, header: &SegmentHeader) -> Option<Vec<u8>> {
    ControlFile::of_wal(system_id, major, header.segment_size, header.timeline)
}

/// The header of the newest segment. All are of one cluster, and whole.
fn header_of_all(inputs: &[Input]) -> Result<SegmentHeader, Error> {
    let mut last: Option<SegmentHeader> = None;
    for input in inputs {
        let refuse = |what: &str| Error::Usage(format!("{}: {what}", input.name));
        let header = input
            .header()
            .map_err(|source| Error::file(&input.path, source))?;
        let header = header.ok_or_else(|| refuse("not a WAL segment"))?;
        if u64::from(header.segment_size) != input.bytes {
            return Err(refuse("not a whole segment"));
        }
        let is_other = |last: &SegmentHeader| {
            (last.system_id, last.version.major) != (header.system_id, header.version.major)
        };
        if last.as_ref().is_some_and(is_other) {
            return Err(refuse("another cluster wrote it than the one before"));
        }
        last = Some(header);
    }
    last.ok_or_else(|| Error::Usage("there is no segment".to_owned()))
}
