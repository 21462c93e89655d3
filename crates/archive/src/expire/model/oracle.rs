//! What has to stay, from the life itself: timelines are a tree here, and ways are walked segment by
//! segment.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_repo::BackupType;

use super::life::{Life, SIZE, Tree};
use crate::expire::ExpireRequest;
use crate::expire::facts::{ClusterFacts, Finished, LabelFacts, LabelState, time_of};
use crate::expire::plan::{ClusterPlan, Plan, Reason};

type Checked = Result<(), String>;
type Own<'a> = (&'a LabelFacts, &'a Finished);

pub(super) struct Oracle<'a> {
    life: &'a Life,
    request: &'a ExpireRequest,
    plan: &'a Plan,
    removed: BTreeSet<String>,
}

impl<'a> Oracle<'a> {
    pub(super) fn new(life: &'a Life, request: &'a ExpireRequest, plan: &'a Plan) -> Oracle<'a> {
        let removed = plan.backups.iter().filter(|of| of.removed);
        Oracle {
            life,
            request,
            plan,
            removed: removed.map(|of| of.label.clone()).collect(),
        }
    }

    /// How many backups are kept by their pins alone.
    pub(super) fn by_pins(&self) -> usize {
        let of = |reasons: &Vec<Reason>| *reasons == [Reason::Pinned];
        self.plan
            .backups
            .iter()
            .filter(|backup| of(&backup.reasons))
            .count()
    }

    pub(super) fn check(&self) -> Checked {
        for label in &self.life.inventory.labels {
            self.check_label(label)?;
        }
        for (number, facts) in self.life.inventory.clusters.iter().enumerate() {
            let plan = &self.plan.clusters[number];
            let tree = &self.life.trees[number];
            if !plan.superseded {
                self.check_retention(facts, tree)?;
                self.check_competing(facts, tree)?;
            } else {
                self.check_superseded(facts)?;
            }
            self.check_wal(facts, plan, tree)?;
        }
        Ok(())
    }

    fn own(&self, facts: &ClusterFacts) -> Vec<Own<'a>> {
        let labels = self.life.inventory.labels.iter();
        let finished = labels.filter_map(|label| Some((label, label.finished()?)));
        finished
            .filter(|(_, of)| of.cluster == facts.cluster)
            .collect()
    }

    fn goes(&self, label: &LabelFacts) -> bool {
        self.removed.contains(&label.name())
    }

    /// What a label by itself demands.
    fn check_label(&self, label: &LabelFacts) -> Checked {
        let name = label.name();
        let age = self
            .life
            .now
            .duration_since(label.began.max(label.last_object));
        let must_stay = match &label.state {
            LabelState::Finished(_) => label.is_pinned,
            LabelState::Unreadable(_) => true,
            LabelState::Unfinished(_) => age < SignedDuration::from_hours(7 * 24),
            LabelState::HalfExpired(_) => false,
        };
        if must_stay && self.goes(label) {
            return Err(format!("{name} must stay"));
        }
        if !must_stay && label.finished().is_none() && !self.goes(label) {
            return Err(format!("{name} was given up and stays"));
        }
        if self.goes(label) {
            return Ok(());
        }
        // What stays keeps what it needs, as far as that was there.
        let needs = |other: &LabelFacts| match &label.state {
            LabelState::Finished(of) => of.references.contains(&other.name()),
            LabelState::Unfinished(Some(references)) => references.contains(&other.name()),
            LabelState::Unfinished(None) | LabelState::Unreadable(_) => {
                label.label.backup_type() != BackupType::Full && other.began < label.began
            }
            LabelState::HalfExpired(_) => false,
        };
        let others = self.life.inventory.labels.iter();
        let mut lost =
            others.filter(|other| other.finished().is_some() && self.goes(other) && needs(other));
        match lost.next() {
            Some(lost) => Err(format!("{name} stays and needs {}", lost.label)),
            None => Ok(()),
        }
    }

    /// Along the timeline that lives, as many full backups stay as were asked for, and the window.
    fn check_retention(&self, facts: &ClusterFacts, tree: &Tree) -> Checked {
        let own = self.own(facts);
        let Some(living) = self.living(facts, tree, &own) else {
            return Ok(());
        };
        let mut serving: Vec<Own<'_>> = own
            .into_iter()
            .filter(|(_, of)| {
                let line = tree.index(of.stop.timeline);
                tree.leads(living, line, of.stop.lsn.0) && of.fault.is_none()
            })
            .collect();
        serving.sort_by_key(|(_, of)| std::cmp::Reverse(of.start.time));
        let mut fulls = 0;
        for (label, of) in &serving {
            let Some(wanted) = self.request.retention.full else {
                break;
            };
            if fulls < wanted.get() && self.goes(label) {
                return Err(format!("{} is one of the last {wanted}", label.label));
            }
            fulls += u32::from(of.backup_type == BackupType::Full);
        }
        let Some(window) = self.request.retention.window else {
            return Ok(());
        };
        let cutoff = self.life.before(self.life.now, window);
        for (label, of) in &serving {
            if self.goes(label) {
                return Err(format!(
                    "{} is in the window, or the one before",
                    label.label
                ));
            }
            if of.stop.time.max(of.described) <= cutoff {
                break;
            }
        }
        Ok(())
    }

    /// Of each timeline that may be the one that is meant, the newest backup has to stay.
    fn check_competing(&self, facts: &ClusterFacts, tree: &Tree) -> Checked {
        if tree.has_lost_history {
            return Ok(());
        }
        let own = self.own(facts);
        let has_written = |timeline: TimelineId| {
            let of_timeline = format!("{:08X}", timeline.0);
            let is_segment = |name: &str| name.starts_with(&of_timeline) && name.len() == 24;
            facts.wal.iter().any(|entry| is_segment(&entry.name))
                || own.iter().any(|(_, of)| of.stop.timeline == timeline)
        };
        for &timeline in facts.competing.keys().filter(|of| has_written(**of)) {
            let goal = tree.index(timeline);
            let leads = |(_, of): &Own<'_>| {
                let line = tree.index(of.stop.timeline);
                tree.leads(goal, line, of.stop.lsn.0) && of.fault.is_none()
            };
            let serving = own.iter().copied().filter(leads);
            let newest = serving.max_by_key(|(label, of)| (of.start.time, label.name()));
            if let Some((label, _)) = newest.filter(|(label, _)| self.goes(label)) {
                return Err(format!(
                    "{} is the newest of timeline {timeline}",
                    label.label
                ));
            }
        }
        Ok(())
    }

    /// The line that was written to last.
    fn living(&self, facts: &ClusterFacts, tree: &Tree, own: &[Own<'_>]) -> Option<usize> {
        if tree.has_lost_history {
            return None;
        }
        let wal = facts
            .wal
            .iter()
            .filter_map(|entry| match entry.name.parse() {
                Ok(WalFileName::Segment(segment)) => {
                    Some((time_of(entry.modified), segment.timeline))
                }
                _ => None,
            });
        let stops = own.iter().map(|(_, of)| (of.stop.time, of.stop.timeline));
        let (_, timeline) = wal.chain(stops).max()?;
        Some(tree.index(timeline))
    }

    /// An older cluster goes only behind a newer one that has as much as was asked for.
    fn check_superseded(&self, facts: &ClusterFacts) -> Checked {
        let newest = self.life.inventory.clusters.last().expect("a cluster");
        if newest.cluster == facts.cluster {
            return Err("the newest cluster is superseded".to_owned());
        }
        let stays = self
            .own(newest)
            .into_iter()
            .filter(|(label, _)| !self.goes(label));
        let stays: Vec<Own<'_>> = stays.collect();
        let fulls = stays
            .iter()
            .filter(|(_, of)| of.backup_type == BackupType::Full && of.fault.is_none());
        let wanted = self
            .request
            .retention
            .full
            .map_or(1, |full| full.get() as usize);
        if fulls.count() < wanted {
            return Err("the newest cluster has fewer full backups than wanted".to_owned());
        }
        if let Some(window) = self.request.retention.window {
            let cutoff = self.life.before(self.life.now, window);
            if !stays
                .iter()
                .any(|(_, of)| of.stop.time.max(of.described) <= cutoff)
            {
                return Err("the newest cluster does not fill the window".to_owned());
            }
        }
        Ok(())
    }

    /// Backups that are kept for every moment after them.
    fn replayed(&self, facts: &ClusterFacts) -> Vec<Own<'a>> {
        let by_pin = |name: &String| {
            let plan = self.plan.backups.iter().find(|of| of.label == *name);
            plan.expect("every label")
                .reasons
                .iter()
                .all(|reason| match reason {
                    Reason::Pinned => true,
                    Reason::NeededBy { label } => self.is_pinned_alone(label),
                    _ => false,
                })
        };
        let own = self.own(facts).into_iter();
        own.filter(|(label, _)| !self.goes(label) && !by_pin(&label.name()))
            .collect()
    }

    fn is_pinned_alone(&self, label: &str) -> bool {
        let plan = self.plan.backups.iter().find(|of| of.label == label);
        plan.expect("every label")
            .reasons
            .iter()
            .all(|reason| match reason {
                Reason::Pinned => true,
                Reason::NeededBy { label } => self.is_pinned_alone(label),
                _ => false,
            })
    }

    fn check_wal(&self, facts: &ClusterFacts, plan: &ClusterPlan, tree: &Tree) -> Checked {
        let gone: BTreeSet<&str> = plan.wal.iter().map(|wal| wal.name.as_str()).collect();
        for (label, of) in self.own(facts) {
            let mut required = of.required.iter().map(ToString::to_string);
            if !self.goes(label)
                && let Some(lost) = required.find(|name| gone.contains(name.as_str()))
            {
                return Err(format!("{} stays and requires {lost}", label.label));
            }
        }
        let replayed = self.replayed(facts);
        for (label, of) in &replayed {
            for name in ways(tree, of) {
                if gone.contains(name.as_str()) {
                    return Err(format!("{} is replayed through {name}", label.label));
                }
            }
        }
        let oldest = replayed.iter().map(|(_, of)| of.start.time).min();
        for entry in facts
            .wal
            .iter()
            .filter(|entry| gone.contains(entry.name.as_str()))
        {
            if entry.name.ends_with(".history") {
                return Err(format!("{} is a history", entry.name));
            }
            let archived = time_of(entry.modified);
            if oldest.is_some_and(|oldest| archived >= oldest) {
                return Err(format!("{} is younger than what stays", entry.name));
            }
            self.check_unknown(archived, &entry.name)?;
        }
        if !gone.is_empty() && oldest.is_none() && !plan.superseded {
            return Err("WAL goes, and nothing stays that is replayed".to_owned());
        }
        self.check_nothing_idle(facts, plan, tree, &replayed)
    }

    /// A backup that does not say what it needs may need what was archived a day before it.
    fn check_unknown(&self, archived: Timestamp, name: &str) -> Checked {
        for label in &self.life.inventory.labels {
            let may_need = label.finished().is_none() && !self.goes(label);
            let since = self
                .life
                .before(label.began, SignedDuration::from_hours(24));
            if may_need && archived >= since {
                return Err(format!("{} may need {name}", label.label));
            }
        }
        Ok(())
    }

    /// Where nothing is out of the ordinary, all that is older than the oldest backup goes.
    fn check_nothing_idle(
        &self,
        facts: &ClusterFacts,
        plan: &ClusterPlan,
        tree: &Tree,
        replayed: &[Own<'_>],
    ) -> Checked {
        let labels = &self.life.inventory.labels;
        let own = self.own(facts);
        let is_ordinary = tree.lines.len() == 1
            && labels.iter().all(|label| label.finished().is_some())
            && own.iter().all(|(_, of)| of.fault.is_none());
        let fulls = own
            .iter()
            .filter(|(_, of)| of.backup_type == BackupType::Full)
            .count();
        let wanted = self
            .request
            .retention
            .full
            .map_or(2, |full| full.get().max(2) as usize);
        let window = self.request.retention.window.unwrap_or_default();
        let newest = facts.wal.iter().map(|entry| time_of(entry.modified)).max();
        let newest = newest.unwrap_or(self.life.now).min(self.life.now);
        let cutoff = self.life.before(newest, window);
        let fills = self.request.retention.window.is_none()
            || own
                .iter()
                .any(|(_, of)| of.stop.time.max(of.described) <= cutoff);
        let Some((_, first)) = replayed.iter().min_by_key(|(_, of)| of.start.time) else {
            return Ok(());
        };
        if !is_ordinary || fulls < wanted || !fills {
            return Ok(());
        }
        let mut expected: BTreeSet<String> = facts
            .wal
            .iter()
            .filter(|entry| time_of(entry.modified) < first.start.time)
            .map(|entry| entry.name.clone())
            .collect();
        for (label, of) in own {
            for segment in &of.required {
                if !self.goes(label) {
                    expected.remove(&segment.to_string());
                }
            }
        }
        let begin = first.start.lsn.0 / u64::from(SIZE);
        let is_before = |name: &String| {
            let segment: SegmentName = name.parse().expect("a segment");
            segment.number(SIZE).expect("a number") < begin
        };
        expected.retain(is_before);
        let found: BTreeSet<String> = plan.wal.iter().map(|wal| wal.name.clone()).collect();
        match found == expected {
            true => Ok(()),
            false => Err(format!("{expected:?} is of no use, and {found:?} goes")),
        }
    }
}

/// The segments on all ways from a backup, to the end of each timeline to which one leads.
fn ways(tree: &Tree, of: &Finished) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let line = tree.index(of.stop.timeline);
    let begin = of.stop.lsn.0 / u64::from(SIZE);
    for goal in 0..tree.lines.len() {
        if !tree.leads(goal, line, of.stop.lsn.0) {
            continue;
        }
        for number in begin..tree.lines[goal].next {
            let line = tree.line_at(goal, number);
            let timeline = walzip_pgformat::TimelineId(tree.lines[line].id);
            let name = SegmentName::from_number(timeline, number, SIZE);
            names.insert(name.expect("a name").to_string());
        }
    }
    names
}
