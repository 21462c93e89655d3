//! Where the replay begins in a data directory that was restored: what its backup label says.

use std::fs;
use std::path::Path;

use walzip_pgformat::Lsn;
use walzip_pgformat::backup_label::BackupLabel;
use walzip_pgformat::wal_file_name::SegmentName;

/// The server's name of the label until it has read it (`BACKUP_LABEL_FILE` in access/xlogbackup.h).
const NEW: &str = "backup_label";
/// Its name afterwards.
const OLD: &str = "backup_label.old";

/// The first segment that is replayed.
pub fn first_segment_of_replay(data_directory: &Path) -> Option<SegmentName> {
    new_or_old(data_directory).map(|label| label.start_file)
}

/// Where the replay begins.
pub(crate) fn start_of_replay(data_directory: &Path) -> Option<Lsn> {
    new_or_old(data_directory).map(|label| label.start)
}

/// The segment that a recovery which has not begun will ask for first, if that can be told. The server asks for the one
/// that holds the checkpoint, and then for the one in which the replay begins, which nearly always is the same.
pub(crate) fn first_to_be_asked_for(
    data_directory: &Path,
    segment_size: u32,
) -> Option<SegmentName> {
    let label = read(data_directory, NEW)?;
    let range = label.start_file.range(segment_size).ok()?;
    range
        .contains(&label.checkpoint)
        .then_some(label.start_file)
}

fn new_or_old(data_directory: &Path) -> Option<BackupLabel> {
    let mut names = [NEW, OLD].into_iter();
    names.find_map(|name| read(data_directory, name))
}

fn read(data_directory: &Path, name: &str) -> Option<BackupLabel> {
    let label = fs::read(data_directory.join(name)).ok()?;
    BackupLabel::read(&label).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_recovery_asks_for_first_is_told_before_it_has_read_its_label() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let write = |name: &str, checkpoint: &str| {
            let label = format!(
                "START WAL LOCATION: 0/3000028 (file 000000010000000000000003)\n\
                 CHECKPOINT LOCATION: {checkpoint}\nBACKUP METHOD: streamed\nBACKUP FROM: primary\n\
                 START TIME: 2026-11-30 12:00:00 UTC\nLABEL: walzip\nSTART TIMELINE: 1\n"
            );
            fs::write(path.join(name), label).expect("written");
        };
        let asked_first = || first_to_be_asked_for(path, 1 << 24).map(|name| name.to_string());
        assert_eq!(asked_first(), None);
        write(NEW, "0/3000060");
        assert_eq!(asked_first().as_deref(), Some("000000010000000000000003"));
        write(NEW, "0/4000060");
        assert_eq!(
            asked_first(),
            None,
            "the checkpoint's segment is another one"
        );
        fs::remove_file(path.join(NEW)).expect("removed");
        write(OLD, "0/3000060");
        assert_eq!(asked_first(), None, "the recovery has begun");
        let first = first_segment_of_replay(path).map(|name| name.to_string());
        assert_eq!(first.as_deref(), Some("000000010000000000000003"));
    }
}
