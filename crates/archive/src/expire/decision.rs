//! Why each backup stays, and with each cluster's WAL what of it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use walzip_repo::{BackupType, ClusterIdentity};

use super::ExpireRequest;
use super::backups::{Retained, of_cluster, retained};
use super::facts::{ClusterFacts, Finished, Inventory, LabelFacts, LabelState, time_of};
use super::heads::last_activity;
use super::plan::{AsidePart, BackupPlan, BackupState, ClusterPlan, Reason, WalReason, parts};
use super::wal::{self, Needs};
use crate::archived::competing::CompetingTimeline;

/// Why each label stays, and which are replayed from.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// By the label; one without a reason goes.
    kept: BTreeMap<String, Vec<Reason>>,
    /// Those of them that are kept by their pins alone.
    own_moment: BTreeSet<String>,
    retained: BTreeMap<String, Retained>,
    superseded: BTreeSet<String>,
    /// When the oldest backup began that may need anything.
    unknown: Option<Timestamp>,
    /// Only what was named goes.
    is_named: bool,
}

impl Decision {
    /// Only what was named goes; the caller says what that is.
    pub(super) fn of_named() -> Decision {
        Decision {
            is_named: true,
            ..Decision::default()
        }
    }

    pub(super) fn by_retention(
        inventory: &Inventory,
        request: &ExpireRequest,
        now: Timestamp,
    ) -> Decision {
        let mut decision = Decision::default();
        decision.retain_clusters(inventory, request, now);
        decision.keep_unknown(inventory, request, now);
        decision.keep_needed(inventory);
        let retained: BTreeSet<String> = decision.kept.keys().cloned().collect();
        for label in inventory.labels.iter().filter(|label| label.is_pinned) {
            if label.finished().is_some() {
                decision.add(&label.name(), Reason::Pinned);
            }
        }
        decision.keep_needed(inventory);
        let kept = decision.kept.keys();
        let by_pins = kept.filter(|label| !retained.contains(*label));
        decision.own_moment = by_pins.cloned().collect();
        decision
    }

    fn retain_clusters(&mut self, inventory: &Inventory, request: &ExpireRequest, now: Timestamp) {
        let mut newest = None;
        for facts in inventory.clusters.iter().rev() {
            let of = facts.cluster;
            let name = of.name();
            let expired = expired_fulls(inventory, of);
            let labels = &inventory.labels;
            let retained = retained(facts, labels, &request.retention, expired, now);
            let Some(begin) = newest else {
                // What the newest one has to have begun with for older ones to be superseded.
                let begin = oldest_start(facts, labels, &retained);
                newest = Some(begin.filter(|_| retained.is_fulfilled));
                self.take(name, retained);
                continue;
            };
            let own: Vec<&Finished> = of_cluster(facts, labels)
                .into_iter()
                .map(|(_, finished)| finished)
                .collect();
            let last = last_activity(facts, &own);
            if begin.is_some_and(|begin| last.is_none_or(|last| last < begin)) {
                self.superseded.insert(name);
            } else {
                self.take(name, retained);
            }
        }
    }

    fn take(&mut self, cluster: String, retained: Retained) {
        for (label, reasons) in &retained.reasons {
            self.kept.insert(label.clone(), reasons.clone());
        }
        self.retained.insert(cluster, retained);
    }

    /// Keeps what may still run or cannot be read, and all that it may need.
    fn keep_unknown(&mut self, inventory: &Inventory, request: &ExpireRequest, now: Timestamp) {
        for label in &inventory.labels {
            let references = match &label.state {
                LabelState::Finished(_) | LabelState::HalfExpired(_) => continue,
                LabelState::Unreadable(problem) => {
                    let problem = problem.clone();
                    self.add(&label.name(), Reason::Unreadable { problem });
                    None
                }
                LabelState::Unfinished(references) => {
                    let last = label.began.max(label.last_object);
                    if now.duration_since(last) >= request.unfinished_age {
                        continue;
                    }
                    self.add(&label.name(), Reason::MayRun);
                    references.clone()
                }
            };
            let unknown = self.unknown.unwrap_or(label.began);
            self.unknown = Some(unknown.min(label.began));
            self.keep_for(inventory, label, references);
        }
    }

    fn keep_for(
        &mut self,
        inventory: &Inventory,
        label: &LabelFacts,
        references: Option<Vec<String>>,
    ) {
        let is_full = label.label.backup_type() == BackupType::Full;
        for other in &inventory.labels {
            if other.finished().is_none() || other.label == label.label {
                continue;
            }
            let needing = label.name();
            match &references {
                Some(references) if references.contains(&other.name()) => {
                    self.add(&other.name(), Reason::NeededBy { label: needing });
                }
                None if !is_full && other.began <= label.began => {
                    self.add(&other.name(), Reason::MayBeNeededBy { label: needing });
                }
                _ => {}
            }
        }
    }

    /// Keeps what is needed by what is kept.
    fn keep_needed(&mut self, inventory: &Inventory) {
        let mut open: Vec<String> = self.kept.keys().cloned().collect();
        while let Some(needing) = open.pop() {
            let found = inventory.labels.iter().find(|of| of.name() == needing);
            let Some(finished) = found.and_then(LabelFacts::finished) else {
                continue;
            };
            for needed in &finished.references {
                if !inventory.labels.iter().any(|of| of.name() == *needed) {
                    continue;
                }
                if !self.kept.contains_key(needed) {
                    open.push(needed.clone());
                }
                let label = needing.clone();
                self.add(needed, Reason::NeededBy { label });
            }
        }
    }

    pub(super) fn add(&mut self, label: &str, reason: Reason) {
        let reasons = self.kept.entry(label.to_owned()).or_default();
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }

    pub(super) fn backup(&self, label: &LabelFacts) -> BackupPlan {
        let kept = self.kept.get(&label.name());
        let (state, cluster, leaves) = match &label.state {
            LabelState::Finished(of) => {
                let leaves = if self.is_named {
                    Reason::Named
                } else {
                    Reason::NotRetained
                };
                (BackupState::Finished, Some(of.cluster.name()), leaves)
            }
            LabelState::Unreadable(_) => (BackupState::Unreadable, None, Reason::Named),
            LabelState::Unfinished(_) => (BackupState::Unfinished, None, Reason::Leftover),
            LabelState::HalfExpired(of) => {
                let of = of.map(ClusterIdentity::name);
                (BackupState::HalfExpired, of, Reason::Leftover)
            }
        };
        BackupPlan {
            label: label.name(),
            state,
            cluster,
            removed: kept.is_none(),
            reasons: kept.cloned().unwrap_or_else(|| vec![leaves]),
            stored_bytes: label.stored_bytes,
            key: label.label.clone(),
        }
    }

    pub(super) fn cluster(
        &self,
        inventory: &Inventory,
        request: &ExpireRequest,
        facts: &ClusterFacts,
    ) -> ClusterPlan {
        let name = facts.cluster.name();
        let is_superseded = self.superseded.contains(&name);
        let needs = self.needs(inventory, facts);
        let sorted = match self.reason_to_keep_all(facts) {
            Some(reason) => wal::keep_all(facts, reason),
            None => wal::sort(facts, &needs),
        };
        let asks_for_aside = request.aside && !self.is_named && !needs.from.is_empty();
        ClusterPlan {
            cluster: name,
            superseded: is_superseded,
            competing: match is_superseded {
                true => Vec::new(),
                false => facts.competing.iter().map(CompetingTimeline::of).collect(),
            },
            lost_histories: match is_superseded {
                true => Vec::new(),
                false => facts.lost.iter().map(|timeline| timeline.0).collect(),
            },
            removed_wal: parts(&sorted.removed),
            kept_wal: sorted.kept,
            removed_aside: match asks_for_aside {
                true => aside_before(facts, needs.recent),
                false => Vec::new(),
            },
            key: facts.cluster,
            wal: sorted.removed,
            packs: sorted.packs,
        }
    }

    fn reason_to_keep_all(&self, facts: &ClusterFacts) -> Option<WalReason> {
        let cluster = facts.cluster.name();
        if self.is_named {
            return Some(WalReason::NotNamed);
        }
        if self.superseded.contains(&cluster) {
            return None;
        }
        if !facts.lost.is_empty() {
            return Some(WalReason::Uncertain);
        }
        match self.retained.get(&cluster) {
            Some(retained) if !retained.has_backup => Some(WalReason::NoBackup),
            Some(retained) if retained.is_fulfilled => None,
            Some(_) => Some(WalReason::NotFulfilled),
            None => Some(WalReason::NoBackup),
        }
    }

    fn needs<'a>(&self, inventory: &'a Inventory, facts: &ClusterFacts) -> Needs<'a> {
        let own = of_cluster(facts, &inventory.labels);
        let is_kept = |label: &LabelFacts| self.kept.contains_key(&label.name());
        let kept: Vec<_> = own
            .into_iter()
            .filter(|(label, _)| is_kept(label))
            .collect();
        let from: Vec<&Finished> = kept
            .iter()
            .filter(|(label, _)| !self.own_moment.contains(&label.name()))
            .map(|(_, finished)| *finished)
            .collect();
        // Of a superseded cluster everything is older than what is kept of the newest.
        let oldest = from.iter().map(|of| of.start.time).min();
        Needs {
            recent: oldest.unwrap_or(Timestamp::MAX),
            from,
            kept: kept.into_iter().map(|(_, finished)| finished).collect(),
            unknown: self.unknown,
        }
    }
}

/// Full backups of a cluster whose expiry was interrupted: until just now they were there.
fn expired_fulls(inventory: &Inventory, cluster: ClusterIdentity) -> usize {
    let is_one = |label: &&LabelFacts| {
        label.label.backup_type() == BackupType::Full
            && matches!(label.state, LabelState::HalfExpired(of) if of == Some(cluster))
    };
    inventory.labels.iter().filter(is_one).count()
}

/// When the oldest backup began that is retained.
fn oldest_start(
    facts: &ClusterFacts,
    labels: &[LabelFacts],
    retained: &Retained,
) -> Option<Timestamp> {
    let own = of_cluster(facts, labels).into_iter();
    let kept = own.filter(|(label, _)| retained.reasons.contains_key(&label.name()));
    kept.map(|(_, finished)| finished.start.time).min()
}

/// What was set aside before the oldest kept backup began.
fn aside_before(facts: &ClusterFacts, oldest: Timestamp) -> Vec<AsidePart> {
    let is_old = |entries: &[walzip_repo::WalEntry]| {
        let set_aside = |entry: &walzip_repo::WalEntry| entry.packed.unwrap_or(entry.modified);
        entries
            .iter()
            .all(|entry| time_of(set_aside(entry)) < oldest)
    };
    facts
        .aside
        .iter()
        .filter(|(_, entries)| is_old(entries))
        .map(|(label, entries)| AsidePart {
            label: label.to_string(),
            objects: entries.len() as u64,
            stored_bytes: entries.iter().map(|entry| entry.size_bytes).sum(),
            key: *label,
            names: entries
                .iter()
                .filter(|entry| entry.packed.is_none())
                .map(|entry| entry.name.clone())
                .collect(),
            packs: facts
                .packs_aside
                .iter()
                .filter(|(of, _)| of == label)
                .map(|(_, pack)| pack.clone())
                .collect(),
        })
        .collect()
}
