//! The life of an archive: servers write, fail over, are restored to earlier moments and upgraded;
//! backups are taken, pinned, given up and damaged; objects are lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::{AsideLabel, BackupLabel, BackupType, ClusterIdentity, WalEntry};

use crate::archived::timelines::Timelines;
use crate::backups::backup_record::Moment;
use crate::error::other_branch::PutAway;
use crate::expire::facts::{ClusterFacts, Finished, Inventory, LabelFacts, LabelState};
use crate::expire::plan::Plan;

pub(super) const SIZE: u32 = 16 << 20;
/// 2026-01-01.
const BEGIN_SECONDS: u64 = 1_767_225_600;

/// SplitMix64.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit.max(1) as u64) as usize
    }

    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A timeline as it came to be.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) id: u32,
    /// The line that it left, and at which position.
    pub(super) parent: Option<(usize, u64)>,
    /// The number of the segment that it writes next.
    pub(super) next: u64,
    /// The first segment of its own.
    first: u64,
}

/// A cluster's timelines.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    pub(super) lines: Vec<Line>,
    /// Where the cluster is now.
    pub(super) current: usize,
    pub(super) has_lost_history: bool,
}

impl Tree {
    /// The line of the segment with this number on the way to a line.
    pub(super) fn line_at(&self, goal: usize, number: u64) -> usize {
        let end = (number + 1) * u64::from(SIZE);
        let mut line = goal;
        while let Some((parent, at)) = self.lines[line].parent {
            // A child has its own copy of the segment in which it left its parent.
            if end > at {
                break;
            }
            line = parent;
        }
        line
    }

    /// Whether a position on a line is on the way to another one.
    pub(super) fn leads(&self, goal: usize, line: usize, at: u64) -> bool {
        let (mut of, mut end) = (goal, u64::MAX);
        while of != line {
            let Some((parent, left)) = self.lines[of].parent else {
                return false;
            };
            (of, end) = (parent, end.min(left));
        }
        at <= end
    }

    pub(super) fn index(&self, timeline: TimelineId) -> usize {
        let found = self.lines.iter().position(|line| line.id == timeline.0);
        found.expect("a timeline of this life")
    }
}

pub(super) struct Life {
    pub(super) inventory: Inventory,
    pub(super) trees: Vec<Tree>,
    pub(super) now: Timestamp,
    seconds: u64,
}

impl Life {
    pub(super) fn lead(random: &mut Random) -> Life {
        let mut life = Life {
            inventory: Inventory::default(),
            trees: Vec::new(),
            now: Timestamp::UNIX_EPOCH,
            seconds: BEGIN_SECONDS,
        };
        life.upgrade();
        let is_quiet = random.chance(25);
        for _ in 0..random.below(60) + 5 {
            let event = random.below(100);
            match event {
                0..45 => life.write(random),
                45..75 => life.back_up(random),
                75..80 if !is_quiet => life.fail_over(random),
                80..83 if !is_quiet => life.go_back(random),
                83..86 if !is_quiet => life.copy_writes(random),
                86..90 if !is_quiet => life.leave_unfinished(random),
                90..92 if !is_quiet => life.upgrade(),
                92..95 if !is_quiet => life.lose(random),
                95..98 => life.pin(random),
                98 if !is_quiet => life.set_aside(),
                _ => life.seconds += 3600 * random.below(72) as u64,
            }
        }
        life.finish();
        life
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_second(self.seconds as i64).expect("a time")
    }

    fn store_time(&self, later: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.seconds + later)
    }

    fn upgrade(&mut self) {
        let number = self.inventory.clusters.len() as u32;
        self.inventory.clusters.push(ClusterFacts {
            cluster: ClusterIdentity {
                system_id: 7_500_000_000_000_000_000 + u64::from(number),
                major: 15 + number,
            },
            wal: Vec::new(),
            timelines: Timelines::default(),
            competing: BTreeMap::new(),
            lost: Vec::new(),
            aside: Vec::new(),
            packs: Vec::new(),
            packs_aside: Vec::new(),
        });
        self.trees.push(Tree {
            lines: vec![Line {
                id: 1,
                parent: None,
                next: 1,
                first: 1,
            }],
            ..Tree::default()
        });
    }

    /// The cluster that lives, most often the newest.
    fn living(&mut self, random: &mut Random) -> usize {
        let newest = self.trees.len() - 1;
        match random.chance(4) {
            true => random.below(self.trees.len()),
            false => newest,
        }
    }

    fn write(&mut self, random: &mut Random) {
        let cluster = self.living(random);
        let line = self.trees[cluster].current;
        for _ in 0..random.below(6) + 1 {
            self.archive(cluster, line, random);
        }
    }

    fn archive(&mut self, cluster: usize, line: usize, random: &mut Random) {
        self.seconds += 60 * (random.below(300) as u64 + 1);
        let line = &mut self.trees[cluster].lines[line];
        let number = line.next;
        line.next += 1;
        let id = TimelineId(line.id);
        if random.chance(1) {
            return;
        }
        let segment = SegmentName::from_number(id, number, SIZE).expect("a name");
        let later = if random.chance(3) { 90_000 } else { 5 };
        self.add_wal(cluster, WalFileName::Segment(segment).to_string(), later);
    }

    fn add_wal(&mut self, cluster: usize, name: String, later: u64) {
        let modified = self.store_time(later);
        self.inventory.clusters[cluster].wal.push(WalEntry {
            name,
            size_bytes: 1000,
            modified,
            packed: None,
        });
    }

    fn moment(&self, line: &Line, number: u64, offset: u64) -> Moment {
        Moment {
            lsn: Lsn(number * u64::from(SIZE) + offset),
            timeline: TimelineId(line.id),
            time: self.time(),
        }
    }

    fn back_up(&mut self, random: &mut Random) {
        let cluster = self.living(random);
        let line = self.trees[cluster].current;
        let wanted = [BackupType::Full, BackupType::Diff, BackupType::Incr][random.below(3)];
        let references = self.references(cluster, wanted);
        let backup_type = match references.is_empty() {
            true => BackupType::Full,
            false => wanted,
        };
        self.seconds += 61;
        let label = BackupLabel::new(backup_type, self.time());
        let begun = self.trees[cluster].lines[line].clone();
        let start = self.moment(&begun, begun.next, 40);
        let mut required = Vec::new();
        for _ in 0..random.below(3) + 1 {
            required.push((line, self.trees[cluster].lines[line].next));
            self.archive(cluster, line, random);
        }
        let mut ended = line;
        if random.chance(3) {
            // Taken of a standby that was promoted meanwhile.
            self.fail_over(random);
            ended = self.trees[cluster].current;
            if ended != line {
                let next = self.trees[cluster].lines[ended].next;
                required.retain(|(_, number)| *number < next);
                required.push((ended, next));
                self.archive(cluster, ended, random);
            }
        }
        let lines = &self.trees[cluster].lines;
        let end = &lines[ended];
        let stop = self.moment(end, end.next - 1, 200);
        let name = |(line, number): &(usize, u64)| {
            SegmentName::from_number(TimelineId(lines[*line].id), *number, SIZE).expect("a name")
        };
        // The server's clock may be behind the store's.
        let behind = if random.chance(5) {
            random.below(10)
        } else {
            0
        };
        let behind = SignedDuration::from_hours(24 * behind as i64);
        let finished = Finished {
            cluster: self.inventory.clusters[cluster].cluster,
            backup_type,
            segment_size_bytes: SIZE,
            start,
            stop,
            described: stop.time.saturating_add(behind).expect("in range"),
            required: required.iter().map(name).collect(),
            references,
            fault: random.chance(4).then(|| "an object is missing".to_owned()),
        };
        self.add_label(label, LabelState::Finished(finished));
    }

    /// As the program chooses them: the newest backup of the cluster, and what that needs.
    fn references(&self, cluster: usize, wanted: BackupType) -> Vec<String> {
        let of = self.inventory.clusters[cluster].cluster;
        let mut own = self.inventory.labels.iter().rev().filter_map(|label| {
            let finished = label.finished()?;
            (finished.cluster == of).then_some((label, finished))
        });
        let prior = match wanted {
            BackupType::Full => None,
            BackupType::Diff => own.find(|(_, of)| of.backup_type == BackupType::Full),
            BackupType::Incr => own.next(),
        };
        let Some((label, finished)) = prior else {
            return Vec::new();
        };
        let mut references = finished.references.clone();
        references.push(label.name());
        references
    }

    fn add_label(&mut self, label: BackupLabel, state: LabelState) {
        let began = label.time();
        self.inventory.labels.push(LabelFacts {
            began,
            last_object: began,
            stored_bytes: 10_000,
            objects: vec!["started".to_owned()],
            is_pinned: false,
            is_marked: false,
            state,
            label,
        });
    }

    /// A standby is promoted where the primary is; perhaps the last segments are lost with it.
    fn fail_over(&mut self, random: &mut Random) {
        let cluster = self.trees.len() - 1;
        let current = self.trees[cluster].current;
        let line = &self.trees[cluster].lines[current];
        let at = line
            .next
            .saturating_sub(random.below(2) as u64)
            .max(line.first);
        self.branch(cluster, current, at, random);
    }

    /// Production is restored to an earlier moment and goes on from there.
    fn go_back(&mut self, random: &mut Random) {
        let cluster = self.trees.len() - 1;
        let from = random.below(self.trees[cluster].lines.len());
        let line = &self.trees[cluster].lines[from];
        let written = (line.next - line.first) as usize;
        let at = line.first + random.below(written + 1) as u64;
        self.branch(cluster, from, at, random);
    }

    /// A restored copy archives beside production, backups included.
    fn copy_writes(&mut self, random: &mut Random) {
        let cluster = self.trees.len() - 1;
        let production = self.trees[cluster].current;
        self.go_back(random);
        for _ in 0..random.below(4) {
            self.back_up(random);
        }
        let copy = std::mem::replace(&mut self.trees[cluster].current, production);
        // Production may write nothing for a while.
        if random.chance(50) {
            self.write(random);
        }
        // Their commits may tell that both went on.
        if random.chance(50) {
            let lines = &self.trees[cluster].lines;
            let both = [production, copy].map(|line| TimelineId(lines[line].id));
            self.inventory.clusters[cluster]
                .competing
                .extend(both.map(|timeline| (timeline, PutAway::ALONE)));
        }
    }

    fn branch(&mut self, cluster: usize, from: usize, number: u64, random: &mut Random) {
        let at = number * u64::from(SIZE) + 4096 * (random.below(4000) as u64);
        let tree = &mut self.trees[cluster];
        // Nobody leaves a line before it begins.
        let begin = tree.lines[from].parent.map_or(0, |(_, at)| at);
        let at = at.max(begin + 8);
        let id = tree.lines.len() as u32 + 1;
        tree.lines.push(Line {
            id,
            parent: Some((from, at)),
            next: number,
            first: number,
        });
        tree.current = tree.lines.len() - 1;
        let mut text = String::new();
        let (mut line, mut left) = (from, at);
        loop {
            let own = format!(
                "{}\t{:X}/{:X}\tx\n",
                tree.lines[line].id,
                left >> 32,
                left as u32
            );
            text.insert_str(0, &own);
            match tree.lines[line].parent {
                Some((parent, at)) => (line, left) = (parent, at),
                None => break,
            }
        }
        let is_lost = random.chance(2);
        tree.has_lost_history |= is_lost;
        if !is_lost {
            let timelines = &mut self.inventory.clusters[cluster].timelines;
            timelines.insert(TimelineId(id), text.as_bytes());
            self.add_wal(cluster, WalFileName::History(TimelineId(id)).to_string(), 1);
        }
    }

    fn leave_unfinished(&mut self, random: &mut Random) {
        let cluster = self.trees.len() - 1;
        self.seconds += 61;
        let of = [BackupType::Full, BackupType::Incr][random.below(2)];
        let references = self.references(cluster, of);
        let label = BackupLabel::new(of, self.time());
        let state = match random.below(4) {
            0 => LabelState::Unreadable("damaged".to_owned()),
            1 => LabelState::Unfinished(None),
            _ => LabelState::Unfinished(Some(references)),
        };
        self.add_label(label, state);
    }

    fn lose(&mut self, random: &mut Random) {
        let cluster = random.below(self.trees.len());
        let wal = &mut self.inventory.clusters[cluster].wal;
        if !wal.is_empty() {
            let lost = random.below(wal.len());
            if !wal[lost].name.ends_with(".history") {
                wal.remove(lost);
            }
        }
    }

    fn pin(&mut self, random: &mut Random) {
        let count = self.inventory.labels.len();
        if count > 0 {
            self.inventory.labels[random.below(count)].is_pinned = true;
        }
    }

    fn set_aside(&mut self) {
        let modified = self.store_time(0);
        let facts = self.inventory.clusters.last_mut().expect("a cluster");
        let entry = WalEntry {
            name: "000000090000000000000001".to_owned(),
            size_bytes: 1000,
            modified,
            packed: None,
        };
        let count = facts.aside.len() as u32;
        facts
            .aside
            .push((AsideLabel::first(9 + count), vec![entry]));
    }

    /// What a reader finds: listings are in order, and faults are known.
    fn finish(&mut self) {
        self.seconds += 200_000;
        self.now = self.time();
        for facts in &mut self.inventory.clusters {
            facts.wal.sort_by(|a, b| a.name.cmp(&b.name));
        }
        let wal: BTreeSet<(String, String)> = self
            .inventory
            .clusters
            .iter()
            .flat_map(|facts| {
                let of = facts.cluster.name();
                facts
                    .wal
                    .iter()
                    .map(move |entry| (of.clone(), entry.name.clone()))
            })
            .collect();
        let mut complete = BTreeSet::new();
        for label in &mut self.inventory.labels {
            let name = label.name();
            let LabelState::Finished(finished) = &mut label.state else {
                continue;
            };
            let of = finished.cluster.name();
            let has = |segment: &SegmentName| wal.contains(&(of.clone(), segment.to_string()));
            let lost = !finished.required.iter().all(has)
                || !finished
                    .references
                    .iter()
                    .all(|needed| complete.contains(needed));
            if lost {
                finished
                    .fault
                    .get_or_insert("something is missing".to_owned());
            }
            if finished.fault.is_none() {
                complete.insert(name);
            }
        }
    }

    /// Removes what a plan removes.
    pub(super) fn carry_out(&mut self, plan: &Plan) {
        let goes = |name: &str| plan.backups.iter().any(|of| of.removed && of.label == name);
        self.inventory.labels.retain(|label| !goes(&label.name()));
        for facts in &mut self.inventory.clusters {
            let of = plan.clusters.iter().find(|of| of.key == facts.cluster);
            let of = of.expect("every cluster has a plan");
            let names: BTreeSet<&str> = of.wal.iter().map(|wal| wal.name.as_str()).collect();
            facts
                .wal
                .retain(|entry| !names.contains(entry.name.as_str()));
        }
    }

    /// Whether there is one timeline only, and nothing that may need anything without saying so.
    pub(super) fn is_simple(&self) -> bool {
        let is_finished = |label: &LabelFacts| label.finished().is_some();
        self.trees.len() == 1
            && self.trees[0].lines.len() == 1
            && self.inventory.labels.iter().all(is_finished)
    }

    /// Whether a label is that of a complete backup.
    pub(super) fn is_sound(&self, name: &str) -> bool {
        let mut labels = self.inventory.labels.iter();
        let found = labels.find(|label| label.name() == name);
        let finished = found.and_then(LabelFacts::finished);
        finished.is_some_and(|of| of.fault.is_none())
    }

    /// A WAL object of the newest cluster.
    pub(super) fn any_wal(&self, random: &mut Random) -> Option<WalEntry> {
        let wal = &self.inventory.clusters.last()?.wal;
        wal.get(random.below(wal.len())).cloned()
    }

    /// So long before a moment.
    pub(super) fn before(&self, time: Timestamp, by: SignedDuration) -> Timestamp {
        time.saturating_sub(by).expect("a time")
    }
}
