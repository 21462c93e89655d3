//! What is going to be removed, what is kept, and why.
//!
//! The field names are what scripts read: they are added to, never renamed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::Serialize;
use walzip_pgformat::TimelineId;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{AsideLabel, BackupLabel, ClusterIdentity, PackName};

use crate::archived::competing::CompetingTimeline;

/// What `expire` does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The version of this description, 1.
    pub format: u32,
    /// The moment by which it was made.
    pub now: Timestamp,
    /// Every label, oldest first.
    pub backups: Vec<BackupPlan>,
    /// The clusters, oldest first.
    pub clusters: Vec<ClusterPlan>,
}

/// What becomes of a backup, or of what is left of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackupPlan {
    /// Its label.
    pub label: String,
    /// What has the label.
    pub state: BackupState,
    /// Whose it is, where that is known: `15-7575000000000000001`.
    pub cluster: Option<String>,
    /// Whether it is removed.
    pub removed: bool,
    /// Why it is kept, or removed.
    pub reasons: Vec<Reason>,
    /// The size of its objects.
    pub stored_bytes: u64,
    #[serde(skip)]
    pub(crate) key: BackupLabel,
}

/// What has a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackupState {
    /// A backup.
    Finished,
    /// A backup whose description cannot be read.
    Unreadable,
    /// A backup that runs, or was given up.
    Unfinished,
    /// What an interrupted expiry has left.
    HalfExpired,
}

/// Why a backup is kept, or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Reason {
    /// Kept: not older than the last full backups that the retention counts.
    RetentionFull {
        /// Along which timeline they are counted, where that is done along several.
        #[serde(skip_serializing_if = "Option::is_none")]
        timeline: Option<u32>,
    },
    /// Kept: in the window, or the newest before it.
    RetentionWindow,
    /// Kept: it is pinned.
    Pinned,
    /// Kept: another one that is kept needs it.
    NeededBy {
        /// That one.
        label: String,
    },
    /// Kept: one that does not say, or cannot be read, may need it.
    MayBeNeededBy {
        /// That one.
        label: String,
    },
    /// Kept: of another branch, and younger than the oldest that is kept of the newest one.
    OtherBranch,
    /// Kept: no complete backup leads to where the cluster is now.
    NothingNewer,
    /// Kept: a history is lost, and with it what leads where.
    HistoryLost,
    /// Kept: it cannot be read.
    Unreadable {
        /// Why not.
        problem: String,
    },
    /// Kept: it may still run.
    MayRun,
    /// Kept: only the backups that were named are removed.
    NotNamed,
    /// Removed: nothing of the above.
    NotRetained,
    /// Removed: it was named.
    Named,
    /// Removed: it was given up, or its expiry was interrupted.
    Leftover,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Reason::RetentionFull { timeline: None } => "retention-full",
            Reason::RetentionFull {
                timeline: Some(timeline),
            } => return write!(f, "retention-full, of timeline {timeline}"),
            Reason::RetentionWindow => "retention-window",
            Reason::Pinned => "pinned",
            Reason::NeededBy { label } => return write!(f, "needed by {label}"),
            Reason::MayBeNeededBy { label } => return write!(f, "may be needed by {label}"),
            Reason::OtherBranch => "of another branch, and recent",
            Reason::NothingNewer => "no complete backup leads to where the cluster is now",
            Reason::HistoryLost => "a history is lost, so what leads where is not certain",
            Reason::Unreadable { problem } => return write!(f, "cannot be read: {problem}"),
            Reason::MayRun => "unfinished, may still run",
            Reason::NotNamed => "not named",
            Reason::NotRetained => "not retained",
            Reason::Named => "named",
            Reason::Leftover => "left over",
        };
        f.write_str(text)
    }
}

/// What becomes of a cluster's WAL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterPlan {
    /// Whose: `15-7575000000000000001`.
    pub cluster: String,
    /// An older cluster of which nothing is retained, because the newest one fulfils the retention.
    pub superseded: bool,
    /// Timelines that went on at the same time: the retention is kept along each.
    pub competing: Vec<CompetingTimeline>,
    /// Timelines whose history is lost: nothing is removed until it is there again.
    pub lost_histories: Vec<u32>,
    /// The WAL that is removed, in the order of its removal.
    pub removed_wal: Vec<WalPart>,
    /// The WAL that is kept, by the reasons.
    pub kept_wal: Vec<KeptWal>,
    /// What was set aside and is removed.
    pub removed_aside: Vec<AsidePart>,
    #[serde(skip)]
    pub(crate) key: ClusterIdentity,
    #[serde(skip)]
    pub(crate) wal: Vec<WalName>,
    /// The packs that hold some of the WAL that is removed, and nothing else.
    #[serde(skip)]
    pub(crate) packs: Vec<PackName>,
}

/// A WAL file that is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WalName {
    pub(crate) name: String,
    pub(crate) stored_bytes: u64,
    /// Whether it is in a pack alone.
    pub(crate) is_packed: bool,
}

/// WAL files of one timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WalPart {
    /// Its number.
    pub timeline: u32,
    /// The name of the first.
    pub first: String,
    /// The name of the last.
    pub last: String,
    /// How many there are.
    pub objects: u64,
    /// Their size in the repository.
    pub stored_bytes: u64,
}

/// WAL files that are kept for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeptWal {
    /// The reason.
    pub reason: WalReason,
    /// How many there are.
    pub objects: u64,
    /// Their size in the repository.
    pub stored_bytes: u64,
}

/// Why WAL is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WalReason {
    /// A backup that is kept can be replayed through it.
    Reachable,
    /// A backup that is kept is worth nothing without it.
    Required,
    /// A history.
    History,
    /// The beginning of a timeline, by which a restore tells branches apart.
    Beginning,
    /// It was archived after the oldest kept backup began.
    Recent,
    /// It is in a pack with WAL that is kept.
    Packed,
    /// A history is lost: what leads where is not certain.
    Uncertain,
    /// A backup that may still run, or that cannot be read, may need it.
    MayBeNeeded,
    /// There are fewer full backups than the retention asks for, only one, or none from before its window.
    NotFulfilled,
    /// The cluster has no complete backup, or none that leads to where it is now.
    NoBackup,
    /// Only the backups that were named are removed.
    NotNamed,
    /// It has no name of a WAL file.
    Foreign,
}

impl fmt::Display for WalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WalReason::Reachable => "replayed from a kept backup",
            WalReason::Required => "required by a kept backup",
            WalReason::History => "timeline histories",
            WalReason::Beginning => "beginnings of timelines",
            WalReason::Recent => "archived after the oldest kept backup began",
            WalReason::Packed => "in a pack with WAL that is kept",
            WalReason::Uncertain => "a history is lost, so what leads where is not certain",
            WalReason::MayBeNeeded => {
                "may be needed by a backup that runs, cannot be read, or was given up (--unfinished-age)"
            },
            WalReason::NotFulfilled => "fewer full backups than the retention asks for, only one, or none as old as its window",
            WalReason::NoBackup => "no complete backup leads to where the cluster is now",
            WalReason::NotNamed => "only named backups are removed",
            WalReason::Foreign => "not named like WAL",
        })
    }
}

/// What is removed of what was set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AsidePart {
    /// Its label.
    pub label: String,
    /// How many objects it has.
    pub objects: u64,
    /// Their size in the repository.
    pub stored_bytes: u64,
    #[serde(skip)]
    pub(crate) key: AsideLabel,
    #[serde(skip)]
    pub(crate) names: Vec<String>,
    #[serde(skip)]
    pub(crate) packs: Vec<PackName>,
}

impl Plan {
    /// How many bytes are removed.
    pub fn removed_bytes(&self) -> u64 {
        let backups = self.backups.iter().filter(|backup| backup.removed);
        let backups = backups.map(|backup| backup.stored_bytes);
        let wal = self
            .clusters
            .iter()
            .flat_map(|cluster| &cluster.removed_wal);
        let aside = self
            .clusters
            .iter()
            .flat_map(|cluster| &cluster.removed_aside);
        backups
            .chain(wal.map(|part| part.stored_bytes))
            .chain(aside.map(|part| part.stored_bytes))
            .sum()
    }

    /// Whether anything is removed.
    pub fn removes_anything(&self) -> bool {
        self.backups.iter().any(|backup| backup.removed)
            || self
                .clusters
                .iter()
                .any(|of| !of.wal.is_empty() || !of.removed_aside.is_empty())
    }

    /// Leaves out what another plan keeps.
    pub(crate) fn restrict_to(&mut self, other: &Plan) {
        let removed = |of: &&BackupPlan| of.removed;
        let labels: BTreeSet<&str> = other
            .backups
            .iter()
            .filter(removed)
            .map(|of| of.label.as_str())
            .collect();
        for backup in &mut self.backups {
            backup.removed &= labels.contains(backup.label.as_str());
        }
        for cluster in &mut self.clusters {
            let same = other.clusters.iter().find(|of| of.key == cluster.key);
            let names: BTreeSet<&str> = same
                .into_iter()
                .flat_map(|of| of.wal.iter().map(|wal| wal.name.as_str()))
                .collect();
            cluster.wal.retain(|wal| names.contains(wal.name.as_str()));
            cluster.keep_whole_packs();
            cluster.removed_wal = parts(&cluster.wal);
            let aside = |part: &AsidePart| {
                same.is_some_and(|of| of.removed_aside.iter().any(|other| other == part))
            };
            cluster.removed_aside.retain(aside);
        }
    }
}

impl ClusterPlan {
    /// Leaves out packs of which not everything goes, and what is only in them.
    fn keep_whole_packs(&mut self) {
        let names: BTreeSet<&str> = self.wal.iter().map(|wal| wal.name.as_str()).collect();
        let goes = |pack: &PackName| pack.segments().all(|name| names.contains(name.as_str()));
        self.packs.retain(goes);
        let packed: BTreeSet<String> = self.packs.iter().flat_map(PackName::segments).collect();
        self.wal
            .retain(|wal| !wal.is_packed || packed.contains(&wal.name));
    }
}

/// The WAL that goes, by timeline. Within each it is in the order of positions.
pub(crate) fn parts(wal: &[WalName]) -> Vec<WalPart> {
    let mut parts: BTreeMap<TimelineId, WalPart> = BTreeMap::new();
    for WalName {
        name, stored_bytes, ..
    } in wal
    {
        let Ok(parsed) = name.parse::<WalFileName>() else {
            continue;
        };
        let timeline = parsed.timeline();
        let part = parts.entry(timeline).or_insert_with(|| WalPart {
            timeline: timeline.0,
            first: name.clone(),
            last: name.clone(),
            objects: 0,
            stored_bytes: 0,
        });
        part.last.clone_from(name);
        part.objects += 1;
        part.stored_bytes += stored_bytes;
    }
    parts.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_says_of_which_timeline_it_is_where_there_are_several() {
        let reason = |timeline| Reason::RetentionFull { timeline };
        assert_eq!(reason(None).to_string(), "retention-full");
        assert_eq!(reason(Some(2)).to_string(), "retention-full, of timeline 2");
        let json = |timeline| serde_json::to_value(reason(timeline)).expect("JSON");
        assert_eq!(json(None), serde_json::json!({ "kind": "retention-full" }));
        assert_eq!(
            json(Some(2)),
            serde_json::json!({ "kind": "retention-full", "timeline": 2 })
        );
    }

    /// Scripts read these names: a change here is a change of the interface.
    #[test]
    fn has_the_field_names_that_scripts_read() {
        let cluster = ClusterIdentity {
            system_id: 7,
            major: 15,
        };
        let label: BackupLabel = "20261121-220130F".parse().expect("a label");
        let plan = Plan {
            format: 1,
            now: Timestamp::UNIX_EPOCH,
            backups: vec![BackupPlan {
                label: label.to_string(),
                state: BackupState::HalfExpired,
                cluster: Some("15-7".to_owned()),
                removed: true,
                reasons: vec![
                    Reason::Leftover,
                    Reason::NeededBy {
                        label: "20261121-220131I".to_owned(),
                    },
                ],
                stored_bytes: 3,
                key: label,
            }],
            clusters: vec![ClusterPlan {
                cluster: "15-7".to_owned(),
                superseded: false,
                competing: Vec::new(),
                lost_histories: Vec::new(),
                removed_wal: vec![WalPart {
                    timeline: 1,
                    first: "a".to_owned(),
                    last: "b".to_owned(),
                    objects: 2,
                    stored_bytes: 4,
                }],
                kept_wal: vec![KeptWal {
                    reason: WalReason::MayBeNeeded,
                    objects: 1,
                    stored_bytes: 2,
                }],
                removed_aside: vec![AsidePart {
                    label: "00000002".to_owned(),
                    objects: 1,
                    stored_bytes: 2,
                    key: "00000002".parse().expect("a label"),
                    names: Vec::new(),
                    packs: Vec::new(),
                }],
                key: cluster,
                wal: Vec::new(),
                packs: Vec::new(),
            }],
        };
        let expected = serde_json::json!({
            "format": 1,
            "now": "1970-01-01T00:00:00Z",
            "backups": [{
                "label": "20261121-220130F",
                "state": "half-expired",
                "cluster": "15-7",
                "removed": true,
                "reasons": [
                    { "kind": "leftover" },
                    { "kind": "needed-by", "label": "20261121-220131I" },
                ],
                "stored_bytes": 3,
            }],
            "clusters": [{
                "cluster": "15-7",
                "superseded": false,
                "competing": [],
                "lost_histories": [],
                "removed_wal": [{
                    "timeline": 1, "first": "a", "last": "b", "objects": 2, "stored_bytes": 4,
                }],
                "kept_wal": [{ "reason": "may-be-needed", "objects": 1, "stored_bytes": 2 }],
                "removed_aside": [{ "label": "00000002", "objects": 1, "stored_bytes": 2 }],
            }],
        });
        assert_eq!(serde_json::to_value(plan).expect("JSON"), expected);
    }
}
