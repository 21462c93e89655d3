//! What is in `pg_wal`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal::SegmentHeader;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_repo::ClusterIdentity;

use crate::error::ArchiveError;
use crate::wal::content;

/// Characters of a segment's name.
const SEGMENT_NAME_LEN: usize = 24;

/// A WAL file in `pg_wal`, and what the server noted of its archiving.
#[derive(Clone, Debug)]
pub(super) struct WalFile {
    pub(super) name: WalFileName,
    pub(super) path: PathBuf,
    /// It has `.ready` in `archive_status`: it waits to be archived.
    pub(super) is_ready: bool,
    /// It has `.done` there.
    pub(super) is_done: bool,
}

/// The WAL files in `pg_wal`, by their names. What the server has noted as archived (`.done`) may have been so
/// elsewhere: a standby notes everything that it receives, and an archive may have lost it since.
pub(super) fn files_of(directory: &Path) -> Result<Vec<WalFile>, ArchiveError> {
    let names = names_in(directory)?;
    let statuses = names_in(&directory.join("archive_status"))?;
    let has = |name: &str, status: &str| statuses.contains(&format!("{name}.{status}"));
    let named = names.iter().filter_map(|name| {
        let parsed: WalFileName = name.parse().ok()?;
        let path = directory.join(name);
        path.is_file().then(|| WalFile {
            name: parsed,
            path,
            is_ready: has(name, "ready"),
            is_done: has(name, "done"),
        })
    });
    Ok(named.collect())
}

/// Where no WAL of a data directory is: relations, and places outside of it.
const WITHOUT_WAL: [&str; 4] = ["base", "global", "pg_tblspc", "pg_wal/archive_status"];

/// Segments of a cluster in other places of its data directory, or under longer names: somebody has put them aside, as
/// `pg_wal.old`, `NAME.bak` or `old.NAME`.
pub(super) fn strays_in(data: &Path, cluster: ClusterIdentity) -> Vec<WalFile> {
    let mut strays = Vec::new();
    // This may be a link.
    let pg_wal = data.join("pg_wal");
    let mut directories = vec![data.to_owned(), pg_wal.clone()];
    while let Some(directory) = directories.pop() {
        // What cannot be read cannot be cleaned either, and the restore refuses it.
        let Ok(names) = names_in(&directory) else {
            continue;
        };
        for name in names {
            let path = directory.join(&name);
            // A link's target is not removed.
            let Ok(metadata) = fs::symlink_metadata(&path) else {
                continue;
            };
            if metadata.is_dir() {
                let is_without = WITHOUT_WAL.iter().any(|name| path == data.join(name));
                if path != pg_wal && !is_without {
                    directories.push(path);
                }
                continue;
            }
            let is_known = directory == pg_wal && name.parse::<WalFileName>().is_ok();
            if !metadata.is_file() || is_known {
                continue;
            }
            if let Some(segment) =
                segments_in(&name).find(|segment| is_segment_of(&path, *segment, cluster))
            {
                strays.push(WalFile {
                    name: WalFileName::Segment(segment),
                    path,
                    is_ready: false,
                    is_done: false,
                });
            }
        }
    }
    strays
}

/// The segments whose names may be a part of a name.
fn segments_in(name: &str) -> impl Iterator<Item = SegmentName> {
    let parts = (0..name.len()).filter_map(|start| name.get(start..start + SEGMENT_NAME_LEN));
    parts.filter_map(|part| part.parse().ok())
}

/// Whether the first page of a file is that of a segment of a cluster.
fn is_segment_of(path: &Path, segment: SegmentName, cluster: ClusterIdentity) -> bool {
    let mut page = vec![0; PAGE_SIZE];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut page));
    let header = SegmentHeader::read(&page);
    read.is_ok()
        && content::cluster_of_segment(&page) == Some(cluster)
        && header.is_ok_and(|header| segment.start(header.segment_size) == Ok(header.start))
}

fn names_in(directory: &Path) -> Result<BTreeSet<String>, ArchiveError> {
    let failed = |error| ArchiveError::file("read", directory, error);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        // A name that is no text is none of PostgreSQL's.
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    Ok(names)
}
