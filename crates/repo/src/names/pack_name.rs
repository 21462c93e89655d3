//! What the key of a pack of WAL says.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use crate::error::RepoError;
use crate::names::wal_name::{SEGMENT_NAME_CHARS, WAL_DIRECTORY_CHARS, wal_directory};

/// The most segments that a pack of WAL has.
pub const MAX_PACK_SEGMENTS: usize = 256;

/// What the key of a pack says: its segments, and when the newest of them was archived.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackName {
    /// Sixteen upper-case hexadecimal digits.
    directory: String,
    first: u32,
    count: u16,
    archived_seconds: u64,
}

impl PackName {
    /// The name of a pack of `count` segments from this one on.
    pub fn new(first: &str, count: usize, archived: SystemTime) -> Result<PackName, RepoError> {
        let since = archived.duration_since(SystemTime::UNIX_EPOCH);
        let since = since.unwrap_or_default();
        // Never earlier than it was.
        let seconds = since.as_secs() + u64::from(since.subsec_nanos() > 0);
        format!("{first}-{count}-{seconds}").parse()
    }

    /// How many segments it has.
    pub fn count(&self) -> usize {
        self.count.into()
    }

    /// When the newest of its segments was archived, or a moment later.
    pub fn archived(&self) -> SystemTime {
        // What has no such moment is no name.
        moment(self.archived_seconds).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// The timeline of its segments.
    pub fn timeline(&self) -> u32 {
        let timeline = self.directory.get(..8).unwrap_or_default();
        u32::from_str_radix(timeline, 16).unwrap_or_default()
    }

    /// The name of a segment of it.
    pub fn segment(&self, index: usize) -> Option<String> {
        let index = u32::try_from(index).ok()?;
        let number = self.first.checked_add(index)?;
        (index < u32::from(self.count)).then(|| format!("{}{number:08X}", self.directory))
    }

    /// The names of its segments, in their order.
    pub fn segments(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.count()).filter_map(|index| self.segment(index))
    }

    /// Which of its segments has this name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        let digits = name.strip_prefix(&self.directory)?;
        let number = u32::from_str_radix(digits, 16).ok()?;
        let index = number.checked_sub(self.first)? as usize;
        // One way to write it.
        (self.segment(index)? == name).then_some(index)
    }

    pub(crate) fn directory(&self) -> &str {
        &self.directory
    }

    /// Whether both have a segment.
    pub(crate) fn overlaps(&self, other: &PackName) -> bool {
        let end = |name: &PackName| u64::from(name.first) + u64::from(name.count);
        self.directory == other.directory
            && u64::from(self.first) < end(other)
            && u64::from(other.first) < end(self)
    }
}

impl fmt::Display for PackName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PackName {
            directory,
            first,
            count,
            archived_seconds,
        } = self;
        write!(f, "{directory}{first:08X}-{count}-{archived_seconds}")
    }
}

impl FromStr for PackName {
    type Err = RepoError;

    /// Reads a name, which is written in one way only.
    fn from_str(text: &str) -> Result<PackName, RepoError> {
        let parsed = parse(text).filter(|name| name.to_string() == text);
        parsed.ok_or_else(|| RepoError::InvalidName {
            what: "a pack of WAL",
            name: text.to_owned(),
            detail: "it has the form 000000010000000000000040-64-1764072000",
        })
    }
}

fn moment(seconds: u64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

fn parse(text: &str) -> Option<PackName> {
    let mut parts = text.split('-');
    let (first, count, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    if first.len() != SEGMENT_NAME_CHARS || wal_directory(first).is_none() {
        return None;
    }
    let (directory, first) = first.split_at_checked(WAL_DIRECTORY_CHARS)?;
    let name = PackName {
        directory: directory.to_owned(),
        first: u32::from_str_radix(first, 16).ok()?,
        count: count.parse().ok()?,
        archived_seconds: seconds.parse().ok()?,
    };
    moment(name.archived_seconds)?;
    let is_possible = (1..=MAX_PACK_SEGMENTS).contains(&name.count())
        && name.first.checked_add(u32::from(name.count) - 1).is_some();
    is_possible.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_is_named_in_one_way_only() {
        for text in [
            "000000010000000000000040-64-1764072000",
            "000000010000000000000000-256-1764072000",
            "0000000AFFFFFFFF000000FF-1-0",
        ] {
            let name: PackName = text.parse().expect("a name");
            assert_eq!(name.to_string(), text);
        }
        for text in [
            "",
            "000000010000000000000040",
            "000000010000000000000040-64",
            "000000010000000000000040-0-1",
            "000000010000000000000040-257-1",
            "000000010000000000000040-064-1",
            "000000010000000000000040-+4-1",
            "000000010000000000000040-64-1-1",
            "00000001000000000000004a-64-1",
            "000000010000000000000040.partial-64-1",
            "000000010000000000000040-64-18446744073709551615",
            "0000000100000000FFFFFFFF-2-1",
        ] {
            assert!(text.parse::<PackName>().is_err(), "{text}");
        }
    }

    #[test]
    fn packs_overlap_that_have_a_segment_in_common() {
        let name = |text: &str| text.parse::<PackName>().expect("a name");
        let pack = name("000000010000000000000040-64-1");
        for (other, overlaps) in [
            ("000000010000000000000040-64-2", true),
            ("000000010000000000000020-33-1", true),
            ("000000010000000000000020-32-1", false),
            ("00000001000000000000007F-2-1", true),
            ("000000010000000000000080-2-1", false),
            ("000000010000000000000050-1-1", true),
            ("000000020000000000000040-64-1", false),
        ] {
            assert_eq!(pack.overlaps(&name(other)), overlaps, "{other}");
            assert_eq!(name(other).overlaps(&pack), overlaps, "{other}");
        }
    }

    #[test]
    fn names_its_segments() {
        let moment = SystemTime::UNIX_EPOCH + Duration::from_millis(1500);
        let name = PackName::new("0000000200000001000000FE", 2, moment).expect("a name");
        let segments: Vec<String> = name.segments().collect();
        assert_eq!(
            segments,
            ["0000000200000001000000FE", "0000000200000001000000FF"]
        );
        assert_eq!(name.index_of("0000000200000001000000FF"), Some(1));
        assert_eq!(name.index_of("000000020000000100000100"), None);
        assert_eq!(name.index_of("0000000100000001000000FE"), None);
        assert_eq!(name.timeline(), 2);
        assert_eq!(
            name.archived(),
            SystemTime::UNIX_EPOCH + Duration::from_secs(2)
        );
    }
}
