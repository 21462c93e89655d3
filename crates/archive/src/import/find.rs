//! What is in another archive: directories of it, and the WAL files in them by their names.
//!
//! Four layouts are known, and all of them give a WAL file its own name with something behind it:
//!
//! | layout | WAL files |
//! |---|---|
//! | pgBackRest | `archive/STANZA/15-1/0000000100000000/SEGMENT-SHA1.gz`, `archive/STANZA/15-1/00000002.history` |
//! | Barman | `SERVER/wals/0000000100000000/SEGMENT`, compressed or not |
//! | WAL-G | `wal_005/SEGMENT.lz4`, `wal_005/00000002.history.lz4` |
//! | plain | `SEGMENT`, `SEGMENT.gz`, anywhere |
//!
//! So one search serves them all. It knows besides which directories of pgBackRest and Barman hold
//! something else than the archive, and that each archive within the directory is one cluster's.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use walzip_pgformat::wal_file_name::WalFileName;

use super::source::Source;
use super::unpack;
use crate::error::ArchiveError;
use crate::push::unfinished_segment;

/// Endings of files beside WAL that are named after it and hold none.
const NO_WAL: [&str; 4] = [".tmp", ".ready", ".done", ".ok"];

/// The archive of one cluster, or a directory with WAL files.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) directory: PathBuf,
    pub(crate) sources: Vec<Source>,
}

/// What a search has found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) groups: Vec<Group>,
    /// Files that are no WAL.
    pub(crate) other_files: u64,
    /// Segments that a server has made ready for later, and not begun.
    pub(crate) unused: u64,
    /// Files that are named like WAL, with an ending that nobody knows.
    pub(crate) unknown: Vec<PathBuf>,
    /// Directories and files that cannot be looked at.
    pub(crate) unreadable: Vec<(PathBuf, io::Error)>,
}

/// Searches a directory.
pub(crate) fn find(directory: &Path) -> Result<Found, ArchiveError> {
    fs::read_dir(directory).map_err(|error| ArchiveError::file("read", directory, error))?;
    let mut search = Search::default();
    search.enter(directory, None)?;
    let mut found = search.found;
    for group in &mut found.groups {
        // Histories first: a timeline whose history is missing counts as damaged.
        let order = |source: &Source| (!source.is_history(), source.name.to_string());
        group.sources.sort_by_cached_key(order);
        found.unused += leave_unused_out(group);
    }
    found.groups.retain(|group| !group.sources.is_empty());
    Ok(found)
}

/// Leaves out what lies after the last segment that was begun on its timeline. Between two that were begun, one that
/// seems not to be is damaged. Returns how many there were.
fn leave_unused_out(group: &mut Group) -> u64 {
    let place = |source: &Source| {
        let directory = source.path.parent().map(Path::to_owned);
        (directory, source.name.timeline())
    };
    let mut first = HashMap::new();
    for source in &group.sources {
        if source.name.segment().is_some() {
            first.entry(place(source)).or_insert(source.name);
        }
    }
    let mut begun = HashSet::new();
    let before = group.sources.len();
    let mut kept: Vec<Source> = Vec::with_capacity(before);
    for source in group.sources.drain(..).rev() {
        if let WalFileName::Segment(segment) = source.name {
            let place = place(&source);
            if !begun.contains(&place) {
                let is_first = first.get(&place) == Some(&source.name);
                if unfinished_segment::is_unused(&source.path, segment, is_first) {
                    continue;
                }
                begun.insert(place);
            }
        }
        kept.push(source);
    }
    kept.reverse();
    group.sources = kept;
    (before - group.sources.len()) as u64
}

#[derive(Default)]
struct Search {
    found: Found,
    /// The directories that were entered: links may lead to one again.
    entered: HashSet<(u64, u64)>,
}

impl Search {
    /// Searches a directory, in the group of the one above it or in one of its own.
    fn enter(&mut self, directory: &Path, group: Option<usize>) -> Result<(), ArchiveError> {
        match fs::metadata(directory) {
            Ok(metadata) if !self.entered.insert((metadata.dev(), metadata.ino())) => return Ok(()),
            Ok(_) => {}
            Err(error) => {
                self.unreadable(directory, error);
                return Ok(());
            }
        }
        refuse_encrypted(directory)?;
        if let Some(archive) = archive_of(directory) {
            return self.enter(&archive, None);
        }
        let group = match group {
            Some(group) if !is_archive(directory) => group,
            _ => {
                self.found.groups.push(Group {
                    directory: directory.to_owned(),
                    sources: Vec::new(),
                });
                self.found.groups.len() - 1
            }
        };
        let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut paths: Vec<PathBuf> = match entries {
            Ok(entries) => entries.iter().map(fs::DirEntry::path).collect(),
            Err(error) => {
                self.unreadable(directory, error);
                return Ok(());
            }
        };
        paths.sort();
        for path in paths {
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => self.enter(&path, Some(group))?,
                Ok(metadata) => self.take(path, &metadata, group),
                // An archive that is in use gives files their final names, and expires them.
                Err(_) if fs::symlink_metadata(&path).is_err() => {}
                Err(error) => self.unreadable(&path, error),
            }
        }
        Ok(())
    }

    fn take(&mut self, path: PathBuf, metadata: &Metadata, group: usize) {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let source = Source::named(&path, name, metadata.len());
        match (source, self.found.groups.get_mut(group)) {
            (Some(source), Some(group)) if metadata.is_file() => group.sources.push(source),
            _ if is_like_wal(name) => self.found.unknown.push(path),
            _ => self.found.other_files += 1,
        }
    }

    fn unreadable(&mut self, path: &Path, error: io::Error) {
        self.found.unreadable.push((path.to_owned(), error));
    }
}

/// How the names of histories end.
const HISTORY: &str = ".history";

/// A segment's or a history's name with another ending than those that are known: it may be WAL that another
/// program compressed or encrypted.
fn is_like_wal(name: &str) -> bool {
    let history = name
        .find(HISTORY)
        .map(|at| name.split_at(at + HISTORY.len()));
    if let Some((history, rest)) = history {
        let is_history = matches!(history.parse(), Ok(WalFileName::History(_)));
        return is_history && rest.starts_with('.') && !is_no_wal(rest);
    }
    let (Some(segment), Some(rest)) = (name.get(..24), name.get(24..)) else {
        return false;
    };
    let is_segment = matches!(segment.parse(), Ok(WalFileName::Segment(_)));
    is_segment && !rest.starts_with('_') && !is_no_wal(rest)
}

fn is_no_wal(rest: &str) -> bool {
    NO_WAL.iter().any(|ending| rest.ends_with(ending))
}

/// pgBackRest encrypts all of a stanza, or nothing.
fn refuse_encrypted(directory: &Path) -> Result<(), ArchiveError> {
    let info = directory.join("archive.info");
    match unpack::is_encrypted(&info) {
        false => Ok(()),
        true => Err(ArchiveError::Request(format!(
            "{} is encrypted (pgBackRest's repo-cipher-type), and import does not decrypt",
            directory.display()
        ))),
    }
}

/// The directory with the WAL of another program's repository, in which there is more than that:
/// copies of segments in backups, and segments that are still being received.
fn archive_of(directory: &Path) -> Option<PathBuf> {
    let archive = directory.join("archive");
    let stanzas = fs::read_dir(&archive).into_iter().flatten().flatten();
    let mut stanzas = stanzas.map(|stanza| stanza.path());
    if stanzas.any(|stanza| stanza.join("archive.info").is_file()) {
        return Some(archive);
    }
    let wals = directory.join("wals");
    let of_barman = ["base", "incoming", "streaming"];
    let is_barman = of_barman.iter().any(|name| directory.join(name).is_dir());
    (is_barman && wals.is_dir()).then_some(wals)
}

/// Whether a directory is the archive of one cluster: pgBackRest's are named like `15-1`.
fn is_archive(directory: &Path) -> bool {
    let name = directory.file_name().and_then(OsStr::to_str);
    let name = name.unwrap_or_default();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let of_pgbackrest = name.split_once('-');
    ["wals", "wal_005"].contains(&name)
        || of_pgbackrest.is_some_and(|(major, count)| is_number(major) && is_number(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "000000010000000000000001";
    const SUM: &str = "0123456789abcdef0123456789abcdef01234567";

    fn named(name: &str) -> Option<(String, bool, Option<&'static str>)> {
        let source = Source::named(Path::new(name), name, 0)?;
        Some((
            source.name.to_string(),
            source.sha1.is_some(),
            source.suffix,
        ))
    }

    #[test]
    fn names_are_those_of_wal_with_what_archivers_add() {
        let plain = |name: &str| Some((name.to_owned(), false, None));
        for name in [
            NAME.to_owned(),
            format!("{NAME}.partial"),
            format!("{NAME}.00000028.backup"),
            "00000002.history".to_owned(),
        ] {
            assert_eq!(named(&name), plain(&name));
            for suffix in crate::import::source::SUFFIXES {
                let packed = Some((name.clone(), false, Some(suffix)));
                assert_eq!(named(&format!("{name}.{suffix}")), packed);
            }
            let summed = Some((name.clone(), true, Some("zst")));
            assert_eq!(named(&format!("{name}-{SUM}.zst")), summed);
            assert_eq!(
                named(&format!("{name}-{SUM}")),
                Some((name.clone(), true, None))
            );
        }
        for other in [
            "archive.info",
            "xlog.db",
            "",
            ".gz",
            "x.gz",
            "00000001000000000000000z",
            &format!("{NAME}-0123.gz"),
            &format!("{NAME}.gz.gz"),
            &format!("{NAME}_delta.lz4"),
        ] {
            assert_eq!(named(other), None, "{other}");
        }
    }

    #[test]
    fn an_ending_that_nobody_knows_is_noticed() {
        assert!(is_like_wal(&format!("{NAME}.gpg")));
        assert!(is_like_wal(&format!("{NAME}-0123.gz")));
        for known in ["_delta.lz4", ".ready", "-0123.gz.pgbackrest.tmp"] {
            assert!(!is_like_wal(&format!("{NAME}{known}")), "{known}");
        }
        assert!(!is_like_wal("archive.info"));
    }

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        for file in files {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, b"x").expect("written");
        }
        directory
    }

    /// The groups: their directories, and the names of their files in order.
    fn found(directory: &Path, below: &str) -> Vec<(String, Vec<String>)> {
        let found = find(&directory.join(below)).expect("found");
        assert!(found.unknown.is_empty() && found.unreadable.is_empty());
        let shown = |group: &Group| {
            let place = group.directory.strip_prefix(directory).expect("below");
            let names = group.sources.iter().map(|source| source.name.to_string());
            (place.display().to_string(), names.collect())
        };
        found.groups.iter().map(shown).collect()
    }

    #[test]
    fn pgbackrest_has_an_archive_for_each_cluster_of_a_stanza() {
        let segment = format!("0000000100000000/{NAME}-{SUM}.gz");
        let directory = tree(&[
            "archive/demo/archive.info",
            "archive/demo/archive.info.copy",
            "archive/demo/15-1/00000002.history",
            &format!("archive/demo/15-1/{segment}"),
            &format!("archive/demo/15-1/0000000100000000/{NAME}.partial-{SUM}.gz"),
            &format!("archive/demo/17-2/{segment}"),
            &format!("archive/other/15-1/{segment}"),
            &format!("backup/demo/20260101-000000F/pg_data/pg_wal/{NAME}.gz"),
        ]);
        let own = ["00000002.history", NAME, &format!("{NAME}.partial")].map(str::to_owned);
        let own = ("archive/demo/15-1".to_owned(), own.to_vec());
        let all = found(directory.path(), "");
        let places: Vec<&str> = all.iter().map(|(place, _)| place.as_str()).collect();
        let demo = ["archive/demo/15-1", "archive/demo/17-2"];
        assert_eq!(places, [&demo[..], &["archive/other/15-1"]].concat());
        assert_eq!(all[0], own);
        assert_eq!(found(directory.path(), "archive"), all);
        assert_eq!(found(directory.path(), "archive/demo"), all[..2]);
        assert_eq!(found(directory.path(), "archive/demo/15-1"), all[..1]);
    }

    #[test]
    fn barman_has_more_than_the_archive() {
        let directory = tree(&[
            &format!("db1/wals/0000000100000000/{NAME}"),
            "db1/wals/xlog.db",
            "db1/wals/00000002.history",
            &format!("db1/streaming/{NAME}.partial"),
            &format!("db2/wals/0000000100000000/{NAME}"),
            "db2/base/20260101T000000/backup.info",
        ]);
        let all = found(directory.path(), "");
        let files = ["00000002.history".to_owned(), NAME.to_owned()];
        assert_eq!(all[0], ("db1/wals".to_owned(), files.to_vec()));
        assert_eq!(all[1].0, "db2/wals");
        assert_eq!(found(directory.path(), "db1"), all[..1]);
        assert_eq!(found(directory.path(), "db1/wals"), all[..1]);
    }

    #[test]
    fn wal_g_and_plain_directories_are_searched_whole() {
        let directory = tree(&[
            "basebackups_005/base_0/metadata.json",
            &format!("wal_005/{NAME}.lz4"),
            &format!("wal_005/{NAME}_delta.lz4"),
            "wal_005/00000002.history.lz4",
            &format!("old/deep/deeper/{NAME}.xz"),
        ]);
        std::os::unix::fs::symlink("..", directory.path().join("old/up")).expect("linked");
        let all = found(directory.path(), "");
        let files = ["00000002.history".to_owned(), NAME.to_owned()];
        assert_eq!(all[0], (String::new(), vec![NAME.to_owned()]));
        assert_eq!(all[1], ("wal_005".to_owned(), files.to_vec()));
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn an_encrypted_stanza_is_refused_as_a_whole() {
        let directory = tree(&[&format!("archive/demo/15-1/0000000100000000/{NAME}-{SUM}")]);
        let info = directory.path().join("archive/demo/archive.info");
        fs::write(info, b"Salted__12345678").expect("written");
        let refused = find(directory.path()).expect_err("refused").to_string();
        assert!(refused.contains("repo-cipher-type"), "{refused}");
    }
}
