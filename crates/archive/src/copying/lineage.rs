//! Which backups a server has seen: what it was then, it has become what it is now from.
//!
//! A server keeps the history file of a backup (`pg_wal/….backup`) until the next one has ended. One that was
//! set back to an older state does not have it, whatever its positions are. That backup's description names the
//! backups that the server had seen before.

use std::path::Path;

use walzip_pgformat::backup_label::BackupHistory;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{BackupLabel, Repository};

use super::name_at_server;
use crate::backup_record::{BackupRecord, FOLLOWS_MAX};
use crate::coding::off_the_runtime;
use crate::data_directory::DataDirectory;
use crate::regular_file;

/// Some lines of text, one of which is the label.
const HISTORY_FILE_BYTES_MAX: usize = 64 << 10;

/// A server keeps one or two, unless it cannot archive them.
const HISTORY_FILES_MAX: usize = 16;

/// The labels of backups of the repository that a server has seen, the last one first. There may be others.
pub(super) async fn seen(repository: &Repository, directory: &DataDirectory) -> Vec<String> {
    let path = directory.path.join("pg_wal");
    for history in off_the_runtime(move || histories(&path)).await {
        let Some(record) = record_of(repository, &history).await else {
            continue;
        };
        let mut seen = vec![record.label];
        seen.extend(record.follows);
        seen.truncate(FOLLOWS_MAX);
        return seen;
    }
    Vec::new()
}

/// The history files of a server, the last one first. What cannot be read is none.
fn histories(pg_wal: &Path) -> Vec<BackupHistory> {
    let entries = std::fs::read_dir(pg_wal).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_history = |name: &String| matches!(name.parse(), Ok(WalFileName::BackupHistory { .. }));
    let mut names: Vec<String> = names.filter(is_history).collect();
    names.sort_unstable_by(|one, other| other.cmp(one));
    names.truncate(HISTORY_FILES_MAX);
    let content =
        |name: &String| regular_file::read_at_once(&pg_wal.join(name), HISTORY_FILE_BYTES_MAX).ok();
    let contents = names.iter().filter_map(content);
    contents
        .filter_map(|content| BackupHistory::read(&content).ok())
        .collect()
}

/// The backup that a history file is of, if the repository has it.
async fn record_of(repository: &Repository, history: &BackupHistory) -> Option<BackupRecord> {
    let label = &history.label;
    let name = label.label.strip_prefix(&name_at_server(""))?;
    let name: BackupLabel = name.parse().ok()?;
    let record = match BackupRecord::read(repository, &name).await {
        Ok(record) => record,
        Err(error) => {
            tracing::debug!("the backup {name} that the server has seen: {error}");
            return None;
        }
    };
    let (start, stop) = (record.start, record.stop);
    let is_same =
        (start.timeline, start.lsn, stop.lsn) == (label.start_timeline, label.start, history.stop);
    is_same.then_some(record)
}
