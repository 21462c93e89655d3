//! Which blocks need not be read, since the server says that its WAL has not changed them since the
//! earlier backup. Whoever is in doubt reads all.

use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::Repository;

use crate::backup::data_directory::DataDirectory;
use crate::backup::data_directory::wal_summaries::{ChangedBlocks, Summarized};
use crate::backups::backup_record::{BackupRecord, BlockHashesRecord};
use crate::backups::backup_stream;
use crate::backups::chunks::writing::{Changes, Earlier};
use crate::coding::off_the_runtime;

/// What matters of the new backup.
pub(super) struct NewBackup<'b> {
    /// All blocks are to be compared.
    pub(super) compares_all: bool,
    /// The server notes which blocks its WAL changes.
    pub(super) summarizes_wal: bool,
    /// Checksums of files can be put together of those of their blocks.
    pub(super) has_block_crcs: bool,
    /// Where it begins.
    pub(super) start: Lsn,
    pub(super) timeline: TimelineId,
    /// The labels of backups that the server has seen.
    pub(super) seen: &'b [String],
}

/// What has changed since the earlier backup, if there is one and the server's WAL summaries tell.
pub(super) async fn find(
    repository: &Repository,
    earlier: &Earlier,
    new: NewBackup<'_>,
    directory: &DataDirectory,
) -> Option<ChangedBlocks> {
    let Earlier::Backups(changes) = earlier else {
        return None;
    };
    match read(repository, changes, new, directory).await {
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

async fn read(
    repository: &Repository,
    changes: &Changes,
    new: NewBackup<'_>,
    directory: &DataDirectory,
) -> Result<ChangedBlocks, String> {
    let wal = wal_since(&changes.prior, &new, directory)?;
    // Nothing but its CRC will be known of a block that is not read, and checksums of files follow from
    // that.
    for (label, objects) in &changes.hash_objects {
        let read = backup_stream::read_stored(repository, label, objects, async |_| Ok(()));
        read.await.map_err(|error| error.to_string())?;
    }
    let path = directory.path.clone();
    off_the_runtime(move || ChangedBlocks::read(&path, wal)).await
}

/// The WAL that has to be summarized, or why its summaries would not tell what has changed.
fn wal_since(
    prior: &BackupRecord,
    new: &NewBackup<'_>,
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
    } else if !prior.checksums_verified {
        "the earlier backup may have damaged pages (--no-verify-checksums)"
    } else if !directory.has_usual_files {
        "the server was built with another size of relation files"
    } else if (start.timeline, stop.timeline) != (new.timeline, new.timeline) {
        "the server has begun another timeline since the earlier backup began"
    } else if stop.lsn > new.start {
        "the new backup begins before the end of the earlier one"
    } else if !new.seen.contains(&prior.label) {
        // A copy of the server of then, or one that was set back, may have other blocks than its WAL since
        // says.
        "the server has no history file (pg_wal/*.backup) of the earlier backup alone, nor of a later one in \
         this repository that tells that it has seen it, or pg_wal is on a volume of its own"
    } else {
        return Ok(Summarized {
            timeline: new.timeline,
            start: start.lsn,
            end: new.start,
        });
    };
    Err(unfit.to_owned())
}
