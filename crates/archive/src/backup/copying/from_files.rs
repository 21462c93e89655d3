//! A copy of a cluster whose files are read where they lie.

use std::collections::BTreeMap;

use tokio::sync::oneshot;
use walzip_pgformat::Lsn;
use walzip_pgformat::backup_label::BackupLabel as BackupLabelFile;

use super::beginnings::Beginnings;
use super::{Copy, Request, changed_blocks, lineage, refuse_in_place};
use crate::backup::data_directory::pace::Pace;
use crate::backup::data_directory::unproven_pages::UnprovenPages;
use crate::backup::data_directory::wal_summaries::ChangedBlocks;
use crate::backup::data_directory::{Copying, DataDirectory};
use crate::backup::databases::{self, Database};
use crate::backups::backup_files::{BACKUP_LABEL, Entry, FileSink};
use crate::backups::chunks::writing::{self, Changes, Earlier};
use crate::backups::pg_manifest;
use crate::error::ArchiveError;
use crate::progress::{Phase, Progress};
use crate::server::indexed_tables::{self, IndexedTable};
use crate::server::replication::{
    BackupEnd, BackupTablespace, Connection, ConnectionSettings, OnlineBackup, ServerError,
};
use crate::server::tablespaces;

/// Reads the files of a data directory while its server is told that a backup runs.
pub(super) async fn copy(
    request: Request<'_>,
    directory: DataDirectory,
) -> Result<Copy, ArchiveError> {
    let label = request.label();
    let known = request.known_tablespaces.clone();
    let how = (label.as_str(), request.fast_checkpoint);
    let started = start_with_known_tablespaces(request.sql, how, known).await?;
    let (mut backup, tablespaces, databases_at_start) = started;
    let start = backup.start;
    // Only who can tell changed blocks by WAL summaries has to know.
    let follows = match request.summarizes_wal {
        true => lineage::seen(request.repository, &directory).await,
        false => Vec::new(),
    };
    let new = changed_blocks::NewBackup {
        compares_all: request.compares_all,
        summarizes_wal: request.summarizes_wal,
        has_block_crcs: request.encoding.has_block_crcs,
        start,
        timeline: request.server.timeline,
        seen: &follows,
    };
    let changed = changed_blocks::find(request.repository, &request.earlier, new, &directory).await;

    let tables = match request.encoding.level.tells_indexes() {
        true => {
            let sql = backup.session();
            tables_of_told_indexes(request.settings, sql, &request.earlier, &directory).await?
        }
        false => Vec::new(),
    };
    let (copied_sender, copied) = oneshot::channel::<FilesRead>();
    let (label_sender, label) = oneshot::channel::<String>();
    let files = Files {
        directory,
        tablespaces: tablespaces.clone(),
        tables,
        start,
        changed,
        estimates: request.estimate_size,
        rate: request.max_rate_kilobytes,
        verify_checksums: request.verify_checksums,
        progress: request.progress.clone(),
    };
    let verify_checksums = request.verify_checksums;
    let feed = move |sink: &mut dyn FileSink| {
        let read = files.read(sink)?;
        // The server ends the backup now, and only then says what its label is.
        let _ = copied_sender.send(read);
        let label = label.blocking_recv().map_err(|_| writing::stopped())?;
        files.add_label(sink, &label)
    };
    let stop = async || {
        let read = copied.await.map_err(|_| writing::stopped())?;
        let (end, sql) = backup.stop().await?;
        let beyond = read.unproven.beyond(end.lsn);
        if beyond > 0 && verify_checksums {
            return Err(ArchiveError::WrongPages(beyond));
        }
        let wrong_pages = read.wrong_pages + beyond;
        let label = BackupLabelFile::read(end.label.as_bytes());
        let label = label.map_err(|error| ServerError::Protocol(error.to_string()))?;
        let _ = label_sender.send(end.label);
        let end = BackupEnd {
            lsn: end.lsn,
            timeline: label.start_timeline,
        };
        Ok((end, sql, wrong_pages, read.unlogged))
    };
    let stored = writing::store(
        request.writer,
        request.encoding,
        (request.earlier, request.may_store),
        feed,
        stop,
    );
    let ((end, sql, wrong_pages, unlogged), cut, packed) = stored.await?;
    if wrong_pages > 0 {
        tracing::warn!(
            "{}, and are in the backup as they are",
            ArchiveError::WrongPages(wrong_pages)
        );
    }
    let range = pg_manifest::WalRange {
        timeline: end.timeline,
        start,
        end: end.lsn,
    };
    let manifest = pg_manifest::write(request.server.identity, &cut.seen, range);
    Ok(Copy {
        start,
        timeline: end.timeline,
        end,
        tablespaces,
        databases_at_start,
        unlogged,
        sql,
        manifest: manifest.into(),
        follows,
        checksums_verified: wrong_pages == 0,
        cut,
        packed,
    })
}

/// Starts a backup, once more where a tablespace was made meanwhile. The backup, the tablespaces, and the databases.
async fn start_with_known_tablespaces(
    mut sql: Connection,
    (label, fast_checkpoint): (&str, bool),
    mut known: BTreeMap<u32, String>,
) -> Result<(OnlineBackup, Vec<BackupTablespace>, BTreeMap<u32, Database>), ArchiveError> {
    let mut beginnings = Beginnings::default();
    loop {
        let mut backup = OnlineBackup::start(sql, label, fast_checkpoint).await?;
        let databases = databases::list(backup.session()).await?;
        let tablespaces = tablespaces::with_directories(backup.session()).await?;
        refuse_in_place(&tablespaces)?;
        if beginnings.is_right(&tablespaces, &known)? {
            return Ok((backup, tablespaces, databases));
        }
        (_, sql) = backup.stop().await?;
        known = tablespaces::names(&mut sql).await?;
    }
}

/// The tables whose indexes are told from them.
async fn tables_of_told_indexes(
    settings: &ConnectionSettings,
    sql: &mut Connection,
    earlier: &Earlier,
    directory: &DataDirectory,
) -> Result<Vec<IndexedTable>, ArchiveError> {
    let databases = directory.with_large_files(databases::names(sql).await?);
    let mut tables = indexed_tables::find(settings, &databases).await;
    if let Earlier::Backups(Changes { comparison, .. }) = earlier {
        // Of the others, blocks that have not changed are referred to.
        tables.retain(|table| !comparison.has(table.file.as_bytes()));
    }
    Ok(directory.worth_telling(tables))
}

/// What was found while the files were read.
struct FilesRead {
    /// Pages whose checksums are wrong.
    wrong_pages: u64,
    /// Pages of which the end of the backup tells.
    unproven: UnprovenPages,
    /// The main forks of relations that have got an initial fork meanwhile.
    unlogged: Vec<String>,
}

/// What is read, and how.
struct Files {
    directory: DataDirectory,
    tablespaces: Vec<BackupTablespace>,
    tables: Vec<IndexedTable>,
    start: Lsn,
    changed: Option<ChangedBlocks>,
    /// Look for the size of everything first.
    estimates: bool,
    /// No more than this many kilobytes are copied in a second.
    rate: Option<u32>,
    verify_checksums: bool,
    progress: Progress,
}

impl Files {
    /// Hands all files to `sink` but the label.
    fn read(&self, sink: &mut dyn FileSink) -> Result<FilesRead, ArchiveError> {
        let mut copying = Copying {
            directory: &self.directory,
            tablespaces: &self.tablespaces,
            tables: &self.tables,
            start: self.start,
            changed: self.changed.as_ref(),
            progress: &self.progress,
            pace: Pace::new(self.rate),
            wrong_pages: 0,
            unproven: UnprovenPages::default(),
            read_directories: Vec::new(),
        };
        self.progress.begin(Phase::Copying, 0);
        if self.estimates {
            self.progress.begin(Phase::Copying, copying.estimate());
        }
        copying.read(sink)?;
        match copying.wrong_pages {
            wrong @ 1.. if self.verify_checksums => Err(ArchiveError::WrongPages(wrong)),
            wrong_pages => Ok(FilesRead {
                wrong_pages,
                unlogged: copying.unlogged_since()?,
                unproven: copying.unproven,
            }),
        }
    }

    fn add_label(&self, sink: &mut dyn FileSink, label: &str) -> Result<(), ArchiveError> {
        let entry = Entry::new(None, BACKUP_LABEL.as_bytes(), self.directory.file_mode);
        let entry = entry.map_err(ArchiveError::Internal)?;
        sink.file(entry, label.len() as u64, &mut label.as_bytes())
    }
}
