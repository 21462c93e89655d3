//! The side of `archive-push`:
//!
//! ```text
//! push/acknowledged/NAME   the file NAME is in all repositories, proven and durable
//! push/last                the file that was pushed last, in the same words
//! push/failed/NAME         why the worker could not push NAME; it ended with that
//! push/tally               what workers have counted: this crate does not look into it
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file_facts::FileFacts;
use super::side::{Alive, Side, WorkerLock};
use crate::error::ArchiveError;

const ACKNOWLEDGED: &str = "acknowledged";
const LAST: &str = "last";
const FAILED: &str = "failed";
const TALLY: &str = "tally";

/// An acknowledgement whose file PostgreSQL no longer waits for is removed after so long: a call
/// that somebody made by hand has seen it by then.
const KEPT: Duration = Duration::from_secs(60);

/// An older acknowledgement counts for nothing: the file is compared with the archive again, which
/// may have become another one at the same place.
const VALID: Duration = Duration::from_secs(60);

/// What was pushed last is known for so long. After that, somebody may have put it aside in the repository, and another
/// server its own in its place.
pub const LAST_VALID: Duration = Duration::from_secs(5);

/// The side of the spool for `archive-push`.
#[derive(Clone, Debug)]
pub struct PushSpool {
    side: Side,
    boot: String,
}

impl PushSpool {
    /// Opens it, or makes it. The settings are a hash of all that a worker has to agree on: the
    /// repositories above all, since an acknowledgement is for exactly these.
    pub fn open(
        spool_path: &Path,
        data_directory: &Path,
        settings: &str,
    ) -> Result<PushSpool, ArchiveError> {
        let side = Side::open(spool_path, data_directory, "push", settings)?;
        for name in [ACKNOWLEDGED, FAILED] {
            super::make_private(&side.path(name))?;
        }
        // After a restart of the machine nobody knows what a file system has made of its last
        // seconds. Without this file, none is told from another.
        let boot = super::boot();
        Ok(PushSpool { side, boot })
    }

    /// Whether this very file is in these very repositories.
    pub fn is_acknowledged(&self, facts: &FileFacts) -> bool {
        let path = self.acknowledgement(facts.name());
        let found = super::read(&path);
        found.is_some_and(|found| found == self.text(facts).as_bytes())
            && super::age(&path).is_some_and(|age| age < VALID)
    }

    /// Says that it is.
    pub(crate) fn acknowledge(&self, facts: &FileFacts) -> Result<(), ArchiveError> {
        let path = self.acknowledgement(facts.name());
        super::write(&path, self.text(facts).as_bytes())
    }

    /// Notes the file that was pushed last into these repositories.
    pub fn note_last(&self, facts: &FileFacts) -> Result<(), ArchiveError> {
        super::write(&self.side.path(LAST), self.text(facts).as_bytes())
    }

    /// Whether this very file was pushed last, and a moment ago.
    pub fn is_last(&self, facts: &FileFacts) -> bool {
        let path = self.side.path(LAST);
        super::read(&path).is_some_and(|found| found == self.text(facts).as_bytes())
            && super::age(&path).is_some_and(|age| age < LAST_VALID)
    }

    fn acknowledgement(&self, name: &str) -> PathBuf {
        self.side.path(ACKNOWLEDGED).join(name)
    }

    fn text(&self, facts: &FileFacts) -> String {
        let settings = self.side.settings();
        let boot = &self.boot;
        format!("walzip acknowledgement 1\n{facts}boot {boot}\nsettings {settings}\n")
    }

    /// Removes the acknowledgements that nobody waits for.
    pub(crate) fn clean(&self, is_waited_for: impl Fn(&str) -> bool) {
        let Ok(entries) = fs::read_dir(self.side.path(ACKNOWLEDGED)) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_old = super::age(&entry.path()).is_some_and(|age| age > KEPT);
            if is_old && !name.to_str().is_some_and(&is_waited_for) {
                // It is only in the way.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Records why a file could not be pushed, for the call that asks for it.
    pub(crate) fn fail(&self, name: &str, why: &str) -> Result<(), ArchiveError> {
        super::write(&self.side.path(FAILED).join(name), why.as_bytes())
    }

    /// Why a file could not be pushed, once.
    pub fn take_failure(&self, name: &str) -> Option<String> {
        let path = self.side.path(FAILED).join(name);
        let why = super::read(&path)?;
        fs::remove_file(&path).ok()?;
        String::from_utf8(why).ok()
    }

    /// Removes what an earlier worker has said of its failures.
    pub(crate) fn forget_failures(&self) {
        let Ok(entries) = fs::read_dir(self.side.path(FAILED)) else {
            return;
        };
        for entry in entries.flatten() {
            let _ = fs::remove_file(entry.path());
        }
    }

    /// Asks a worker of other settings to end.
    pub fn claim(&self) -> Result<(), ArchiveError> {
        self.side.want_settings()
    }

    /// Whether the worker, which has the lock, shows no sign of life.
    pub fn is_stuck(&self) -> bool {
        self.side.is_stuck()
    }

    pub(crate) fn alive(&self) -> Alive {
        self.side.alive()
    }

    /// Keeps what the worker has counted.
    pub fn keep_tally(&self, tally: &[u8]) -> Result<(), ArchiveError> {
        super::write(&self.side.path(TALLY), tally)
    }

    /// What workers have counted so far.
    pub fn tally(&self) -> Option<Vec<u8>> {
        super::read(&self.side.path(TALLY))
    }

    /// The lock, unless a worker has it.
    pub fn try_lock(&self) -> Result<Option<WorkerLock>, ArchiveError> {
        self.side.try_lock()
    }

    /// Whether a file is the lock.
    pub fn is_lock(&self, file: &fs::File) -> bool {
        self.side.is_lock(file)
    }

    /// The file for what the worker says, to which it is appended.
    pub fn log(&self) -> Result<fs::File, ArchiveError> {
        self.side.log()
    }

    /// Whether the last call wanted these settings.
    pub(crate) fn are_settings_wanted(&self) -> bool {
        self.side.are_settings_wanted()
    }
}

/// What the workers of a data directory have counted, if there were any. Nothing is made for it.
pub fn tally(spool_path: &Path, data_directory: &Path) -> Result<Option<Vec<u8>>, ArchiveError> {
    let directory = super::path_of(spool_path, data_directory)?;
    Ok(super::read(&directory.join("push").join(TALLY)))
}
