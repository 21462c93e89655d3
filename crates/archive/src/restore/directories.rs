//! The directories to restore into, which have to be empty.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

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
                None => as_recorded(tablespace)?,
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

/// Where a tablespace was. The repository says so, which is not believed to lead anywhere else
/// than it reads.
fn as_recorded(tablespace: &TablespaceRecord) -> Result<PathBuf, ArchiveError> {
    let path = PathBuf::from(&tablespace.location);
    let is_plain = path.is_absolute()
        && path
            .components()
            .all(|component| matches!(component, Component::RootDir | Component::Normal(_)));
    if is_plain {
        return Ok(path);
    }
    Err(ArchiveError::Request(format!(
        "the backup says that tablespace {} was in \"{}\", which is not an absolute path \
         without steps upwards: say where it goes",
        tablespace.oid,
        tablespace.location.escape_debug()
    )))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(location: &str, map: &[(&str, &str)]) -> Result<Directories, ArchiveError> {
        let tablespace = TablespaceRecord {
            oid: 16384,
            location: location.to_owned(),
        };
        let map = map
            .iter()
            .map(|(old, new)| ((*old).to_owned(), PathBuf::from(new)));
        Directories::plan(Path::new("/restored"), &[tablespace], &map.collect())
    }

    #[test]
    fn puts_a_tablespace_where_it_was_or_where_it_is_told() {
        let place =
            |planned: Result<Directories, _>| planned.expect("valid").tablespaces[&16384].clone();
        assert_eq!(place(plan("/srv/fast", &[])), Path::new("/srv/fast"));
        let mapped = plan("/srv/fast", &[("/srv/fast", "/new")]);
        assert_eq!(place(mapped), Path::new("/new"));
    }

    #[test]
    fn goes_nowhere_that_a_backup_only_hints_at() {
        for location in ["srv/fast", "", "..", "/srv/../etc/cron.d"] {
            let refused = plan(location, &[]);
            assert!(
                matches!(refused, Err(ArchiveError::Request(_))),
                "{location}"
            );
            assert!(plan(location, &[("16384", "/new")]).is_ok(), "{location}");
        }
    }
}
