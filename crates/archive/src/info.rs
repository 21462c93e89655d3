//! `info`: what is in the repository.
//!
//! The field names are what scripts read: they are added to, never renamed.

mod backups;
pub(crate) mod growth;
pub(crate) mod timeline_info;

use jiff::Timestamp;
use serde::Serialize;
use walzip_repo::layout::{BACKUP_JSON, BACKUP_PINNED};
use walzip_repo::{BackupLabel, ClusterIdentity, RepoError, Repository, WalEntry};

pub use self::backups::BackupInfo;
use self::backups::{Described, backup_info};
use crate::archived::competing::competing;
use crate::archived::packed_times::PackedTimes;
use crate::archived::timelines::Timelines;
use crate::archived::wal_index::{self, TimelineWal};
use crate::backups::backup_objects::AllObjects;
use crate::backups::backup_record::{BackupRecord, ListedBackup, of_another};
use crate::error::ArchiveError;
use crate::info::growth::Growth;
use crate::pins;
use crate::read_each::read_each;
use crate::receive::ReceiveState;
use crate::set_aside::{self, SetAside};
use crate::verify::LastVerified;

/// The content of a repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Info {
    /// The version of this description, 1.
    pub format: u32,
    /// The cluster that was registered last: in most repositories, the only one.
    #[serde(flatten)]
    pub newest: ClusterContent,
    /// Backups whose description cannot be read. They cannot be restored.
    pub unreadable_backups: Vec<UnreadableBackup>,
    /// Labels of backups that run at the moment, or were given up.
    pub unfinished_backups: Vec<String>,
    /// When the newest verification began that has left a note: it read WAL or backups.
    pub last_verified: Option<Timestamp>,
    /// How many findings it had, where the note says so.
    pub last_verified_findings: Option<usize>,
    /// What the cluster was before its upgrades, oldest first.
    pub older_clusters: Vec<ClusterContent>,
    /// What keeps clusters from being shown, or from being used.
    pub cluster_problems: Vec<String>,
    /// The local directory of `receive`, where the caller names one.
    pub received: Option<ReceiveState>,
}

impl Info {
    /// A finished backup, of the cluster or of one before an upgrade.
    pub fn backup(&self, label: &BackupLabel) -> Result<&BackupInfo, ArchiveError> {
        let clusters = std::iter::once(&self.newest).chain(&self.older_clusters);
        let mut backups = clusters.flat_map(|cluster| &cluster.backups);
        let found = backups.find(|backup| backup.label == label.to_string());
        found.ok_or_else(|| ArchiveError::NoSuchBackup(label.clone()))
    }
}

/// What a repository has of one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterContent {
    /// Whose archive it is.
    pub cluster: ClusterInfo,
    /// When it was registered: the first cluster, when the repository was made.
    pub created: Timestamp,
    /// The size of the cluster's WAL segments, when a segment or a backup is there to tell.
    pub segment_size_bytes: Option<u32>,
    /// The finished backups, oldest first.
    pub backups: Vec<BackupInfo>,
    /// The archived WAL by timeline, gaps included.
    pub wal: Vec<TimelineWal>,
    /// What that is in the repository.
    pub stored_wal: StoredWal,
    /// WAL of abandoned timelines that was set aside.
    pub set_aside: Vec<SetAside>,
    /// Timelines that went on at the same time: two servers have archived as this cluster, and a restore asks which is
    /// meant.
    pub competing_timelines: Vec<u32>,
    /// How fast it grows, once there is WAL for an hour.
    pub growth: Option<Growth>,
}

/// WAL files as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StoredWal {
    /// How many there are.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
    /// When the newest one was stored.
    pub last_stored: Option<Timestamp>,
}

impl StoredWal {
    fn of(listing: &[WalEntry]) -> StoredWal {
        let times = listing.iter().map(|entry| entry.modified);
        StoredWal {
            files: listing.len() as u64,
            bytes: listing.iter().map(|entry| entry.size_bytes).sum(),
            last_stored: times.max().and_then(|time| Timestamp::try_from(time).ok()),
        }
    }
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterInfo {
    /// Its system identifier, as text: JSON readers lose digits of large numbers.
    pub system_identifier: String,
    /// Its major version.
    pub major: u32,
}

/// A backup that says nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadableBackup {
    /// Its label.
    pub label: String,
    /// What is wrong with its description.
    pub problem: String,
}

/// Describes a repository.
pub async fn info(repository: &Repository) -> Result<Info, ArchiveError> {
    let clusters = repository.read_clusters().await?;
    let mut cluster_problems: Vec<String> =
        clusters.faults.iter().map(ToString::to_string).collect();
    let mut older = clusters.parts;
    let newest = older.pop().unwrap_or_else(|| repository.clone());
    let known: Vec<ClusterIdentity> = older
        .iter()
        .chain([&newest])
        .map(Repository::cluster)
        .collect();
    let (mut records, unreadable_backups) = sort_out(ListedBackup::all(repository).await?, &known);
    let objects = AllObjects::list(repository).await?;
    records.retain(|(record, _)| !was_removed(record, &objects));
    let mut older_clusters = Vec::new();
    for part in older {
        match describe(&part, &records, &objects).await {
            Ok(content) => older_clusters.push(content),
            Err(ArchiveError::Repository(error @ RepoError::NotInPlace { .. })) => {
                cluster_problems.push(error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    let unfinished = repository.list_unfinished_backups().await?;
    let verified = LastVerified::read(repository, Timestamp::now()).await?;
    Ok(Info {
        format: 1,
        newest: describe(&newest, &records, &objects).await?,
        unreadable_backups,
        unfinished_backups: unfinished.iter().map(ToString::to_string).collect(),
        last_verified: verified.map(|verified| verified.began),
        last_verified_findings: verified.and_then(|verified| verified.findings),
        older_clusters,
        cluster_problems,
        received: None,
    })
}

/// Parts the backups that can be described, of clusters that are known, from the others.
fn sort_out(
    listed: Vec<ListedBackup>,
    known: &[ClusterIdentity],
) -> (Vec<Described>, Vec<UnreadableBackup>) {
    let mut described = Vec::new();
    let mut unreadable = Vec::new();
    for ListedBackup { label, read } in listed {
        let read = read.and_then(|record| {
            let is_known = |cluster| known.contains(&cluster);
            if !record.cluster().is_some_and(is_known) {
                return Err(of_another(&label));
            }
            let required = record.required_segments()?;
            Ok((record, required))
        });
        match read {
            Ok(backup) => described.push(backup),
            Err(error) => unreadable.push(UnreadableBackup {
                label: label.to_string(),
                problem: error.to_string(),
            }),
        }
    }
    (described, unreadable)
}

/// Whether an expiry has removed the description of a backup since it was listed. Until then the backup can
/// be restored.
fn was_removed(record: &BackupRecord, objects: &AllObjects) -> bool {
    let label = record.label.parse();
    label.is_ok_and(|label| !objects.has(&label, BACKUP_JSON))
}

/// Describes what a repository has of one cluster.
async fn describe(
    part: &Repository,
    backups: &[Described],
    objects: &AllObjects,
) -> Result<ClusterContent, ArchiveError> {
    let cluster = part.cluster();
    let wal = part.list_wal_objects().await?;
    let (listing, packed) = (wal.entries(), PackedTimes::of(&wal));
    let own = backups
        .iter()
        .filter(|(record, _)| record.cluster() == Some(cluster));
    let mut records: Vec<BackupRecord> = own.clone().map(|(record, _)| record.clone()).collect();
    let backups = own.map(|backup| backup_info(backup, &listing, &records, objects));
    let mut backups: Vec<BackupInfo> = backups.collect::<Result<_, _>>()?;
    if !backups.iter().all(BackupInfo::is_whole) {
        // An expiry may have taken away meanwhile what they lack.
        let listed = part.list_backups().await?;
        let is_listed = |label: &str| listed.iter().any(|listed| listed.as_str() == label);
        backups.retain(|backup| backup.is_whole() || is_listed(&backup.label));
        records.retain(|record| backups.iter().any(|backup| backup.label == record.label));
    }
    let pinned = async |label: String| {
        let label = label.parse()?;
        match objects.has(&label, BACKUP_PINNED) {
            true => pins::of(part, &label).await,
            false => Ok(None),
        }
    };
    let labels = backups.iter().map(|backup| backup.label.clone());
    let pins = read_each(labels.collect::<Vec<_>>(), pinned).await;
    for (backup, pinned) in backups.iter_mut().zip(pins) {
        backup.pinned = pinned?;
    }
    let segment_size_bytes = match records.last() {
        Some(record) => Some(record.segment_size_bytes),
        None => wal_index::segment_size(part, &listing).await?,
    };
    let segment_size = segment_size_bytes.unwrap_or(wal_index::DEFAULT_SEGMENT_SIZE);
    let of_backups = records.iter().zip(&backups);
    let stored = of_backups.filter(|(_, backup)| backup.is_stored());
    let stored: Vec<BackupRecord> = stored.map(|(record, _)| record.clone()).collect();
    let mut histories = Timelines::read(part, &listing).await;
    if let Some(failure) = histories.take_failure() {
        return Err(failure);
    }
    let known = (&*listing, &histories);
    let competing = competing(part, known, &records, segment_size).await?;
    let wal = timeline_info::timelines((part, &packed), known, &stored, segment_size);
    Ok(ClusterContent {
        cluster: ClusterInfo {
            system_identifier: cluster.system_id.to_string(),
            major: cluster.major,
        },
        created: part.created(),
        segment_size_bytes,
        backups,
        wal: wal.await?,
        stored_wal: StoredWal::of(&listing),
        set_aside: set_aside::list(part).await?,
        competing_timelines: competing.keys().map(|timeline| timeline.0).collect(),
        growth: Growth::of(&listing, &records, segment_size, Timestamp::now()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archived::wal_index::{RecoveryWindow, SegmentRange};
    use crate::backups::backup_objects::DamagedObject;
    use crate::backups::backup_record::{DatabaseRecord, Moment};
    use crate::server::tablespace_record::TablespaceRecord;
    use crate::wal::wal_end::WalEnd;
    use walzip_pgformat::{Lsn, TimelineId};
    use walzip_repo::{BackupType, Pin};

    fn example() -> Info {
        let moment = Moment {
            lsn: Lsn(0x200_0028),
            timeline: TimelineId(1),
            time: Timestamp::UNIX_EPOCH,
        };
        let range = |first: &str, last: &str, segments| SegmentRange {
            first: first.to_owned(),
            last: last.to_owned(),
            segments,
            first_time: Some(Timestamp::UNIX_EPOCH),
            last_time: None,
        };
        let newest = ClusterContent {
            cluster: ClusterInfo {
                system_identifier: "7".to_owned(),
                major: 15,
            },
            created: Timestamp::UNIX_EPOCH,
            stored_wal: StoredWal {
                files: 2,
                bytes: 20,
                last_stored: Some(Timestamp::UNIX_EPOCH),
            },
            set_aside: vec![SetAside {
                label: "00000002".to_owned(),
                objects: 5,
                stored_bytes: 7,
            }],
            competing_timelines: vec![1, 2],
            growth: Some(Growth {
                since: Timestamp::UNIX_EPOCH,
                wal_original_bytes_per_day: 30,
                wal_stored_bytes_per_day: 3,
                backup_stored_bytes_per_day: 1,
            }),
            segment_size_bytes: Some(1 << 24),
            backups: vec![BackupInfo {
                label: "20261121-220130I".to_owned(),
                backup_type: BackupType::Incr,
                prior: Some("20261121-220129F".to_owned()),
                references: vec!["20261121-220129F".to_owned()],
                missing_references: Vec::new(),
                server_version: "15.13".to_owned(),
                from_standby: false,
                start: moment,
                stop: moment,
                first_segment: Some("000000010000000000000002".to_owned()),
                last_segment: None,
                original_bytes: 2,
                stored_bytes: 1,
                tablespaces: vec![TablespaceRecord {
                    name: Some("fast".to_owned()),
                    oid: 16385,
                    location: "/srv/fast".to_owned(),
                }],
                databases: vec![DatabaseRecord::new(16384, "shop")],
                checksums_verified: true,
                pinned: Some(Pin {
                    pinned: Timestamp::UNIX_EPOCH,
                    reason: Some("why".to_owned()),
                }),
                missing_segments: Vec::new(),
                damaged_objects: vec![DamagedObject {
                    backup: "20261121-220129F".to_owned(),
                    object: "pack.0000".to_owned(),
                    problem: "is missing".to_owned(),
                }],
            }],
            wal: vec![TimelineWal {
                timeline: 1,
                has_history: false,
                history_missing: false,
                parent: None,
                parted_at: None,
                restorable_to: Some(WalEnd {
                    timeline: 1,
                    segment: Some("b".to_owned()),
                    last_record: Lsn(0x200_0100),
                    last_transaction: Some(Timestamp::UNIX_EPOCH),
                }),
                recovery_windows: vec![RecoveryWindow {
                    backup: "20261121-220130I".to_owned(),
                    from: moment,
                    to: WalEnd {
                        timeline: 1,
                        segment: None,
                        last_record: Lsn(0x200_0100),
                        last_transaction: None,
                    },
                    then_missing: Some(range("c", "d", 2)),
                }],
                age_seconds: Some(7),
                segments: 2,
                original_bytes: 200,
                stored_bytes: 20,
                ranges: vec![range("a", "b", 2)],
                gaps: Vec::new(),
                partial: Vec::new(),
            }],
        };
        let older = ClusterContent {
            cluster: ClusterInfo {
                system_identifier: "6".to_owned(),
                major: 14,
            },
            created: Timestamp::UNIX_EPOCH,
            segment_size_bytes: None,
            backups: Vec::new(),
            wal: Vec::new(),
            stored_wal: StoredWal::of(&[]),
            set_aside: Vec::new(),
            competing_timelines: Vec::new(),
            growth: None,
        };
        Info {
            format: 1,
            newest,
            unreadable_backups: vec![UnreadableBackup {
                label: "20261121-220128F".to_owned(),
                problem: "damaged".to_owned(),
            }],
            unfinished_backups: vec!["20261121-220129F".to_owned()],
            last_verified: Some(Timestamp::UNIX_EPOCH),
            last_verified_findings: Some(2),
            older_clusters: vec![older],
            cluster_problems: vec!["lost".to_owned()],
            received: Some(ReceiveState {
                directory: "/received".into(),
                problem: None,
                is_receiving: Some(true),
                cluster: Some("cluster 7".to_owned()),
                timeline: Some(1),
                received_to: Some("0/2000100".to_owned()),
                unfinished_segment: Some("c".to_owned()),
                last_written: Some(Timestamp::UNIX_EPOCH),
                age_seconds: Some(3),
                waiting_files: 2,
                waiting_bytes: 30,
            }),
        }
    }

    /// Scripts read these names: a change here is a change of the interface.
    #[test]
    fn has_the_field_names_that_scripts_read() {
        let epoch = "1970-01-01T00:00:00Z";
        let moment = serde_json::json!({ "lsn": "0/2000028", "timeline": 1, "time": epoch });
        let expected = serde_json::json!({
            "format": 1,
            "cluster": { "system_identifier": "7", "major": 15 },
            "created": epoch,
            "stored_wal": { "files": 2, "bytes": 20, "last_stored": epoch },
            "set_aside": [{ "label": "00000002", "objects": 5, "stored_bytes": 7 }],
            "competing_timelines": [1, 2],
            "growth": {
                "since": epoch,
                "wal_original_bytes_per_day": 30,
                "wal_stored_bytes_per_day": 3,
                "backup_stored_bytes_per_day": 1,
            },
            "segment_size_bytes": 16777216,
            "backups": [{
                "label": "20261121-220130I",
                "type": "incr",
                "prior": "20261121-220129F",
                "references": ["20261121-220129F"],
                "missing_references": [],
                "server_version": "15.13",
                "from_standby": false,
                "start": moment,
                "stop": moment,
                "first_segment": "000000010000000000000002",
                "last_segment": null,
                "original_bytes": 2,
                "stored_bytes": 1,
                "tablespaces": [{ "oid": 16385, "name": "fast", "location": "/srv/fast" }],
                "databases": [{ "oid": 16384, "name": "shop" }],
                "checksums_verified": true,
                "pinned": { "pinned": epoch, "reason": "why" },
                "missing_segments": [],
                "damaged_objects": [{
                    "backup": "20261121-220129F",
                    "object": "pack.0000",
                    "problem": "is missing",
                }],
            }],
            "unreadable_backups": [{ "label": "20261121-220128F", "problem": "damaged" }],
            "unfinished_backups": ["20261121-220129F"],
            "wal": [{
                "timeline": 1,
                "has_history": false,
                "history_missing": false,
                "parent": null,
                "parted_at": null,
                "restorable_to": {
                    "timeline": 1,
                    "segment": "b",
                    "last_record": "0/2000100",
                    "last_transaction": epoch,
                },
                "recovery_windows": [{
                    "backup": "20261121-220130I",
                    "from": moment,
                    "to": {
                        "timeline": 1,
                        "segment": null,
                        "last_record": "0/2000100",
                        "last_transaction": null,
                    },
                    "then_missing": {
                        "first": "c",
                        "last": "d",
                        "segments": 2,
                        "first_time": epoch,
                        "last_time": null,
                    },
                }],
                "age_seconds": 7,
                "segments": 2,
                "original_bytes": 200,
                "stored_bytes": 20,
                "ranges": [{
                    "first": "a",
                    "last": "b",
                    "segments": 2,
                    "first_time": epoch,
                    "last_time": null,
                }],
                "gaps": [],
                "partial": [],
            }],
            "last_verified": epoch,
            "last_verified_findings": 2,
            "older_clusters": [{
                "cluster": { "system_identifier": "6", "major": 14 },
                "created": epoch,
                "segment_size_bytes": null,
                "backups": [],
                "wal": [],
                "stored_wal": { "files": 0, "bytes": 0, "last_stored": null },
                "set_aside": [],
                "competing_timelines": [],
                "growth": null,
            }],
            "cluster_problems": ["lost"],
            "received": {
                "directory": "/received",
                "problem": null,
                "is_receiving": true,
                "cluster": "cluster 7",
                "timeline": 1,
                "received_to": "0/2000100",
                "unfinished_segment": "c",
                "last_written": epoch,
                "age_seconds": 3,
                "waiting_files": 2,
                "waiting_bytes": 30,
            },
        });
        assert_eq!(serde_json::to_value(example()).expect("JSON"), expected);
    }

    #[test]
    fn every_field_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
        let page = std::fs::read_to_string(path).expect("docs/json.md");
        let mut values = vec![serde_json::to_value(example()).expect("JSON")];
        while let Some(value) = values.pop() {
            match value {
                serde_json::Value::Object(fields) => {
                    for (name, value) in fields {
                        assert!(page.contains(&format!("`{name}`")), "{name}");
                        values.push(value);
                    }
                }
                serde_json::Value::Array(all) => values.extend(all),
                _ => {}
            }
        }
    }
}
