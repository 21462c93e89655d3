//! The way out when directories of tablespaces are in the way of a restore.

use walzip_archive::{OccupiedDirectory, TablespaceRecord};

/// Where a replay can have a directory that is taken here.
const ELSEWHERE: &str = "recover where an empty directory stands in its place: on another machine, \
                         or here in a mount namespace of its own (unshare --mount)";

/// What to do about directories that are not empty.
pub fn not_empty(directories: &[OccupiedDirectory]) -> String {
    let mut sentences = Vec::new();
    if directories
        .iter()
        .any(|directory| directory.tablespace.is_none())
    {
        sentences.push(
            "Name an empty or a new directory; --delta restores over a data directory of the \
             cluster."
                .to_owned(),
        );
    }
    let movable = directories
        .iter()
        .filter(|directory| !directory.is_replayed);
    let flags: Vec<String> = movable
        .filter_map(|directory| directory.tablespace.as_ref())
        .map(|tablespace| format!("-T {}=NEWDIR", called(tablespace)))
        .collect();
    if !flags.is_empty() {
        let flags = flags.join(" ");
        sentences.push(format!(
            "Move the tablespaces' directories away as a whole, or put the tablespaces elsewhere: {flags}."
        ));
    }
    let replayed: Vec<String> = directories
        .iter()
        .filter(|directory| directory.is_replayed)
        .filter_map(|directory| directory.tablespace.as_ref().map(called))
        .collect();
    if !replayed.is_empty() {
        sentences.push(format!(
            "{} began while the backup ran, and a replay takes the directory from the WAL: use a \
             later backup, or {ELSEWHERE}.",
            replayed.join(", ")
        ));
    }
    sentences.join(" ")
}

/// What to do when a recovery stops before it takes the directory of another cluster.
pub fn in_use() -> String {
    format!(
        "If the recovery's target lies before this segment, the server only reads ahead: set \
         recovery_prefetch = off (PostgreSQL 15 and later). Otherwise, if no server uses that \
         directory any more, move it away and start this one again. If one does, restore from \
         a backup that was taken after the tablespace was created, with -T, or {ELSEWHERE}."
    )
}

/// What to do when the directory of a tablespace cannot be made.
pub fn no_location(path: &std::path::Path) -> String {
    format!(
        "Make {} for the user that will run PostgreSQL, as an empty directory or a link to one.",
        path.display()
    )
}

/// How `-T` can call a tablespace: by its name, if that is one plain word.
fn called(tablespace: &TablespaceRecord) -> String {
    let is_plain = |name: &&String| {
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.chars().all(letter) && name.chars().any(|c| !c.is_ascii_digit())
    };
    match tablespace.name.as_ref().filter(is_plain) {
        Some(name) => name.clone(),
        None => tablespace.oid.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: Option<&str>, oid: u32, is_replayed: bool) -> OccupiedDirectory {
        let tablespace = TablespaceRecord {
            oid,
            name: name.map(str::to_owned),
            location: "/srv".to_owned(),
        };
        OccupiedDirectory {
            path: "/srv".into(),
            tablespace: (oid > 0).then_some(tablespace),
            is_replayed,
        }
    }

    #[test]
    fn names_a_mapping_for_each_tablespace_that_can_be_mapped() {
        let directories = [
            directory(Some("fast"), 16385, false),
            directory(Some("it's slow"), 16386, false),
            directory(Some("16"), 16387, false),
            directory(None, 16400, false),
        ];
        assert_eq!(
            not_empty(&directories),
            "Move the tablespaces' directories away as a whole, or put the tablespaces elsewhere: \
             -T fast=NEWDIR -T 16386=NEWDIR -T 16387=NEWDIR -T 16400=NEWDIR."
        );
        assert_eq!(
            not_empty(&[directory(None, 0, false)]),
            "Name an empty or a new directory; --delta restores over a data directory of the cluster."
        );
    }

    #[test]
    fn offers_no_mapping_that_a_replay_would_not_heed() {
        let hint = not_empty(&[directory(Some("late"), 16400, true)]);
        assert!(
            hint.starts_with("late began while the backup ran"),
            "{hint}"
        );
        assert!(!hint.contains("-T"), "{hint}");
    }
}
