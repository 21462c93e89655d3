//! What retention is decided by, as plain data.

use std::time::SystemTime;

use jiff::Timestamp;
use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::{AsideLabel, BackupLabel, BackupType, ClusterIdentity, PackName, WalEntry};

use crate::archived::branches::BranchBackup;
use crate::archived::competing::Competing;
use crate::archived::timelines::Timelines;
use crate::backups::backup_record::Moment;

/// Everything in a repository.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// In the order of the upgrades, the newest last.
    pub(crate) clusters: Vec<ClusterFacts>,
    /// Every label below which there is an object.
    pub(crate) labels: Vec<LabelFacts>,
}

/// The WAL of a cluster.
#[derive(Debug)]
pub(crate) struct ClusterFacts {
    pub(crate) cluster: ClusterIdentity,
    pub(crate) wal: Vec<WalEntry>,
    /// The packs that hold some of it.
    pub(crate) packs: Vec<PackName>,
    pub(crate) timelines: Timelines,
    /// Timelines that went on at the same time.
    pub(crate) competing: Competing,
    /// Timelines whose history is lost, without which it is not known what leads where.
    pub(crate) lost: Vec<TimelineId>,
    pub(crate) aside: Vec<(AsideLabel, Vec<WalEntry>)>,
    pub(crate) packs_aside: Vec<(AsideLabel, PackName)>,
}

/// A label.
#[derive(Clone, Debug)]
pub(crate) struct LabelFacts {
    pub(crate) label: BackupLabel,
    /// The second that the label names.
    pub(crate) began: Timestamp,
    /// When its newest object was made.
    pub(crate) last_object: Timestamp,
    pub(crate) stored_bytes: u64,
    /// The names of all its objects.
    pub(crate) objects: Vec<String>,
    pub(crate) is_pinned: bool,
    /// Whether it is marked as being expired.
    pub(crate) is_marked: bool,
    pub(crate) state: LabelState,
}

/// What has a label.
#[derive(Clone, Debug)]
pub(crate) enum LabelState {
    /// A backup.
    Finished(Finished),
    /// A backup whose description cannot be read, or is of no cluster of the repository.
    Unreadable(String),
    /// A backup that runs or was given up, and what it may refer to if it says so.
    Unfinished(Option<Vec<String>>),
    /// What is left of a backup of this cluster that was being expired.
    HalfExpired(Option<ClusterIdentity>),
}

/// What the description of a backup says.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    pub(crate) cluster: ClusterIdentity,
    pub(crate) backup_type: BackupType,
    pub(crate) segment_size_bytes: u32,
    pub(crate) start: Moment,
    pub(crate) stop: Moment,
    /// When the store made its description.
    pub(crate) described: Timestamp,
    pub(crate) required: Vec<SegmentName>,
    pub(crate) references: Vec<String>,
    /// Why it cannot be restored, if it cannot.
    pub(crate) fault: Option<String>,
}

impl Finished {
    /// When it was finished, at the latest: a server's clock that was behind made it look older. What was copied from
    /// another store is as young as the copy.
    pub(crate) fn finished_by(&self) -> Timestamp {
        self.stop.time.max(self.described)
    }
}

impl BranchBackup for &Finished {
    fn stop(&self) -> Moment {
        self.stop
    }

    fn requires(&self, segment: SegmentName) -> bool {
        self.required.contains(&segment)
    }
}

impl LabelFacts {
    pub(crate) fn finished(&self) -> Option<&Finished> {
        match &self.state {
            LabelState::Finished(finished) => Some(finished),
            _ => None,
        }
    }

    /// The label as text.
    pub(crate) fn name(&self) -> String {
        self.label.to_string()
    }
}

/// A store's time. What is out of range counts as later than everything.
pub(crate) fn time_of(time: SystemTime) -> Timestamp {
    time.try_into().unwrap_or(Timestamp::MAX)
}
