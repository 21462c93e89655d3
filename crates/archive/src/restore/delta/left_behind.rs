//! WAL of a timeline that others have left. What is before that is theirs as well, and an expiry removes it with the
//! older timeline.
//!
//! Positions do not say whose WAL a segment has: a copy of the server that went on by itself has written its own under
//! the same names, and may have archived it elsewhere. So a data directory has to show that its WAL leads to where the
//! timeline was left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::ClusterIdentity;

use super::local_segment::{LocalSegment, Opened, has_changes};
use super::wal_files::WalFile;
use crate::archived::archived_wal::ArchivedWal;
use crate::archived::timelines::Timelines;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;

/// Where a timeline was left by one with archived WAL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fork {
    pub(super) child: TimelineId,
    pub(super) at: Lsn,
}

/// The forks of a timeline.
pub(super) fn forks_of<'a>(
    timelines: &'a Timelines,
    wal: &'a ArchivedWal,
    timeline: TimelineId,
) -> impl Iterator<Item = Fork> + 'a {
    timelines.known().filter_map(move |child| {
        let at = timelines.left_at(timeline, child)?;
        let has_wal = wal.numbers_from(child, 0).next().is_some();
        has_wal.then_some(Fork { child, at })
    })
}

/// The WAL of a data directory.
pub(super) struct OwnWal<'f> {
    files: &'f [WalFile],
    /// The timelines whose histories are the archive's.
    same: &'f BTreeSet<TimelineId>,
    cluster: ClusterIdentity,
    /// What was found of a timeline and one that has left it: there may be many segments before one fork.
    found: BTreeMap<(TimelineId, TimelineId), bool>,
}

impl<'f> OwnWal<'f> {
    pub(super) fn new(
        files: &'f [WalFile],
        same: &'f BTreeSet<TimelineId>,
        cluster: ClusterIdentity,
    ) -> OwnWal<'f> {
        OwnWal {
            files,
            same,
            cluster,
            found: BTreeMap::new(),
        }
    }

    /// Whether all that a segment has is before a fork. What comes after it in the fork's own segment has not expired: a
    /// server that went on after it was left has it alone.
    pub(super) async fn is_left_behind(
        &mut self,
        segment: &Arc<LocalSegment>,
        timeline: TimelineId,
        forks: impl Iterator<Item = Fork>,
    ) -> Result<bool, ArchiveError> {
        for fork in forks {
            if !has_changes(segment, fork.at).await?
                && self.leads_to(timeline, fork, segment.size_bytes()).await?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the directory's WAL of a timeline leads to a fork: the directory has followed the other timeline, or one
    /// of its records ends just there.
    async fn leads_to(
        &mut self,
        timeline: TimelineId,
        fork: Fork,
        segment_size: u32,
    ) -> Result<bool, ArchiveError> {
        let key = (timeline, fork.child);
        if let Some(found) = self.found.get(&key) {
            return Ok(*found);
        }
        let leads = self.has_followed(fork.child)
            || self.has_record_to(timeline, fork.at, segment_size).await?;
        self.found.insert(key, leads);
        Ok(leads)
    }

    fn has_followed(&self, child: TimelineId) -> bool {
        let is_of_child = |file: &WalFile| matches!(file.name, WalFileName::Segment(name) if name.timeline == child);
        self.same.contains(&child) && self.files.iter().any(is_of_child)
    }

    /// Whether a record of a timeline ends at a position. At the end of a segment one does whoever has written it, so that
    /// this segment has to be noted as archived: that of a server which does not archive shows nothing.
    async fn has_record_to(
        &self,
        timeline: TimelineId,
        at: Lsn,
        segment_size: u32,
    ) -> Result<bool, ArchiveError> {
        let number = at.0.saturating_sub(1) / u64::from(segment_size);
        let name = SegmentName::from_number(timeline, number, segment_size)?;
        let mut files = self.files.iter();
        let Some(file) = files.find(|file| file.name == WalFileName::Segment(name)) else {
            return Ok(false);
        };
        if at.0.is_multiple_of(segment_size.into()) && !file.is_done {
            return Ok(false);
        }
        let (path, cluster) = (file.path.clone(), self.cluster);
        off_the_runtime(move || match LocalSegment::open(&path, name, cluster)? {
            Opened::Segment(segment) => segment.has_record_to(at),
            Opened::Unwritten | Opened::CutOff(_) | Opened::Other => Ok(false),
        })
        .await
    }
}
