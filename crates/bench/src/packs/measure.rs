//! Each way to keep the segments: made, decoded, and some segments got by a call each.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::results::{Figures, Kept};
use crate::archive::{MakeRepository, Place};
use crate::process::{self, Failure, Surroundings, stored_bytes};
use crate::usage::Usage;

/// What a server calls a file that it gets.
const WANTED: &str = "pg_wal/RECOVERYXLOG";

/// What all ways need.
pub(super) struct Measure<'a> {
    pub(super) place: &'a Place,
    pub(super) zstd: &'a Path,
    pub(super) walzip: &'a Path,
    pub(super) level: u8,
    pub(super) make_repository: MakeRepository,
    /// Where each way has a directory of its own.
    pub(super) home: &'a Path,
    /// The numbers of the segments that are got by a call each.
    pub(super) got: &'a [usize],
    pub(super) surroundings: Surroundings<'a>,
}

/// What was made, before it is decoded.
struct Made {
    usage: Usage,
    directory: PathBuf,
}

impl Measure<'_> {
    pub(super) fn measure(&self, row: usize, kept: Kept) -> Result<Figures, Failure> {
        let made = match kept {
            Kept::Zstd => self.by_zstd()?,
            Kept::Single => self.pushed()?,
            Kept::Packs(length) => self.packed(length)?,
        };
        let (decoded, gets) = match kept {
            Kept::Zstd => self.unpacked(&made.directory)?,
            Kept::Single | Kept::Packs(_) => (
                self.verified(&made.directory)?,
                self.calls(&made.directory)?,
            ),
        };
        let stored = match kept {
            Kept::Zstd => made.directory.clone(),
            Kept::Single | Kept::Packs(_) => made.directory.join("wal"),
        };
        let segments = self.place.segments.len() as f64;
        let peaks = gets.iter().map(|usage| usage.peak_memory_bytes);
        Ok(Figures {
            row,
            stored_bytes: stored_bytes(&stored)?,
            files: files(&stored)?,
            make_cpu_s: made.usage.cpu().as_secs_f64() / segments,
            make_peak_memory_bytes: made.usage.peak_memory_bytes,
            decode_cpu_s: decoded.cpu().as_secs_f64() / segments,
            get_peak_memory_bytes: peaks.max().unwrap_or_default(),
            get_s: gets.iter().map(|usage| usage.wall.as_secs_f64()).collect(),
        })
    }

    fn by_zstd(&self) -> Result<Made, Failure> {
        let directory = self.home.join("zstd");
        fs::create_dir(&directory)?;
        let mut usage = Usage::default();
        for segment in &self.place.segments {
            let from = self.place.data.join("pg_wal").join(&segment.name);
            let to = File::create(directory.join(&segment.name))?;
            let arguments = ["-3".into(), "-q".into(), "-c".into(), from.into()];
            usage += self.run(self.zstd, &arguments, to.into())?;
        }
        Ok(Made { usage, directory })
    }

    /// Decodes all files of zstd; those of the segments to be got count as calls.
    fn unpacked(&self, directory: &Path) -> Result<(Usage, Vec<Usage>), Failure> {
        let (mut usage, mut gets) = (Usage::default(), Vec::new());
        for (number, segment) in self.place.segments.iter().enumerate() {
            let to = self.place.data.join(WANTED);
            let from = directory.join(&segment.name).into();
            let arguments = ["-d".into(), "-q".into(), "-c".into(), from];
            let used = self.run(self.zstd, &arguments, File::create(&to)?.into())?;
            self.place.compare_one(number, &to)?;
            fs::remove_file(to)?;
            usage += used;
            if self.got.contains(&number) {
                gets.push(used);
            }
        }
        Ok((usage, gets))
    }

    fn pushed(&self) -> Result<Made, Failure> {
        let directory = self.singles();
        fs::create_dir(&directory)?;
        let made = (self.make_repository)(&directory, self.place.system_id, self.place.major);
        made.map_err(|reason| Failure::Io(io::Error::other(reason)))?;
        let mut usage = Usage::default();
        for segment in &self.place.segments {
            let path = format!("pg_wal/{}", segment.name);
            let level = format!("-{}", self.level);
            usage += self.walzip("archive-push", &directory, &[&level, &path])?;
        }
        Ok(Made { usage, directory })
    }

    /// Out of a copy of the repository with each segment by itself.
    fn packed(&self, length: u16) -> Result<Made, Failure> {
        let directory = self.home.join(format!("packs-{length}"));
        copy(&self.singles(), &directory)?;
        let (level, length) = (format!("-{}", self.level), length.to_string());
        let arguments = ["--newest", "0", "--all", &level, "--segments", &length];
        let usage = self.walzip("pack", &directory, &arguments)?;
        Ok(Made { usage, directory })
    }

    fn singles(&self) -> PathBuf {
        self.home.join("single")
    }

    fn verified(&self, repository: &Path) -> Result<Usage, Failure> {
        self.walzip("verify", repository, &["--parallel", "1"])
    }

    /// From the last one to the first, so that no call finds what an earlier one has left.
    fn calls(&self, repository: &Path) -> Result<Vec<Usage>, Failure> {
        let mut gets = Vec::new();
        for &number in self.got.iter().rev() {
            let Some(segment) = self.place.segments.get(number) else {
                continue;
            };
            gets.push(self.walzip("archive-get", repository, &[&segment.name, WANTED])?);
            let path = self.place.data.join(WANTED);
            self.place.compare_one(number, &path)?;
            fs::remove_file(path)?;
        }
        Ok(gets)
    }

    fn walzip(&self, command: &str, repository: &Path, words: &[&str]) -> Result<Usage, Failure> {
        let mut arguments = [command.into(), "--repo".into(), repository.into()].to_vec();
        arguments.extend(words.iter().map(OsString::from));
        self.run(self.walzip, &arguments, Stdio::null())
    }

    fn run(&self, program: &Path, arguments: &[OsString], to: Stdio) -> Result<Usage, Failure> {
        let mut command = process::measured(program, self.surroundings);
        command
            .args(arguments)
            .env("WALZIP_CONFIG", "/dev/null")
            .current_dir(&self.place.data)
            .stdout(to);
        process::measure(command, self.surroundings)
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &to)?,
            false => drop(fs::copy(entry.path(), to)?),
        }
    }
    Ok(())
}

/// How many files are below a directory.
fn files(directory: &Path) -> io::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        count += match entry.file_type()?.is_dir() {
            true => files(&entry.path())?,
            false => 1,
        };
    }
    Ok(count)
}
