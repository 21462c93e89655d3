//! How far an operation has come, for whoever watches it.
//!
//! The operation writes, and never waits for a reader; a reader takes a [`Snapshot`] as often as
//! it likes. What is shown of it, and where, is not this crate's business.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an operation is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Nothing that can be measured yet.
    #[default]
    Starting,
    /// Waiting for the server's archiver, before a backup.
    CheckingArchiving,
    /// Waiting for the checkpoint from which a backup starts.
    WaitingForCheckpoint,
    /// Taking the server's files into the repository.
    Copying,
    /// Proving what was stored.
    ReadingBack,
    /// Waiting until the WAL that a backup needs is archived.
    WaitingForWal,
    /// Writing a backup's files.
    Unpacking,
    /// Making files durable.
    Syncing,
    /// Proving archived WAL.
    VerifyingWal,
    /// Proving backups.
    VerifyingBackups,
    /// Bringing WAL from another repository.
    Synchronizing,
    /// Copying a repository's objects.
    CopyingRepository,
    /// Taking over the WAL of another archive.
    ImportingWal,
    /// Making packs of archived WAL.
    Packing,
}

/// What a phase counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// WAL segments.
    Segments,
}

impl Phase {
    /// What is counted in this phase.
    pub fn unit(self) -> Unit {
        match self {
            Phase::WaitingForWal => Unit::Segments,
            _ => Unit::Bytes,
        }
    }
}

/// A phase, and how much of it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The phase.
    pub phase: Phase,
    /// What is done of it.
    pub done: u64,
    /// What there is to do; 0 where nobody knows. It may be an estimate, and too small.
    pub total: u64,
}

/// The snapshot in which an operation leaves how far it has come. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<Snapshot>>);

impl Progress {
    /// How far it has come.
    pub fn snapshot(&self) -> Snapshot {
        *self.state()
    }

    /// Begins a phase with this much to do.
    pub(crate) fn begin(&self, phase: Phase, total: u64) {
        *self.state() = Snapshot {
            phase,
            done: 0,
            total,
        };
    }

    /// More of the phase is done.
    pub(crate) fn add(&self, done: u64) {
        let mut state = self.state();
        state.done = state.done.saturating_add(done);
    }

    fn state(&self) -> MutexGuard<'_, Snapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_anew_in_each_phase() {
        let progress = Progress::default();
        let watched = progress.clone();
        progress.begin(Phase::Copying, 10);
        progress.add(7);
        let seen = watched.snapshot();
        assert_eq!((seen.phase, seen.done, seen.total), (Phase::Copying, 7, 10));
        progress.begin(Phase::WaitingForWal, 2);
        progress.add(1);
        let seen = watched.snapshot();
        assert_eq!((seen.done, seen.total), (1, 2));
    }
}
