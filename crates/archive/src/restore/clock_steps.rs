//! Whether the clock went back in the WAL near a target time.
//!
//! A recovery to a time ends at the first transaction that ended later. Where the clock was set back, or a standby
//! was promoted whose clock was behind, transactions follow in the WAL that ended earlier: they would be left
//! out, without a word. Who restores has to say by position what is meant.
//!
//! Not all WAL is read for that: of each timeline the segments around the place where the target would be, those in
//! which timelines were left, and all if they are few. Of packs it is the first segment, since another one takes as
//! long as all before it, and of the one in which the target would be all segments.
//!
//! When segments were archived, by the store's clock, is another way to find the place: what was archived around the
//! time is read, too, and after where the recovery would end, what was archived before the time. Where the
//! store's clock is another one, or everything came later by a copy, that only finds less.
//!
//! The index of a pack says when transactions ended in each segment, unless an older walzip made it. That is enough
//! where no clock was set back: of the pack at most the segment is decoded then in which the backup ended. The recovery is
//! expected to end in a segment, and where in it is not known.
//!
//! What is not read, `archive-get` looks at when the recovery asks for it ([`crate::get::clock_guard`]).

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use walzip_pgformat::wal::TimedRecord;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::{Repository, WalListing};

use crate::archived::archived_wal::Way;
use crate::archived::packed_times::PackedTimes;
use crate::archived::wal_times::{SegmentTimes, Timed};
use crate::backups::backup_record::BackupRecord;
use crate::error::ArchiveError;
use crate::get::clock_guard::STEP_MIN;
use crate::wal::expected_end::ExpectedEnd;
use crate::wal::times_in_brief::TimesInBrief;
use crate::wal::wal_end::shown;

/// So many segments are all read.
const ALL_READ: usize = 8;

/// A target so much later than a backup was not before it.
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Nothing is known of what comes so long before.
const SEGMENTS_MAX: u64 = 1 << 22;

/// What was archived so long before or after a time may hold it.
const ARCHIVED_NEAR: SignedDuration = SignedDuration::from_secs(60);

/// So many are read at most because of when they were archived.
const ARCHIVED_NEAR_MAX: usize = 1024;

/// So many are read on each side of where the recovery would end.
const NEAR: usize = 2;

/// What is known of the segments of an archive without reading them.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// What packs say of their segments.
    pub(super) packed: PackedTimes,
    /// Those that only packs have, but for the first of each: they take seconds to read.
    deep: BTreeSet<SegmentName>,
    /// When each was archived, by the store's clock; of those in a pack, when the last one was.
    archived: BTreeMap<SegmentName, Timestamp>,
}

impl Listed {
    pub(super) fn of(wal: &WalListing) -> Listed {
        let archived = wal.entries().into_iter().filter_map(|entry| {
            let archived = Timestamp::try_from(entry.modified).ok()?;
            Some((entry.name.parse::<SegmentName>().ok()?, archived))
        });
        let packed = PackedTimes::of(wal);
        Listed {
            deep: packed.deep().collect(),
            packed,
            archived: archived.collect(),
        }
    }

    fn archived(&self, way: &Way<'_>, number: u64) -> Option<Timestamp> {
        let segment = way.segment(number).ok()?;
        self.archived.get(&segment).copied()
    }

    /// Whether what comes after a segment may have been written before a time, by the store's clock.
    fn may_go_on_before(&self, way: &Way<'_>, number: u64, time: Timestamp) -> bool {
        let archived = self.archived(way, number);
        archived.is_some_and(|archived| archived.duration_since(time) <= ARCHIVED_NEAR)
    }

    /// The segments up to `last` that were archived around a time, and the one after each.
    fn archived_near(&self, way: &Way<'_>, last: u64, time: Timestamp) -> BTreeSet<u64> {
        let is_near = |archived: &Timestamp| archived.duration_since(time).abs() <= ARCHIVED_NEAR;
        let near = self
            .archived
            .iter()
            .filter(|(_, archived)| is_near(archived));
        let numbers = near.filter_map(|(segment, _)| {
            let number = way.number(*segment)?;
            (way.segment(number).ok()? == *segment).then_some([number, number + 1])
        });
        let numbers = numbers.flatten().filter(|number| *number <= last);
        numbers.take(ARCHIVED_NEAR_MAX).collect()
    }
}

/// Refuses a target time for which transactions before it come after later ones; says where the recovery ends, as
/// far as WAL was read. `last` is the number of the last segment that a recovery from the backup can read.
pub(super) async fn check(
    (repository, listed): (&Repository, &Listed),
    way: &Way<'_>,
    (backup, last): (&BackupRecord, u64),
    target: Timestamp,
) -> Result<Option<ExpectedEnd>, ArchiveError> {
    let (from, deep) = (backup.stop, &listed.deep);
    let first = way.number_at(from.lsn);
    let wal = Wal {
        repository,
        listed,
        way,
        from: from.lsn,
    };
    let open = stretches((way, deep), (first, last))?;
    let is_later = async |number| Ok(wal.latest_end(number).await?.map(|time| time > target));
    let mut chosen = near(&open, is_later).await?;
    chosen.extend(listed.archived_near(way, last, target));
    for switch in way.switches() {
        let number = way.number_at(switch);
        chosen.extend(number.saturating_sub(1)..=number + 1);
    }
    chosen.retain(|number| (first..=last).contains(number));
    let goes_on = |number| listed.may_go_on_before(way, number, target);
    let in_brief = async |number| wal.ends_in_brief(number).await;
    let mut seen = look((chosen.clone(), last), target, in_brief, goes_on).await?;
    if seen.left_out.is_some() {
        let whole = async |number| wal.ends(number).await;
        seen = look((chosen, last), target, whole, goes_on).await?;
    }
    seen.refuse(way.goal())?;
    Ok(seen.end.map(|(lsn, _)| ExpectedEnd {
        lsn,
        time: Some(target),
    }))
}

/// The WAL from the end of a backup on.
struct Wal<'w> {
    repository: &'w Repository,
    listed: &'w Listed,
    way: &'w Way<'w>,
    from: Lsn,
}

impl Wal<'_> {
    /// What a pack says of a segment, if all of the segment counts.
    async fn brief(&self, number: u64) -> Result<Option<TimesInBrief>, ArchiveError> {
        if number <= self.way.number_at(self.from) {
            return Ok(None);
        }
        let segment = self.way.segment(number)?;
        Ok(said(self.repository, self.listed, segment).await)
    }

    /// The latest end of a transaction in a segment.
    async fn latest_end(&self, number: u64) -> Result<Option<Timestamp>, ArchiveError> {
        if let Some(brief) = self.brief(number).await? {
            return Ok(brief.ends.map(|ends| ends.latest));
        }
        let times = read(self.repository, self.way, number).await?;
        Ok(times.last_transaction(self.from))
    }

    /// The ends of transactions in a segment.
    async fn ends(&self, number: u64) -> Result<Vec<End>, ArchiveError> {
        let times = read(self.repository, self.way, number).await?;
        let counted = times.timed.iter().filter(|timed| timed.lsn >= self.from);
        let ends = counted.filter_map(|timed| match timed.record {
            TimedRecord::TransactionEnd { committed, .. } => {
                timed.time().map(|time| (timed.lsn, time, committed))
            }
            _ => None,
        });
        Ok(ends.collect())
    }

    /// What a pack says of a segment, as far as that is enough; otherwise all ends in it.
    async fn ends_in_brief(&self, number: u64) -> Result<Vec<End>, ArchiveError> {
        let brief = self.brief(number).await?;
        match brief.and_then(|brief| in_brief(self.way.begin(number), brief)) {
            Some(ends) => Ok(ends),
            None => self.ends(number).await,
        }
    }
}

/// The earliest and the latest end in a segment, as if they were commits at its begin. Nothing where the clock was set
/// back between ends in it: which of them was where has to be known then.
fn in_brief(begin: Lsn, brief: TimesInBrief) -> Option<Vec<End>> {
    match brief.ends {
        None => Some(Vec::new()),
        Some(ends) if ends.set_back >= STEP_MIN => None,
        Some(ends) => Some(vec![
            (begin, ends.earliest, true),
            (begin, ends.latest, true),
        ]),
    }
}

/// What a pack says of a segment. Where the pack cannot be read, the segment is decoded, and who does that says why it
/// is not looked at.
async fn said(
    repository: &Repository,
    listed: &Listed,
    segment: SegmentName,
) -> Option<TimesInBrief> {
    listed.packed.get(repository, segment).await.ok()?
}

/// The end of a transaction: where it is, when it was, and whether it is a commit.
type End = (Lsn, Timestamp, bool);

/// Refuses a backup that ended before the target by the clock, and comes after transactions that ended later: the target
/// is before it where the clock was right.
pub(super) async fn check_backup(
    (repository, listed): (&Repository, &Listed),
    way: &Way<'_>,
    backup: &BackupRecord,
    target: Timestamp,
) -> Result<(), ArchiveError> {
    let (start, stop) = (backup.start.lsn, backup.stop.time);
    for number in listed.archived_near(way, way.number_at(start), target) {
        let brief = said(repository, listed, way.segment(number)?).await;
        let is_before =
            |latest: Timestamp| latest <= target || latest.duration_since(stop) < STEP_MIN;
        if brief.is_some_and(|brief| brief.ends.is_none_or(|ends| is_before(ends.latest))) {
            continue;
        }
        let times = read(repository, way, number).await?;
        let is_later = |timed: &&Timed| {
            let is_end = matches!(timed.record, TimedRecord::TransactionEnd { .. });
            let is_later = |time: Timestamp| time > target && time.duration_since(stop) >= STEP_MIN;
            is_end && timed.lsn < start && timed.time().is_some_and(is_later)
        };
        if let Some(later) = times.timed.iter().find(is_later) {
            let label = &backup.label;
            let (at, ended) = (later.lsn, later.time().map(shown).unwrap_or_default());
            return Err(ArchiveError::Request(format!(
                "backup {label} ended at {} by the clock, but comes after a transaction at {at} that ended at {ended}: the \
                 clock was set back between them, and the time may be in the WAL twice. Say with --backup which is \
                 meant: an older backup (\"walzip info\" lists them) for the one before the clock was set back, {label} for the \
                 one after",
                shown(stop)
            )));
        }
    }
    Ok(())
}

/// Warns where an older backup ended later, by the clock: the target may have been before the chosen one too.
pub(super) fn warn_of_backups<'r>(
    chosen: &BackupRecord,
    others: impl Iterator<Item = &'r BackupRecord>,
    target: Timestamp,
) {
    let stop = chosen.stop;
    // A standby may replay what is old.
    let mut set_back = others.filter(|other| {
        other.stop.lsn < stop.lsn
            && !other.from_standby
            && other.stop.time.duration_since(stop.time) >= STEP_MIN
            && target.duration_since(other.stop.time) < DAY
    });
    if let (Some(other), false) = (set_back.next(), chosen.from_standby) {
        tracing::warn!(
            "backup {}, which comes before {} in the WAL, ended later by the clock ({}, {}): the clock went back \
             between them. If the time is meant that was before, restore with --backup {}",
            other.label,
            chosen.label,
            shown(other.stop.time),
            shown(stop.time),
            other.label
        );
    }
}

/// The segments of a timeline on the way.
#[derive(Clone, Debug, Default)]
struct Stretch {
    all: Vec<u64>,
    /// Those that are read soon.
    soon: Vec<u64>,
}

fn stretches(
    (way, deep): (&Way<'_>, &BTreeSet<SegmentName>),
    (first, last): (u64, u64),
) -> Result<Vec<Stretch>, ArchiveError> {
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut timeline = None;
    for number in first.max(last.saturating_sub(SEGMENTS_MAX))..=last {
        let segment = way.segment(number)?;
        if timeline.replace(segment.timeline) != Some(segment.timeline) {
            stretches.push(Stretch::default());
        }
        if let Some(stretch) = stretches.last_mut() {
            stretch.all.push(number);
            if !deep.contains(&segment) {
                stretch.soon.push(number);
            }
        }
    }
    Ok(stretches)
}

/// All segments if they are few; otherwise, of each stretch, those near to the first one that has something
/// later, if times only grow there. In some no transaction ends.
async fn near(
    stretches: &[Stretch],
    is_later: impl AsyncFn(u64) -> Result<Option<bool>, ArchiveError>,
) -> Result<BTreeSet<u64>, ArchiveError> {
    let all = stretches.iter().flat_map(|stretch| &stretch.all);
    if all.clone().count() <= ALL_READ {
        return Ok(all.copied().collect());
    }
    let mut chosen = BTreeSet::new();
    for Stretch { all, soon } in stretches {
        let (earlier, later) = first_later(soon, &is_later).await?;
        for index in [earlier, later] {
            let around = soon.iter().skip(index.saturating_sub(NEAR));
            chosen.extend(around.take(2 * NEAR + 1));
        }
        // Of the packs between them, which may have something later themselves, all.
        let before = earlier.checked_sub(1).and_then(|index| soon.get(index));
        let in_pack = |number: &&u64| {
            soon.binary_search(number).is_err()
                && before.is_none_or(|before| *number > before)
                && soon.get(later).is_none_or(|later| *number < later)
        };
        chosen.extend(all.iter().filter(in_pack));
    }
    Ok(chosen)
}

/// The index after the last segment that has nothing later, and that of the first one that has; the end where
/// there is none. In those between them no transaction ends.
async fn first_later(
    segments: &[u64],
    is_later: impl AsyncFn(u64) -> Result<Option<bool>, ArchiveError>,
) -> Result<(usize, usize), ArchiveError> {
    let (mut low, mut high, mut later) = (0, segments.len(), segments.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let mut found = None;
        for (index, number) in segments.iter().enumerate().take(high).skip(middle) {
            if let Some(is_later) = is_later(*number).await? {
                found = Some((index, is_later));
                break;
            }
        }
        match found {
            Some((index, false)) => low = index + 1,
            Some((index, true)) => (high, later) = (middle, index),
            None => high = middle,
        }
    }
    Ok((low, later))
}

/// Looks at the ends of transactions in segments; where the clock was set back in one, in those that follow as well,
/// until it has come up to the target again; and after the end, as long as something `goes_on`.
async fn look(
    (mut chosen, last): (BTreeSet<u64>, u64),
    target: Timestamp,
    ends_in: impl AsyncFn(u64) -> Result<Vec<End>, ArchiveError>,
    goes_on: impl Fn(u64) -> bool,
) -> Result<Seen, ArchiveError> {
    let mut seen = Seen::new(target);
    let mut after_end = 0;
    while let Some(number) = chosen.pop_first() {
        let left_out_before = seen.left_out;
        for (lsn, time, committed) in ends_in(number).await? {
            seen.add(lsn, time, committed);
        }
        let goes_on = seen.end.is_some() && after_end < ARCHIVED_NEAR_MAX && goes_on(number);
        after_end += usize::from(goes_on);
        if (seen.left_out != left_out_before || goes_on) && number < last {
            chosen.insert(number + 1);
        }
    }
    Ok(seen)
}

/// What a segment says. One that cannot be read says nothing: it may lie after the target.
async fn read(
    repository: &Repository,
    way: &Way<'_>,
    number: u64,
) -> Result<SegmentTimes, ArchiveError> {
    let segment = way.segment(number)?;
    match SegmentTimes::read(repository, segment).await {
        Ok(times) => Ok(times),
        Err(error) => {
            tracing::warn!("{segment} is not looked at: {error}");
            Ok(SegmentTimes::default())
        }
    }
}

/// Transactions, in the order of the WAL.
struct Seen {
    target: Timestamp,
    /// The first one that ended after the target: there the recovery ends.
    end: Option<(Lsn, Timestamp)>,
    /// The latest time that came so far.
    latest: Timestamp,
    /// The last commit up to the target that came after that.
    left_out: Option<(Lsn, Timestamp)>,
}

impl Seen {
    fn new(target: Timestamp) -> Seen {
        Seen {
            target,
            end: None,
            latest: Timestamp::MIN,
            left_out: None,
        }
    }

    fn add(&mut self, lsn: Lsn, time: Timestamp, committed: bool) {
        if time > self.target {
            self.end.get_or_insert((lsn, time));
        } else if committed && self.end.is_some() && self.latest.duration_since(time) >= STEP_MIN {
            self.left_out = Some((lsn, time));
        }
        self.latest = self.latest.max(time);
    }

    fn refuse(&self, timeline: TimelineId) -> Result<(), ArchiveError> {
        let (Some((end, later)), Some((left_out, earlier))) = (self.end, self.left_out) else {
            return Ok(());
        };
        Err(ArchiveError::Request(format!(
            "the clock went back in the WAL: {} at {end} comes before {} at {left_out}. A recovery to \
             this time ends at {end} at the latest, and leaves out what was committed up to the time after it. Say which \
             position is meant, with --target-timeline {timeline}: --target-lsn {end} --target-exclusive to end there, --target-lsn \
             {left_out} to have the last commit up to the time that was found",
            shown(later),
            shown(earlier),
        )))
    }
}

#[cfg(test)]
mod tests;
