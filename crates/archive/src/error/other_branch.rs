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
    /// How it is put away, should it be the one that was abandoned.
    pub put_away: PutAway,
    /// Whether the archive has its history only.
    pub is_begun: bool,
    /// Its last commit or backup after that, as far as it can be read.
    pub last: Option<Timestamp>,
}

/// How a timeline is put away that was abandoned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutAway {
    /// With what descends from it.
    Parts {
        /// From this segment on, where another one that went on has left it; otherwise all of it.
        from: Option<SegmentName>,
        /// The timelines that descend from that, and go with it.
        with: Vec<TimelineId>,
    },
    /// Not before the one that has left it has archived this segment: what comes before they part is nowhere else.
    After(SegmentName),
    /// Not while this timeline descends from it of which only the history is archived: it may have gone on.
    Left(TimelineId),
}

impl PutAway {
    /// All of a timeline that nothing descends from.
    pub(crate) const ALONE: PutAway = PutAway::Parts {
        from: None,
        with: Vec::new(),
    };
}

/// What follows "is not the only one that went on".
pub(super) fn went_on(others: &[OtherBranch]) -> String {
    let other = |other: &OtherBranch| {
        let until = match other.last {
            Some(last) => format!("until {} at least", shown(last)),
            None if other.is_begun => "and only its history is archived".to_owned(),
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
