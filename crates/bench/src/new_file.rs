//! A file that appears under its name only when it is complete and durable.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

/// A file under construction, in the directory where it will have its name. Dropping it without
/// [`NewFile::publish`] leaves nothing behind.
#[derive(Debug)]
pub struct NewFile(NamedTempFile);

/// Why a file did not get its name, and the file if that was taken.
#[derive(Debug)]
pub struct NotPublished {
    /// What the system said.
    pub error: io::Error,
    /// The file, for another name.
    pub file: Option<NewFile>,
}

impl NewFile {
    /// Begins a file that will be called `path`, or another name in that directory.
    pub fn beside(path: &Path, mode: u32) -> io::Result<NewFile> {
        let file = tempfile::Builder::new()
            .permissions(Permissions::from_mode(mode))
            .prefix(".walzip-")
            .suffix(".tmp")
            .tempfile_in(directory(path));
        file.map(NewFile).map_err(without_temporary_name)
    }

    /// What is written to.
    pub fn file(&self) -> &File {
        self.0.as_file()
    }

    /// The temporary name.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Makes the file durable, then gives it its name, then makes the name durable.
    pub fn publish(self, path: &Path, overwrite: bool) -> Result<(), NotPublished> {
        self.file().sync_all()?;
        let persisted = match overwrite {
            true => self.0.persist(path),
            false => self.0.persist_noclobber(path),
        };
        persisted.map_err(|failed| NotPublished {
            error: failed.error,
            file: Some(NewFile(failed.file)),
        })?;
        Ok(sync_directory_of(path)?)
    }
}

impl From<io::Error> for NotPublished {
    fn from(error: io::Error) -> NotPublished {
        NotPublished { error, file: None }
    }
}

/// Makes the name of a file durable.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    File::open(directory(path))?.sync_all()
}

/// The directory in which a path has its last name.
pub fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The user knows the file's name, not the temporary one, with which the library's message ends.
fn without_temporary_name(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((cause, _)) => io::Error::new(error.kind(), cause),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let begun = |content: &[u8]| {
            let new = NewFile::beside(&path, 0o640).unwrap();
            new.file().write_all(content).unwrap();
            new
        };
        drop(begun(b"given up"));
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
        begun(b"first").publish(&path, false).unwrap();
        let taken = begun(b"second").publish(&path, false).unwrap_err();
        assert_eq!(taken.error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        taken.file.unwrap().publish(&path, true).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"second");
        assert_eq!(directory.path().read_dir().unwrap().count(), 1);
    }
}
