//! `backup.json`: everything about a backup that a restore needs to know beforehand.
//!
//! The field names are part of the repository's format: they are added to, never renamed.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::{BackupLabel, BackupType, ClusterIdentity, Repository};

use crate::backups::backup_json;
use crate::backups::unlogged::UnloggedRelation;
use crate::error::ArchiveError;
use crate::read_each::read_each;
use crate::server::tablespace_record::TablespaceRecord;
use crate::wal::text;

/// Backups that one refers to, at most.
pub(crate) const REFERENCES_MAX: usize = 1 << 12;

/// The newest version of descriptions.
const FORMAT: u32 = 5;
/// The version in which the files were stored as tar archives.
const FORMAT_OF_ARCHIVES: u32 = 1;
/// The first version with block hashes, in which backups may refer to others.
const FORMAT_OF_TYPES: u32 = 3;
/// That of backups that took several attempts. Those of one have the version before it, which more
/// readers know.
const FORMAT_OF_ATTEMPTS: u32 = 4;
/// That of backups with indexes that are told from their tables, of however many attempts.
const FORMAT_OF_TABLES: u32 = 5;

/// So many backups are named that a server has seen: what is older is no longer summarized.
pub(crate) const FOLLOWS_MAX: usize = 256;

/// More segments than any backup needs: 64 TiB of the default size. A description that asks for
/// more is damaged.
const REQUIRED_SEGMENTS_MAX: u64 = 1 << 22;

/// A finished base backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupRecord {
    /// The version of this description, 1 to 5.
    pub format: u32,
    /// The backup's label, as in its key.
    pub label: String,
    /// From format 3 on: the type. Up to then all are full.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub backup_type: Option<BackupType>,
    /// The label of the backup that it was compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior: Option<String>,
    /// The labels of the backups without which it cannot be restored: first the full one against
    /// which changed blocks are told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
    /// From format 4 on: how many attempts it took, of which the last one was finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// The cluster's system identifier, as text: JSON readers lose digits of large numbers.
    pub system_identifier: String,
    /// The server's major version.
    pub major: u32,
    /// The server's version as it announced it.
    pub server_version: String,
    /// The size of the cluster's WAL segments.
    pub segment_size_bytes: u32,
    /// Whether the server was a standby.
    pub from_standby: bool,
    /// Where recovery starts.
    pub start: Moment,
    /// Where the backup becomes consistent: no restore to an earlier moment is possible.
    pub stop: Moment,
    /// The WAL without which the backup is worth nothing. All of it was in the repository when
    /// this was written.
    pub required_wal: Vec<RequiredWal>,
    /// The tablespaces other than the data directory.
    pub tablespaces: Vec<TablespaceRecord>,
    /// Tablespaces that were created while the backup ran. Nothing of them is in it: a replay
    /// makes them, in the directories that they had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new_tablespaces: Vec<TablespaceRecord>,
    /// The databases, as far as the server named them; older backups do not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<DatabaseRecord>,
    /// Unlogged relations that got their initial fork while the backup ran: their other files are not restored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlogged: Vec<UnloggedRelation>,
    /// Up to format 1: one tar archive per tablespace, then the data directory's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub archives: Vec<ArchiveRecord>,
    /// Whether the cluster's pages had checksums; older backups do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_checksums: Option<bool>,
    /// The labels of earlier backups that this server is known to have seen, the last one first: what it was
    /// then, it has become what it was now from. Older backups do not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follows: Vec<String>,
    /// Whether no page had a wrong checksum, as far as checksums tell; not where it was taken without
    /// verifying them.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub checksums_verified: bool,
    /// From format 2 on: the files, in packs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesRecord>,
    /// From format 3 on: what tells blocks that have changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_hashes: Option<BlockHashesRecord>,
    /// PostgreSQL's `backup_manifest`.
    pub manifest: ArchiveRecord,
}

fn yes() -> bool {
    true
}

fn is_true(flag: &bool) -> bool {
    *flag
}

/// A position and the time at which it was current.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The position.
    #[serde(with = "text")]
    pub lsn: Lsn,
    /// Its timeline.
    #[serde(with = "timeline")]
    pub timeline: TimelineId,
    /// By the server's clock.
    pub time: Timestamp,
}

/// Consecutive segments of one timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequiredWal {
    /// The first.
    #[serde(with = "text")]
    pub first_segment: SegmentName,
    /// The last.
    #[serde(with = "text")]
    pub last_segment: SegmentName,
}

/// A database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseRecord {
    /// Its OID.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// The database whose files the replay copies to make it: without them it is not restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_from: Option<u32>,
    /// Whether it was dropped while the backup ran: no restore has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
    /// Whether it may have had another name when the backup ended: then nobody can mean it by a name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub name_unknown: bool,
}

impl DatabaseRecord {
    /// One that is neither dropped nor copied, and whose name is known.
    pub(crate) fn new(oid: u32, name: &str) -> DatabaseRecord {
        DatabaseRecord {
            oid,
            name: name.to_owned(),
            copied_from: None,
            dropped: false,
            name_unknown: false,
        }
    }
}

/// The files of a backup, in packs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesRecord {
    /// Their size.
    pub original_bytes: u64,
    /// The objects that hold them.
    pub packs: Vec<ObjectRecord>,
    /// What is where in the packs.
    pub index: ArchiveRecord,
}

/// Hashes of the blocks in a backup's own stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockHashesRecord {
    /// What makes them.
    #[serde(default)]
    pub function: BlockHashFunction,
    /// What they are keyed with, in hexadecimal.
    pub key: String,
    /// Those of the stream up to the changed blocks.
    pub objects: Vec<ObjectRecord>,
    /// Those of the changed blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ObjectRecord>,
}

impl BlockHashesRecord {
    /// Whether CRCs stand behind the hashes.
    pub(crate) fn has_crcs(&self) -> bool {
        self.function == BlockHashFunction::HighwayHash64Crc32c
    }
}

/// A keyed hash function for blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockHashFunction {
    /// BLAKE3, cut to 8 bytes: where no function is recorded.
    #[default]
    Blake3,
    /// HighwayHash with 64 bits.
    HighwayHash64,
    /// The same, and after it CRC-32C, of which the checksum of a file can be put together.
    HighwayHash64Crc32c,
    /// One of a later version.
    #[serde(other)]
    Unknown,
}

/// A file that was compressed with zstd and cut into objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveRecord {
    /// The tablespace, for a tablespace's archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tablespace_oid: Option<u32>,
    /// The size before compression.
    pub original_bytes: u64,
    /// The objects that, put together, decompress to the file.
    pub objects: Vec<ObjectRecord>,
}

/// One object in the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRecord {
    /// Its name below the backup's label.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// BLAKE3 of its bytes, in hexadecimal.
    pub blake3: String,
}

/// The name of the pack with a number, for messages.
pub(crate) fn name_of(packs: &[ObjectRecord], number: u32) -> &str {
    let pack = packs.get(number as usize);
    pack.map_or("a pack that it has not", |pack| &pack.name)
}

impl RequiredWal {
    /// The numbers of the segments, if there are so few.
    fn numbers(
        &self,
        segment_size_bytes: u32,
        at_most: u64,
    ) -> Result<RangeInclusive<u64>, ArchiveError> {
        let first = self.first_segment.number(segment_size_bytes)?;
        let last = self.last_segment.number(segment_size_bytes)?;
        let more = last.checked_sub(first);
        if more.is_none_or(|more| more >= at_most) {
            let (from, to) = (self.first_segment, self.last_segment);
            return Err(ArchiveError::Damaged {
                object: "backup.json".to_owned(),
                reason: format!("a backup cannot need the WAL from {from} to {to}"),
            });
        }
        Ok(first..=last)
    }
}

impl BackupRecord {
    /// The version of a description that is written now, and how many attempts it names.
    pub(crate) fn format_of(attempt: u32, has_tables: bool) -> (u32, Option<u32>) {
        let attempts = (attempt > 1).then_some(attempt);
        let format = match attempts {
            _ if has_tables => FORMAT_OF_TABLES,
            Some(_) => FORMAT_OF_ATTEMPTS,
            None => FORMAT_OF_TYPES,
        };
        (format, attempts)
    }

    /// The size of the cluster's files.
    pub fn original_bytes(&self) -> u64 {
        let archives = self.archives.iter().map(|archive| archive.original_bytes);
        let files = self.files.iter().map(|files| files.original_bytes);
        archives.chain(files).sum()
    }

    /// The size in the repository, WAL not counted.
    pub fn stored_bytes(&self) -> u64 {
        self.objects().map(|object| object.size_bytes).sum()
    }

    /// All objects of the backup but its description.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectRecord> {
        self.restored_objects().chain(self.hash_objects())
    }

    /// Those that a restore reads.
    pub(crate) fn restored_objects(&self) -> impl Iterator<Item = &ObjectRecord> {
        let packs = self.files.iter().flat_map(|files| &files.packs);
        packs.chain(self.streams().flat_map(|stream| &stream.objects))
    }

    /// Those of block hashes, which only the next backup reads.
    pub(crate) fn hash_objects(&self) -> impl Iterator<Item = &ObjectRecord> {
        let hashes = self.block_hashes.iter();
        hashes.flat_map(|hashes| hashes.objects.iter().chain(&hashes.changed))
    }

    /// What is stored as a stream.
    pub(crate) fn streams(&self) -> impl Iterator<Item = &ArchiveRecord> {
        let indexes = self.files.iter().map(|files| &files.index);
        self.archives.iter().chain(indexes).chain([&self.manifest])
    }

    /// The names of all segments that the backup needs.
    pub fn required_segments(&self) -> Result<Vec<SegmentName>, ArchiveError> {
        let size = self.segment_size_bytes;
        let mut segments = Vec::new();
        for range in &self.required_wal {
            let left = REQUIRED_SEGMENTS_MAX - segments.len() as u64;
            let timeline = range.first_segment.timeline;
            for number in range.numbers(size, left)? {
                segments.push(SegmentName::from_number(timeline, number, size)?);
            }
        }
        Ok(segments)
    }

    /// Reads the description of a finished backup and checks that it is of this cluster.
    pub async fn read(
        repository: &Repository,
        label: &BackupLabel,
    ) -> Result<BackupRecord, ArchiveError> {
        let record = BackupRecord::read_any(repository, label).await?;
        match record.cluster() == Some(repository.cluster()) {
            true => Ok(record),
            false => Err(of_another(label)),
        }
    }

    /// Reads the description of a finished backup, of whichever cluster.
    pub(crate) async fn read_any(
        repository: &Repository,
        label: &BackupLabel,
    ) -> Result<BackupRecord, ArchiveError> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let json = repository.read_backup_json(label).await?;
        let damaged = |reason: String| damaged(label, reason);
        if !backup_json::is_as_written(&json) {
            return Err(damaged(
                "its description does not match its hash".to_owned(),
            ));
        }
        let Format { format } =
            serde_json::from_slice(&json).map_err(|error| damaged(error.to_string()))?;
        if !(FORMAT_OF_ARCHIVES..=FORMAT).contains(&format) {
            let known = format!("{FORMAT_OF_ARCHIVES} to {FORMAT}");
            let reason = format!("its description has format {format}, this walzip knows {known}");
            return Err(damaged(reason));
        }
        let record: BackupRecord =
            serde_json::from_slice(&json).map_err(|error| damaged(error.to_string()))?;
        if record.label != label.as_str() || record.cluster().is_none() {
            return Err(of_another(label));
        }
        match record.contradiction() {
            None => Ok(record),
            Some(wrong) => Err(damaged(wrong.to_owned())),
        }
    }

    /// What its description says of itself that cannot be.
    fn contradiction(&self) -> Option<&'static str> {
        if (self.format > FORMAT_OF_ARCHIVES) != self.files.is_some() {
            return Some("its description does not say where its files are");
        }
        let has_type = self.backup_type.is_some() && self.block_hashes.is_some();
        if has_type != (self.format >= FORMAT_OF_TYPES) {
            return Some("its description has no type, or one that its format does not know");
        }
        let has_attempts = self.attempts.is_some_and(|attempts| attempts > 1);
        let fits = match self.format {
            ..FORMAT_OF_ATTEMPTS => self.attempts.is_none(),
            FORMAT_OF_ATTEMPTS => has_attempts,
            _ => has_attempts == self.attempts.is_some(),
        };
        if !fits {
            return Some("its description has attempts, or none that its format asks for");
        }
        let label: Option<BackupLabel> = self.label.parse().ok();
        if label.map(|label| label.backup_type()) != Some(self.backup_type()) {
            return Some("its description has another type than its label");
        }
        let is_full = self.backup_type() == BackupType::Full;
        if is_full != self.references.is_empty() || is_full != self.prior.is_none() {
            return Some("it is full and refers to others, or is not and does not");
        }
        let mut labels = BTreeSet::from([&self.label]);
        let is_other = |reference| labels.insert(reference);
        if self.references.len() > REFERENCES_MAX || !self.references.iter().all(is_other) {
            return Some("it refers to itself, to one backup twice, or to too many");
        }
        None
    }

    /// Its type.
    pub fn backup_type(&self) -> BackupType {
        self.backup_type.unwrap_or(BackupType::Full)
    }

    /// Whose backup it is; nothing where that is not written as it has to be.
    pub(crate) fn cluster(&self) -> Option<ClusterIdentity> {
        format!("{}-{}", self.major, self.system_identifier)
            .parse()
            .ok()
    }
}

/// What is said of a description that does not belong where it is.
pub(crate) fn of_another(label: &BackupLabel) -> ArchiveError {
    let reason = "its description is of another backup or cluster";
    damaged(label, reason.to_owned())
}

fn damaged(label: &BackupLabel, reason: String) -> ArchiveError {
    ArchiveError::Damaged {
        object: format!("backup {label}"),
        reason,
    }
}

/// A finished backup, and what its description says.
#[derive(Debug)]
pub(crate) struct ListedBackup {
    pub(crate) label: BackupLabel,
    pub(crate) read: Result<BackupRecord, ArchiveError>,
}

impl ListedBackup {
    /// The backups of all clusters, oldest first.
    pub(crate) async fn all(repository: &Repository) -> Result<Vec<ListedBackup>, ArchiveError> {
        let read = async |label: BackupLabel| {
            let read = BackupRecord::read_any(repository, &label).await;
            ListedBackup { label, read }
        };
        Ok(read_each(repository.list_backups().await?, read).await)
    }

    /// How many others it needs, where that can be read.
    pub(crate) fn references(&self) -> usize {
        self.read
            .as_ref()
            .map_or(0, |record| record.references.len())
    }

    /// Whose backup it is, where that can be read.
    pub(crate) fn cluster(&self) -> Option<ClusterIdentity> {
        self.read.as_ref().ok()?.cluster()
    }
}

/// A timeline as a number.
mod timeline {
    use serde::{Deserialize, Deserializer, Serializer};
    use walzip_pgformat::TimelineId;

    pub(super) fn serialize<S: Serializer>(
        timeline: &TimelineId,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(timeline.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<TimelineId, D::Error> {
        u32::deserialize(deserializer).map(TimelineId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The JSON examples of the specification.
    fn examples() -> impl Iterator<Item = &'static str> {
        let specification = include_str!("../../../../docs/format/backup.md");
        let parts = specification.split("```json\n").skip(1);
        parts.filter_map(|part| Some(part.split_once("```")?.0))
    }

    #[test]
    fn the_examples_of_the_specification_are_read_and_written() {
        let backups = examples().filter(|example| example.contains("\"label\""));
        let formats = backups.map(|example| {
            let record: BackupRecord = serde_json::from_str(example).expect(example);
            let mut said: serde_json::Value = serde_json::from_str(example).expect("JSON");
            let hash = said.as_object_mut().and_then(|said| said.remove("blake3"));
            assert_eq!(serde_json::to_value(&record).expect("JSON"), said);
            assert!(backup_json::is_as_written(example.as_bytes()));
            let changed = example.replacen("16384", "16385", 1);
            assert_eq!(
                backup_json::is_as_written(changed.as_bytes()),
                hash.is_none()
            );
            assert_eq!(record.contradiction(), None);
            record.format
        });
        assert_eq!(formats.collect::<Vec<_>>(), [3, 3, 2, 1]);
    }

    #[test]
    fn a_description_that_contradicts_itself_is_refused() {
        let example = examples()
            .find(|example| example.contains("\"incr\""))
            .expect("one");
        let wrong = |changes: &[(&str, &str)]| {
            let mut changed = example.to_owned();
            for (from, to) in changes {
                assert!(changed.contains(from), "{from}");
                changed = changed.replacen(from, to, 1);
            }
            let record: BackupRecord = serde_json::from_str(&changed).expect("JSON");
            record.contradiction().is_some()
        };
        assert!(!wrong(&[]));
        let own = "\"references\": [\"20261121-220130F\"";
        for changes in [
            [("\"incr\"", "\"diff\"")].as_slice(),
            &[("\"incr\"", "\"full\"")],
            &[("\"format\": 3", "\"format\": 2")],
            &[("\"type\": \"incr\",", "")],
            &[("\"prior\": \"20261121-220130F\",", "")],
            &[(own, "\"references\": [")],
            &[(own, "\"references\": [\"20261122-220130I\"")],
            &[(
                own,
                "\"references\": [\"20261121-220130F\", \"20261121-220130F\"",
            )],
            &[
                ("20261122-220130I", "20261122-220130F"),
                ("\"incr\"", "\"full\""),
            ],
        ] {
            assert!(wrong(changes), "{changes:?}");
        }
    }
}
