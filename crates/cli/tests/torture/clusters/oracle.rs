//! What a restore has to do, by the model: which rows, and which refusals the situation excuses.
//!
//! Written from the documentation of `restore`, not from its source, and lenient where the model
//! cannot know: a backup lies between two moments, a birth too. Where it does know, a refusal
//! without a reason is a finding as much as wrong rows are.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::model::{Archived, Backup, Model, SEGMENT_BYTES, Timeline};

/// `backup-set-invalid`.
const NO_BACKUP: i32 = 75;
/// `timeline-ambiguous`.
const AMBIGUOUS: i32 = 110;
/// `wal-missing`.
const MISSING: i32 = 111;
/// `target-not-archived`.
const NOT_ARCHIVED: i32 = 112;

/// A birth is recorded in whole seconds.
const BIRTH_MICROS: i64 = 2_000_000;

/// A moment to return to.
#[derive(Clone, Debug)]
pub enum Target {
    Latest,
    Time { micros: i64, text: String },
    Lsn(u64),
    Xid(u64),
    Name(String),
}

/// What may come of a restore.
#[derive(Debug)]
pub struct Verdict {
    /// The timeline that is followed.
    pub timeline: Option<u32>,
    /// How many of its commits may be there, if the restore succeeds.
    pub rows: Option<RangeInclusive<usize>>,
    /// The refusals that the situation excuses.
    pub refusals: BTreeSet<i32>,
    /// Whether it must refuse.
    pub must_refuse: bool,
}

/// The situation.
pub struct Oracle<'a> {
    pub model: &'a Model,
    pub archived: &'a Archived,
    /// Whether a segment was taken away.
    pub has_hole: bool,
}

impl Oracle<'_> {
    /// Judges a restore to this target, along this timeline or the one that walzip chooses.
    pub fn judge(&self, target: &Target, told: Option<u32>) -> Verdict {
        let mut verdict = Verdict {
            timeline: told,
            rows: None,
            refusals: BTreeSet::new(),
            must_refuse: false,
        };
        if self.has_hole {
            // The beginning of a timeline may be what is missing.
            verdict
                .refusals
                .extend([NO_BACKUP, AMBIGUOUS, MISSING, NOT_ARCHIVED]);
        }
        if told.is_none() {
            self.choose(target, &mut verdict);
        }
        let Some(id) = verdict.timeline else {
            verdict.refusals.insert(NO_BACKUP);
            verdict.must_refuse = true;
            return verdict;
        };
        self.judge_way(target, self.model.timeline(id), &mut verdict);
        verdict
    }

    /// The timeline that was born last by the target's moment, unless another was alive then.
    fn choose(&self, target: &Target, verdict: &mut Verdict) {
        let by = match target {
            Target::Time { micros, .. } => *micros,
            _ => i64::MAX,
        };
        let has_content = |timeline: &&Timeline| {
            let has_wal = self.archived.iter().any(|(id, _)| *id == timeline.id);
            has_wal
                || self
                    .model
                    .backups
                    .iter()
                    .any(|backup| backup.timeline == timeline.id)
        };
        let there = self.model.timelines.iter().filter(has_content);
        let is_near = |timeline: &Timeline| {
            let born = timeline.born;
            born.is_some_and(|(earliest, latest)| (earliest - BIRTH_MICROS..=latest).contains(&by))
        };
        if there.clone().any(is_near) {
            verdict.refusals.insert(AMBIGUOUS);
        }
        let there: Vec<&Timeline> = there
            .filter(|timeline| timeline.born.is_none_or(|(_, latest)| latest <= by))
            .collect();
        let Some(newest) = there.iter().max_by_key(|timeline| timeline.born) else {
            return;
        };
        verdict.timeline = Some(newest.id);
        let Some((earliest, latest)) = newest.born else {
            return;
        };
        for other in there.iter().filter(|other| other.id != newest.id) {
            let own = &other.commits[other.inherited..];
            let lacking = own.iter().filter(|commit| !newest.commits.contains(commit));
            for commit in lacking {
                if commit.after.micros >= earliest - BIRTH_MICROS {
                    verdict.refusals.insert(AMBIGUOUS);
                }
                let is_there = other.has_all(self.archived, commit.before.lsn, commit.after.lsn);
                let is_time = matches!(target, Target::Latest | Target::Time { .. });
                if commit.before.micros > latest + BIRTH_MICROS && is_there && is_time {
                    verdict.must_refuse = true;
                }
            }
            let own = self
                .model
                .backups
                .iter()
                .filter(|backup| backup.timeline == other.id);
            for backup in own {
                if backup.ended.micros >= earliest - BIRTH_MICROS {
                    verdict.refusals.insert(AMBIGUOUS);
                }
            }
        }
    }

    /// The way along a timeline: a backup before the target, all WAL up to it.
    fn judge_way(&self, target: &Target, timeline: &Timeline, verdict: &mut Verdict) {
        let on_the_way = |backup: &&Backup| {
            // A backup that ended near the fork may be on either side of it.
            timeline.passes(backup.timeline, backup.began.lsn)
        };
        let backups: Vec<&Backup> = self.model.backups.iter().filter(on_the_way).collect();
        let place = self.place(target, timeline);
        let Some(place) = place else {
            // Another timeline's transaction or restore point.
            verdict.refusals.extend([NO_BACKUP, NOT_ARCHIVED]);
            verdict.must_refuse = true;
            return;
        };
        verdict.rows = Some(place.rows);
        let serves = |backup: &&&Backup| {
            backup.ended.lsn <= place.begins
                && timeline.passes(backup.timeline, backup.ended.lsn)
                && place.by.is_none_or(|micros| backup.ended.micros <= micros)
        };
        let may_serve = |backup: &&&Backup| {
            backup.began.lsn <= place.needs
                && place.by.is_none_or(|micros| backup.began.micros <= micros)
        };
        verdict.must_refuse |= !backups.iter().any(|backup| may_serve(&backup));
        let Some(serving) = backups
            .iter()
            .filter(serves)
            .max_by_key(|backup| backup.ended.lsn)
        else {
            verdict.refusals.extend([NO_BACKUP, NOT_ARCHIVED]);
            return;
        };
        if !timeline.has_all(self.archived, serving.began.lsn, place.needs) {
            verdict.refusals.insert(NOT_ARCHIVED);
        }
    }

    fn place(&self, target: &Target, timeline: &Timeline) -> Option<Place> {
        let exactly = |count: usize| count..=count;
        let end = timeline.archived_end(self.archived);
        Some(match target {
            Target::Latest => {
                let (certain, possible) = timeline.commits_up_to(end);
                Place {
                    rows: certain..=possible,
                    begins: end,
                    needs: end,
                    by: None,
                }
            }
            Target::Time { micros, .. } => {
                let count = timeline.commits_by(*micros);
                let next = timeline.commits.get(count);
                Place {
                    rows: exactly(count),
                    begins: next.map_or(end, |next| next.before.lsn),
                    // Only a later commit shows that all up to the time is there.
                    needs: next.map_or(u64::MAX / 2, |next| next.after.lsn),
                    by: Some(*micros),
                }
            }
            Target::Lsn(lsn) => {
                let (certain, possible) = timeline.commits_up_to(*lsn);
                let next = timeline.commits.get(possible);
                Place {
                    rows: certain..=possible,
                    begins: *lsn,
                    needs: next.map_or(lsn + 2 * SEGMENT_BYTES, |next| next.after.lsn),
                    by: None,
                }
            }
            Target::Xid(xid) => {
                let index = timeline
                    .commits
                    .iter()
                    .position(|commit| commit.xid == *xid)?;
                let commit = &timeline.commits[index];
                Place {
                    rows: exactly(index + 1),
                    begins: commit.before.lsn,
                    needs: commit.after.lsn,
                    by: None,
                }
            }
            Target::Name(name) => {
                let point = timeline.points.iter().find(|point| point.name == *name)?;
                let (certain, _) = timeline.commits_up_to(point.lsn);
                Place {
                    rows: exactly(certain),
                    begins: point.before_lsn,
                    needs: point.lsn,
                    by: None,
                }
            }
        })
    }
}

/// Where a target is on a timeline.
struct Place {
    rows: RangeInclusive<usize>,
    /// A backup that ended before this serves.
    begins: u64,
    /// The WAL that must be archived.
    needs: u64,
    /// A backup that ended after this time does not serve.
    by: Option<i64>,
}
