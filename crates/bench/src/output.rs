//! Where results go: files that appear whole, and the room that an experiment needs.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use crate::Error;

/// What must remain free in the temporary directory beside the files of a measurement.
const RESERVE_BYTES: u64 = 16 << 20;

/// The files that an experiment writes, each in any case: stopped early, it says so in them.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// For every measurement, one a line.
    pub csv: Option<PathBuf>,
    /// For everything; it is kept up to date.
    pub json: Option<PathBuf>,
    /// For a page that shows everything.
    pub report: Option<PathBuf>,
    /// Whether to go on from what `json` has.
    pub resume: bool,
}

/// What an experiment found out, in the forms that it is written in.
pub(crate) trait Record: Serialize {
    fn write_csv(&self, to: &mut dyn Write) -> io::Result<()>;
    fn report(&self) -> io::Result<String>;
    /// Where it says why there are fewer measurements than were asked for.
    fn stopped(&mut self) -> &mut Option<String>;
}

impl Files {
    /// Notices at the beginning what could not be written at the end.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let mut paths = [&self.csv, &self.json, &self.report].into_iter().flatten();
        paths.try_for_each(|path| beside(path).map(drop))
    }

    /// Writes every file.
    pub(crate) fn write(&self, record: &impl Record) -> Result<(), Error> {
        write_file(self.csv.as_deref(), |to| record.write_csv(to))?;
        write_json(self.json.as_deref(), record)?;
        write_file(self.report.as_deref(), |to| {
            to.write_all(record.report()?.as_bytes())
        })
    }

    /// Writes what there is so far: even a power cut leaves it.
    pub(crate) fn save(&self, record: &mut impl Record) -> Result<(), Error> {
        *record.stopped() = Some("the experiment still ran when this was written".to_owned());
        let saved = write_json(self.json.as_deref(), record);
        *record.stopped() = None;
        saved
    }
}

fn write_json(path: Option<&Path>, record: &impl Serialize) -> Result<(), Error> {
    write_file(path, |to| {
        serde_json::to_writer_pretty(&mut *to, record)?;
        writeln!(to)
    })
}

/// Writes a file, if it was asked for, which appears whole.
pub(crate) fn write_file(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Error> {
    let Some(path) = path else { return Ok(()) };
    let file = beside(path)?;
    let mut to = io::BufWriter::new(file.as_file());
    write(&mut to)
        .and_then(|()| to.flush())
        .map_err(|source| Error::file(path, source))?;
    drop(to);
    file.persist(path)
        .map_err(|error| Error::file(path, error.error))?;
    Ok(())
}

fn beside(path: &Path) -> Result<NamedTempFile, Error> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let builder = tempfile::Builder::new()
        .permissions(permissions())
        .to_owned();
    builder
        .tempfile_in(directory.unwrap_or(Path::new(".")))
        .map_err(|source| Error::file(path, source))
}

/// As any new file's: what a temporary file has by default, only its owner can read.
fn permissions() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

/// Refuses to begin what needs more room than a directory's file system has.
pub(crate) fn check_space(directory: &Path, bytes: u64) -> Result<(), Error> {
    let free =
        rustix::fs::statvfs(directory).map_err(|errno| Error::file(directory, errno.into()))?;
    let available_bytes = free.f_bavail.saturating_mul(free.f_frsize);
    let needed_bytes = bytes.saturating_add(RESERVE_BYTES);
    if available_bytes >= needed_bytes {
        return Ok(());
    }
    Err(Error::NoSpace {
        directory: directory.to_owned(),
        available_bytes,
        needed_bytes,
    })
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn too_little_space_is_said_in_numbers() {
        let directory = TempDir::new().unwrap();
        check_space(directory.path(), 0).unwrap();
        let error = check_space(directory.path(), u64::MAX)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("bytes are free") && error.contains("are needed"),
            "{error}"
        );
    }
}
