//! The directories to restore into, which have to be empty.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::backup_record::TablespaceRecord;
use crate::error::ArchiveError;

/// PostgreSQL refuses to start in a directory that others can read.
const MODE: u32 = 0o700;

/// Where the parts of the cluster go.
#[derive(Clone, Debug)]
pub(super) struct Directories {
    pub(super) data: PathBuf,
    /// By OID.
    pub(super) tablespaces: BTreeMap<u32, PathBuf>,
}

impl Directories {
    /// Decides where everything goes. A tablespace is named by its OID or its old directory.
    pub(super) fn plan(
        data: &Path,
        tablespaces: &[TablespaceRecord],
        map: &BTreeMap<String, PathBuf>,
    ) -> Result<Directories, ArchiveError> {
        let absolute = |path: &Path| {
            std::path::absolute(path).map_err(|error| ArchiveError::file("resolve", path, error))
        };
        let data = absolute(data)?;
        let mut placed = BTreeMap::new();
        for tablespace in tablespaces {
            let oid = tablespace.oid.to_string();
            let mapped = map.get(&oid).or_else(|| map.get(&tablespace.location));
            let path = match mapped {
                Some(path) => absolute(path)?,
                None => PathBuf::from(&tablespace.location),
            };
            if path.starts_with(&data) || data.starts_with(&path) {
                return Err(ArchiveError::Request(format!(
                    "tablespace {oid} would go to {}, inside the data directory or around it",
                    path.display()
                )));
            }
            if placed.values().any(|other| *other == path) {
                let path = path.display();
                return Err(ArchiveError::Request(format!(
                    "two tablespaces would go to {path}"
                )));
            }
            placed.insert(tablespace.oid, path);
        }
        let known = |name: &String| {
            tablespaces.iter().any(|tablespace| {
                tablespace.oid.to_string() == *name || tablespace.location == *name
            })
        };
        if let Some(unknown) = map.keys().find(|name| !known(name)) {
            return Err(ArchiveError::Request(format!(
                "the backup has no tablespace {unknown}"
            )));
        }
        Ok(Directories {
            data,
            tablespaces: placed,
        })
    }

    /// Creates what is missing, and refuses what is not empty before anything is written.
    pub(super) fn prepare(&self) -> Result<(), ArchiveError> {
        let all = || std::iter::once(&self.data).chain(self.tablespaces.values());
        for directory in all() {
            refuse_content(directory)?;
        }
        for directory in all() {
            DirBuilder::new()
                .recursive(true)
                .mode(MODE)
                .create(directory)
                .and_then(|()| fs::set_permissions(directory, Permissions::from_mode(MODE)))
                .map_err(|error| ArchiveError::file("create", directory, error))?;
        }
        Ok(())
    }
}

fn refuse_content(directory: &Path) -> Result<(), ArchiveError> {
    match fs::read_dir(directory) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(ArchiveError::NotEmpty {
                path: directory.to_owned(),
            }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ArchiveError::file("read", directory, error)),
    }
}
