//! From which backup which moments can be restored, as far as the retention promises it.
//!
//! A pinned backup, and what it needs, keeps the WAL of its own moment. The WAL between it and the next
//! backup may have been expired, so that a hole there is nothing wrong.

use std::collections::BTreeSet;

use walzip_pgformat::Lsn;
use walzip_repo::{RepoError, Repository};

use crate::archived::archived_wal::{ArchivedWal, Hole};
use crate::archived::timelines::Timelines;
use crate::backups::backup_record::{BackupRecord, Moment};
use crate::error::ArchiveError;
use crate::pins;
use crate::verify::Part;
use crate::verify::seen::MinimalWal;

/// Which backups may have been kept by pins alone.
#[derive(Debug, Default)]
pub(crate) struct Promised {
    /// The pinned ones, and those that they refer to.
    by_pins: BTreeSet<String>,
    /// Where the others start, with their clusters.
    others: Vec<(String, Moment)>,
}

impl Promised {
    pub(crate) async fn read(
        repository: &Repository,
        records: impl Iterator<Item = &BackupRecord> + Clone,
    ) -> Result<Promised, ArchiveError> {
        let mut promised = Promised::default();
        for record in records.clone() {
            let is_pinned = match record.label.parse() {
                Ok(label) => pins::of(repository, &label).await?.is_some(),
                Err(RepoError::InvalidName { .. }) => false,
                Err(error) => return Err(error.into()),
            };
            if is_pinned {
                let references = record.references.iter().cloned();
                promised
                    .by_pins
                    .extend(references.chain([record.label.clone()]));
            }
        }
        let others = records.filter(|record| !promised.by_pins.contains(&record.label));
        promised.others = others
            .map(|record| (record.system_identifier.clone(), record.start))
            .collect();
        Ok(promised)
    }

    /// The first missing segment after a backup, on each timeline that passes through its end.
    ///
    /// The WAL is followed up to the newest segment: what comes after that is not archived yet.
    pub(crate) fn gaps(
        &self,
        record: &BackupRecord,
        wal: &ArchivedWal,
        timelines: &Timelines,
    ) -> Result<BTreeSet<String>, ArchiveError> {
        let stop = record.stop;
        // The first segment that is not among those required.
        let mut first = wal.number_at(Lsn(stop.lsn.0.saturating_sub(1))) + 1;
        if self.by_pins.contains(&record.label) {
            first = first.max(self.next_start(record, wal));
        }
        let mut gaps = BTreeSet::new();
        for goal in timelines.descendants(stop.timeline, stop.lsn) {
            let hole = wal.way(timelines, goal).reach(first)?.hole;
            gaps.extend(hole.map(|hole: Hole| hole.first.to_string()));
        }
        Ok(gaps)
    }

    /// The first change to `wal_level = minimal` after a backup, on a timeline that passes through its end.
    pub(crate) fn minimal_wal(
        &self,
        record: &BackupRecord,
        wal: &ArchivedWal,
        part: &Part,
    ) -> Option<MinimalWal> {
        let stop = record.stop;
        let end = match self.by_pins.contains(&record.label) {
            true => self.next_start(record, wal),
            false => u64::MAX,
        };
        let is_passed = |found: &&MinimalWal| {
            let timeline = found.segment.timeline;
            stop.lsn <= found.lsn
                && wal.number_at(found.lsn) < end
                && part.timelines.passes(timeline, stop.timeline, stop.lsn)
        };
        let passed = part.minimal_wal.iter().filter(is_passed);
        passed
            .min_by_key(|found| (found.lsn, found.segment))
            .copied()
    }

    /// The segment in which the next backup starts that keeps the WAL after it.
    fn next_start(&self, record: &BackupRecord, wal: &ArchivedWal) -> u64 {
        let later = self.others.iter().filter(|(cluster, start)| {
            *cluster == record.system_identifier && start.lsn >= record.stop.lsn
        });
        let next = later.map(|(_, start)| wal.number_at(start.lsn)).min();
        next.unwrap_or(0)
    }
}
