//! The directories to restore into, which have to be empty, or the cluster's own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use crate::backups::backup_record::BackupRecord;
use crate::cluster::placement::future_path;
use crate::error::{ArchiveError, OccupiedDirectory};
use crate::files::durable;
use crate::get::tablespace_guard;
use crate::server::tablespace_record::TablespaceRecord;

/// PostgreSQL refuses to start in a directory that others can read.
const MODE: u32 = 0o700;

/// Where the parts of the cluster go.
#[derive(Clone, Debug)]
pub(super) struct Directories {
    pub(super) data: PathBuf,
    /// By OID.
    pub(super) tablespaces: BTreeMap<u32, PathBuf>,
    /// The tablespaces that are in the backup.
    known: Vec<TablespaceRecord>,
    /// Those that the replay will create, each in the directory that it had.
    replayed: Vec<TablespaceRecord>,
    major: u32,
}

impl Directories {
    /// Decides where everything goes. A tablespace is called by its name, its OID or its old
    /// directory.
    pub(super) fn plan(
        data: &Path,
        record: &BackupRecord,
        map: &BTreeMap<String, PathBuf>,
    ) -> Result<Directories, ArchiveError> {
        let data = absolute(data)?;
        let mapped = resolve(map, record)?;
        let real_data = real(&data);
        let mut placed = BTreeMap::new();
        let mut real_places = BTreeSet::new();
        for tablespace in &record.tablespaces {
            let path = match mapped.get(&tablespace.oid) {
                Some(path) => absolute(path)?,
                None => as_recorded(tablespace)?,
            };
            let real_path = real(&path);
            if real_path.starts_with(&real_data) || real_data.starts_with(&real_path) {
                return Err(ArchiveError::Request(format!(
                    "{tablespace} would go to {}, inside the data directory or around it",
                    path.display()
                )));
            }
            if !real_places.insert(real_path) {
                let path = path.display();
                return Err(ArchiveError::Request(format!(
                    "two tablespaces would go to {path}"
                )));
            }
            let is_taken = |new: &&TablespaceRecord| Path::new(&new.location) == path;
            if mapped.contains_key(&tablespace.oid)
                && let Some(new) = record.new_tablespaces.iter().find(is_taken)
            {
                return Err(ArchiveError::Request(format!(
                    "{tablespace} would go to {}, where the replay will create {new}",
                    path.display()
                )));
            }
            placed.insert(tablespace.oid, path);
        }
        Ok(Directories {
            data,
            tablespaces: placed,
            known: record.tablespaces.clone(),
            replayed: record.new_tablespaces.clone(),
            major: record.major,
        })
    }

    /// Directories that nobody has to decide about.
    #[cfg(test)]
    pub(super) fn of(data: PathBuf, tablespaces: BTreeMap<u32, PathBuf>) -> Directories {
        Directories {
            data,
            tablespaces,
            known: Vec::new(),
            replayed: Vec::new(),
            major: 15,
        }
    }

    /// The cluster's major.
    pub(super) fn major(&self) -> u32 {
        self.major
    }

    /// Creates what is missing, and refuses what is not empty before anything is written.
    pub(super) fn prepare(&self) -> Result<(), ArchiveError> {
        let mut occupied = self.occupied(|_| false)?;
        if has_content(&self.data)? {
            let data = OccupiedDirectory {
                path: self.data.clone(),
                tablespace: None,
                is_replayed: false,
            };
            occupied.insert(0, data);
        }
        refuse(occupied)?;
        self.create()
    }

    /// Refuses tablespaces in directories that are not empty, but for the cluster's own ones.
    pub(super) fn refuse_occupied(
        &self,
        is_own: impl Fn(&Path) -> bool,
    ) -> Result<(), ArchiveError> {
        refuse(self.occupied(is_own)?)
    }

    /// Creates what is missing.
    pub(super) fn create(&self) -> Result<(), ArchiveError> {
        for directory in std::iter::once(&self.data).chain(self.tablespaces.values()) {
            DirBuilder::new()
                .recursive(true)
                .mode(MODE)
                .create(directory)
                .and_then(|()| fs::set_permissions(directory, Permissions::from_mode(MODE)))
                .map_err(|error| ArchiveError::file("create", directory, error))?;
        }
        for (tablespace, location) in self.locations() {
            let created = DirBuilder::new()
                .recursive(true)
                .mode(MODE)
                .create(location);
            created.map_err(|source| ArchiveError::NoLocation {
                tablespace: tablespace.clone(),
                path: location.to_owned(),
                source,
            })?;
        }
        Ok(())
    }

    /// The directories outside the data directory in which the replay will create tablespaces.
    /// PostgreSQL stops where one is missing.
    fn locations(&self) -> impl Iterator<Item = (&TablespaceRecord, &Path)> {
        let located = self.replayed.iter().map(|tablespace| {
            let location = Path::new(&tablespace.location);
            (tablespace, location)
        });
        // Inside, the backup's own files are there, and no other cluster's.
        located.filter(|(_, path)| is_plain(path) && !path.starts_with(&self.data))
    }

    /// The tablespaces that something is in the way of.
    fn occupied(
        &self,
        is_own: impl Fn(&Path) -> bool,
    ) -> Result<Vec<OccupiedDirectory>, ArchiveError> {
        let mut occupied = Vec::new();
        for tablespace in &self.known {
            if let Some(path) = self.tablespaces.get(&tablespace.oid)
                && has_content(path)?
                && !is_own(path)
            {
                occupied.push(OccupiedDirectory {
                    path: path.clone(),
                    tablespace: Some(tablespace.clone()),
                    is_replayed: false,
                });
            }
        }
        for (tablespace, location) in self.locations() {
            if let Some(path) = tablespace_guard::occupied_by(location, self.major)
                && !is_own(location)
            {
                occupied.push(OccupiedDirectory {
                    path,
                    tablespace: Some(tablespace.clone()),
                    is_replayed: true,
                });
            }
        }
        Ok(occupied)
    }
}

fn refuse(occupied: Vec<OccupiedDirectory>) -> Result<(), ArchiveError> {
    match occupied.is_empty() {
        true => Ok(()),
        false => Err(ArchiveError::NotEmpty {
            directories: occupied,
        }),
    }
}

/// Where a path leads. One that cannot be followed is taken as it is written.
fn real(path: &Path) -> PathBuf {
    future_path(path).unwrap_or_else(|_| path.to_owned())
}

fn absolute(path: &Path) -> Result<PathBuf, ArchiveError> {
    std::path::absolute(path).map_err(|error| ArchiveError::file("resolve", path, error))
}

/// Which tablespaces the map means, by OID.
fn resolve<'m>(
    map: &'m BTreeMap<String, PathBuf>,
    record: &BackupRecord,
) -> Result<BTreeMap<u32, &'m PathBuf>, ArchiveError> {
    let mut mapped = BTreeMap::new();
    for (said, path) in map {
        let called = |tablespaces: &'_ [TablespaceRecord]| -> Vec<TablespaceRecord> {
            let called = tablespaces.iter().filter(|t| t.is_called(said));
            called.cloned().collect()
        };
        let tablespace = match called(&record.tablespaces).as_slice() {
            [tablespace] => tablespace.clone(),
            [] => {
                let new = called(&record.new_tablespaces);
                return Err(not_in_the_backup(said, &new, &record.tablespaces));
            }
            [one, other, ..] => {
                return Err(ArchiveError::Request(format!(
                    "\"{said}\" means {one} and {other}: call them by their directories"
                )));
            }
        };
        if mapped
            .insert(tablespace.oid, path)
            .is_some_and(|other| other != path)
        {
            return Err(ArchiveError::Request(format!(
                "{tablespace} would go to two places"
            )));
        }
    }
    Ok(mapped)
}

fn not_in_the_backup(
    said: &str,
    new: &[TablespaceRecord],
    all: &[TablespaceRecord],
) -> ArchiveError {
    let described = |of: &TablespaceRecord| format!("{of} in {}", of.location.escape_debug());
    let all: Vec<String> = all.iter().map(described).collect();
    ArchiveError::Request(match new.first() {
        None if all.is_empty() => format!("the backup has no tablespace {said}, and no other"),
        None => format!(
            "the backup has no tablespace {said}; it has {}",
            all.join(", ")
        ),
        Some(tablespace) => format!(
            "{tablespace} was created while the backup ran: the replay creates it in {location}, \
             and nowhere else. Leave it out of the mapping; to have it in another place, make \
             {location} a link to that",
            location = tablespace.location.escape_debug()
        ),
    })
}

/// Where a tablespace was. The repository says so, which is not believed to lead anywhere else
/// than it reads.
fn as_recorded(tablespace: &TablespaceRecord) -> Result<PathBuf, ArchiveError> {
    let path = PathBuf::from(&tablespace.location);
    if is_plain(&path) {
        return Ok(path);
    }
    Err(ArchiveError::Request(format!(
        "the backup says that {tablespace} was in \"{}\", which is not an absolute path without \
         steps upwards: say where it goes",
        tablespace.location.escape_debug()
    )))
}

/// An absolute path without steps upwards.
fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path
            .components()
            .all(|component| matches!(component, Component::RootDir | Component::Normal(_)))
}

/// The name of the file that marks a data directory as being restored.
pub(super) const UNFINISHED: &str = "walzip_restore.unfinished";

/// Whether there is anything but what a restore leaves that was killed while it wrote its mark.
pub(super) fn has_content(directory: &Path) -> Result<bool, ArchiveError> {
    match fs::read_dir(directory) {
        Ok(mut entries) => {
            let mark = durable::temporary_name(UNFINISHED);
            let is_content = |entry: io::Result<fs::DirEntry>| {
                entry.map_or(true, |entry| entry.file_name() != *mark)
            };
            Ok(entries.any(is_content))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(ArchiveError::file("read", directory, error)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::backups::backup_record::{ArchiveRecord, Moment};
    use jiff::Timestamp;
    use walzip_pgformat::{Lsn, TimelineId};

    #[test]
    fn a_mark_that_was_not_finished_is_no_content() {
        let scratch = tempfile::tempdir().expect("a directory");
        let data = scratch.path();
        let has_content = || has_content(data).expect("readable");
        assert!(!has_content());
        fs::write(data.join(".walzip_restore.unfinished.walzip.tmp"), b"{").expect("written");
        assert!(!has_content());
        fs::write(data.join("PG_VERSION"), b"15").expect("written");
        assert!(has_content());
    }

    fn tablespace(oid: u32, name: &str, location: &str) -> TablespaceRecord {
        TablespaceRecord {
            oid,
            name: (!name.is_empty()).then(|| name.to_owned()),
            location: location.to_owned(),
        }
    }

    pub(in crate::restore) fn record(
        tablespaces: Vec<TablespaceRecord>,
        new: Vec<TablespaceRecord>,
    ) -> BackupRecord {
        let moment = Moment {
            lsn: Lsn(0),
            timeline: TimelineId(1),
            time: Timestamp::UNIX_EPOCH,
        };
        BackupRecord {
            format: 3,
            attempts: None,
            label: "20261121-220130F".to_owned(),
            backup_type: None,
            prior: None,
            references: Vec::new(),
            block_hashes: None,
            system_identifier: "7".to_owned(),
            major: 15,
            server_version: "15.13".to_owned(),
            segment_size_bytes: 16 << 20,
            from_standby: false,
            start: moment,
            stop: moment,
            required_wal: Vec::new(),
            tablespaces,
            new_tablespaces: new,
            databases: Vec::new(),
            unlogged: Vec::new(),
            archives: Vec::new(),
            data_checksums: None,
            follows: Vec::new(),
            checksums_verified: true,
            files: None,
            manifest: ArchiveRecord {
                tablespace_oid: None,
                original_bytes: 0,
                objects: Vec::new(),
            },
        }
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, PathBuf> {
        let pairs = pairs.iter();
        pairs
            .map(|(old, new)| ((*old).to_owned(), PathBuf::from(new)))
            .collect()
    }

    fn plan(location: &str, pairs: &[(&str, &str)]) -> Result<Directories, ArchiveError> {
        let record = record(vec![tablespace(16384, "fast", location)], Vec::new());
        Directories::plan(Path::new("/restored"), &record, &map(pairs))
    }

    #[test]
    fn puts_a_tablespace_where_it_was_or_where_it_is_told() {
        let location =
            |planned: Result<Directories, _>| planned.expect("valid").tablespaces[&16384].clone();
        assert_eq!(location(plan("/srv/fast", &[])), Path::new("/srv/fast"));
        for called in ["/srv/fast", "/srv/fast/", "16384", "fast"] {
            let mapped = plan("/srv/fast", &[(called, "/new")]);
            assert_eq!(location(mapped), Path::new("/new"), "{called}");
        }
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

    #[test]
    fn a_link_does_not_hide_that_two_places_are_one() {
        let scratch = tempfile::tempdir().expect("a directory");
        let [real, link] = ["real", "link"].map(|name| scratch.path().join(name));
        fs::create_dir(&real).expect("made");
        std::os::unix::fs::symlink(&real, &link).expect("linked");
        let tablespaces = |second: &Path| {
            let location = |path: &Path| path.to_str().expect("UTF-8").to_owned();
            let first = tablespace(16384, "fast", &location(&real.join("fast")));
            let second = tablespace(16385, "slow", &location(second));
            record(vec![first, second], Vec::new())
        };
        let plan = |data: &Path, second: &Path| {
            Directories::plan(data, &tablespaces(second), &BTreeMap::new())
                .map(|_| ())
                .map_err(|error| error.to_string())
        };
        let elsewhere = scratch.path().join("pg");
        assert_eq!(plan(&elsewhere, &link.join("slow")), Ok(()));
        for (data, second, said) in [
            (&elsewhere, link.join("fast"), "two tablespaces would go to"),
            (&link, elsewhere.join("slow"), "inside the data directory"),
            (
                &link.join("fast/pg"),
                elsewhere.join("slow"),
                "or around it",
            ),
        ] {
            let refused = plan(data, &second).expect_err("refused");
            assert!(refused.contains(said), "{refused}");
        }
    }

    #[test]
    fn refuses_mappings_that_are_not_clear() {
        let record = record(
            vec![
                tablespace(16384, "16385", "/a"),
                tablespace(16385, "b", "/b"),
            ],
            vec![tablespace(16400, "new", "/new")],
        );
        let plan = |pairs: &[(&str, &str)]| {
            let planned = Directories::plan(Path::new("/restored"), &record, &map(pairs));
            planned.map(|_| ()).map_err(|error| error.to_string())
        };
        for (pairs, said) in [
            (
                &[("16385", "/x")][..],
                "means tablespace 16385 (16384) and tablespace b (16385)",
            ),
            (
                &[("b", "/x"), ("/b", "/y")],
                "tablespace b (16385) would go to two places",
            ),
            (&[("c", "/x")], "the backup has no tablespace c"),
            (
                &[("new", "/x")],
                "the replay creates it in /new, and nowhere else",
            ),
            (
                &[("b", "/new")],
                "tablespace b (16385) would go to /new, where the replay will create",
            ),
            (
                &[("16400", "/x")],
                "tablespace new (16400) was created while the backup ran",
            ),
        ] {
            let error = plan(pairs).expect_err(said);
            assert!(error.contains(said), "{error}");
        }
        assert_eq!(plan(&[("b", "/x"), ("/b", "/x")]), Ok(()));
    }

    #[test]
    fn names_everything_that_is_in_the_way_at_once() {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| scratch.path().join(name).display().to_string();
        for directory in [
            "data/base",
            "fast/PG_15_2",
            "replayed/PG_15_2",
            "older/PG_14_2",
        ] {
            fs::create_dir_all(scratch.path().join(directory)).expect("a new directory");
        }
        let record = record(
            vec![
                tablespace(1, "fast", &path("fast")),
                tablespace(2, "empty", &path("empty")),
            ],
            vec![
                tablespace(3, "", &path("replayed")),
                tablespace(4, "older", &path("older")),
                tablespace(5, "missing", &path("missing/deep")),
            ],
        );
        let planned = Directories::plan(&scratch.path().join("data"), &record, &BTreeMap::new());
        let error = planned.expect("a plan").prepare().expect_err("occupied");
        let ArchiveError::NotEmpty { directories } = &error else {
            panic!("{error}")
        };
        let found: Vec<_> = directories
            .iter()
            .map(|directory| {
                (
                    directory.tablespace.as_ref().map(|t| t.oid),
                    directory.is_replayed,
                )
            })
            .collect();
        assert_eq!(found, [(None, false), (Some(1), false), (Some(3), true)]);
        assert!(
            !scratch.path().join("empty").exists(),
            "nothing was created"
        );

        for directory in ["data", "fast", "replayed"] {
            fs::remove_dir_all(scratch.path().join(directory)).expect("removed");
        }
        let planned = Directories::plan(&scratch.path().join("data"), &record, &BTreeMap::new());
        planned.expect("a plan").prepare().expect("room");
        for directory in ["data", "fast", "empty", "replayed", "missing/deep"] {
            assert!(scratch.path().join(directory).is_dir(), "{directory}");
        }
    }
}
