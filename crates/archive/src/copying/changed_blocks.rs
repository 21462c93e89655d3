//! Which blocks need not be read, since the server says that its WAL has not changed them since the
//! earlier backup. Whoever is in doubt reads all.

use std::path::Path;

use walzip_pgformat::backup_label::BackupHistory;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, TimelineId};

use super::name_at_server;
use crate::backup_record::{BackupRecord, BlockHashesRecord};
use crate::chunks::writing::{Changes, Earlier};
use crate::coding::off_the_runtime;
use crate::data_directory::DataDirectory;
use crate::data_directory::wal_summaries::{ChangedBlocks, Summarized};
use crate::regular_file;

/// Some lines of text, one of which is the label.
const HISTORY_FILE_BYTES_MAX: usize = 64 << 10;

/// What matters of the new backup.
pub(super) struct NewBackup {
    /// All blocks are to be compared.
    pub(super) compares_all: bool,
    /// The server notes which blocks its WAL changes.
    pub(super) summarizes_wal: bool,
    /// Checksums of files can be put together of those of their blocks.
    pub(super) has_block_crcs: bool,
    /// Where it begins.
    pub(super) start: Lsn,
    pub(super) timeline: TimelineId,
}

/// What has changed since the earlier backup, if there is one and the server's WAL summaries tell.
pub(super) async fn find(
    earlier: &Earlier,
    new: NewBackup,
    directory: &DataDirectory,
) -> Option<ChangedBlocks> {
    let Earlier::Backups(Changes { prior, .. }) = earlier else {
        return None;
    };
    let (prior, directory) = (prior.clone(), directory.clone());
    let changed = off_the_runtime(move || {
        let wal = wal_since(&prior, &new, &directory)?;
        ChangedBlocks::read(&directory.path, wal)
    });
    match changed.await {
        Ok(changed) => {
            tracing::info!("only blocks that the server's WAL summaries name are read");
            Some(changed)
        }
        Err(reason) => {
            tracing::info!("all blocks are read: {reason}");
            None
        }
    }
}

/// The WAL that has to be summarized, or why its summaries would not tell what has changed.
fn wal_since(
    prior: &BackupRecord,
    new: &NewBackup,
    directory: &DataDirectory,
) -> Result<Summarized, String> {
    let (start, stop) = (prior.start, prior.stop);
    let hashes = prior.block_hashes.as_ref();
    let unfit = if new.compares_all {
        "that is what was asked for"
    } else if !new.summarizes_wal {
        "the server makes no WAL summaries (summarize_wal)"
    } else if !new.has_block_crcs {
        "the checksums of the manifest are not to be CRC32C"
    } else if !hashes.is_some_and(BlockHashesRecord::has_crcs) {
        "the earlier backup has no CRCs of blocks: the server made no WAL summaries then"
    } else if prior.data_checksums != Some(directory.checksums) {
        "data checksums were switched on or off since the earlier backup"
    } else if !directory.has_usual_files {
        "the server was built with another size of relation files"
    } else if (start.timeline, stop.timeline) != (new.timeline, new.timeline) {
        "the server has begun another timeline since the earlier backup began"
    } else if stop.lsn > new.start {
        "the new backup begins before the end of the earlier one"
    } else {
        check_history(prior, &directory.path)?;
        return Ok(Summarized {
            timeline: new.timeline,
            start: start.lsn,
            end: new.start,
        });
    };
    Err(unfit.to_owned())
}

/// The server on which the earlier backup was taken has its history file until the next one. A copy of
/// it, or one that was set back to an older state, may have other blocks than its WAL since says: it
/// does not have the file.
fn check_history(prior: &BackupRecord, data_directory: &Path) -> Result<(), String> {
    let (start, stop) = (prior.start, prior.stop);
    let size = prior.segment_size_bytes;
    let segment = SegmentName::from_lsn(start.timeline, start.lsn, size);
    let segment = segment.map_err(|error| error.to_string())?;
    let offset = (start.lsn.0 % u64::from(size)) as u32;
    let name = WalFileName::BackupHistory { segment, offset }.to_string();
    let path = data_directory.join("pg_wal").join(&name);
    let content = regular_file::read_at_once(&path, HISTORY_FILE_BYTES_MAX).map_err(|error| {
        format!(
            "the earlier backup is not the last one that this server has seen: it has no history file of it \
             any more (pg_wal/{name}: {error})"
        )
    })?;
    let history = BackupHistory::read(&content).map_err(|error| format!("{name}: {error}"))?;
    let is_same = history.label.label == name_at_server(&prior.label)
        && (history.label.start, history.stop) == (start.lsn, stop.lsn);
    match is_same {
        true => Ok(()),
        false => Err(format!("{name} is of another backup than the earlier one")),
    }
}
