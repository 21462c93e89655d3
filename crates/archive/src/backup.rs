//! `backup`: a running cluster into the repository.
//!
//! The cluster's files are read in place or sent by the server. They are cut into chunks, encoded,
//! proven and stored as they come, in bounded memory. PostgreSQL's own manifest is stored with them,
//! and proves every file. The backup exists for others only when its description is
//! written. Before that what was stored is read back, and all WAL that it needs is in the
//! repository: a backup that is listed can be restored.

mod attempt;
mod completeness;
mod copied_databases;
mod copying;
mod data_directory;
mod databases;
mod earlier;
mod listed;
mod required_wal;
pub(crate) mod source_server;
mod stored;
mod wal_wait;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use walzip_codec::Level;
use walzip_pgformat::backup_label::BackupLabel as BackupLabelFile;
use walzip_pgformat::control_file::ControlFile;
use walzip_repo::{BackupLabel, BackupType, BackupWriter, Pin, Repository};

use crate::archived::own_history;
use crate::archived::own_wal::{self, Replayed};
use crate::backup::attempt::Wanted;
use crate::backup::completeness::Present;
use crate::backup::copied_databases::Question;
pub use crate::backup::copying::CopyMethod;
use crate::backup::copying::{Copy, Request};
use crate::backup::databases::{Databases, Origin};
use crate::backup::listed::Before;
use crate::backup::required_wal::required_wal;
use crate::backup::source_server::{Acknowledgement, Server};
use crate::backup::stored::Stored;
use crate::backups::backup_json;
use crate::backups::backup_record::{BackupRecord, DatabaseRecord, Moment, ObjectRecord};
use crate::backups::backup_stream;
use crate::backups::chunks::kept::{How, Kept};
use crate::backups::chunks::pack::PACK_BYTES;
use crate::backups::chunks::prior::Prior;
use crate::backups::chunks::sources::Referred;
use crate::backups::chunks::writing::{Earlier, Encoding};
use crate::backups::unlogged::{self, UnloggedRelation};
use crate::coding::workers;
use crate::error::ArchiveError;
use crate::progress::{Phase, Progress};
use crate::restore;
use crate::server::replication::{Connection, ConnectionSettings, ManifestChecksums};
use crate::server::tablespaces::Tablespaces;

/// How to take a backup.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// Store all files, or what has changed since an earlier backup. Where there is none that fits,
    /// a full backup is taken.
    pub backup_type: BackupType,
    /// Checkpoint at once, at the price of a burst of writes; otherwise the backup begins with
    /// the next regular checkpoint, minutes later.
    pub fast_checkpoint: bool,
    /// The checksum that the server computes for each file.
    pub checksums: ManifestChecksums,
    /// How hard to try to make it small.
    pub level: Level,
    /// How many threads encode, each in the memory of some chunks.
    pub threads: usize,
    /// A pack that has this many bytes is closed, and another one begun.
    pub pack_bytes: u64,
    /// How long to wait for WAL to be archived before the copy.
    pub archive_timeout: Duration,
    /// How long to wait for it after the copy, which is lost when time is up.
    pub wal_timeout: Duration,
    /// Decode what was encoded and compare it, and read back what was stored, before the backup
    /// exists. Leaving it out trusts the encoder, and the memory and the storage of the machine.
    pub verify: bool,
    /// Make no backup of pages with wrong checksums, if the cluster has data checksums.
    pub verify_checksums: bool,
    /// No more than this many kilobytes are copied in a second, from 32 to 1048576.
    pub max_rate_kilobytes: Option<u32>,
    /// Make the server look for the size of everything first, so that progress has an end.
    pub estimate_size: bool,
    /// Who reads the files.
    pub method: CopyMethod,
    /// Read and compare all blocks, whatever the server's WAL summaries say.
    pub compares_all: bool,
    /// Keep it from being expired.
    pub pin: Option<Pin>,
    /// Go on with the newest backup, if that is a full one that was interrupted.
    pub resume: bool,
    /// Where to leave how far it has come.
    pub progress: Progress,
}

impl Default for BackupOptions {
    fn default() -> Self {
        BackupOptions {
            backup_type: BackupType::Full,
            fast_checkpoint: true,
            checksums: ManifestChecksums::default(),
            level: Level::MIN,
            threads: workers::processors(),
            pack_bytes: PACK_BYTES,
            archive_timeout: Duration::from_secs(60),
            wal_timeout: Duration::from_secs(60 * 60),
            verify: true,
            verify_checksums: true,
            max_rate_kilobytes: None,
            estimate_size: false,
            method: CopyMethod::default(),
            compares_all: false,
            pin: None,
            resume: true,
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
    let (repository, server, sql) = source_server::inspect(repository, settings).await?;
    let (repository, server) = (&repository, &server);
    progress.begin(Phase::CheckingArchiving, 0);
    let prior = earlier::choose(repository, server, options.backup_type).await?;
    let (writer, kept) = attempt::start(repository, wanted(options), prior.as_ref()).await?;
    let (label, attempt) = (writer.label().clone(), writer.attempt());
    let taken = take(
        repository,
        settings,
        options,
        (server, sql),
        (writer, kept),
        prior,
    )
    .await;
    match taken {
        Ok(record) => {
            let stored = (&record, options.pack_bytes);
            attempt::remove_others(repository, (&label, attempt), stored).await;
            Ok(record)
        }
        Err(error) => Err(attempt::failed(repository, (&label, attempt), error).await),
    }
}

/// Makes an attempt at a backup.
async fn take(
    repository: &Repository,
    settings: &ConnectionSettings,
    options: &BackupOptions,
    (server, sql): (&Server, Connection),
    (writer, kept): (BackupWriter, Option<Kept>),
    mut prior: Option<Prior>,
) -> Result<BackupRecord, ArchiveError> {
    let earlier = match (&mut prior, kept) {
        (Some(prior), _) => Earlier::Backups(prior.changes(repository, writer.label())?),
        (None, Some(kept)) => Earlier::Attempts(kept),
        (None, None) => Earlier::Nothing,
    };
    let referred = prior.as_ref().map_or(&[][..], |prior| &prior.referred);
    // An archive_command that does not work ends the copy before anything of it is stored.
    let (archives, may_store) = oneshot::channel();
    let checked = async {
        check_archiving(repository, settings, options, server).await?;
        // Where the copy has failed meanwhile, its error is returned.
        let _ = archives.send(());
        Ok(())
    };
    let (mut copied, ()) = tokio::try_join!(
        copy(
            (repository, &writer),
            (settings, sql),
            options,
            server,
            (earlier, referred),
            may_store
        ),
        checked,
    )?;
    let replayed = std::mem::take(&mut copied.replayed);
    let question = copied.question.take();
    let (mut record, label, control_file) = record(&writer, server, copied, prior.as_ref())?;

    tracing::info!(
        "backup {} is read back, and waits for its WAL",
        writer.label()
    );
    let wal_timeout = options.wal_timeout;
    tokio::try_join!(
        read_back(repository, &writer, &record, options),
        wal_wait::wait_for(
            repository,
            record.required_segments()?,
            wal_timeout,
            (settings, server.in_recovery)
        ),
    )?;
    own_history::check(repository, record.stop.timeline).await?;
    own_wal::check_backup(repository, &record, (&label, &control_file, &replayed)).await?;
    if let Some(question) = question {
        let answer = question.answer(repository, &record).await?;
        record.databases = answer.databases;
        note_unlogged(repository, &mut record, answer.unlogged).await?;
    }
    if let Some(prior) = &prior {
        prior
            .check_still_there(repository, &record.references)
            .await?;
    }
    let json = backup_json::write(&record)?;
    if let Some(pin) = &options.pin {
        writer.pin(pin).await?;
    }
    let label = writer.finish(json.into()).await?;
    if let Err(error) = confirm(repository, &label, &record, prior.as_ref()).await {
        repository.remove_backup_json(&label).await?;
        return Err(error);
    }
    Ok(record)
}

/// Notes those of the relations whose files are in the backup.
async fn note_unlogged(
    repository: &Repository,
    record: &mut BackupRecord,
    unlogged: BTreeSet<UnloggedRelation>,
) -> Result<(), ArchiveError> {
    if !unlogged.is_empty() {
        let manifest = restore::read_manifest(repository, record).await?;
        let mut found = unlogged::with_files(&unlogged, manifest.files.keys());
        found.extend(record.unlogged.iter().copied());
        record.unlogged = found.into_iter().collect();
    }
    Ok(())
}

fn wanted(options: &BackupOptions) -> Wanted {
    Wanted {
        backup_type: options.backup_type,
        resume: options.resume,
        how: How {
            level: options.level,
            proves: options.verify,
        },
    }
}

/// What an expiry that began before the backup was listed may have removed is there still: what it
/// sees from now on it keeps.
async fn confirm(
    repository: &Repository,
    label: &BackupLabel,
    record: &BackupRecord,
    prior: Option<&Prior>,
) -> Result<(), ArchiveError> {
    if !repository.stays(label).await? {
        return Err(ArchiveError::BeingExpired {
            label: label.to_string(),
        });
    }
    if let Some(prior) = prior {
        let references = &record.references;
        prior.check_still_there(repository, references).await?;
    }
    // Another attempt may have finished before, been expired, and taken them with it.
    let stored = repository.list_backup_objects(label).await?;
    let is_gone = |object: &&ObjectRecord| stored.get(&object.name) != Some(&object.size_bytes);
    if let Some(gone) = record.objects().find(is_gone) {
        return Err(ArchiveError::Damaged {
            object: format!("backup {label}"),
            reason: format!("{} was removed meanwhile", gone.name),
        });
    }
    for range in &record.required_wal {
        // The oldest segments are removed first.
        let first = range.first_segment.to_string();
        if repository.find_wal(&first).await?.is_none() {
            return Err(ArchiveError::Damaged {
                object: format!("backup {label}"),
                reason: format!("{first}, which it needs, was removed meanwhile"),
            });
        }
    }
    Ok(())
}

/// A broken `archive_command` is found while the copy begins, not after hours of it.
async fn check_archiving(
    repository: &Repository,
    settings: &ConnectionSettings,
    options: &BackupOptions,
    server: &Server,
) -> Result<(), ArchiveError> {
    let wait = (options.archive_timeout, Acknowledgement::NotAwaited);
    match source_server::check_archiving(repository, settings, server, wait).await {
        // What would be found now is found after the copy.
        Err(error @ ArchiveError::SwitchRefused(_)) => {
            tracing::warn!("while the copy begins: {error}");
            Ok(())
        }
        checked => {
            let arrival = checked?;
            let archiver = arrival.as_ref().map(|arrival| &arrival.archiver);
            // Something else brought the segment.
            if let Some(failed) = archiver.and_then(|archiver| archiver.current_failure(None)) {
                tracing::warn!(
                    "the server's archive_command last failed at {} for {}: PostgreSQL keeps its \
                     WAL until it succeeds; \"walzip check\" says more",
                    failed.time,
                    failed.wal
                );
            }
            Ok(())
        }
    }
}

/// Reads back what was stored, if the backup is to be proven.
async fn read_back(
    repository: &Repository,
    writer: &BackupWriter,
    record: &BackupRecord,
    options: &BackupOptions,
) -> Result<(), ArchiveError> {
    let progress = &options.progress;
    if options.verify {
        progress.begin(Phase::ReadingBack, record.stored_bytes());
        let count = async |piece: Bytes| {
            progress.add(piece.len() as u64);
            Ok(())
        };
        backup_stream::read_stored(repository, writer.label(), record.objects(), count).await?;
    }
    progress.begin(Phase::WaitingForWal, 0);
    Ok(())
}

/// What was copied.
struct Copied {
    start: Moment,
    stop: Moment,
    tablespaces: Tablespaces,
    /// Those of after it; its WAL may know better.
    databases: Vec<DatabaseRecord>,
    /// What is to be asked of its WAL.
    question: Option<Question>,
    /// Relations that were seen to get an initial fork.
    unlogged: Vec<UnloggedRelation>,
    /// The labels of earlier backups that the server is known to have seen.
    follows: Vec<String>,
    /// No page has a wrong checksum, as far as checksums tell.
    checksums_verified: bool,
    /// Of a standby: how far it had replayed before and after the copy.
    replayed: Vec<Replayed>,
    stored: Stored,
}

async fn copy(
    (repository, writer): (&Repository, &BackupWriter),
    (settings, mut sql): (&ConnectionSettings, Connection),
    options: &BackupOptions,
    server: &Server,
    (earlier, referred): (Earlier, &[Referred]),
    may_store: oneshot::Receiver<()>,
) -> Result<Copied, ArchiveError> {
    let before = Before::ask(&mut sql, server).await?;
    options.progress.begin(Phase::WaitingForCheckpoint, 0);
    let request = Request {
        repository,
        writer,
        settings,
        sql,
        server,
        method: options.method,
        known_tablespaces: &before.tablespaces,
        summarizes_wal: before.summarizes_wal,
        compares_all: options.compares_all,
        verify_checksums: options.verify_checksums,
        fast_checkpoint: options.fast_checkpoint,
        max_rate_kilobytes: options.max_rate_kilobytes,
        estimate_size: options.estimate_size,
        progress: &options.progress,
        encoding: encoding(options, before.summarizes_wal),
        earlier,
        may_store,
    };
    let mut copy = copying::copy(request).await?;
    let start = Moment {
        lsn: copy.start,
        timeline: copy.timeline,
        time: before.time,
    };
    let unlogged = unlogged_in(&copy);
    let present = Present::of(&copy.cut, server.identity.major);
    let links = std::mem::take(&mut copy.cut.links);
    let sql = &mut copy.sql;
    // As soon as the backup has ended: what changes from now on is not of it.
    let lists = (before.databases.clone(), copy.databases_at_start);
    let has = (Origin::of(server), &present.of_databases());
    let databases = Databases::after_copy(sql, lists, has).await?;
    present.check(sql, &before, &copy.tablespaces).await?;
    let names = before.tablespaces;
    let tablespaces = Tablespaces::after_copy(sql, copy.tablespaces, links, names).await;
    let stop = Moment {
        lsn: copy.end.lsn,
        timeline: copy.end.timeline,
        time: source_server::clock(sql).await?,
    };
    let replayed = before.replayed.map(|replayed| replayed.lsn);
    let of_standby = (server.in_recovery, replayed);
    let question = Question::of((&databases, present.of_databases()), stop.lsn, of_standby);
    let after = listed::replayed(sql, server).await?;
    copy.sql.close().await;
    tracing::debug!(major = server.identity.major, start = %start.lsn, end = %stop.lsn, "copied");
    let copied = (copy.cut, copy.packed, copy.manifest);
    let stored = stored::store(writer, copied, (&start, &stop), referred).await?;
    Ok(Copied {
        start,
        stop,
        tablespaces,
        databases: databases.unchanged(),
        question,
        unlogged,
        follows: copy.follows,
        checksums_verified: copy.checksums_verified,
        replayed: before.replayed.into_iter().chain(after).collect(),
        stored,
    })
}

/// Those of the relations that were seen to get an initial fork whose files are in the copy.
fn unlogged_in(copy: &Copy) -> Vec<UnloggedRelation> {
    let names = copy.unlogged.iter().map(String::as_bytes);
    let copied = names.filter(|name| copy.cut.seen.contains_key(*name));
    copied.filter_map(UnloggedRelation::of_file).collect()
}

fn encoding(options: &BackupOptions, summarizes_wal: bool) -> Encoding {
    let How { level, proves } = wanted(options).how;
    Encoding {
        level,
        proves,
        threads: options.threads.max(1),
        checksums: options.checksums,
        has_block_crcs: summarizes_wal && options.checksums == ManifestChecksums::Crc32c,
        pack_bytes: options.pack_bytes,
    }
}

fn record(
    writer: &BackupWriter,
    server: &Server,
    copied: Copied,
    prior: Option<&Prior>,
) -> Result<(BackupRecord, BackupLabelFile, ControlFile), ArchiveError> {
    let stored = copied.stored;
    let control_file = ControlFile::read(&stored.control_file).ok();
    let data_checksums = control_file.map(|control_file| control_file.data_checksums);
    let required_wal = required_wal(&stored.wal_ranges, server.segment_size_bytes)?;
    let (format, attempts) = BackupRecord::format_of(writer.attempt(), stored.has_tables);
    let record = BackupRecord {
        format,
        attempts,
        label: writer.label().to_string(),
        backup_type: Some(writer.label().backup_type()),
        prior: prior.map(|prior| prior.label.to_string()),
        references: stored.references,
        system_identifier: server.identity.system_id.to_string(),
        major: server.identity.major,
        server_version: server.version.clone(),
        segment_size_bytes: server.segment_size_bytes,
        from_standby: server.in_recovery,
        start: copied.start,
        stop: copied.stop,
        required_wal,
        tablespaces: copied.tablespaces.announced,
        new_tablespaces: copied.tablespaces.new,
        databases: copied.databases,
        unlogged: copied.unlogged,
        archives: Vec::new(),
        data_checksums,
        follows: copied.follows,
        checksums_verified: copied.checksums_verified || data_checksums == Some(false),
        files: Some(stored.files),
        block_hashes: Some(stored.block_hashes),
        manifest: stored.manifest,
    };
    let label = restore::check_backup_label(&stored.backup_label, &record)?;
    let control_file = restore::check_control_file(&stored.control_file, &record, server.identity)?;
    Ok((record, label, control_file))
}
