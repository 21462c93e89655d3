//! Where the files of a backup go: into new files, over what a data directory has already, or
//! nowhere, where a backup is only proven.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::block_file::BlockFile;
use super::directories::Directories;
use crate::error::ArchiveError;
use crate::files::regular_file;

/// Directories are closed to others until they have the permissions of the backup.
const DIRECTORY_MODE: u32 = 0o700;
/// What everybody may do; a set-user-ID bit is nothing that a cluster needs.
const PERMISSIONS: u32 = 0o777;
/// What an owner has to be allowed to do with a file, and with a directory, for the next restore
/// to read it.
const FILE_MODE_MIN: u32 = 0o400;

/// Where the files go.
pub(super) enum Destination {
    /// Directories that were empty.
    Empty(Directories),
    /// Directories of the cluster, in which only what differs is written.
    Delta(Directories),
    /// Everything is checked, and nothing is written. The OIDs are those of the tablespaces.
    Nowhere(Vec<u32>),
}

/// A file's permissions in a restored cluster: those that it had.
fn file_mode(mode: u32) -> u32 {
    mode & PERMISSIONS | FILE_MODE_MIN
}

impl Destination {
    /// The directories, where there are some.
    pub(super) fn directories(&self) -> Option<&Directories> {
        match self {
            Destination::Empty(directories) | Destination::Delta(directories) => Some(directories),
            Destination::Nowhere(_) => None,
        }
    }

    /// The root of an archive; nothing for a tablespace that is not known. Without directories
    /// it stands for none.
    pub(super) fn root(&self, tablespace: Option<u32>) -> Option<PathBuf> {
        match (self, tablespace) {
            (Destination::Nowhere(oids), Some(oid)) if !oids.contains(&oid) => None,
            (Destination::Nowhere(_), _) => Some(PathBuf::new()),
            (Destination::Empty(to) | Destination::Delta(to), None) => Some(to.data.clone()),
            (Destination::Empty(to) | Destination::Delta(to), Some(oid)) => {
                to.tablespaces.get(&oid).cloned()
            }
        }
    }

    /// Makes a directory, and those above it.
    pub(super) fn create_directory(&self, path: &Path, mode: u32) -> Result<(), ArchiveError> {
        if let Destination::Nowhere(_) = self {
            return Ok(());
        }
        make_directory(path)?;
        set_mode(path, mode & PERMISSIONS | DIRECTORY_MODE)
    }

    /// Opens a file to be written from its beginning to its end.
    pub(super) fn create_file(&self, path: &Path, mode: u32) -> Result<Output, ArchiveError> {
        let kind = match self {
            Destination::Nowhere(_) => return Ok(Output::nowhere()),
            Destination::Empty(_) => Kind::New(create(path)?),
            Destination::Delta(_) => match open_existing(path)? {
                None => Kind::New(create(path)?),
                Some(file) => {
                    let opened = BlockFile::new(file);
                    Kind::Over(opened.map_err(|error| ArchiveError::file("look at", path, error))?)
                }
            },
        };
        Ok(Output {
            path: path.to_owned(),
            mode: file_mode(mode),
            kind,
            bytes: 0,
        })
    }

    /// Makes a file of zeros that takes no room.
    pub(super) fn create_zeros(
        &self,
        path: &Path,
        mode: u32,
        size_bytes: u64,
    ) -> Result<(), ArchiveError> {
        let file = match self {
            Destination::Nowhere(_) => return Ok(()),
            Destination::Empty(_) => create(path)?,
            Destination::Delta(_) => match open_existing(path)? {
                None => create(path)?,
                Some(file) => file,
            },
        };
        let zeroed = || {
            if !is_hole(&file, size_bytes)? {
                file.set_len(0)?;
                file.set_len(size_bytes)?;
            }
            set_mode_of(&file, file_mode(mode))
        };
        zeroed().map_err(|error| ArchiveError::file("write", path, error))
    }
}

/// Whether a file has this length and no data.
fn is_hole(file: &File, size_bytes: u64) -> io::Result<bool> {
    if file.metadata()?.len() != size_bytes {
        return Ok(false);
    }
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(0)) {
        Err(rustix::io::Errno::NXIO) => Ok(true),
        // Data, or a file system that does not tell.
        _ => Ok(size_bytes == 0),
    }
}

/// Makes a directory, and those above it, closed to others.
pub(super) fn make_directory(path: &Path) -> Result<(), ArchiveError> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(path)
        .map_err(|error| ArchiveError::file("create", path, error))
}

/// Gives a path permissions that it has not, whatever the umask says.
pub(super) fn set_mode(path: &Path, mode: u32) -> Result<(), ArchiveError> {
    let set = || match fs::metadata(path)?.mode() & 0o7777 == mode {
        true => Ok(()),
        false => fs::set_permissions(path, Permissions::from_mode(mode)),
    };
    set().map_err(|error| ArchiveError::file("set the permissions of", path, error))
}

fn set_mode_of(file: &File, mode: u32) -> io::Result<()> {
    match file.metadata()?.mode() & 0o7777 == mode {
        true => Ok(()),
        false => file.set_permissions(Permissions::from_mode(mode)),
    }
}

/// Creates a file where nothing is, closed to others while it is written.
fn create(path: &Path) -> Result<File, ArchiveError> {
    if let Some(parent) = path.parent() {
        make_directory(parent)?;
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| ArchiveError::file("create", path, error))
}

/// Opens a file that is there. What is no file, or has another name or another owner too, was
/// removed before; nothing is followed that came meanwhile.
fn open_existing(path: &Path) -> Result<Option<File>, ArchiveError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open = || {
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags.bits().cast_signed())
            .open(path)
    };
    let opened = match open() {
        // A file that its owner protected from being changed.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            set_mode(path, 0o600)?;
            open()
        }
        opened => opened,
    };
    match opened {
        Ok(file) => {
            let checked = file
                .metadata()
                .and_then(|found| regular_file::check(&found));
            checked.map_err(|error| ArchiveError::file("replace", path, error))?;
            Ok(Some(file))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ArchiveError::file("write", path, error)),
    }
}

/// A file being written.
pub(super) struct Output {
    path: PathBuf,
    mode: u32,
    kind: Kind,
    bytes: u64,
}

enum Kind {
    New(File),
    Over(BlockFile),
    Nowhere,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) bytes: u64,
    /// It is new, or was changed.
    pub(super) is_changed: bool,
}

impl Output {
    /// Takes a file that is proven and not written.
    pub(super) fn nowhere() -> Output {
        Output {
            path: PathBuf::new(),
            mode: 0,
            kind: Kind::Nowhere,
            bytes: 0,
        }
    }

    /// Takes what comes next.
    pub(super) fn write(&mut self, piece: &[u8]) -> Result<(), ArchiveError> {
        let written = match &mut self.kind {
            Kind::New(file) => file.write_all(piece).map(|()| piece.len() as u64),
            Kind::Over(file) => file.write(piece),
            Kind::Nowhere => Ok(0),
        };
        self.bytes += written.map_err(|error| ArchiveError::file("write", &self.path, error))?;
        Ok(())
    }

    /// Ends the file here.
    pub(super) fn finish(self) -> Result<Written, ArchiveError> {
        let Output {
            path,
            mode,
            kind,
            bytes,
        } = self;
        let finish = || {
            let (file, is_changed) = match kind {
                Kind::Nowhere => return Ok(false),
                Kind::New(file) => (file, true),
                Kind::Over(file) => {
                    let (file, was_cut) = file.finish()?;
                    (file, was_cut || bytes > 0)
                }
            };
            set_mode_of(&file, mode)?;
            Ok(is_changed)
        };
        let is_changed = finish().map_err(|error| ArchiveError::file("write", &path, error))?;
        Ok(Written { bytes, is_changed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn delta(data: &Path) -> Destination {
        Destination::Delta(Directories::of(data.to_owned(), BTreeMap::new()))
    }

    #[test]
    fn a_files_permissions_are_those_of_the_backup_whatever_was_there() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("server.key");
        let mode = || fs::metadata(&path).expect("there").mode() & 0o7777;
        for (there, wanted, expected) in [
            (None, 0o600, 0o600),
            (Some(0o400), 0o600, 0o600),
            (Some(0o644), 0o400, 0o400),
            (Some(0o600), 0o755, 0o755),
            (Some(0o600), 0o4755, 0o755),
        ] {
            if let Some(there) = there {
                fs::set_permissions(&path, Permissions::from_mode(there)).expect("set");
            }
            let mut output = delta(scratch.path())
                .create_file(&path, wanted)
                .expect("opened");
            output.write(b"key").expect("written");
            output.finish().expect("finished");
            assert_eq!(mode(), expected, "{there:?} {wanted:o}");
        }
        let directory = scratch.path().join("base");
        let made = Destination::Empty(Directories::of(scratch.path().to_owned(), BTreeMap::new()))
            .create_directory(&directory, 0o750);
        made.expect("made");
        assert_eq!(
            fs::metadata(&directory).expect("there").mode() & 0o7777,
            0o750
        );
    }

    #[test]
    fn a_file_of_zeros_takes_no_room_and_is_left_alone_when_it_is_there() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("16384");
        let changed = || fs::metadata(&path).expect("there").mtime_nsec();
        let zeros = |size| delta(scratch.path()).create_zeros(&path, 0o600, size);
        fs::write(&path, [7; 3 * 8192]).expect("written");
        zeros(2 * 8192).expect("made");
        assert_eq!(fs::read(&path).expect("readable"), [0; 2 * 8192]);
        assert_eq!(fs::metadata(&path).expect("there").blocks(), 0);
        let before = changed();
        zeros(2 * 8192).expect("made");
        assert_eq!(changed(), before);
    }
}
