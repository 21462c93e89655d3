//! `timeline set-aside` and `put-back`: an abandoned branch out of the way, and back.
//!
//! A copy that was promoted has taken the number that the next promotion of production comes to.
//! Its WAL moves to `aside/`, together with that of all timelines that descend from it. Histories
//! go last: as long as one is there, PostgreSQL's new history is refused, and its WAL waits.

mod content;
mod from;
mod label;
mod order;
mod staying;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::{AsideLabel, PackName, RepoError, Repository, WalEntry, WalListing};

use self::content::Archived;
use self::label::choose_label;
use crate::archived::timelines::Timelines;
use crate::archived::wal_index;
use crate::archived::wal_times::SegmentTimes;
use crate::backups::backup_record::BackupRecord;
use crate::error::ArchiveError;

pub use from::plan_set_aside_from;
use order::{Removed, histories_last, is_history, last_first};

/// What is set aside under one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SetAside {
    /// The label.
    pub label: String,
    /// How many WAL objects there are.
    pub objects: u64,
    /// Their size in the repository.
    pub stored_bytes: u64,
}

/// What is going to move.
#[derive(Clone, Debug)]
pub struct Move {
    /// Under what it is set aside.
    pub label: AsideLabel,
    /// The timelines that move; empty for what is put back.
    pub timelines: Vec<MovedTimeline>,
    /// The names of the objects, histories last and the newest timeline's before the others.
    names: Vec<String>,
    /// The packs that move, each whole: all its segments are of one timeline.
    packs: Vec<PackName>,
    /// Segments of them that stay.
    staying: Vec<String>,
    /// The first segment that moves of a timeline of which only a part does.
    from: Option<SegmentName>,
    /// The history of that timeline. It is copied, and stays.
    copied: Option<String>,
}

/// A timeline that moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedTimeline {
    /// The timeline.
    pub timeline: TimelineId,
    /// How many whole segments it has.
    pub segments: u64,
    /// The size of its objects in the repository.
    pub stored_bytes: u64,
    /// The timeline that it left, and where, unless its history is lost.
    pub parent: Option<(TimelineId, Lsn)>,
    /// The first time in its first segment.
    pub first_time: Option<Timestamp>,
    /// The last time in its last segment.
    pub last_time: Option<Timestamp>,
}

impl Move {
    /// Nothing is left to be moved.
    fn done(label: AsideLabel) -> Move {
        Move {
            label,
            timelines: Vec::new(),
            names: Vec::new(),
            packs: Vec::new(),
            staying: Vec::new(),
            from: None,
            copied: None,
        }
    }

    /// How many objects move.
    pub fn objects(&self) -> usize {
        self.names.len() + self.packs.len()
    }

    /// Segments of packs that move which stay, as objects of their own.
    pub fn staying(&self) -> &[String] {
        &self.staying
    }
}

/// What is set aside in a repository.
pub(crate) async fn list(repository: &Repository) -> Result<Vec<SetAside>, ArchiveError> {
    let mut all = Vec::new();
    for label in repository.list_aside_labels().await? {
        let entries = repository.list_aside_objects(label).await?.entries();
        all.push(SetAside {
            label: label.to_string(),
            objects: entries.len() as u64,
            stored_bytes: stored_bytes(&entries),
        });
    }
    Ok(all)
}

/// Finds out what setting a timeline aside would move, and whether it may be.
///
/// A move that was completed before has no objects.
pub async fn plan_set_aside(
    repository: &Repository,
    timeline: TimelineId,
) -> Result<Move, ArchiveError> {
    let objects = repository.list_wal_objects().await?;
    let listing = objects.entries();
    let timelines = timelines_of(repository, &listing).await?;
    refuse_root(timeline, &timelines)?;
    let moving = family(timeline, &timelines);
    let mut entries: Vec<WalEntry> = of_timelines(&listing, &moving).cloned().collect();
    if entries.is_empty() {
        return moved_before(repository, timeline, &listing).await;
    }
    refuse_unknown_descent(timeline, &timelines)?;
    refuse_lost_parent(timeline, &timelines)?;
    let what: Vec<String> = moving.iter().map(ToString::to_string).collect();
    let what = format!("timeline {}", what.join(", "));
    refuse_backups(repository, &what, |of| moving.contains(&of.timeline)).await?;
    let partial = partial_of_parent(repository, &listing, &timelines, &moving, timeline).await?;
    let single = of_timelines(&objects.single, &moving).cloned();
    let single: Vec<WalEntry> = single.chain(partial.clone()).collect();
    entries.extend(partial);
    let packs = objects.packs.into_iter().map(|pack| pack.name);
    let packs: Vec<PackName> = packs
        .filter(|pack| moving.contains(&TimelineId(pack.timeline())))
        .collect();
    Ok(Move {
        label: choose_label(repository, timeline, (&single, &packs)).await?,
        timelines: describe(repository, &entries, &timelines, &moving).await?,
        names: histories_last(&single),
        packs,
        staying: Vec::new(),
        from: None,
        copied: None,
    })
}

/// Sets aside what was planned. Whatever interrupts it, planning and doing it again goes on.
pub async fn set_aside(repository: &Repository, plan: &Move) -> Result<(), ArchiveError> {
    let (packs, aside) = (repository.packs(), repository.packs_aside(plan.label));
    staying::check(repository, plan).await?;
    for name in plan.names.iter().chain(&plan.copied) {
        let copied = repository.copy_aside(plan.label, name).await;
        copied.map_err(|error| conflict(error, name))?;
    }
    for name in &plan.packs {
        let copied = repository.copy_pack(&packs, &aside, name).await;
        copied.map_err(|error| conflict(error, &name.to_string()))?;
    }
    staying::keep(repository, plan).await?;
    let (histories, others): (Vec<_>, Vec<_>) =
        plan.names.iter().partition(|name| is_history(name));
    let mut leaving = last_first(others, &plan.packs);
    let last = plan.from.and_then(|_| leaving.pop());
    for one in &leaving {
        remove(repository, plan, one).await?;
    }
    content::refuse_packed(repository, plan).await?;
    refuse_newcomers(repository, plan).await?;
    for name in histories {
        remove(repository, plan, &Removed::Object(name)).await?;
    }
    // While it is there, a repeated call finds the interrupted move, and the server that has to archive this segment
    // keeps waiting.
    if let Some(last) = last {
        remove(repository, plan, &last).await?;
        content::refuse_packed(repository, plan).await?;
    }
    Ok(())
}

/// Removes what has a copy aside.
async fn remove(
    repository: &Repository,
    plan: &Move,
    one: &Removed<'_>,
) -> Result<(), ArchiveError> {
    let (packs, aside) = (repository.packs(), repository.packs_aside(plan.label));
    let removed = match one {
        Removed::Object(name) => repository.remove_copied_aside(plan.label, name).await,
        Removed::Pack(name) => {
            staying::keep_of((repository, &packs), plan, name).await?;
            let removed = repository.remove_copied_pack(&packs, &aside, name).await;
            staying::keep_of((repository, &aside), plan, name).await?;
            removed
        }
    };
    removed.map_err(|error| conflict(error, &one.to_string()))
}

/// Finds out what putting back a label would move, and whether it may be.
pub async fn plan_put_back(
    repository: &Repository,
    label: AsideLabel,
) -> Result<Move, ArchiveError> {
    let WalListing {
        single: entries,
        packs,
    } = repository.list_aside_objects(label).await?;
    let packs: Vec<PackName> = packs.into_iter().map(|pack| pack.name).collect();
    if entries.is_empty() && packs.is_empty() {
        return Err(ArchiveError::Request(format!(
            "nothing is set aside as {label}{}",
            listed(&repository.list_aside_labels().await?)
        )));
    }
    refuse_foreign_history(repository, label, (&entries, &packs)).await?;
    for entry in &entries {
        if content::compare(repository, label, &entry.name).await? == Archived::Other {
            return Err(ArchiveError::Duplicate {
                name: entry.name.clone(),
            });
        }
    }
    for pack in &packs {
        if !is_back(repository, label, pack).await? {
            content::refuse_other(repository, &repository.packs_aside(label), pack).await?;
        }
    }
    Ok(Move {
        names: histories_last(&entries),
        packs,
        ..Move::done(label)
    })
}

/// Puts back what was planned. Whatever interrupts it, planning and doing it again goes on.
pub async fn put_back(repository: &Repository, plan: &Move) -> Result<(), ArchiveError> {
    // A history first: it keeps others away from the number.
    for name in plan.names.iter().rev() {
        if let Err(error) = repository.copy_back(plan.label, name).await {
            unless_same(repository, plan.label, name, error).await?;
        }
    }
    let (packs, aside) = (repository.packs(), repository.packs_aside(plan.label));
    for name in &plan.packs {
        let copied = repository.copy_pack(&aside, &packs, name).await;
        copied.map_err(|error| conflict(error, &name.to_string()))?;
    }
    for name in &plan.packs {
        let removed = repository.remove_copied_pack(&aside, &packs, name).await;
        removed.map_err(|error| conflict(error, &name.to_string()))?;
    }
    for name in &plan.names {
        if let Err(error) = repository.remove_copied_back(plan.label, name).await {
            unless_same(repository, plan.label, name, error).await?;
            let names = std::slice::from_ref(name);
            repository.remove_aside(plan.label, names).await?;
        }
    }
    Ok(())
}

/// What was pushed again at another level, or by another walzip, is no hindrance.
async fn unless_same(
    repository: &Repository,
    label: AsideLabel,
    name: &str,
    error: RepoError,
) -> Result<(), ArchiveError> {
    if matches!(error, RepoError::AlreadyExists { .. })
        && content::compare(repository, label, name).await? == Archived::Same
    {
        return Ok(());
    }
    Err(conflict(error, name))
}

async fn timelines_of(
    repository: &Repository,
    listing: &[WalEntry],
) -> Result<Timelines, ArchiveError> {
    let mut timelines = Timelines::read(repository, listing).await;
    match timelines.take_failure() {
        Some(error) => Err(error),
        None => Ok(timelines),
    }
}

/// A timeline that left no other is where the cluster began.
fn refuse_root(timeline: TimelineId, timelines: &Timelines) -> Result<(), ArchiveError> {
    let history = timelines.history(timeline);
    if timeline.0 <= 1 || history.is_some_and(|history| history.ancestors.is_empty()) {
        return Err(ArchiveError::Request(format!(
            "timeline {timeline} left no other: it is where the cluster began, and cannot be set \
             aside whole; --from SEGMENT sets aside what a stray server has archived on it, from that \
             segment on"
        )));
    }
    Ok(())
}

/// A timeline and those that descend from it.
fn family(timeline: TimelineId, timelines: &Timelines) -> BTreeSet<TimelineId> {
    let descends = |other: &TimelineId| timelines.left_at(timeline, *other).is_some();
    let descendants = timelines.known().filter(descends);
    descendants.chain([timeline]).collect()
}

fn of_timelines<'a>(
    listing: &'a [WalEntry],
    moving: &'a BTreeSet<TimelineId>,
) -> impl Iterator<Item = &'a WalEntry> {
    listing.iter().filter(|entry| {
        let name = entry.name.parse::<WalFileName>();
        name.is_ok_and(|name| moving.contains(&name.timeline()))
    })
}

/// Nothing is left to be moved: either that was done, or there never was anything.
async fn moved_before(
    repository: &Repository,
    timeline: TimelineId,
    listing: &[WalEntry],
) -> Result<Move, ArchiveError> {
    let labels = repository.list_aside_labels().await?;
    let mut before = labels.iter().rev();
    if let Some(&label) = before.find(|label| label.timeline() == timeline.0) {
        return Ok(Move::done(label));
    }
    let names = listing.iter().filter_map(|entry| entry.name.parse().ok());
    let known: BTreeSet<u32> = names.map(|name: WalFileName| name.timeline().0).collect();
    let known: Vec<String> = known.iter().map(ToString::to_string).collect();
    let known = match known.is_empty() {
        true => "no WAL".to_owned(),
        false => format!("timelines {}", known.join(", ")),
    };
    Err(ArchiveError::Request(format!(
        "timeline {timeline} is not in the archive, which has {known}"
    )))
}

/// A later history that cannot be read may name the timeline.
fn refuse_unknown_descent(timeline: TimelineId, timelines: &Timelines) -> Result<(), ArchiveError> {
    let Some((other, error)) = timelines.last_unreadable().filter(|(id, _)| *id > timeline) else {
        return Ok(());
    };
    Err(ArchiveError::Request(format!(
        "whether timeline {other} descends from timeline {timeline} is not known: {error}; restore \
         that history from a copy of the repository, or set timeline {other} aside first"
    )))
}

/// Whoever comes here since a history is lost does not mean those that descend from its timeline. They have its lines.
fn refuse_lost_parent(timeline: TimelineId, timelines: &Timelines) -> Result<(), ArchiveError> {
    let mut descendants = family(timeline, timelines).into_iter();
    let descendant = descendants.find(|&of| of != timeline);
    match (timelines.history(timeline), descendant) {
        (None, Some(descendant)) if timeline.0 > 1 => Err(ArchiveError::Request(format!(
            "the history of timeline {timeline} is lost, and timeline {descendant}, which descends from it, would be set \
             aside too: \"walzip timeline rebuild-history {timeline}\" makes it from that one's"
        ))),
        _ => Ok(()),
    }
}

/// A backup is worth nothing without the WAL that it ended in.
async fn refuse_backups(
    repository: &Repository,
    what: &str,
    moves: impl Fn(SegmentName) -> bool,
) -> Result<(), ArchiveError> {
    let mut labels = Vec::new();
    for label in repository.list_backups().await? {
        let record = match BackupRecord::read(repository, &label).await {
            Ok(record) => record,
            // It cannot be restored, with the WAL or without.
            Err(ArchiveError::Damaged { .. }) => continue,
            Err(error) => return Err(error),
        };
        // Each range is of one timeline.
        let mut required = record.required_wal.iter();
        if required.any(|range| moves(range.first_segment) || moves(range.last_segment)) {
            labels.push(record.label);
        }
    }
    if labels.is_empty() {
        return Ok(());
    }
    Err(ArchiveError::Request(format!(
        "finished backups need the WAL of {what}: {}; if they too are of a branch that is abandoned, \
         remove them (walzip expire --set LABEL) first, and it cannot be restored from them any \
         more; if they are of production, another branch is the one to set aside",
        labels.join(", ")
    )))
}

/// The partial segment at which the timeline left its parent: its promotion archived it, and that
/// of another timeline may have other content under the same name. It stays where a timeline that
/// stays left the same parent in the same segment.
async fn partial_of_parent(
    repository: &Repository,
    listing: &[WalEntry],
    timelines: &Timelines,
    moving: &BTreeSet<TimelineId>,
    timeline: TimelineId,
) -> Result<Option<WalEntry>, ArchiveError> {
    let Some((parent, at)) = timelines.beginning(timeline) else {
        return Ok(None);
    };
    let size = wal_index::segment_size(repository, listing).await?;
    let size = size.unwrap_or(wal_index::DEFAULT_SEGMENT_SIZE);
    let segment = SegmentName::from_lsn(parent, at, size)?;
    let left_there = |other: TimelineId| {
        let beginning = timelines.beginning(other);
        beginning.is_some_and(|(from, at)| {
            from == parent && SegmentName::from_lsn(from, at, size) == Ok(segment)
        })
    };
    let mut staying = timelines.known().filter(|other| !moving.contains(other));
    if staying.any(left_there) {
        return Ok(None);
    }
    let name = WalFileName::Partial(segment).to_string();
    Ok(listing.iter().find(|entry| entry.name == name).cloned())
}

async fn describe(
    repository: &Repository,
    entries: &[WalEntry],
    timelines: &Timelines,
    moving: &BTreeSet<TimelineId>,
) -> Result<Vec<MovedTimeline>, ArchiveError> {
    let mut of: BTreeMap<TimelineId, (u64, Vec<SegmentName>)> =
        moving.iter().map(|&id| (id, Default::default())).collect();
    for entry in entries {
        let Ok(name) = entry.name.parse::<WalFileName>() else {
            continue;
        };
        if let Some((bytes, segments)) = of.get_mut(&name.timeline()) {
            *bytes += entry.size_bytes;
            if let WalFileName::Segment(segment) = name {
                segments.push(segment);
            }
        }
    }
    let mut described = Vec::new();
    for (timeline, (stored_bytes, segments)) in of {
        let first = times(repository, segments.first()).await?;
        let last = times(repository, segments.last()).await?;
        described.push(MovedTimeline {
            timeline,
            segments: segments.len() as u64,
            stored_bytes,
            parent: timelines.beginning(timeline),
            first_time: first.first(),
            last_time: last.last(),
        });
    }
    Ok(described)
}

/// What a segment says of time; nothing where it is damaged, which keeps nobody from moving it.
async fn times(
    repository: &Repository,
    segment: Option<&SegmentName>,
) -> Result<SegmentTimes, ArchiveError> {
    let Some(&segment) = segment else {
        return Ok(SegmentTimes::default());
    };
    match SegmentTimes::read(repository, segment).await {
        Err(ArchiveError::Damaged { .. } | ArchiveError::Undecodable { .. }) => {
            Ok(SegmentTimes::default())
        }
        other => other,
    }
}

/// Stops while the histories are still there when WAL of these timelines has arrived meanwhile: who
/// writes it would write it into the next timeline of this number.
async fn refuse_newcomers(repository: &Repository, plan: &Move) -> Result<(), ArchiveError> {
    // Where a part of a timeline went, the server to which the rest belongs may archive by now.
    let moved = plan.timelines.iter().map(|moved| moved.timeline);
    let part = plan.from.map(|from| from.timeline);
    let moving: BTreeSet<TimelineId> = moved.filter(|&moved| Some(moved) != part).collect();
    let listing = repository.list_wal().await?;
    let mut left = of_timelines(&listing, &moving);
    match left.find(|entry| !is_history(&entry.name) || !plan.names.contains(&entry.name)) {
        None => Ok(()),
        Some(entry) => Err(ArchiveError::Request(format!(
            "{} was archived meanwhile: a server still writes to what is being set aside; stop it, \
             or its archiving, and run this again",
            entry.name
        ))),
    }
}

/// Segments whose history was lost are put back to no timeline that has a history now. Those that
/// are in the archive still, as an interrupted move leaves them, are of that history.
async fn refuse_foreign_history(
    repository: &Repository,
    label: AsideLabel,
    (entries, packs): (&[WalEntry], &[PackName]),
) -> Result<(), ArchiveError> {
    for pack in packs {
        let history = WalFileName::History(TimelineId(pack.timeline())).to_string();
        let is_with_it = entries.iter().any(|entry| entry.name == history);
        if !is_with_it
            && repository.find_wal(&history).await?.is_some()
            && !is_back(repository, label, pack).await?
        {
            return Err(ArchiveError::Duplicate { name: history });
        }
    }
    for entry in entries {
        let Ok(WalFileName::Segment(segment)) = entry.name.parse() else {
            continue;
        };
        let history = WalFileName::History(segment.timeline).to_string();
        let is_with_it = entries.iter().any(|entry| entry.name == history);
        if is_with_it || repository.find_wal(&history).await?.is_none() {
            continue;
        }
        if content::compare(repository, label, &entry.name).await? != Archived::Same {
            return Err(ArchiveError::Duplicate { name: history });
        }
    }
    Ok(())
}

/// Whether a pack that is set aside is in the archive too.
async fn is_back(
    repository: &Repository,
    label: AsideLabel,
    pack: &PackName,
) -> Result<bool, ArchiveError> {
    let aside = repository.packs_aside(label).read(pack).await?;
    Ok(aside.is_some() && repository.packs().read(pack).await? == aside)
}

/// Another object has the name.
fn conflict(error: RepoError, name: &str) -> ArchiveError {
    match error {
        RepoError::AlreadyExists { .. } => ArchiveError::Duplicate {
            name: name.to_owned(),
        },
        other => other.into(),
    }
}

fn stored_bytes(entries: &[WalEntry]) -> u64 {
    entries.iter().map(|entry| entry.size_bytes).sum()
}

fn listed(labels: &[AsideLabel]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
    format!("; there is {}", labels.join(", "))
}
