//! What has moved in the source since it was listed: segments into packs, and out of one that is split.

use std::collections::{HashMap, HashSet};

use object_store::ObjectMeta;
use object_store::path::Path;

use super::sorted::Sorted;
use super::{CopiedRepository, Copying, TimelineOfKeys, last_segment, list_below};
use crate::cluster_identity::ClusterIdentity;
use crate::error::RepoError;
use crate::layout::{self, PACKED_JSON, WAL_PREFIX};

impl Copying<'_> {
    /// Copies the packs that were made since the source was listed, and the segments that have objects of their own
    /// again: what was not found any more is in them. What goes once more is told, since the copy would lack it.
    pub(super) async fn moved_since(
        &self,
        sorted: &Sorted,
        copied: &mut CopiedRepository,
    ) -> Result<(), RepoError> {
        let known: HashSet<&Path> = sorted.wal.iter().map(|meta| &meta.location).collect();
        let gone = self.take_gone();
        let until = last_of_timelines(&sorted.wal);
        let wal = list_below(self.from, Some(WAL_PREFIX)).await?;
        let is_behind = |meta: &ObjectMeta| {
            let of = last_segment(meta);
            of.is_some_and(|(timeline, last)| until.get(&timeline).is_some_and(|end| last <= *end))
        };
        let has_moved = |meta: &ObjectMeta| {
            let is_new = !known.contains(&meta.location) || gone.contains(&meta.location);
            is_new && (is_pack(meta) || (is_wal(meta) && is_behind(meta)))
        };
        let is_mark = |meta: &&ObjectMeta| meta.location.filename() == Some(PACKED_JSON);
        let marks: Vec<ObjectMeta> = wal.iter().filter(is_mark).cloned().collect();
        let since: Vec<ObjectMeta> = wal.into_iter().filter(has_moved).collect();
        if since.is_empty() {
            return Ok(());
        }
        self.all(&marks, copied).await?;
        self.retire_marks(&marks).await?;
        self.all(&since, copied).await?;
        for key in self.take_gone() {
            let detail = "it has moved again while it was copied; the next copy brings it";
            copied.damaged.push((key.to_string(), detail.to_owned()));
        }
        Ok(())
    }
}

/// The last segment of each timeline.
fn last_of_timelines(wal: &[ObjectMeta]) -> HashMap<TimelineOfKeys<'_>, String> {
    let mut until: HashMap<TimelineOfKeys<'_>, String> = HashMap::new();
    for (timeline, last) in wal.iter().filter_map(last_segment) {
        let end = until.entry(timeline).or_default();
        if last > *end {
            *end = last;
        }
    }
    until
}

fn is_pack(meta: &ObjectMeta) -> bool {
    let key = meta.location.as_ref();
    cluster_of(key).is_some_and(|of| layout::pack_name(of, key).is_some())
}

fn is_wal(meta: &ObjectMeta) -> bool {
    let key = meta.location.as_ref();
    cluster_of(key).is_some_and(|of| layout::wal_name(of, key).is_some())
}

fn cluster_of(key: &str) -> Option<ClusterIdentity> {
    key.split('/').nth(1)?.parse().ok()
}
