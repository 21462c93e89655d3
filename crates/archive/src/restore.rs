//! `restore`: a backup into an empty directory, or over a data directory of the same cluster,
//! ready to recover to a moment.
//!
//! The order is what keeps it safe. The control file, without which no server starts, gets its
//! name last: after every file was proven against PostgreSQL's manifest, the recovery settings
//! were written and everything was made durable. An interrupted restore is a directory that
//! cannot be started. It is marked as that, and `--delta` goes on with it.

mod block_file;
mod clock_steps;
mod command;
mod delta;
mod destination;
mod directories;
pub(crate) mod last_segments;
mod marker;
mod partial_segments;
mod plan;
mod selection;
mod target;
mod target_time;
mod time_zone;
mod unpack;
pub(crate) mod wal_search;
mod whose;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use walzip_pgformat::backup_label::BackupLabel as BackupLabelFile;
use walzip_pgformat::control_file::ControlFile;
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::{BackupLabel, ClusterIdentity, Repository};

pub use self::command::RestoreCommand;
pub use self::delta::{DeltaOptions, Removed};
use self::destination::{Destination, set_mode};
use self::directories::Directories;
use self::marker::{DirectoryLock, Marker};
use self::plan::Plan;
pub use self::selection::LeftOutDatabase;
use self::selection::Selection;
use self::target::IGNORE_INVALID_PAGES;
pub use self::target::{Recovery, RecoveryTarget, TargetAction, TargetTimeline};
pub use self::target_time::Reading;
use self::unpack::{CONTROL_FILE_UNFINISHED, Unpacked, Unpacker};
use crate::backups::backup_files::{CONTROL_FILE, Entry};
use crate::backups::backup_record::{BackupRecord, FilesRecord};
use crate::backups::backup_stream;
use crate::backups::chunks::packed::Packed;
use crate::backups::chunks::reading;
use crate::backups::pg_manifest::PgManifest;
use crate::cluster::choice::ClusterChoice;
use crate::cluster::placement;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::error::other_branch::OtherBranch;
pub use crate::error::time_error::TimeError;
use crate::files::durable;
use crate::progress::{Phase, Progress};
pub use crate::wal::wal_end::{WalEnd, shown};
pub use partial_segments::LeftOutPartial;

/// What and how to restore.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// The backup; by default the newest from which the target can be reached.
    pub backup: Option<BackupLabel>,
    /// The cluster; by default the backup's, and without one the cluster that was registered last.
    pub cluster: Option<ClusterChoice>,
    /// The moment to recover to.
    pub recovery: Recovery,
    /// Whether the cluster starts as a standby, which replays until it is promoted.
    pub standby: bool,
    /// What the server calls for its WAL.
    pub restore_command: RestoreCommand,
    /// Where tablespaces go that are not to go where they were: by name, OID or old directory.
    pub tablespace_map: BTreeMap<String, PathBuf>,
    /// Whether the restored cluster archives.
    pub archive_mode: ArchiveMode,
    /// Whether the data directory may have the cluster already: then only what differs is written.
    pub delta: Option<DeltaOptions>,
    /// The databases to restore, by name or OID, beside PostgreSQL's own; all where there is none.
    pub databases: Vec<String>,
    /// Where to leave how far it has come.
    pub progress: Progress,
}

/// Whether a restored cluster archives once it is promoted. It has the original's
/// `archive_command`: into the original's repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArchiveMode {
    /// It does not, until somebody says that it takes the original's place.
    #[default]
    Off,
    /// As the original did.
    Preserve,
}

/// A finished restore.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The backup that was restored.
    pub backup: BackupRecord,
    /// The timeline that recovery follows.
    pub timeline: TimelineId,
    /// Where the archived WAL on that timeline ends.
    pub end: WalEnd,
    /// Where a restore point or a transaction was found that is the target.
    pub target_found: Option<(Lsn, Option<Timestamp>)>,
    /// Timelines that ended when this one was born, with commits that it lacks.
    pub superseded: Vec<OtherBranch>,
    /// Partial segments with commits that it lacks. No recovery asks for them.
    pub partials: Vec<LeftOutPartial>,
    /// Where its tablespaces are, by OID.
    pub tablespaces: BTreeMap<u32, PathBuf>,
    /// Files restored; those of databases that are left out are not among them.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files of which the manifest has a size but no checksum.
    pub files_without_checksum: u64,
    /// What a restore over an existing cluster changed; nothing for one into an empty directory.
    pub delta: Option<Delta>,
    /// The databases that are left out.
    pub left_out: Vec<LeftOutDatabase>,
    /// Their files that are empty.
    pub files_left_out: u64,
    /// The length of those.
    pub bytes_left_out: u64,
}

/// What a restore over an existing cluster changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    /// Files that are new or were changed.
    pub files_written: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// What the backup does not have.
    pub removed: Removed,
}

/// Restores a backup into `data_directory`, which must not exist or be empty, or with
/// [`RestoreOptions::delta`] may be a data directory of the cluster.
pub async fn restore(
    repository: &Repository,
    data_directory: &Path,
    options: &RestoreOptions,
) -> Result<Restored, ArchiveError> {
    let command = options
        .restore_command
        .text(TimelineId::default(), None, None);
    for placeholder in ["%f", "%p"] {
        if !command.contains(placeholder) {
            let reason = format!("the restore_command has no {placeholder} in it");
            return Err(ArchiveError::Request(reason));
        }
    }
    let (repository, plan) = &plan::plan(repository, options).await?;
    let settings = recovery_settings(options, plan)?;
    let record = &plan.backup;
    check_referred(repository, record).await?;
    let directories = Directories::plan(data_directory, record, &options.tablespace_map)?;
    let manifest = read_manifest(repository, record).await?;
    let selection = Selection::choose(&options.databases, record, &manifest)?;
    let left_out = selection.left_out(record, &manifest);

    tracing::info!("restoring backup {}", record.label);
    let restored = async {
        let of_backup = (&manifest, &selection);
        let taken = take(repository, &directories, of_backup, options, &plan.end).await?;
        let destination = match taken.removed {
            Some(_) => Destination::Delta(directories.clone()),
            None => Destination::Empty(directories.clone()),
        };
        let progress = &options.progress;
        let unpacker = Unpacker::new(&record.label, destination, manifest, selection, progress);
        let finishing = Finishing {
            settings,
            signal: match options.standby {
                true => "standby.signal",
                false => "recovery.signal",
            },
        };
        fill(repository, record, unpacker, &taken, finishing, progress).await
    };
    let restored = restored.await;
    let (unpacked, removed) = restored.inspect_err(|_| warn_of_mark(&directories.data))?;
    check_not_expired(repository, record).await?;
    let counts = unpacked.counts;
    Ok(Restored {
        backup: record.clone(),
        timeline: plan.timeline,
        end: plan.end.clone(),
        target_found: plan.found.map(|found| (found.lsn, found.time)),
        superseded: plan.superseded.clone(),
        partials: plan.partials.clone(),
        tablespaces: directories.tablespaces,
        files: counts.files,
        bytes: counts.bytes,
        files_without_checksum: counts.files_without_checksum,
        delta: removed.map(|removed| Delta {
            files_written: counts.files_written,
            bytes_written: counts.bytes_written,
            removed,
        }),
        left_out,
        files_left_out: counts.files_left_out,
        bytes_left_out: counts.bytes_left_out,
    })
}

/// The files are there now, and the WAL without which they are worth nothing may have gone meanwhile. An expiry
/// removes the oldest first.
async fn check_not_expired(
    repository: &Repository,
    record: &BackupRecord,
) -> Result<(), ArchiveError> {
    for range in &record.required_wal {
        let segment = range.first_segment.to_string();
        match repository.find_wal(&segment).await {
            Ok(Some(_)) => {}
            Ok(None) => return Err(ArchiveError::ExpiredMeanwhile(segment)),
            // It is asked for again when the server starts.
            Err(error) => tracing::warn!("whether {segment} is there still is not known: {error}"),
        }
    }
    Ok(())
}

/// Refuses, before anything is written, a backup whose references are not there.
async fn check_referred(
    repository: &Repository,
    record: &BackupRecord,
) -> Result<(), ArchiveError> {
    let label: BackupLabel = record.label.parse()?;
    let Some(files) = record
        .files
        .as_ref()
        .filter(|_| !record.references.is_empty())
    else {
        return Ok(());
    };
    let packed = Packed::read(repository, &label, files).await?;
    reading::with_referred(&packed, record).await?;
    Ok(())
}

/// Says what to do with a directory in which a restore has begun.
fn warn_of_mark(data: &Path) {
    if data.join(directories::UNFINISHED).exists() {
        tracing::warn!(
            "{} is unfinished: no server starts in it, and \"walzip restore --delta\" goes on with \
             it",
            data.display()
        );
    }
}

/// The directories of a restore, marked and locked.
struct Taken {
    directories: Directories,
    /// What was removed from a data directory that had the cluster already.
    removed: Option<Removed>,
    _lock: DirectoryLock,
}

/// Makes the directories ready: from here on they are changed.
async fn take(
    repository: &Repository,
    directories: &Directories,
    (manifest, selection): (&PgManifest, &Selection),
    options: &RestoreOptions,
    end: &WalEnd,
) -> Result<Taken, ArchiveError> {
    let is_all = matches!(options.recovery.target, RecoveryTarget::Latest);
    let found = match &options.delta {
        Some(delta) => delta::look(repository, directories, delta, is_all.then_some(end)).await?,
        None => None,
    };
    let directories = directories.clone();
    let Some(found) = found else {
        let cluster = repository.cluster();
        return off_the_runtime(move || {
            let tablespaces = directories.tablespaces.values();
            for directory in tablespaces.chain([&directories.data]) {
                placement::check_outside_repositories(directory)?;
            }
            directories.prepare()?;
            let lock = DirectoryLock::take(&directories.data)?;
            Marker::new(cluster, &directories, None).write(&directories.data)?;
            Ok(Taken {
                directories,
                removed: None,
                _lock: lock,
            })
        })
        .await;
    };
    let files = manifest.files.keys().filter(|name| !selection.omits(name));
    let files = files.cloned().collect();
    off_the_runtime(move || {
        let (lock, removed) = found.take(&files)?;
        Ok(Taken {
            directories,
            removed: Some(removed),
            _lock: lock,
        })
    })
    .await
}

/// Restores into directories that are taken; returns what was removed from them besides.
async fn fill(
    repository: &Repository,
    record: &BackupRecord,
    unpacker: Unpacker,
    taken: &Taken,
    finishing: Finishing,
    progress: &Progress,
) -> Result<(Unpacked, Option<Removed>), ArchiveError> {
    progress.begin(Phase::Unpacking, record.original_bytes());
    let unpacked = unpack_all(repository, record, unpacker).await?;
    progress.begin(Phase::Syncing, 0);
    let directories = taken.directories.clone();
    let mut removed = taken.removed;
    off_the_runtime(move || {
        if let Some(removed) = &mut removed {
            delta::remove_directories(&directories, &unpacked.directories, removed)?;
        }
        finishing.finish(&directories, unpacked.group_may_read)?;
        Ok((unpacked, removed))
    })
    .await
}

fn recovery_settings(options: &RestoreOptions, plan: &Plan) -> Result<String, ArchiveError> {
    let mut recovery = options.recovery.clone();
    if options.standby && recovery.timeline == TargetTimeline::Latest && !plan.is_latest {
        recovery.timeline = TargetTimeline::Id(plan.timeline);
        tracing::warn!(
            "PostgreSQL would not find timeline {} as the latest, since a number below it has no history: the standby \
             goes along that timeline, and does not follow the next promotion by itself",
            plan.timeline
        );
    }
    let command =
        options
            .restore_command
            .text(plan.timeline, plan.expected_end.as_ref(), plan.own_from);
    let settings = recovery.settings(&command, plan.timeline, options.standby)?;
    let now = Timestamp::now();
    let archive_mode = match options.archive_mode {
        ArchiveMode::Off => "archive_mode = 'off'\n",
        ArchiveMode::Preserve => "",
    };
    // The replay reads pages of databases that are left out, such as those that a vacuum found
    // all visible, and finds nothing there.
    let of_some_databases = match options.databases.is_empty() {
        true => String::new(),
        // A subscription's worker would connect to its database, and end the whole server.
        false => format!("{IGNORE_INVALID_PAGES} = 'on'\nmax_logical_replication_workers = '0'\n"),
    };
    Ok(format!(
        "# Written by walzip restore at {now:.0}.\n{settings}{archive_mode}{of_some_databases}"
    ))
}

/// Does everything that a restore does to a backup, but writes nothing: after this, a restore
/// fails at the directory to restore to, or not at all. The caller begins the progress's phase.
pub(crate) async fn prove(
    repository: &Repository,
    record: &BackupRecord,
    progress: &Progress,
) -> Result<(), ArchiveError> {
    let manifest = read_manifest(repository, record).await?;
    let unpacker = Unpacker::proving(&record.label, &record.tablespaces, manifest, progress);
    unpack_all(repository, record, unpacker).await?;
    Ok(())
}

async fn unpack_all(
    repository: &Repository,
    record: &BackupRecord,
    mut unpacker: Unpacker,
) -> Result<Unpacked, ArchiveError> {
    let label: BackupLabel = record.label.parse()?;
    for archive in &record.archives {
        let tablespace = archive.tablespace_oid;
        let unpack = move |content: &mut dyn Read| {
            unpacker.unpack(tablespace, content)?;
            Ok(unpacker)
        };
        unpacker = backup_stream::read_decompressed(repository, &label, archive, unpack).await?;
    }
    if let Some(files) = &record.files {
        let packed = Packed::read(repository, &label, files).await?;
        let index = Arc::clone(&packed.index);
        let left_out = index
            .files()
            .filter(|(entry, _)| unpacker.leaves_out(entry));
        let left_out: Vec<_> = left_out.map(|(entry, len)| (entry.clone(), len)).collect();
        let names: HashSet<_> = left_out.iter().map(|(entry, _)| entry.name()).collect();
        let is_wanted = move |entry: &Entry| !names.contains(&entry.name());
        unpacker = reading::read(packed, record, is_wanted, unpacker).await?;
        unpacker = off_the_runtime(move || {
            let mut files = left_out.iter();
            files.try_for_each(|(entry, len)| unpacker.leave_out(entry, *len))?;
            Ok::<_, ArchiveError>(unpacker)
        })
        .await?;
    }
    let unpacked = off_the_runtime(move || unpacker.finish()).await?;
    check_backup_label(&unpacked.backup_label, record)?;
    check_control_file(&unpacked.control_file, record, repository.cluster())?;
    Ok(unpacked)
}

/// Says all that is wrong with the packs of a backup.
pub(crate) async fn damaged_packs(
    repository: &Repository,
    label: &BackupLabel,
    record: &BackupRecord,
    files: &FilesRecord,
) -> Vec<ArchiveError> {
    match Packed::read(repository, label, files).await {
        Ok(packed) => reading::damaged(&packed, record).await,
        Err(error) => vec![error],
    }
}

pub(crate) async fn read_manifest(
    repository: &Repository,
    record: &BackupRecord,
) -> Result<PgManifest, ArchiveError> {
    let label: &BackupLabel = &record.label.parse()?;
    let what = format!("the manifest of backup {label}");
    backup_stream::read_whole(repository, label, &record.manifest, what, |text| {
        let mut manifest = Vec::new();
        let read = text.read_to_end(&mut manifest);
        read.map_err(|error| error.to_string())?;
        PgManifest::read(&manifest).map_err(|error| error.to_string())
    })
    .await
}

/// Everything after the files: settings, durability, and the control file's name.
struct Finishing {
    /// For `postgresql.auto.conf`.
    settings: String,
    /// The file that says how the server starts.
    signal: &'static str,
}

impl Finishing {
    fn finish(&self, directories: &Directories, group_may_read: bool) -> Result<(), ArchiveError> {
        let data = &directories.data;
        // A standby's backup has one, and a directory that is restored over may have either.
        for signal in ["standby.signal", "recovery.signal"] {
            remove_if_there(&data.join(signal))?;
        }
        write_settings(data, &self.settings)?;
        let signal = data.join(self.signal);
        durable::write_file(&signal, b"")?;
        set_mode(&signal, if group_may_read { 0o640 } else { 0o600 })?;

        for directory in std::iter::once(data).chain(directories.tablespaces.values()) {
            durable::sync_below(directory)?;
        }
        let control_file = data.join(CONTROL_FILE);
        fs::rename(data.join(CONTROL_FILE_UNFINISHED), &control_file)
            .map_err(|error| ArchiveError::file("rename to", &control_file, error))?;
        durable::sync_directory(&data.join("global"))?;
        durable::sync_entry_of(data)?;
        Marker::remove(data)
    }
}

/// The label is what makes recovery start where the backup did; without it the cluster would
/// start from a later checkpoint and be corrupt.
pub(crate) fn check_backup_label(
    content: &[u8],
    record: &BackupRecord,
) -> Result<BackupLabelFile, ArchiveError> {
    let damaged = |reason: String| ArchiveError::Damaged {
        object: format!("backup {}", record.label),
        reason,
    };
    let label = BackupLabelFile::read(content).map_err(|error| damaged(error.to_string()))?;
    if (label.start, label.start_timeline) != (record.start.lsn, record.start.timeline) {
        let start = record.start.lsn;
        let found = label.start;
        return Err(damaged(format!(
            "it starts at {start}, its backup_label says {found}"
        )));
    }
    Ok(label)
}

pub(crate) fn check_control_file(
    content: &[u8],
    record: &BackupRecord,
    cluster: ClusterIdentity,
) -> Result<ControlFile, ArchiveError> {
    let control_file = ControlFile::read(content).map_err(|error| ArchiveError::Damaged {
        object: format!("backup {}", record.label),
        reason: format!("its control file: {error}"),
    })?;
    let found = ClusterIdentity {
        system_id: control_file.system_id.0,
        major: control_file.version.major,
    };
    if found != cluster {
        let what = format!("backup {}", record.label);
        return Err(ArchiveError::Mismatch {
            what,
            found,
            repository: cluster,
        });
    }
    Ok(control_file)
}

fn write_settings(data: &Path, settings: &str) -> Result<(), ArchiveError> {
    let path = data.join("postgresql.auto.conf");
    let existing = match fs::read(&path) {
        Ok(existing) => existing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(ArchiveError::file("read", &path, error)),
    };
    let mut content = target::without_recovery_settings(&existing);
    if content.last().is_some_and(|&last| last != b'\n') {
        content.push(b'\n');
    }
    content.extend_from_slice(settings.as_bytes());
    let mode = fs::metadata(&path).map_or(0o600, |found| found.mode() & 0o777);
    durable::write_file(&path, &content)?;
    set_mode(&path, mode)
}

fn remove_if_there(path: &Path) -> Result<(), ArchiveError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ArchiveError::file("remove", path, error)),
    }
}
