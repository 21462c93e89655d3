//! The WAL of a timeline from a segment on, set aside.
//!
//! A copy of a server, or one that came back after a failover, has archived on the timeline that
//! production is on, or was. What is before its first own segment stays.

use std::collections::BTreeSet;

use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::{AsideLabel, PackName, Repository, WalEntry};

use super::content::{PackedHashes, archived};
use super::label::choose_label;
use super::order::histories_last;
use super::{Move, describe, of_timelines, refuse_backups, refuse_unknown_descent, timelines_of};
use crate::archived::archived_wal::ArchivedWal;
use crate::archived::stored_wal::StoredWal;
use crate::archived::timelines::Timelines;
use crate::archived::wal_index;
use crate::backups::backup_record::ListedBackup;
use crate::error::ArchiveError;

/// A part of a timeline.
struct Part {
    from: SegmentName,
    /// The number of that segment.
    number: u64,
    segment_size_bytes: u32,
}

impl Part {
    /// Whether a segment, or another file of one, is in it.
    fn has(&self, segment: SegmentName) -> bool {
        segment.timeline == self.from.timeline
            && segment
                .number(self.segment_size_bytes)
                .is_ok_and(|number| number >= self.number)
    }

    fn has_file(&self, name: &str) -> bool {
        match name.parse() {
            Ok(WalFileName::Segment(segment) | WalFileName::Partial(segment)) => self.has(segment),
            Ok(WalFileName::BackupHistory { segment, .. }) => self.has(segment),
            _ => false,
        }
    }

    /// Timelines that left it behind its first segment. One that left in that segment begins with a
    /// copy of it.
    fn descendants(&self, timelines: &Timelines) -> BTreeSet<TimelineId> {
        let leaves = |other: &TimelineId| {
            let left_at = timelines.left_at(self.from.timeline, *other);
            left_at.is_some_and(|at| at.0 / u64::from(self.segment_size_bytes) > self.number)
        };
        timelines.known().filter(leaves).collect()
    }
}

/// Finds out what setting a timeline aside from a segment on would move, and whether it may be.
/// Timelines that left it behind that segment go with it. What is archived under the names of segments
/// that were set aside before is another server's, and moves only `again`.
pub async fn plan_set_aside_from(
    repository: &Repository,
    from: SegmentName,
    again: bool,
) -> Result<Move, ArchiveError> {
    let objects = repository.list_wal_objects().await?;
    let listing = objects.entries();
    let timelines = timelines_of(repository, &listing).await?;
    let size = wal_index::segment_size(repository, &listing).await?;
    let segment_size_bytes = size.unwrap_or(wal_index::DEFAULT_SEGMENT_SIZE);
    let part = Part {
        from,
        number: from.number(segment_size_bytes)?,
        segment_size_bytes,
    };
    let whole = part.descendants(&timelines);
    let of_part = listing.iter().filter(|entry| part.has_file(&entry.name));
    let of_part: Vec<WalEntry> = of_part.cloned().collect();
    if of_part.is_empty() {
        let done = moved_before(repository, &part).await?;
        if of_timelines(&listing, &whole).next().is_none() {
            return Ok(done);
        }
    }
    refuse_unknown_descent(from.timeline, &timelines)?;
    let stops = backup_stops(repository).await?;
    refuse_only_copy(&part, &listing, (&timelines, &stops))?;
    let needs = |segment: SegmentName| part.has(segment) || whole.contains(&segment.timeline);
    let what = format!("timeline {} from {from} on", from.timeline);
    refuse_backups(repository, &what, needs).await?;
    let (packs, staying) = packs_of(
        objects.packs.into_iter().map(|pack| pack.name),
        &part,
        &whole,
    );
    let single = objects.single.iter();
    let single = single.filter(|entry| part.has_file(&entry.name)).cloned();
    let of_whole: Vec<WalEntry> = of_timelines(&objects.single, &whole).cloned().collect();
    let single: Vec<WalEntry> = single.chain(of_whole).collect();
    let mut entries = of_part.clone();
    entries.extend(of_timelines(&listing, &whole).cloned());
    let mut moving = whole;
    moving.insert(from.timeline);
    if !again {
        refuse_moved_before(repository, &part, &of_part).await?;
    }
    let history = WalFileName::History(from.timeline).to_string();
    let has_history = listing.iter().any(|entry| entry.name == history);
    Ok(Move {
        label: choose_label(repository, from.timeline, (&single, &packs)).await?,
        timelines: describe(repository, &entries, &timelines, &moving).await?,
        names: histories_last(&single),
        packs,
        staying,
        from: Some(from),
        copied: has_history.then_some(history),
    })
}

/// Refuses to move what a timeline that left it there needs from before that, and has not archived itself.
/// Where the child has archived more, and no backup comes through there any more, its own has expired.
fn refuse_only_copy(
    part: &Part,
    listing: &[WalEntry],
    (timelines, stops): (&Timelines, &[(TimelineId, Lsn)]),
) -> Result<(), ArchiveError> {
    let size = part.segment_size_bytes;
    let wal = ArchivedWal::of(listing, size);
    let begin = part.from.range(size)?.start;
    for child in timelines.known() {
        let Some((parent, switch)) = timelines.beginning(child) else {
            continue;
        };
        let own = SegmentName {
            timeline: child,
            ..part.from
        };
        // One that has left the child since has a copy as well.
        let has_copy = |other: &TimelineId| {
            let is_copy = *other == child || timelines.left_at(child, *other).is_some();
            is_copy && wal.has(*other, part.number)
        };
        let leaves_within =
            parent == part.from.timeline && begin < switch && wal.number_at(switch) == part.number;
        let has_expired = wal.numbers_from(child, part.number + 1).next().is_some()
            && !timelines.need_fork(child, switch, stops.iter().copied());
        if leaves_within && !has_expired && !timelines.known().any(|other| has_copy(&other)) {
            return Err(ArchiveError::Request(format!(
                "timeline {child} left timeline {parent} at {switch}, in {}, and has not archived its own {own} yet: what \
                 comes before that position is nowhere else. If timeline {child} was given up, set that aside first (walzip \
                 timeline set-aside {child}). Otherwise let its server archive {own} (walzip check there, or walzip \
                 archive-push pg_wal/{own}), and repeat this, or begin with the segment after it",
                part.from
            )));
        }
    }
    Ok(())
}

/// Where the finished backups end. One that cannot be read cannot be restored either.
async fn backup_stops(repository: &Repository) -> Result<Vec<(TimelineId, Lsn)>, ArchiveError> {
    let listed = ListedBackup::all(repository).await?;
    let own = listed
        .into_iter()
        .filter(|backup| backup.cluster() == Some(repository.cluster()));
    let records = own.filter_map(|backup| backup.read.ok());
    Ok(records
        .map(|record| (record.stop.timeline, record.stop.lsn))
        .collect())
}

/// Nothing is left to be moved: either that was done, or there never was anything.
async fn moved_before(repository: &Repository, part: &Part) -> Result<Move, ArchiveError> {
    let from = part.from;
    for label in repository.list_aside_labels().await?.into_iter().rev() {
        if label.timeline() == from.timeline.0 {
            let there = repository.list_aside_objects(label).await?.entries();
            if there.iter().any(|entry| part.has_file(&entry.name)) {
                return Ok(Move::done(label));
            }
        }
    }
    Err(ArchiveError::Request(format!(
        "the archive has nothing of timeline {} from {from} on",
        from.timeline
    )))
}

/// The packs that move, and the segments of them that stay. A pack moves whole.
fn packs_of(
    packs: impl Iterator<Item = PackName>,
    part: &Part,
    whole: &BTreeSet<TimelineId>,
) -> (Vec<PackName>, Vec<String>) {
    let (mut moving, mut staying) = (Vec::new(), Vec::new());
    for pack in packs {
        let is_of_whole = whole.contains(&TimelineId(pack.timeline()));
        if is_of_whole || pack.segments().any(|name| part.has_file(&name)) {
            let stays = |name: &String| !is_of_whole && !part.has_file(name);
            staying.extend(pack.segments().filter(stays));
            moving.push(pack);
        }
    }
    moving.reverse();
    (moving, staying)
}

/// Refuses to move segments of whose names others were set aside: the first move was completed, and
/// what is there now was archived since then.
async fn refuse_moved_before(
    repository: &Repository,
    part: &Part,
    entries: &[WalEntry],
) -> Result<(), ArchiveError> {
    let timeline = part.from.timeline.0;
    let is_of_part = |pack: &PackName| pack.segments().any(|name| part.has_file(&name));
    for label in repository.list_aside_labels().await? {
        if label.timeline() != timeline {
            continue;
        }
        let there = repository.list_aside_objects(label).await?.entries();
        let there: BTreeSet<&str> = there.iter().map(|other| other.name.as_str()).collect();
        let mut both = entries
            .iter()
            .filter(|entry| there.contains(&*entry.name))
            .peekable();
        if both.peek().is_none() {
            continue;
        }
        let here = PackedHashes::read(&repository.packs(), is_of_part).await?;
        let aside = PackedHashes::read(&repository.packs_aside(label), is_of_part).await?;
        for entry in both {
            if !is_same(repository, label, &entry.name, (&here, &aside)).await? {
                return Err(ArchiveError::Request(format!(
                    "{name} was set aside before, as {label}: what has the name now was archived since \
                     then, as it seems by the server that stays. Nothing was changed. If it is of a \
                     stray server again, --again sets it aside too",
                    name = entry.name
                )));
            }
        }
    }
    Ok(())
}

/// Whether the archive has what is set aside under a name.
async fn is_same(
    repository: &Repository,
    label: AsideLabel,
    name: &str,
    (here, aside): (&PackedHashes, &PackedHashes),
) -> Result<bool, ArchiveError> {
    let there = repository.get_aside(label, name).await?;
    if there.is_some() && repository.get_wal(name).await? == there {
        return Ok(true);
    }
    let there = match there {
        Some(object) => Some(StoredWal::Single(object).content_hash(name).await?.into()),
        None => aside.get(name),
    };
    let archived = archived(repository, here, name).await?;
    Ok(archived.is_some() && archived == there)
}
