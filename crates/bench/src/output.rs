//! Where results go: files that appear whole, and the room that an experiment needs.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::Error;

/// What must remain free in the temporary directory beside the files of a measurement.
const RESERVE_BYTES: u64 = 16 << 20;

/// A file that is written at the end, if it was asked for; a place that cannot be written is
/// noticed at the beginning.
pub(crate) struct OutputFile(Option<(NamedTempFile, PathBuf)>);

impl OutputFile {
    /// A temporary file beside the path.
    pub(crate) fn create(path: Option<&Path>) -> Result<OutputFile, Error> {
        let Some(path) = path else {
            return Ok(OutputFile(None));
        };
        Ok(OutputFile(Some((beside(path)?, path.to_owned()))))
    }

    /// Writes the content and gives the file its name.
    pub(crate) fn write(
        self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Error> {
        let Some((file, path)) = self.0 else {
            return Ok(());
        };
        let mut to = io::BufWriter::new(file.as_file());
        write(&mut to)
            .and_then(|()| to.flush())
            .map_err(|source| Error::file(&path, source))?;
        drop(to);
        file.persist(&path)
            .map_err(|error| Error::file(&path, error.error))?;
        Ok(())
    }
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
