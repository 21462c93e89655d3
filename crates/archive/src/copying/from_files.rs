//! A copy of a cluster whose files are read where they lie.

use tokio::sync::oneshot;
use walzip_pgformat::backup_label::BackupLabel as BackupLabelFile;

use super::{Copy, Request, changed_blocks, lineage, refuse_in_place};
use crate::backup_files::{BACKUP_LABEL, Entry, FileSink};
use crate::chunks::writing::{self, Changes, Earlier};
use crate::data_directory::pace::Pace;
use crate::data_directory::{Copying, DataDirectory};
use crate::databases;
use crate::error::ArchiveError;
use crate::indexed_tables;
use crate::pg_manifest;
use crate::progress::Phase;
use crate::replication::{BackupEnd, OnlineBackup, ServerError};
use crate::tablespaces;

/// Reads the files of a data directory while its server is told that a backup runs.
pub(super) async fn copy(
    request: Request<'_>,
    directory: DataDirectory,
) -> Result<Copy, ArchiveError> {
    let label = request.label();
    let mut backup = OnlineBackup::start(request.sql, &label, request.fast_checkpoint).await?;
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
    let tablespaces = tablespaces::with_directories(backup.session()).await?;
    refuse_in_place(&tablespaces)?;

    let tables = match request.encoding.level.tells_indexes() {
        false => Vec::new(),
        true => {
            let databases = databases::names(backup.session()).await?;
            let databases = directory.with_large_files(databases);
            let mut tables = indexed_tables::find(request.settings, &databases).await;
            if let Earlier::Backups(Changes { comparison, .. }) = &request.earlier {
                // Of the others, blocks that have not changed are referred to.
                tables.retain(|table| !comparison.has(table.file.as_bytes()));
            }
            directory.worth_telling(tables)
        }
    };
    let (copied_sender, copied) = oneshot::channel::<u64>();
    let (label_sender, label) = oneshot::channel::<String>();
    let (of_backup, progress) = (tablespaces.clone(), request.progress.clone());
    let (estimates, rate) = (request.estimate_size, request.max_rate_kilobytes);
    let verify_checksums = request.verify_checksums;
    progress.begin(Phase::Copying, 0);
    let feed = move |sink: &mut dyn FileSink| {
        let mut copying = Copying {
            directory: &directory,
            tablespaces: &of_backup,
            tables: &tables,
            start,
            changed: changed.as_ref(),
            progress: &progress,
            pace: Pace::new(rate),
            wrong_pages: 0,
        };
        if estimates {
            progress.begin(Phase::Copying, copying.estimate());
        }
        copying.read(sink)?;
        let wrong_pages = copying.wrong_pages;
        if wrong_pages > 0 && verify_checksums {
            return Err(ArchiveError::WrongPages(wrong_pages));
        }
        // The server ends the backup now, and only then says what its label is.
        let _ = copied_sender.send(wrong_pages);
        let label = label.blocking_recv().map_err(|_| writing::stopped())?;
        let entry = Entry::new(None, BACKUP_LABEL.as_bytes(), directory.file_mode);
        let entry = entry.map_err(ArchiveError::Internal)?;
        sink.file(entry, label.len() as u64, &mut label.as_bytes())
    };
    let stop = async || {
        let wrong_pages = copied.await.map_err(|_| writing::stopped())?;
        let (end, sql) = backup.stop().await?;
        let label = BackupLabelFile::read(end.label.as_bytes());
        let label = label.map_err(|error| ServerError::Protocol(error.to_string()))?;
        let _ = label_sender.send(end.label);
        Ok((end.lsn, label.start_timeline, sql, wrong_pages))
    };
    let stored = writing::store(
        request.writer,
        request.encoding,
        (request.earlier, request.may_store),
        feed,
        stop,
    );
    let ((lsn, timeline, sql, wrong_pages), cut, packed) = stored.await?;
    if wrong_pages > 0 {
        tracing::warn!(
            "{}, and are in the backup as they are",
            ArchiveError::WrongPages(wrong_pages)
        );
    }
    let range = pg_manifest::WalRange {
        timeline,
        start,
        end: lsn,
    };
    let manifest = pg_manifest::write(request.server.identity, &cut.seen, range);
    Ok(Copy {
        start,
        timeline,
        end: BackupEnd { lsn, timeline },
        tablespaces,
        sql,
        manifest: manifest.into(),
        follows,
        checksums_verified: wrong_pages == 0,
        cut,
        packed,
    })
}
