//! The decision: from what there is and what is asked for, what goes and what stays.
//!
//! Nothing here reads or writes: the same inventory, request and moment give the same plan.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::decision::Decision;
use super::facts::{Inventory, LabelFacts, time_of};
use super::plan::Plan;
use super::{ExpireRequest, named};
use crate::error::ArchiveError;

/// Clocks of several machines differ by less.
const CLOCK_DIFFERENCE: SignedDuration = SignedDuration::from_mins(5);

/// Decides what goes.
pub(super) fn decide(
    inventory: &Inventory,
    request: &ExpireRequest,
    now: Timestamp,
) -> Result<Plan, ArchiveError> {
    if !request.ignores_clock {
        check_clock(inventory, now)?;
    }
    let decision = match request.set.is_empty() {
        true => Decision::by_retention(inventory, request, now),
        false => named::decide(inventory, request)?,
    };
    let plan = Plan {
        format: 1,
        now,
        backups: inventory
            .labels
            .iter()
            .map(|label| decision.backup(label))
            .collect(),
        clusters: inventory
            .clusters
            .iter()
            .map(|facts| decision.cluster(inventory, request, facts))
            .collect(),
    };
    if !request.takes_last {
        check_left(inventory, &plan, !request.set.is_empty())?;
    }
    Ok(plan)
}

/// Refuses to go on where something is from the future: then the clock is wrong, or was.
fn check_clock(inventory: &Inventory, now: Timestamp) -> Result<(), ArchiveError> {
    let labels = inventory.labels.iter().map(|label| {
        let stop = label.finished().map(|finished| finished.stop.time);
        let time = stop.map_or(label.began, |stop| stop.max(label.began));
        (time, format!("backup {}", label.label))
    });
    let wal = inventory.clusters.iter().flat_map(|facts| &facts.wal);
    let wal = wal.map(|entry| (time_of(entry.modified), entry.name.clone()));
    let Some((newest, object)) = labels.chain(wal).max() else {
        return Ok(());
    };
    let latest = now.saturating_add(CLOCK_DIFFERENCE).unwrap_or(now);
    match newest > latest {
        true => Err(ArchiveError::ClockBehind {
            now,
            newest,
            object,
        }),
        false => Ok(()),
    }
}

/// Nothing goes from a cluster unless a complete backup of it stays, or of the newest one.
fn check_left(inventory: &Inventory, plan: &Plan, is_named: bool) -> Result<(), ArchiveError> {
    let removed: BTreeSet<&str> = plan
        .backups
        .iter()
        .filter(|backup| backup.removed)
        .map(|backup| backup.label.as_str())
        .collect();
    let newest = inventory.clusters.last().map(|facts| facts.cluster);
    for cluster in &plan.clusters {
        let is_left = |label: &LabelFacts| {
            label.finished().is_some_and(|finished| {
                let of = Some(finished.cluster);
                (of == Some(cluster.key) || of == newest)
                    && finished.fault.is_none()
                    && !removed.contains(label.name().as_str())
            })
        };
        let loses = |label: &LabelFacts| {
            let finished = label.finished();
            removed.contains(label.name().as_str())
                && finished.is_some_and(|of| of.cluster == cluster.key)
        };
        let is_touched = !cluster.wal.is_empty() || inventory.labels.iter().any(loses);
        if is_touched && !inventory.labels.iter().any(is_left) {
            return Err(ArchiveError::NoBackup(format!(
                "none of cluster {} would be left that is complete; nothing was removed{}",
                cluster.cluster,
                match is_named {
                    true => " (--force removes what --set names)",
                    false => "",
                }
            )));
        }
    }
    Ok(())
}
