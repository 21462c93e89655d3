//! What was committed, when and where, on each timeline; and what the archive has of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::rounds::Checked;

/// The size of every segment here.
pub const SEGMENT_BYTES: u64 = 1 << 20;

/// One transaction, between two looks at the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    pub n: u64,
    pub xid: u64,
    pub before: Moment,
    pub after: Moment,
}

/// Where a server's WAL was, and its clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    pub lsn: u64,
    pub micros: i64,
    /// The same time, as the server prints it.
    pub text: String,
}

/// A restore point.
#[derive(Clone, Debug)]
pub struct Point {
    pub name: String,
    pub before_lsn: u64,
    pub lsn: u64,
}

/// One timeline: everything on the way to its end, its ancestors' share included.
#[derive(Clone, Debug)]
pub struct Timeline {
    pub id: u32,
    /// The timelines before it, each with where it is left.
    pub history: Vec<(u32, u64)>,
    /// Between which times it was born; the first one was always there.
    pub born: Option<(i64, i64)>,
    pub commits: Vec<Commit>,
    /// How many of the commits are its ancestors'.
    pub inherited: usize,
    pub points: Vec<Point>,
}

/// A backup: what it needs lies between these moments.
#[derive(Clone, Debug)]
pub struct Backup {
    pub timeline: u32,
    pub began: Moment,
    pub ended: Moment,
}

/// Everything that happened.
#[derive(Default)]
pub struct Model {
    pub timelines: Vec<Timeline>,
    pub backups: Vec<Backup>,
}

/// The whole segments that are in the repository, by timeline and number.
pub type Archived = BTreeSet<(u32, u64)>;

impl Model {
    pub fn timeline(&self, id: u32) -> &Timeline {
        let found = self.timelines.iter().find(|timeline| timeline.id == id);
        found.unwrap_or_else(|| panic!("timeline {id} is not in the model"))
    }

    pub fn timeline_mut(&mut self, id: u32) -> &mut Timeline {
        let found = self.timelines.iter_mut().find(|timeline| timeline.id == id);
        found.unwrap_or_else(|| panic!("timeline {id} is not in the model"))
    }
}

impl Timeline {
    /// Whose segment this number is on the way here: the segment's last byte decides.
    pub fn owner(&self, number: u64) -> u32 {
        let last = (number + 1) * SEGMENT_BYTES - 1;
        let mut begin = self.history.last().map_or(0, |&(_, end)| end);
        let mut owner = self.id;
        for index in (0..self.history.len()).rev() {
            if last >= begin {
                return owner;
            }
            owner = self.history[index].0;
            begin = index
                .checked_sub(1)
                .map_or(0, |before| self.history[before].1);
        }
        owner
    }

    /// Whether the way here passes this position on that timeline.
    pub fn passes(&self, timeline: u32, lsn: u64) -> bool {
        let left_at = self.history.iter().find(|(id, _)| *id == timeline);
        timeline == self.id || left_at.is_some_and(|&(_, end)| lsn <= end)
    }

    pub fn is_archived(&self, archived: &Archived, number: u64) -> bool {
        archived.contains(&(self.owner(number), number))
    }

    /// Whether all segments from one position to another are archived.
    pub fn has_all(&self, archived: &Archived, from: u64, to: u64) -> bool {
        let numbers = from / SEGMENT_BYTES..=to.saturating_sub(1).max(from) / SEGMENT_BYTES;
        numbers
            .into_iter()
            .all(|number| self.is_archived(archived, number))
    }

    /// The end of the newest segment on the way that is archived.
    pub fn archived_end(&self, archived: &Archived) -> u64 {
        let on_the_way = archived
            .iter()
            .filter(|(timeline, number)| self.owner(*number) == *timeline);
        let newest = on_the_way.map(|(_, number)| number + 1).max();
        newest.unwrap_or(0) * SEGMENT_BYTES
    }

    /// How many commits lie certainly, and possibly, before this position.
    pub fn commits_up_to(&self, lsn: u64) -> (usize, usize) {
        let certain = self
            .commits
            .partition_point(|commit| commit.after.lsn <= lsn);
        let possible = self
            .commits
            .partition_point(|commit| commit.before.lsn < lsn);
        (certain, possible.max(certain))
    }

    /// How many were committed up to this time, which lies in no commit.
    pub fn commits_by(&self, micros: i64) -> usize {
        self.commits
            .partition_point(|commit| commit.after.micros <= micros)
    }
}

/// The segments in a repository, by the names of its objects.
pub fn archived(repository: &Path) -> Checked<Archived> {
    let mut found = Archived::new();
    let mut directories = vec![repository.join("wal")];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory).map_err(|error| error.to_string())?;
        for entry in entries {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.is_dir() {
                directories.push(path);
            } else if let Some(segment) = path.file_name().and_then(|name| segment(name.to_str()?))
            {
                found.insert(segment);
            }
        }
    }
    Ok(found)
}

/// The timeline and number in an object's name, if it is a whole segment's.
pub fn segment(object: &str) -> Option<(u32, u64)> {
    let name = object.strip_suffix(".wz").unwrap_or(object);
    if name.len() != 24 || !name.is_ascii() {
        return None;
    }
    let part = |range| u64::from_str_radix(&name[range], 16).ok();
    let number = part(8..16)? * (1 << 32) / SEGMENT_BYTES + part(16..24)?;
    Some((part(0..8)? as u32, number))
}

/// The name of a segment.
pub fn segment_name(timeline: u32, number: u64) -> String {
    let per_id = (1 << 32) / SEGMENT_BYTES;
    format!(
        "{timeline:08X}{:08X}{:08X}",
        number / per_id,
        number % per_id
    )
}

/// A history's lines: the timelines that were left, and where.
pub fn history(text: &str) -> Checked<Vec<(u32, u64)>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let mut fields = line.split_whitespace();
            let timeline = fields.next().and_then(|field| field.parse().ok());
            let switch = fields.next().and_then(lsn);
            timeline
                .zip(switch)
                .ok_or_else(|| format!("a line of a history: {line}"))
        })
        .collect()
}

/// Reads a position as PostgreSQL prints it.
pub fn lsn(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    let part = |text| u64::from_str_radix(text, 16).ok();
    Some(part(high)? << 32 | part(low)?)
}

/// Prints a position as PostgreSQL does.
pub fn shown(lsn: u64) -> String {
    format!("{:X}/{:X}", lsn >> 32, lsn & 0xFFFF_FFFF)
}
