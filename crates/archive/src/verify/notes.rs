//! What earlier verifications have found whole, and for how long that is believed.
//!
//! A note has the runs of WAL objects, by their first and last name, that a verification has read
//! and found whole, and the backups. A run has no hole, so that nothing that was not there lies in it. A segment of which
//! one beside it was not read is in none: whether it continues that one, nobody has seen.
//! What the store made after the verification began was not read by it.

use std::collections::BTreeMap;
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{BackupLabel, ClusterIdentity, RepoError, Repository, WalEntry};

use crate::error::ArchiveError;

const FORMAT: u64 = 3;

/// A note, as in docs/format/repository.md.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Note {
    format: u64,
    began: Timestamp,
    wal: BTreeMap<String, Vec<[String; 2]>>,
    backups: Vec<String>,
    /// How much was wrong. Older notes do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    findings: Option<usize>,
}

/// The newest verification that has left a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastVerified {
    pub(crate) began: Timestamp,
    /// How much was wrong, where it is known.
    pub(crate) findings: Option<usize>,
}

impl LastVerified {
    /// None is from the future.
    pub(crate) async fn read(
        repository: &Repository,
        now: Timestamp,
    ) -> Result<Option<LastVerified>, RepoError> {
        let Some(began) = repository.last_verified(now).await? else {
            return Ok(None);
        };
        // A note that is damaged says nothing of what was wrong.
        let notes = match repository.read_verified(began).await {
            Err(error @ RepoError::Unavailable { .. }) => return Err(error),
            read => read.unwrap_or_default(),
        };
        let mut read = notes
            .iter()
            .filter_map(|note| serde_json::from_slice(note).ok());
        let found = read.find(|note: &Note| note.began == began);
        Ok(Some(LastVerified {
            began,
            findings: found.and_then(|note| note.findings),
        }))
    }
}

impl Note {
    pub(super) fn new(began: Timestamp) -> Note {
        Note {
            format: FORMAT,
            began,
            wal: BTreeMap::new(),
            backups: Vec::new(),
            findings: None,
        }
    }

    /// Notes WAL objects in the order of their names; those that are not whole, or were not read,
    /// end a run, and so does a hole.
    pub(super) fn add_wal<'e>(
        &mut self,
        cluster: ClusterIdentity,
        segment_size: Option<u32>,
        entries: impl Iterator<Item = (&'e WalEntry, bool)>,
    ) {
        let runs = self.wal.entry(cluster.name()).or_default();
        // The segment with which the last run ends.
        let mut end: Option<(TimelineId, u64)> = None;
        for (entry, is_whole) in entries {
            let at = segment_size.and_then(|size| position(&entry.name, size));
            let follows =
                |(timeline, number): (TimelineId, u64)| at == Some((timeline, number + 1));
            match (is_whole, runs.last_mut()) {
                (true, Some([_, last])) if end.is_some_and(follows) => last.clone_from(&entry.name),
                (true, _) => runs.push([entry.name.clone(), entry.name.clone()]),
                (false, _) => {}
            }
            end = at.filter(|_| is_whole);
        }
    }

    pub(super) fn add_backup(&mut self, label: &BackupLabel) {
        self.backups.push(label.to_string());
    }

    pub(super) async fn put(
        mut self,
        findings: usize,
        repository: &Repository,
    ) -> Result<(), ArchiveError> {
        self.findings = Some(findings);
        let json = serde_json::to_vec(&self);
        let json = json.map_err(|error| ArchiveError::Internal(error.to_string()))?;
        Ok(repository.note_verified(self.began, json.into()).await?)
    }
}

/// The notes that are believed.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<Note>);

impl Notes {
    /// Reads the notes of the time before `now`. One that cannot be read is as good as none.
    pub(super) async fn read(
        repository: &Repository,
        now: Timestamp,
        within: SignedDuration,
    ) -> Result<Notes, RepoError> {
        let since = now.checked_sub(within).unwrap_or(Timestamp::MIN);
        let notes = match repository.read_verified(since).await {
            Ok(notes) => notes.into_iter(),
            Err(error) => {
                tracing::warn!("the notes of earlier verifications are not used: {error}");
                return Ok(Notes::default());
            }
        };
        let read = notes.filter_map(|note| {
            let note: Note = serde_json::from_slice(&note).ok()?;
            let is_of_the_time = since <= note.began && note.began <= now;
            (note.format == FORMAT && is_of_the_time).then_some(note)
        });
        Ok(Notes(read.collect()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has_wal(&self, cluster: ClusterIdentity, entry: &WalEntry) -> bool {
        let name = cluster.name();
        self.0.iter().any(|note| {
            let runs = note.wal.get(&name).into_iter().flatten();
            // Of what is in a pack, the pack is what was read.
            let made = Timestamp::try_from(entry.packed.unwrap_or(entry.modified));
            let is_before = made.is_ok_and(|made| made < note.began);
            is_before
                && runs.into_iter().any(|[first, last]| {
                    // Names of another length are of other files, which no run of segments has.
                    first.len() == entry.name.len() && *first <= entry.name && entry.name <= *last
                })
        })
    }

    /// Whether a backup was found whole since its newest object was made.
    pub(super) fn has_backup(&self, label: &BackupLabel, newest: Option<SystemTime>) -> bool {
        let Some(newest) = newest.and_then(|newest| Timestamp::try_from(newest).ok()) else {
            return false;
        };
        let is_it = |noted: &String| noted == label.as_str();
        let mut notes = self.0.iter().filter(|note| newest < note.began);
        notes.any(|note| note.backups.iter().any(is_it))
    }
}

/// Where a whole segment lies; other files are nowhere between two of them.
fn position(name: &str, segment_size: u32) -> Option<(TimelineId, u64)> {
    match name.parse().ok()? {
        WalFileName::Segment(segment) => {
            Some((segment.timeline, segment.number(segment_size).ok()?))
        }
        _ => None,
    }
}
