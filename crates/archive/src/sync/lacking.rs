//! What is to be brought to a repository.
//!
//! Not everything that it lacks: what an expiry has removed would be removed again, and a dead branch
//! that it has removed would be taken for the newest one. WAL of two branches under one number would
//! be mixed. And what was set aside in the repository has to stay away.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{Repository, WalEntry};

use super::aside::Aside;
use super::away::Away;
use super::both::{Both, number};
use super::problem::Problem;
use crate::backups::backup_record::BackupRecord;
use crate::error::ArchiveError;
use crate::pins::FollowedBackups;

/// What one repository has and the other one lacks.
#[derive(Default)]
pub(super) struct Lacking {
    pub(super) histories: Vec<WalEntry>,
    /// Oldest first.
    pub(super) others: Vec<WalEntry>,
    /// Segments of packs that are not to come, with their packs.
    pub(super) away: HashSet<String>,
    pub(super) not_retained: u64,
    pub(super) problems: Vec<Problem>,
}

impl Lacking {
    pub(super) async fn find(
        from: &Repository,
        to: &Repository,
        with_pinned: bool,
    ) -> Result<Lacking, ArchiveError> {
        let both = Both::read(from, to).await?;
        let mut lacking = Lacking::default();
        let away = Away::compare(&both).await?;
        let refused = both.refused(&away.same, &mut lacking.problems).await?;
        let retained = Retained::read(&both, with_pinned).await?;
        let there: HashSet<&str> = both
            .target
            .iter()
            .map(|entry| entry.name.as_str())
            .collect();
        let known = (&there, &refused, &away.others);
        let aside = Aside::compare(&both, known, &mut lacking.problems).await?;
        let mut others: BTreeMap<(u64, &str), &WalEntry> = BTreeMap::new();
        let is_there = |entry: &&WalEntry| there.contains(entry.name.as_str());
        for entry in both.source.iter().filter(|entry| !is_there(entry)) {
            let Ok(name) = entry.name.parse::<WalFileName>() else {
                continue;
            };
            let number = number(&name, both.segment_size);
            if refused.contains(&name.timeline()) {
                continue;
            }
            if aside.keeps_away(entry, &name, number) {
                if entry.packed.is_some() {
                    lacking.away.insert(entry.name.clone());
                }
                continue;
            }
            match number {
                None => lacking.histories.push(entry.clone()),
                Some(number) if retained.has(&both, entry, name.timeline(), number) => {
                    others.insert((number, &entry.name), entry);
                }
                Some(_) => lacking.not_retained += 1,
            }
        }
        lacking.others = others.into_values().cloned().collect();
        Ok(lacking)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &WalEntry> {
        self.histories.iter().chain(&self.others)
    }
}

/// What an expiry would leave in the target, by the rules of [`expire`](crate::expire).
enum Retained {
    /// There is no backup: nothing says what is too old.
    All,
    /// No backup can be read, or none counts: what is not older than the oldest WAL.
    From(u64),
    /// What a backup can be replayed through, and what was archived after the oldest of them began.
    Backups(Vec<BackupRecord>),
}

impl Retained {
    async fn read(both: &Both<'_>, with_pinned: bool) -> Result<Retained, ArchiveError> {
        let followed = FollowedBackups::read(both.to, &both.target, with_pinned).await?;
        if followed.are_readable && !followed.records.is_empty() {
            return Ok(Retained::Backups(followed.records));
        }
        if followed.are_readable && !followed.has_any {
            return Ok(Retained::All);
        }
        let names = both
            .target
            .iter()
            .filter_map(|entry| entry.name.parse().ok());
        let numbers = names.filter_map(|name| number(&name, both.segment_size));
        Ok(Retained::From(numbers.min().unwrap_or(0)))
    }

    fn has(&self, both: &Both<'_>, entry: &WalEntry, timeline: TimelineId, number: u64) -> bool {
        let backups = match self {
            Retained::All => return true,
            Retained::From(first) => return number >= *first,
            Retained::Backups(backups) => backups,
        };
        let archived = Timestamp::try_from(entry.modified).unwrap_or(Timestamp::MAX);
        let oldest = backups.iter().map(|backup| backup.start.time).min();
        let is_recent = oldest.is_some_and(|oldest| archived >= oldest);
        let passes = |of, at| both.histories.passes(timeline, of, at);
        let follows =
            |backup: &&BackupRecord| number >= backup.start.lsn.0 / u64::from(both.segment_size);
        let reaches = |backup: &BackupRecord| {
            passes(backup.stop.timeline, backup.stop.lsn)
                || passes(backup.start.timeline, backup.start.lsn)
        };
        let mut followed = backups.iter().filter(follows).peekable();
        followed.peek().is_some() && (is_recent || followed.any(reaches))
    }
}
