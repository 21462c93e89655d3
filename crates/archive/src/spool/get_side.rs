//! The side of `archive-get`:
//!
//! ```text
//! get/position                    the segment that is given out or was last, or the one before the first of a
//!                                 recovery, and its size in bytes
//! get/ahead/NAME-STATE-SETTINGS   the segment NAME, its file's state, and by which settings
//! get/fetching/NAME               being fetched
//! get/given/NAME-STATE-SETTINGS   the segment that was given out last: a recovery that ends asks again
//! ```
//!
//! What is not there means nothing: the call asks the archive itself. A segment stays here for some
//! minutes at most, since what a timeline is may change in an archive (`walzip timeline set-aside`).

use std::fs::{self, DirEntry, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use walzip_pgformat::control_file::{ControlFile, ControlFileError};
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};

use super::file_state;
use super::side::{Alive, Side, WorkerLock};
use crate::cluster::replay_start;
use crate::error::ArchiveError;
use crate::files::durable;
use crate::files::own_copy;
use crate::files::regular_file;

const POSITION: &str = "position";
const AHEAD: &str = "ahead";
const FETCHING: &str = "fetching";
const GIVEN: &str = "given";

/// More than any control file has.
const CONTROL_FILE_LEN_MAX: usize = 1 << 16;
const CONTROL_FILE_ATTEMPTS: usize = 5;
const CONTROL_FILE_PAUSE: Duration = Duration::from_millis(5);

/// A worker that died has left behind what nobody watches over.
const AGE_MAX: Duration = Duration::from_secs(300);

/// The side of the spool for `archive-get`.
#[derive(Clone, Debug)]
pub struct GetSpool {
    side: Side,
    data_directory: PathBuf,
    system_id: u64,
    segment_size: u32,
}

/// The segment that is given out, or was last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) segment: SegmentName,
    pub(crate) segment_size: u32,
}

impl Position {
    /// The segment after it.
    pub(crate) fn next(self) -> Option<Position> {
        let segment = self.segment.next(self.segment_size).ok()?;
        Some(Position { segment, ..self })
    }

    pub(crate) fn name(self) -> String {
        WalFileName::Segment(self.segment).to_string()
    }
}

/// What a segment that was given out is to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// The first one of a recovery.
    Begun,
    /// It follows upon the last one.
    Following,
    /// It does not: a recovery that goes on elsewhere, or pg_rewind, which goes back.
    Elsewhere,
}

/// A segment that was fetched before it was asked for.
pub struct Prefetched {
    segment: SegmentName,
    path: PathBuf,
    state: String,
    /// Where it is kept for who asks again.
    given: Option<PathBuf>,
}

impl GetSpool {
    /// Opens it, or makes it. The settings are a hash of all that a worker has to agree on besides
    /// the cluster: the repositories above all. Nothing where the data directory does not say at
    /// once whose it is: it may become another cluster's.
    pub fn open(
        spool_path: &Path,
        data_directory: &Path,
        settings: &str,
    ) -> Result<Option<GetSpool>, ArchiveError> {
        let Some(control_file) = control_file(data_directory) else {
            return Ok(None);
        };
        let system_id = control_file.system_id.0;
        let settings = format!("{settings}{system_id:016x}");
        let side = Side::open(spool_path, data_directory, "get", &settings)?;
        for name in [AHEAD, FETCHING, GIVEN] {
            super::make_private(&side.path(name))?;
        }
        Ok(Some(GetSpool {
            side,
            data_directory: super::canonical(data_directory)?,
            system_id,
            segment_size: control_file.segment_size_bytes,
        }))
    }

    /// Whether the data directory is still the cluster's for which this was opened.
    pub(crate) fn is_of_same_cluster(&self) -> bool {
        control_file(&self.data_directory)
            .is_some_and(|control_file| control_file.system_id.0 == self.system_id)
    }

    /// The segment of this name, if it was fetched from these repositories for this cluster, and
    /// follows upon the one that was given out last, or is that one. A recovery that begins again asks
    /// anew: what a timeline is may have changed.
    pub fn find(&self, name: &str) -> Option<Prefetched> {
        let position = self.position()?;
        let next = position.next()?;
        let (place, segment) = match next.name() == name {
            true => (AHEAD, next.segment),
            false if position.name() == name => (GIVEN, position.segment),
            false => return None,
        };
        let found = entries(&self.side.path(place))
            .into_iter()
            .find_map(|entry| {
                let file = entry.file_name();
                let (found, rest) = file.to_str()?.split_once('-')?;
                let (state, settings) = rest.split_once('-')?;
                let is_it = found == name && settings == self.side.settings();
                (is_it && is_young(&entry)).then(|| (entry.path(), state.to_owned()))
            });
        let (path, state) = found?;
        let given = (place == AHEAD).then(|| self.side.path(GIVEN));
        Some(Prefetched {
            segment,
            path,
            state,
            given,
        })
    }

    /// Keeps a segment that was given out, for a recovery that ends with it and asks again.
    pub fn remember(&self, name: &str, delivered: &Path) -> Result<(), ArchiveError> {
        let state = state(delivered)?;
        let file = format!("{name}-{state}-{}", self.side.settings());
        remember(&self.side.path(GIVEN), delivered, &file);
        Ok(())
    }

    /// Whether a worker is fetching the segment now.
    pub fn is_fetching(&self, name: &str) -> bool {
        self.side.path(FETCHING).join(name).exists()
    }

    /// Forgets what was fetched: a recovery begins, or goes on elsewhere.
    pub fn begin_again(&self) {
        let _ = fs::remove_file(self.side.path(POSITION));
        self.keep(|_| false);
        self.forget_given();
    }

    /// Records with which segment a recovery will begin, if that can be told: a worker fetches it while the server asks
    /// which timelines there are.
    pub fn expect_first(&self) -> Result<bool, ArchiveError> {
        let first = replay_start::first_to_be_asked_for(&self.data_directory, self.segment_size);
        let Some(Ok(Some(before))) = first.map(|first| first.previous(self.segment_size)) else {
            return Ok(false);
        };
        self.side.want_settings()?;
        self.record_position(before)?;
        Ok(true)
    }

    fn record_position(&self, segment: SegmentName) -> Result<(), ArchiveError> {
        let name = WalFileName::Segment(segment);
        let text = format!("{name} {}\n", self.segment_size);
        super::write(&self.side.path(POSITION), text.as_bytes())
    }

    fn forget_given(&self) {
        for entry in entries(&self.side.path(GIVEN)) {
            let _ = fs::remove_file(entry.path());
        }
    }

    /// Records which segment a call gives out; says where the recovery is.
    pub fn advance(&self, name: &str) -> Result<Advance, ArchiveError> {
        self.side.want_settings()?;
        let Ok(WalFileName::Segment(segment)) = name.parse() else {
            return Ok(Advance::Elsewhere);
        };
        let advance = match self.position() {
            None => Advance::Begun,
            Some(last) if last.next().is_some_and(|next| next.segment == segment) => {
                Advance::Following
            }
            Some(_) => Advance::Elsewhere,
        };
        self.record_position(segment)?;
        // Afterwards: before, a worker would fetch it again.
        if advance != Advance::Following {
            self.keep(|_| false);
        }
        Ok(advance)
    }

    pub(crate) fn position(&self) -> Option<Position> {
        let text = String::from_utf8(super::read(&self.side.path(POSITION))?).ok()?;
        let (name, segment_size) = text.trim_end().split_once(' ')?;
        Some(Position {
            segment: name.parse::<WalFileName>().ok()?.segment()?,
            segment_size: segment_size.parse().ok()?,
        })
    }

    /// Where to fetch a segment to. It is seen as being fetched from now on.
    pub(crate) fn begin(&self, name: &str) -> Result<PathBuf, ArchiveError> {
        let path = self.side.path(FETCHING).join(name);
        let _ = fs::remove_file(&path);
        let created = File::create_new(&path);
        created.map_err(|error| ArchiveError::file("create", &path, error))?;
        Ok(path)
    }

    /// What was fetched is there for a call.
    pub(crate) fn finish(&self, name: &str) -> Result<(), ArchiveError> {
        let path = self.side.path(FETCHING).join(name);
        let state = state(&path)?;
        let settings = self.side.settings();
        let to = self
            .side
            .path(AHEAD)
            .join(format!("{name}-{state}-{settings}"));
        fs::rename(&path, &to).map_err(|error| ArchiveError::file("rename to", &to, error))
    }

    /// It was not fetched.
    pub(crate) fn abandon(&self, name: &str) {
        let _ = fs::remove_file(self.side.path(FETCHING).join(name));
    }

    /// Removes what is there and not wanted; says what is left.
    pub(crate) fn keep(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let mut kept = Vec::new();
        for entry in self.ahead() {
            let file = entry.file_name();
            let name = file.to_str().and_then(|file| Some(file.split_once('-')?.0));
            match name.filter(|name| is_wanted(name) && is_young(&entry)) {
                Some(name) => kept.push(name.to_owned()),
                None => {
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
        kept
    }

    /// Removes all.
    pub(crate) fn clear(&self) {
        self.keep(|_| false);
        self.forget_given();
        self.clear_fetching();
    }

    /// Removes what a worker that died was about to fetch.
    pub(crate) fn clear_fetching(&self) {
        for entry in entries(&self.side.path(FETCHING)) {
            let _ = fs::remove_file(entry.path());
        }
    }

    fn ahead(&self) -> Vec<DirEntry> {
        entries(&self.side.path(AHEAD))
    }

    /// Whether the worker, which has the lock, shows no sign of life.
    pub fn is_stuck(&self) -> bool {
        self.side.is_stuck()
    }

    pub(crate) fn alive(&self) -> Alive {
        self.side.alive()
    }

    /// The lock, unless a worker has it.
    pub fn try_lock(&self) -> Result<Option<WorkerLock>, ArchiveError> {
        self.side.try_lock()
    }

    /// Whether a file is the lock.
    pub fn is_lock(&self, file: &File) -> bool {
        self.side.is_lock(file)
    }

    /// The file for what the worker says, to which it is appended.
    pub fn log(&self) -> Result<File, ArchiveError> {
        self.side.log()
    }

    /// Whether the last call wanted these settings.
    pub(crate) fn are_settings_wanted(&self) -> bool {
        self.side.are_settings_wanted()
    }
}

/// The control file of a data directory, if it can be read.
fn control_file(data_directory: &Path) -> Option<ControlFile> {
    let path = data_directory.join("global").join("pg_control");
    for _ in 0..CONTROL_FILE_ATTEMPTS {
        let content = regular_file::read_at_once(&path, CONTROL_FILE_LEN_MAX).ok()?;
        match ControlFile::read(&content) {
            Ok(control_file) => return Some(control_file),
            // The server may be writing it.
            Err(ControlFileError::Checksum { .. }) => thread::sleep(CONTROL_FILE_PAUSE),
            Err(_) => return None,
        }
    }
    None
}

fn state(path: &Path) -> Result<String, ArchiveError> {
    let metadata = fs::symlink_metadata(path);
    let metadata = metadata.map_err(|error| ArchiveError::file("read", path, error))?;
    Ok(file_state::of(&metadata))
}

/// By a link: whoever writes into the file changes its state, which the name tells. Where there can be
/// no link, it is not kept.
fn remember(given: &Path, delivered: &Path, name: &str) {
    for entry in entries(given) {
        let _ = fs::remove_file(entry.path());
    }
    let _ = fs::hard_link(delivered, given.join(name));
}

fn entries(directory: &Path) -> Vec<DirEntry> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.flatten().collect()
}

fn is_young(entry: &DirEntry) -> bool {
    super::age(&entry.path()).is_some_and(|age| age < AGE_MAX)
}

impl Prefetched {
    /// Gives it the name that was asked for, if it still is the file that was fetched; says how long
    /// it is. It is removed either way.
    pub fn deliver(self, destination: &Path) -> Result<Option<u64>, ArchiveError> {
        let delivered = self.checked().and_then(|len| match len {
            Some(len) => {
                // The call finds that out for itself, and says it.
                if own_copy::goes_on_after(&self.path, (destination, self.segment))
                    .map_err(|error| ArchiveError::file("compare", destination, error))?
                {
                    return Ok(None);
                }
                let name = self.path.file_name().and_then(|name| name.to_str());
                if let (Some(given), Some(name)) = (&self.given, name) {
                    remember(given, &self.path, name);
                }
                self.give(destination).map(|()| Some(len))
            }
            None => Ok(None),
        });
        let _ = fs::remove_file(&self.path);
        delivered
    }

    /// Its length, if nobody has written to it since it was fetched.
    fn checked(&self) -> Result<Option<u64>, ArchiveError> {
        match fs::symlink_metadata(&self.path) {
            // A link leads elsewhere, and is as good as nothing.
            Ok(metadata) if metadata.is_file() && file_state::of(&metadata) == self.state => {
                Ok(Some(metadata.len()))
            }
            Ok(_) => Ok(None),
            // Its worker has given it up.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ArchiveError::file("read", &self.path, error)),
        }
    }

    fn give(&self, destination: &Path) -> Result<(), ArchiveError> {
        regular_file::check_name(destination)
            .map_err(|error| ArchiveError::file("replace", destination, error))?;
        match fs::rename(&self.path, destination) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let failed = |error| ArchiveError::file("write", destination, error);
                durable::deliver_with(destination, |file| {
                    let mut from = File::open(&self.path).map_err(failed)?;
                    io::copy(&mut from, file).map(|_| ()).map_err(failed)
                })
            }
            Err(error) => Err(ArchiveError::file("rename to", destination, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::testing::{Record, segment};

    /// Whether a server that has this file of its own gets one that was fetched ahead.
    fn gets(fetched: &[u8], own: &[u8]) -> bool {
        const NAME: &str = "000000010000000000000003";
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("fetched");
        fs::write(&path, fetched).expect("written");
        let state = state(&path).expect("there");
        let named = place.path().join(format!("{NAME}-{state}-settings"));
        fs::rename(&path, &named).expect("renamed");
        let given = place.path().join(GIVEN);
        fs::create_dir(&given).expect("a directory");
        let pg_wal = place.path().join("pg_wal");
        fs::create_dir(&pg_wal).expect("a directory");
        fs::write(pg_wal.join(NAME), own).expect("written");
        let Ok(WalFileName::Segment(segment)) = NAME.parse() else {
            panic!("the name of a segment");
        };
        let prefetched = Prefetched {
            segment,
            path: named,
            state,
            given: Some(given),
        };
        let delivered = prefetched.deliver(&pg_wal.join("RECOVERYXLOG"));
        let is_delivered = delivered.expect("readable").is_some();
        assert_eq!(pg_wal.join("RECOVERYXLOG").exists(), is_delivered);
        is_delivered
    }

    #[test]
    fn what_was_fetched_ahead_is_compared_with_the_servers_own() {
        let rows = |lengths: &[usize]| {
            let rows: Vec<Record> = lengths.iter().map(|&len| Record::row(len, 1)).collect();
            segment(3, &rows)
        };
        assert!(!gets(&rows(&[100]), &rows(&[100, 60])));
        assert!(gets(&rows(&[100, 60]), &rows(&[100])));
        assert!(gets(&rows(&[100]), &rows(&[100])));
    }
}
