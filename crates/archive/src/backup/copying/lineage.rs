//! Which backups a server has seen: what it was then, it has become what it is now from.
//!
//! A server keeps the history file of a backup (`pg_wal/….backup`) until the next one has ended. One that was
//! set back to an older state does not have it, whatever its positions are. That backup's description names the
//! backups that the server had seen before.
//!
//! That holds where `pg_wal` is set back with the rest. Who copies an older state over a newer one, so that files
//! of the newer one stay, usually has the history files of both: then none is believed.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use walzip_pgformat::backup_label::BackupHistory;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{BackupLabel, Repository};

use super::name_at_server;
use crate::backup::data_directory::DataDirectory;
use crate::backups::backup_record::{BackupRecord, FOLLOWS_MAX};
use crate::coding::off_the_runtime;
use crate::files::regular_file;

/// Some lines of text, one of which is the label.
const HISTORY_FILE_BYTES_MAX: usize = 64 << 10;

/// The labels of backups of the repository that a server has seen, the last one first. There may be others.
pub(super) async fn seen(repository: &Repository, directory: &DataDirectory) -> Vec<String> {
    let path = directory.path.clone();
    let Some(history) = off_the_runtime(move || only_history(&path)).await else {
        return Vec::new();
    };
    let Some(record) = record_of(repository, &history).await else {
        return Vec::new();
    };
    let mut seen = vec![record.label];
    seen.extend(record.follows);
    seen.truncate(FOLLOWS_MAX);
    seen
}

/// The history file of a server, if there is one alone. `pg_wal` on a volume of its own may not have been set
/// back with the data directory.
fn only_history(data_directory: &Path) -> Option<BackupHistory> {
    let pg_wal = data_directory.join("pg_wal");
    let of_wal = std::fs::symlink_metadata(&pg_wal).ok()?;
    let of_data = std::fs::metadata(data_directory).ok()?;
    if !of_wal.is_dir() || of_wal.dev() != of_data.dev() {
        return None;
    }
    let entries = std::fs::read_dir(&pg_wal).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names =
        names.filter(|name| matches!(name.parse(), Ok(WalFileName::BackupHistory { .. })));
    let (name, other) = (names.next()?, names.next());
    if other.is_some() {
        return None;
    }
    let content = regular_file::read_at_once(&pg_wal.join(name), HISTORY_FILE_BYTES_MAX).ok()?;
    BackupHistory::read(&content).ok()
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
    // Of two attempts the server has the same name.
    (is_same && record.attempts.is_none()).then_some(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    const CONTENT: &str = "START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\n\
        STOP WAL LOCATION: 0/2000100 (file 000000010000000000000002)\n\
        CHECKPOINT LOCATION: 0/2000060\n\
        BACKUP METHOD: streamed\n\
        BACKUP FROM: primary\n\
        START TIME: 2026-11-21 22:13:46 UTC\n\
        LABEL: walzip\n\
        START TIMELINE: 1\n\
        STOP TIME: 2026-11-21 22:13:47 UTC\n\
        STOP TIMELINE: 1\n";

    fn write(pg_wal: &Path, segment: u8) {
        let name = format!("0000000100000000000000{segment:02X}.00000028.backup");
        fs::write(pg_wal.join(name), CONTENT).expect("written");
    }

    #[test]
    fn a_history_file_is_believed_where_it_is_the_only_one_and_on_the_volume_of_the_data() {
        let place = tempfile::tempdir().expect("a directory");
        let pg_wal = place.path().join("pg_wal");
        fs::create_dir(&pg_wal).expect("made");
        assert_eq!(only_history(place.path()), None);
        write(&pg_wal, 2);
        assert!(only_history(place.path()).is_some());

        // An older state was copied over a newer one.
        write(&pg_wal, 1);
        assert_eq!(only_history(place.path()), None);

        // It may not have been set back with the data.
        let other = tempfile::tempdir().expect("a directory");
        write(other.path(), 2);
        fs::remove_dir_all(&pg_wal).expect("removed");
        symlink(other.path(), &pg_wal).expect("linked");
        assert_eq!(only_history(place.path()), None);
    }
}
