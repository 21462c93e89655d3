//! `backup`: a running cluster into the repository.
//!
//! The server sends tar archives over the replication protocol; they are compressed and stored
//! as they come, in bounded memory. PostgreSQL's own manifest is stored with them. The backup
//! exists for others only when its description is written. Before that it is read back and
//! unpacked into nothing, which proves every file against the manifest, and all WAL that it needs
//! is in the repository: a backup that is listed can be restored.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::BytesMut;
use jiff::Timestamp;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::{BackupWriter, Repository};

use crate::backup_record::{ArchiveRecord, BackupRecord, Moment, RequiredWal};
use crate::backup_stream::StreamWriter;
use crate::error::ArchiveError;
use crate::pg_manifest::{PgManifest, WalRange};
use crate::progress::{Phase, Progress};
use crate::replication::{
    BackupEnd, BackupPart, BackupTablespace, BaseBackup, BaseBackupOptions, Connection,
    ConnectionSettings, ManifestChecksums, Mode, ServerError,
};
use crate::restore;
use crate::server::{self, Server};
use crate::tablespaces::{self, Tablespaces};
use crate::tar_links::TarLinks;
use crate::wal_wait;

/// About seven million files; beyond it something other than a manifest is being sent.
const MANIFEST_BYTES_MAX: usize = 1 << 30;

/// How to take a backup.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// Checkpoint at once, at the price of a burst of writes; otherwise the backup begins with
    /// the next regular checkpoint, minutes later.
    pub fast_checkpoint: bool,
    /// The checksum that the server computes for each file.
    pub checksums: ManifestChecksums,
    /// zstd's level for the archives.
    pub zstd_level: i32,
    /// How long to wait for WAL to be archived before the copy.
    pub archive_timeout: Duration,
    /// How long to wait for it after the copy, which is lost when time is up.
    pub wal_timeout: Duration,
    /// Read back what was stored and prove it, before the backup exists. Leaving it out trusts the
    /// memory and the storage of the machine.
    pub verify: bool,
    /// Archives are cut into objects of at most this size.
    pub object_bytes_max: u64,
    /// The server sends no more than this many kilobytes a second, from 32 to 1048576.
    pub max_rate_kilobytes: Option<u32>,
    /// Make the server look for the size of everything first, so that progress has an end.
    pub estimate_size: bool,
    /// Where to leave how far it has come.
    pub progress: Progress,
}

impl Default for BackupOptions {
    fn default() -> Self {
        BackupOptions {
            fast_checkpoint: true,
            checksums: ManifestChecksums::default(),
            zstd_level: 3,
            archive_timeout: Duration::from_secs(60),
            wal_timeout: Duration::from_secs(60 * 60),
            verify: true,
            object_bytes_max: 64 << 30,
            max_rate_kilobytes: None,
            estimate_size: false,
            progress: Progress::default(),
        }
    }
}

/// Takes a base backup of the server into its cluster's part of the repository.
pub async fn backup(
    repository: &Repository,
    settings: &ConnectionSettings,
    options: &BackupOptions,
) -> Result<BackupRecord, ArchiveError> {
    let progress = &options.progress;
    let (repository, server) = &server::inspect(repository, settings).await?;
    progress.begin(Phase::CheckingArchiving, 0);
    match server::check_archiving(repository, settings, server, options.archive_timeout).await {
        // What would be found now is found after the copy.
        Err(error @ ArchiveError::SwitchRefused(_)) => tracing::warn!("before the backup: {error}"),
        checked => {
            checked?;
        }
    }

    let writer = repository.start_backup().await?;
    tracing::info!("backup {} begins", writer.label());
    let copied = copy(&writer, settings, options, server).await?;
    let stop_time = server::clock(settings).await?;
    let record = record(&writer, server, copied, stop_time)?;

    if options.verify {
        tracing::info!("backup {} is read back", writer.label());
        progress.begin(Phase::ReadingBack, record.original_bytes());
        restore::prove(repository, &record, progress).await?;
    }
    tracing::info!("backup {} waits for its WAL", writer.label());
    let required = record.required_segments()?;
    progress.begin(Phase::WaitingForWal, required.len() as u64);
    wal_wait::wait_for(
        repository,
        required,
        options.wal_timeout,
        settings,
        progress,
    )
    .await?;
    let mut json = serde_json::to_vec_pretty(&record)
        .map_err(|error| ArchiveError::Internal(error.to_string()))?;
    json.push(b'\n');
    writer.finish(json.into()).await?;
    Ok(record)
}

/// What the server sent, stored.
struct Copied {
    start: Moment,
    end: BackupEnd,
    tablespaces: Tablespaces,
    archives: Vec<ArchiveRecord>,
    manifest: ArchiveRecord,
    wal_ranges: Vec<WalRange>,
}

async fn copy(
    writer: &BackupWriter,
    settings: &ConnectionSettings,
    options: &BackupOptions,
    server: &Server,
) -> Result<Copied, ArchiveError> {
    let names = tablespaces::names(settings).await?;
    let start_time = server::clock(settings).await?;
    options.progress.begin(Phase::WaitingForCheckpoint, 0);
    let mut connection = Connection::open(settings, Mode::Replication).await?;
    let base_backup_options = BaseBackupOptions {
        label: format!("walzip {}", writer.label()),
        fast_checkpoint: options.fast_checkpoint,
        checksums: options.checksums,
        estimate_size: options.estimate_size,
        max_rate_kilobytes: options.max_rate_kilobytes,
    };
    let mut base_backup = BaseBackup::start(&mut connection, &base_backup_options).await?;
    let announced = base_backup.tablespaces.clone();
    refuse_in_place(&announced)?;
    let start = Moment {
        lsn: base_backup.start,
        timeline: base_backup.timeline,
        time: start_time,
    };

    let sent = store_parts(writer, &mut base_backup, options).await?;
    let end = base_backup.finish().await?;
    connection.close().await;
    let tablespaces = Tablespaces::after_copy(settings, announced, sent.links, names).await;

    let wal_ranges = PgManifest::read(&sent.manifest)
        .map_err(|error| ServerError::Protocol(error.to_string()))?
        .wal_ranges;
    check_ranges(&wal_ranges, &start, &end)?;
    tracing::debug!(major = server.identity.major, start = %start.lsn, end = %end.lsn, "copied");
    let mut stream = StreamWriter::new(
        writer,
        "backup_manifest",
        None,
        options.zstd_level,
        u64::MAX,
    )?;
    stream.write(&sent.manifest).await?;
    let manifest = stream.finish().await?;
    Ok(Copied {
        start,
        end,
        tablespaces,
        archives: sent.archives,
        manifest,
        wal_ranges,
    })
}

/// The parts of a base backup.
struct Sent {
    archives: Vec<ArchiveRecord>,
    /// The locations of all tablespaces whose links came with the data directory, by OID.
    links: BTreeMap<u32, String>,
    manifest: BytesMut,
}

/// Stores the archives and collects the manifest, which has to be read as well.
async fn store_parts(
    writer: &BackupWriter,
    base_backup: &mut BaseBackup<'_>,
    options: &BackupOptions,
) -> Result<Sent, ArchiveError> {
    let progress = &options.progress;
    progress.begin(Phase::Copying, base_backup.estimated_bytes);
    let mut archives = Vec::new();
    let mut links = TarLinks::default();
    let mut manifest = BytesMut::new();
    let mut stream: Option<StreamWriter<'_>> = None;
    while let Some(part) = base_backup.next().await? {
        match part {
            BackupPart::Data(data) => match &mut stream {
                Some(stream) => {
                    if stream.tablespace_oid().is_none() {
                        links.feed(&data);
                    }
                    stream.write(&data).await?;
                    progress.add(data.len() as u64);
                }
                None if manifest.len() + data.len() > MANIFEST_BYTES_MAX => {
                    let reason = "the backup manifest is longer than 1 GiB".to_owned();
                    return Err(ServerError::Protocol(reason).into());
                }
                None => manifest.extend_from_slice(&data),
            },
            BackupPart::Archive(tablespace) => {
                finish_archive(stream.take(), &mut archives).await?;
                let oid = tablespace.map(|tablespace| tablespace.oid);
                let name = match oid {
                    Some(oid) => format!("{oid}.tar"),
                    None => "base.tar".to_owned(),
                };
                tracing::info!("copying {name}");
                let (level, max) = (options.zstd_level, options.object_bytes_max);
                stream = Some(StreamWriter::new(writer, &name, oid, level, max)?);
            }
            BackupPart::Manifest => finish_archive(stream.take(), &mut archives).await?,
        }
    }
    finish_archive(stream, &mut archives).await?;
    Ok(Sent {
        archives,
        links: links.into_found(),
        manifest,
    })
}

async fn finish_archive(
    stream: Option<StreamWriter<'_>>,
    archives: &mut Vec<ArchiveRecord>,
) -> Result<(), ArchiveError> {
    if let Some(stream) = stream {
        archives.push(stream.finish().await?);
    }
    Ok(())
}

/// `allow_in_place_tablespaces` is for PostgreSQL's own tests; such a tablespace has no place of
/// its own to be restored to.
fn refuse_in_place(tablespaces: &[BackupTablespace]) -> Result<(), ArchiveError> {
    match tablespaces
        .iter()
        .find(|tablespace| !tablespace.location.starts_with('/'))
    {
        None => Ok(()),
        Some(tablespace) => {
            let oid = tablespace.oid;
            let reason = format!("tablespace {oid} lies inside the data directory");
            Err(ArchiveError::Request(reason))
        }
    }
}

fn check_ranges(ranges: &[WalRange], start: &Moment, end: &BackupEnd) -> Result<(), ArchiveError> {
    let first = ranges.first().map(|range| (range.start, range.timeline));
    let last = ranges.last().map(|range| (range.end, range.timeline));
    if first == Some((start.lsn, start.timeline)) && last == Some((end.lsn, end.timeline)) {
        return Ok(());
    }
    let reason = format!(
        "the backup runs from {} to {}, its manifest says otherwise: {ranges:?}",
        start.lsn, end.lsn
    );
    Err(ServerError::Protocol(reason).into())
}

fn record(
    writer: &BackupWriter,
    server: &Server,
    copied: Copied,
    stop_time: Timestamp,
) -> Result<BackupRecord, ArchiveError> {
    let required_wal = required_wal(&copied.wal_ranges, server.segment_size_bytes)?;
    Ok(BackupRecord {
        format: BackupRecord::FORMAT,
        label: writer.label().to_string(),
        system_identifier: server.identity.system_id.to_string(),
        major: server.identity.major,
        server_version: server.version.clone(),
        segment_size_bytes: server.segment_size_bytes,
        from_standby: server.in_recovery,
        start: copied.start,
        stop: Moment {
            lsn: copied.end.lsn,
            timeline: copied.end.timeline,
            time: stop_time,
        },
        required_wal,
        tablespaces: copied.tablespaces.announced,
        new_tablespaces: copied.tablespaces.new,
        archives: copied.archives,
        manifest: copied.manifest,
    })
}

/// The segments that hold the ranges.
///
/// The segment in which a timeline was left is needed under its child's name only: the child
/// begins it with a copy, and the parent's own may exist as `.partial` alone.
fn required_wal(
    ranges: &[WalRange],
    segment_size_bytes: u32,
) -> Result<Vec<RequiredWal>, ArchiveError> {
    let mut required = Vec::new();
    for (index, range) in ranges.iter().enumerate() {
        let segment = |lsn| SegmentName::from_lsn(range.timeline, lsn, segment_size_bytes);
        let first_segment = segment(range.start)?;
        let is_last_timeline = index + 1 == ranges.len();
        let end = if is_last_timeline {
            // The byte at the end itself is not needed.
            range.end.0.saturating_sub(1).max(range.start.0)
        } else {
            let left_in = range.end.0 - range.end.0 % u64::from(segment_size_bytes);
            if left_in <= range.start.0 {
                continue;
            }
            left_in - 1
        };
        let last_segment = segment(walzip_pgformat::Lsn(end))?;
        required.push(RequiredWal {
            first_segment,
            last_segment,
        });
    }
    Ok(required)
}

#[cfg(test)]
mod tests {
    use super::*;
    use walzip_pgformat::{Lsn, TimelineId};

    fn segments(ranges: &[(u32, u64, u64)]) -> Vec<String> {
        let ranges: Vec<WalRange> = ranges
            .iter()
            .map(|&(timeline, start, end)| WalRange {
                timeline: TimelineId(timeline),
                start: Lsn(start),
                end: Lsn(end),
            })
            .collect();
        let required = required_wal(&ranges, 16 << 20).expect("valid");
        let names = required.iter().flat_map(|range| {
            let first = range.first_segment.number(16 << 20).expect("valid");
            let last = range.last_segment.number(16 << 20).expect("valid");
            (first..=last).map(|number| {
                SegmentName::from_number(range.first_segment.timeline, number, 16 << 20)
            })
        });
        names.map(|name| name.expect("valid").to_string()).collect()
    }

    #[test]
    fn needs_every_segment_from_the_start_to_the_byte_before_the_stop() {
        assert_eq!(
            segments(&[(1, 0x200_0028, 0x200_0138)]),
            ["000000010000000000000002"]
        );
        assert_eq!(
            segments(&[(1, 0x200_0028, 0x300_0000)]),
            ["000000010000000000000002"]
        );
        assert_eq!(
            segments(&[(1, 0x200_0028, 0x300_0001)]),
            ["000000010000000000000002", "000000010000000000000003"]
        );
    }

    #[test]
    fn needs_the_segment_of_a_switch_on_the_new_timeline_only() {
        assert_eq!(
            segments(&[(1, 0x200_0028, 0x350_0000), (2, 0x350_0000, 0x400_0001)]),
            [
                "000000010000000000000002",
                "000000020000000000000003",
                "000000020000000000000004"
            ]
        );
        assert_eq!(
            segments(&[(1, 0x200_0028, 0x250_0000), (2, 0x250_0000, 0x260_0000)]),
            ["000000020000000000000002"]
        );
    }
}
