//! Local files that are there whole, and stay.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::error::ArchiveError;
use crate::files::regular_file;

/// So many temporary files of one name are used at a time, before each process makes its own.
const TEMPORARIES_MAX: u32 = 4;

/// The name under which a file is written that gets this name.
pub(crate) fn temporary_name(name: &str) -> String {
    format!(".{name}.walzip.tmp")
}

/// Writes a file under a temporary name, makes it durable and renames it into place.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> Result<(), ArchiveError> {
    write_with(path, Durability::Synced, |file| {
        let written = file.write_all(content);
        written.map_err(|error| ArchiveError::file("write", path, error))
    })
}

/// Makes a file of zeros as [`write_file`] makes one.
pub(crate) fn write_zeros(path: &Path, len: u64) -> Result<(), ArchiveError> {
    write_with(path, Durability::Synced, |file| {
        let written = io::copy(&mut io::repeat(0).take(len), file);
        match written {
            Ok(_) => Ok(()),
            Err(error) => Err(ArchiveError::file("write", path, error)),
        }
    })
}

/// Writes a file that is there whole or not at all, as long as the machine runs: for what somebody
/// else makes durable. PostgreSQL does so with what `restore_command` delivers, before it relies on
/// it (KeepFileRestoredFromArchive, src/backend/access/transam/xlogarchive.c, PostgreSQL 18).
pub(crate) fn deliver_with<T>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<T, ArchiveError>,
) -> Result<T, ArchiveError> {
    write_with(path, Durability::LeftToOthers, write)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Durability {
    Synced,
    LeftToOthers,
}

/// Writes what `write` writes; where that fails, there is no file. A name that something else than
/// a file has is refused: it would be replaced.
fn write_with<T>(
    path: &Path,
    durability: Durability,
    write: impl FnOnce(&mut File) -> Result<T, ArchiveError>,
) -> Result<T, ArchiveError> {
    regular_file::check_name(path).map_err(|error| ArchiveError::file("replace", path, error))?;
    let mut temporary = Temporary::beside(path)?;
    let written = temporary.write_and_rename(path, durability, write);
    if written.is_err() {
        // The error that counts is the first one; it may well prevent this too.
        let _ = fs::remove_file(&temporary.path);
    }
    written
}

/// A file that will get another name. Its lock, until it is closed, shows that it is in use.
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    /// Its name is always the same, so that what a killed process left behind is used again
    /// instead of being joined by another. When somebody else is using it, it is the next of a few. Where
    /// all are used, or a file system has no locks to tell, the name is this process's own.
    fn beside(path: &Path) -> Result<Temporary, ArchiveError> {
        let Some(name) = path.file_name() else {
            return Err(ArchiveError::Request(format!(
                "{} names no file",
                path.display()
            )));
        };
        let name = name.to_string_lossy();
        let usual = temporary_name(&name);
        let others = (1..TEMPORARIES_MAX).map(|number| format!(".{name}.walzip-{number}.tmp"));
        for shared in std::iter::once(usual).chain(others) {
            let shared = parent(path).join(shared);
            let file = open(&shared)?;
            let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
            if locked.is_ok() && is_at(&file, &shared) {
                return Ok(Temporary { path: shared, file });
            }
            if locked.is_err_and(|error| error != Errno::WOULDBLOCK) {
                break;
            }
        }
        let own = parent(path).join(format!(".{name}.walzip.{}.tmp", process::id()));
        Ok(Temporary {
            file: open(&own)?,
            path: own,
        })
    }

    fn write_and_rename<T>(
        &mut self,
        path: &Path,
        durability: Durability,
        write: impl FnOnce(&mut File) -> Result<T, ArchiveError>,
    ) -> Result<T, ArchiveError> {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |error| ArchiveError::file(action, &path, error)
        };
        self.file.set_len(0).map_err(failed("write", &self.path))?;
        let written = write(&mut self.file)?;
        if durability == Durability::LeftToOthers {
            fs::rename(&self.path, path).map_err(failed("rename to", path))?;
            return Ok(written);
        }
        self.file.sync_all().map_err(failed("sync", &self.path))?;
        fs::rename(&self.path, path).map_err(failed("rename to", path))?;
        sync_directory(&parent(path))?;
        Ok(written)
    }
}

/// Opens a temporary file. Something else under its name is neither followed nor waited for.
fn open(path: &Path) -> Result<File, ArchiveError> {
    let open = || {
        regular_file::check_name(path)?;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(flags.bits().cast_signed())
            .open(path)?;
        regular_file::check(&file.metadata()?)?;
        Ok(file)
    };
    open().map_err(|error| ArchiveError::file("create", path, error))
}

/// Whether a file still has this name: between being opened and being locked it may have been
/// renamed to where somebody now relies on it.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(opened), Ok(named)) => identity(opened) == identity(named),
        _ => false,
    }
}

/// Makes the entry of a directory durable in the one above it, which may be another owner's, closed
/// to us: then nothing can be done, and nothing is lost but perhaps a name.
pub(crate) fn sync_entry_of(directory: &Path) -> Result<(), ArchiveError> {
    let Some(above) = directory.parent() else {
        return Ok(());
    };
    match sync_directory(above) {
        Err(ArchiveError::File { source, .. })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> Result<(), ArchiveError> {
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| ArchiveError::file("sync", directory, error))
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Makes everything below a directory durable, and what else is on its file system.
///
/// One call instead of an fsync for each of a cluster's thousands of files. Linux reports errors
/// of writing back through it since 5.8; before, each file is asked.
pub(crate) fn sync_below(directory: &Path) -> Result<(), ArchiveError> {
    let failed = |error| ArchiveError::file("sync", directory, error);
    let opened = File::open(directory).map_err(failed)?;
    rustix::fs::syncfs(&opened).map_err(|errno| failed(errno.into()))?;
    match syncfs_reports_errors(&rustix::system::uname().release().to_string_lossy()) {
        true => Ok(()),
        false => sync_each_below(directory),
    }
}

/// Whether a release of Linux is 5.8 or later (fs/sync.c).
fn syncfs_reports_errors(release: &str) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(5), Some(8))
}

/// Syncs each file and directory. Links are not followed: what they lead to is synced by itself.
fn sync_each_below(directory: &Path) -> Result<(), ArchiveError> {
    let failed = |error| ArchiveError::file("read", directory, error);
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
        if kind.is_dir() {
            sync_each_below(&path)?;
        } else if kind.is_file() {
            File::open(&path)
                .and_then(|file| file.sync_all())
                .map_err(|error| ArchiveError::file("sync", &path, error))?;
        }
    }
    sync_directory(directory)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("readable");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
        names.sort();
        names
    }

    #[test]
    fn syncfs_is_enough_since_linux_5_8() {
        for release in ["5.8.0", "5.10.0-30-amd64", "6.1.0", "10.0"] {
            assert!(syncfs_reports_errors(release), "{release}");
        }
        for release in [
            "4.18.0-553.el8.x86_64",
            "5.7.19",
            "5.4.0-200-generic",
            "3.10",
            "",
        ] {
            assert!(!syncfs_reports_errors(release), "{release}");
        }
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("base")).expect("made");
        fs::write(directory.path().join("base/1"), b"content").expect("written");
        std::os::unix::fs::symlink("nowhere", directory.path().join("link")).expect("made");
        sync_each_below(directory.path()).expect("synced");
        sync_below(directory.path()).expect("synced");
    }

    #[test]
    fn uses_again_what_a_killed_process_left_behind() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("RECOVERYXLOG");
        let left = directory.path().join(".RECOVERYXLOG.walzip.tmp");
        fs::write(&left, b"longer than what is written now").expect("written");
        write_file(&path, b"content").expect("written");
        assert_eq!(fs::read(&path).expect("readable"), b"content");
        assert_eq!(names(directory.path()), ["RECOVERYXLOG"]);
    }

    /// Three at a time, all killed: the next three use what they have left.
    #[test]
    fn what_several_killed_processes_left_behind_is_used_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("RECOVERYXLOG");
        let three = || [(); 3].map(|()| Temporary::beside(&path).expect("opened"));
        drop(three());
        let left = names(directory.path());
        assert_eq!(left.len(), 3);
        for _ in 0..3 {
            let held = three();
            assert_eq!(names(directory.path()), left);
            drop(held);
        }
    }

    #[test]
    fn a_file_that_fails_half_way_leaves_what_was_there() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("RECOVERYXLOG");
        write_file(&path, b"content").expect("written");
        let failed: Result<(), _> = deliver_with(&path, |file| {
            file.write_all(b"oth").expect("written");
            Err(ArchiveError::Request("no more".to_owned()))
        });
        assert!(matches!(failed, Err(ArchiveError::Request(_))));
        assert_eq!(fs::read(&path).expect("readable"), b"content");
        assert_eq!(names(directory.path()), ["RECOVERYXLOG"]);
    }

    #[test]
    fn what_is_no_file_is_neither_replaced_nor_written_through() {
        let directory = tempfile::tempdir().expect("a directory");
        let target = directory.path().join("target");
        fs::write(&target, b"precious").expect("written");
        let path = directory.path().join("RECOVERYXLOG");
        let temporary = directory.path().join(".RECOVERYXLOG.walzip.tmp");
        for at in [&path, &temporary] {
            let makes: [&dyn Fn(); 4] = [
                &|| mknodat(CWD, at, FileType::Fifo, Mode::RWXU, 0).expect("a FIFO"),
                &|| fs::create_dir(at).expect("a directory"),
                &|| std::os::unix::fs::symlink(&target, at).expect("a link"),
                &|| std::os::unix::fs::symlink("/dev/null", at).expect("a link"),
            ];
            for make in makes {
                make();
                let before = fs::symlink_metadata(at).expect("it is there").ino();
                let error = write_file(&path, b"content").expect_err("not a file");
                assert!(error.to_string().ends_with("it is not a file"), "{error}");
                assert_eq!(names(directory.path()).len(), 2);
                let after = fs::symlink_metadata(at).expect("it is there").ino();
                assert_eq!(before, after);
                let remove = if at.is_dir() {
                    fs::remove_dir
                } else {
                    fs::remove_file
                };
                remove(at).expect("removed");
            }
        }
        assert_eq!(fs::read(&target).expect("readable"), b"precious");
    }

    #[test]
    fn keeps_off_a_temporary_file_in_use() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("RECOVERYXLOG");
        let mut other = Temporary::beside(&path).expect("opened");
        write_file(&path, b"content").expect("written");
        assert_eq!(names(directory.path()).len(), 2);
        let write = |file: &mut File| {
            file.write_all(b"other").expect("written");
            Ok(())
        };
        let renamed = other.write_and_rename(&path, Durability::Synced, write);
        renamed.expect("renamed");
        assert_eq!(fs::read(&path).expect("readable"), b"other");
        assert_eq!(names(directory.path()), ["RECOVERYXLOG"]);
    }

    /// Between its opening and its lock, a file can become the one that was delivered.
    #[test]
    fn tells_a_file_from_its_former_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let (before, after) = (directory.path().join("a"), directory.path().join("b"));
        let file = open(&before).expect("opened");
        assert!(is_at(&file, &before));
        fs::rename(&before, &after).expect("renamed");
        assert!(!is_at(&file, &before));
        open(&before).expect("opened");
        assert!(!is_at(&file, &before));
    }
}
