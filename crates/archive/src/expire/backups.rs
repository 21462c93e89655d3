//! Which backups of a cluster the retention keeps, and whether it is fulfilled.

use std::collections::BTreeMap;

use jiff::Timestamp;
use walzip_pgformat::TimelineId;
use walzip_repo::BackupType;

use super::Retention;
use super::facts::{ClusterFacts, Finished, LabelFacts};
use super::heads::{Head, heads, last_activity};
use super::plan::Reason;

/// So many full backups were taken before WAL that is older than the oldest is removed: what was
/// archived before a repository's first backup is not removed by that.
const FULL_BACKUPS_MIN: usize = 2;

/// What is kept of a cluster by the retention alone.
#[derive(Debug, Default)]
pub(super) struct Retained {
    /// By the label.
    pub(super) reasons: BTreeMap<String, Vec<Reason>>,
    /// Whether as much is kept as was asked for, so that what is older can go.
    pub(super) is_fulfilled: bool,
    /// Whether a complete backup leads to where the cluster is now.
    pub(super) has_backup: bool,
}

/// A backup of the cluster, with what its description says.
type Own<'a> = (&'a LabelFacts, &'a Finished);

/// Decides by the retention. `expired_fulls` counts full backups that were there until just now.
pub(super) fn retained(
    facts: &ClusterFacts,
    labels: &[LabelFacts],
    retention: &Retention,
    expired_fulls: usize,
    now: Timestamp,
) -> Retained {
    let own = of_cluster(facts, labels);
    let records: Vec<&Finished> = own.iter().map(|(_, finished)| *finished).collect();
    let mut heads = heads(facts, &records).into_iter();
    let mut retained = Retained::default();
    let Some(main) = heads.next() else {
        return retained;
    };
    if !facts.lost.is_empty() {
        for (label, _) in &own {
            add(&mut retained, label, Reason::HistoryLost);
        }
        retained.has_backup = own.iter().any(is_complete);
        return retained;
    }
    let newest = last_activity(facts, &records).unwrap_or(now);
    // Of a cluster that archives nothing any more, the last part stays.
    let cutoff = retention.window.map(|window| {
        now.min(newest)
            .saturating_sub(window)
            .unwrap_or(Timestamp::MIN)
    });
    let along = along(facts, &own, main);
    if !along.iter().any(is_complete) {
        for (label, _) in &own {
            add(&mut retained, label, Reason::NothingNewer);
        }
        return retained;
    }
    retained.has_backup = true;
    retained.is_fulfilled = is_fulfilled(&along, retention, cutoff, expired_fulls);
    let oldest = keep(&mut retained, &along, retention, cutoff).unwrap_or(now);
    let is_alive =
        |head: &Head| head.last >= oldest || facts.competing.contains_key(&head.timeline);
    let alive: Vec<Head> = heads.filter(is_alive).collect();
    if !alive.is_empty() {
        name_timeline(&mut retained, main.timeline);
    }
    for head in alive {
        let along = self::along(facts, &own, head);
        let mut of_branch = Retained::default();
        keep(&mut of_branch, &along, retention, cutoff);
        name_timeline(&mut of_branch, head.timeline);
        for (label, _) in &along {
            for reason in of_branch.reasons.remove(&label.name()).unwrap_or_default() {
                add(&mut retained, label, reason);
            }
        }
    }
    for (label, finished) in &own {
        if finished.start.time >= oldest && !retained.reasons.contains_key(&label.name()) {
            add(&mut retained, label, Reason::OtherBranch);
        }
    }
    retained
}

/// The finished backups of a cluster, in the order in which they began.
pub(super) fn of_cluster<'a>(facts: &ClusterFacts, labels: &'a [LabelFacts]) -> Vec<Own<'a>> {
    let finished = labels
        .iter()
        .filter_map(|label| Some((label, label.finished()?)));
    let mut own: Vec<Own<'_>> = finished
        .filter(|(_, finished)| finished.cluster == facts.cluster)
        .collect();
    own.sort_by_key(|(label, finished)| (finished.start.time, label.label.clone()));
    own
}

/// The backups from which a recovery leads to a head.
fn along<'a>(facts: &ClusterFacts, own: &[Own<'a>], head: Head) -> Vec<Own<'a>> {
    let leads = |own: &&Own<'a>| {
        let stop = own.1.stop;
        facts
            .timelines
            .passes(head.timeline, stop.timeline, stop.lsn)
    };
    own.iter().filter(leads).copied().collect()
}

fn is_complete((_, finished): &Own<'_>) -> bool {
    finished.fault.is_none()
}

fn is_full(own: &Own<'_>) -> bool {
    own.1.backup_type == BackupType::Full && is_complete(own)
}

fn is_before(own: &Own<'_>, cutoff: Timestamp) -> bool {
    is_complete(own) && own.1.finished_by() <= cutoff
}

fn is_fulfilled(
    along: &[Own<'_>],
    retention: &Retention,
    cutoff: Option<Timestamp>,
    expired_fulls: usize,
) -> bool {
    let wanted = retention.full.map_or(0, |full| full.get() as usize);
    let fulls = along.iter().filter(|own| is_full(own)).count() + expired_fulls;
    fulls >= wanted.max(FULL_BACKUPS_MIN)
        && cutoff.is_none_or(|cutoff| along.iter().any(|own| is_before(own, cutoff)))
}

/// Keeps what is wanted along a branch; returns when the oldest of it began.
fn keep(
    retained: &mut Retained,
    along: &[Own<'_>],
    retention: &Retention,
    cutoff: Option<Timestamp>,
) -> Option<Timestamp> {
    let mut firsts = Vec::new();
    if let Some(full) = retention.full {
        let fulls = along.iter().enumerate().filter(|(_, own)| is_full(own));
        let nth = fulls.rev().nth(full.get() as usize - 1);
        firsts.push((
            nth.map_or(0, |(index, _)| index),
            Reason::RetentionFull { timeline: None },
        ));
    }
    if let Some(cutoff) = cutoff {
        let newest = along.iter().rposition(|own| is_before(own, cutoff));
        firsts.push((newest.unwrap_or(0), Reason::RetentionWindow));
    }
    for (first, reason) in &firsts {
        for (label, _) in along.iter().skip(*first) {
            add(retained, label, reason.clone());
        }
    }
    let first = firsts.iter().map(|(first, _)| *first).min()?;
    along.get(first).map(|(_, finished)| finished.start.time)
}

/// Says along which timeline the full backups were counted.
fn name_timeline(retained: &mut Retained, counted_along: TimelineId) {
    for reason in retained.reasons.values_mut().flatten() {
        if let Reason::RetentionFull { timeline } = reason {
            *timeline = Some(counted_along.0);
        }
    }
}

fn add(retained: &mut Retained, label: &LabelFacts, reason: Reason) {
    let reasons = retained.reasons.entry(label.name()).or_default();
    if !reasons.contains(&reason) {
        reasons.push(reason);
    }
}
