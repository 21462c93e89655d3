//! A timeline beside the one that a recovery follows.

use jiff::Timestamp;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_pgformat::{Lsn, TimelineId};

use crate::wal::wal_end::shown;

/// A timeline that is not the one followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherBranch {
    /// The timeline.
    pub timeline: TimelineId,
    /// Where it parts from the one followed.
    pub parted_at: Lsn,
    /// The segment of its own in which it parts, where the one followed descends from it.
    pub own_from: Option<SegmentName>,
    /// The segment of the one followed that is not archived yet, where the other one's has to stay until then: what
    /// comes before they part is nowhere else.
    pub needed_by_child: Option<SegmentName>,
    /// Whether the archive has its history only.
    pub is_begun: bool,
    /// Its last commit or backup after that, as far as it can be read.
    pub last: Option<Timestamp>,
}

/// How a timeline is put away that was abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutAway {
    /// All of it.
    Whole,
    /// From this segment on: another one that went on has left it there.
    From(SegmentName),
    /// Not before that one has archived this segment.
    After(SegmentName),
}

impl OtherBranch {
    /// How it is put away.
    pub fn put_away(&self) -> PutAway {
        match (self.needed_by_child, self.own_from) {
            (Some(own), _) => PutAway::After(own),
            (None, Some(from)) => PutAway::From(from),
            (None, None) => PutAway::Whole,
        }
    }
}

/// What follows "is not the only one that went on".
pub(super) fn went_on(others: &[OtherBranch]) -> String {
    let other = |other: &OtherBranch| {
        let until = match other.last {
            Some(last) => format!("until {} at least", shown(last)),
            None => "for a time that cannot be read".to_owned(),
        };
        format!(
            "timeline {} went on after {}, {until}",
            other.timeline, other.parted_at
        )
    };
    let others: Vec<String> = others.iter().map(other).collect();
    format!(": {}", others.join("; "))
}
