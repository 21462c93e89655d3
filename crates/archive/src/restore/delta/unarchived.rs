//! WAL that only the data directory has, and that a restore would remove with it.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use walzip_pgformat::wal::{Event, RecordLayout, SegmentHeader, SegmentReader};
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Input, Lsn, PAGE_SIZE, ReadAt, TimelineId, rmgr_id};
use walzip_repo::{ClusterIdentity, Repository};

use crate::archived::archived_wal::ArchivedWal;
use crate::archived::own_history;
use crate::archived::stable_file::StableFile;
use crate::archived::stored_wal::StoredWal;
use crate::archived::timelines::Timelines;
use crate::cluster;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::files::regular_file;
use crate::wal::content;
use crate::wal::wal_end::WalEnd;

/// A WAL file in `pg_wal`, and what the server noted of its archiving.
#[derive(Clone, Debug)]
struct WalFile {
    name: WalFileName,
    path: PathBuf,
    /// It has `.ready` in `archive_status`: it waits to be archived.
    is_ready: bool,
}

/// The WAL files of a data directory that are not in the archive and would be missed there, as
/// paths that `archive-push` takes.
pub(super) async fn find(
    repository: &Repository,
    data: &Path,
) -> Result<Vec<PathBuf>, ArchiveError> {
    let directory = data.join("pg_wal");
    let files = off_the_runtime(move || files_of(&directory)).await?;
    let listing = repository.list_wal().await?;
    let archived: HashSet<&str> = listing.iter().map(|entry| entry.name.as_str()).collect();
    let aside = aside(repository).await?;
    let forks = forks(&Timelines::read(repository, &listing).await);
    let others = of_other_servers(repository, &files, &archived).await?;
    let mut found = Vec::new();
    for file in files {
        let name = file.name.to_string();
        let may_differ = file.is_ready || others.contains(&file.name.timeline());
        let is_missed = match archived.contains(name.as_str()) {
            true => may_differ && !is_same(repository, &name, &file.path).await?,
            false if file.is_ready => true,
            false if aside.contains(&name) => false,
            false => {
                let (cluster, listing) = (repository.cluster(), listing.clone());
                let (file, forks) = (file.clone(), forks.clone());
                off_the_runtime(move || is_worth_keeping(&file, cluster, &listing, &forks)).await?
            }
        };
        if is_missed {
            found.push(file.path);
        }
    }
    Ok(found)
}

/// The timelines under whose numbers another server has archived: a server that does not archive notes nothing of that,
/// and its files have the same names.
async fn of_other_servers(
    repository: &Repository,
    files: &[WalFile],
    archived: &HashSet<&str>,
) -> Result<BTreeSet<TimelineId>, ArchiveError> {
    let mut others = BTreeSet::new();
    for WalFile { name, path, .. } in files {
        let (WalFileName::History(timeline), name) = (name, name.to_string()) else {
            continue;
        };
        let Some(stored) = stored_history(repository, &name, archived).await? else {
            continue;
        };
        let own = fs::read(path).map_err(|error| ArchiveError::file("read", path, error))?;
        if own != stored && !own_history::is_rebuilt_of(*timeline, &stored, &own) {
            others.insert(*timeline);
        }
    }
    Ok(others)
}

async fn stored_history(
    repository: &Repository,
    name: &str,
    archived: &HashSet<&str>,
) -> Result<Option<Vec<u8>>, ArchiveError> {
    if !archived.contains(name) {
        return Ok(None);
    }
    match StoredWal::get(repository, name).await? {
        Some(stored) => Ok(Some(stored.content(name).await?)),
        None => Ok(None),
    }
}

/// Where a timeline left another one.
#[derive(Clone, Copy, Debug)]
struct Fork {
    parent: TimelineId,
    child: TimelineId,
    switch: Lsn,
}

fn forks(timelines: &Timelines) -> Vec<Fork> {
    let fork = |child| {
        let (parent, switch) = timelines.beginning(child)?;
        Some(Fork {
            parent,
            child,
            switch,
        })
    };
    timelines.known().filter_map(fork).collect()
}

/// The names of all that is set aside: it is of no use to this cluster, and not lost.
async fn aside(repository: &Repository) -> Result<HashSet<String>, ArchiveError> {
    let mut names = HashSet::new();
    for label in repository.list_aside_labels().await? {
        let entries = repository.list_aside_objects(label).await?.entries();
        names.extend(entries.into_iter().map(|entry| entry.name));
    }
    Ok(names)
}

/// Refuses a data directory that has come further than the archived WAL leads, where the WAL between them is not in
/// `pg_wal` either: it was written while nobody archived. A server that was shut down has come to its last checkpoint.
pub(super) async fn refuse_ahead(data: &Path, end: &WalEnd) -> Result<(), ArchiveError> {
    let control_file = cluster::read_control_file(data).await?;
    let at = control_file.checkpoint.max(control_file.min_recovery);
    let size = control_file.segment_size_bytes;
    // A standby has come to the end of a record, and where that is the end of a segment, no byte of the next.
    let number_of = |position: Lsn| position.0.saturating_sub(1) / u64::from(size);
    let archived = end
        .segment
        .as_ref()
        .and_then(|name| name.parse::<SegmentName>().ok());
    let last = archived.and_then(|segment| segment.number(size).ok());
    let last = last.unwrap_or(number_of(end.last_record));
    let directory = data.join("pg_wal");
    let files = off_the_runtime(move || files_of(&directory)).await?;
    let there: BTreeSet<u64> = files
        .iter()
        .filter_map(|file| match file.name {
            WalFileName::Segment(name) => name.number(size).ok(),
            _ => None,
        })
        .collect();
    // Between the two there may be any number of segments: the first and the last tell.
    let until = number_of(at);
    let is_nowhere = |number: u64| !there.contains(&number);
    match until > last && (is_nowhere(last + 1) || is_nowhere(until)) {
        true => Err(ArchiveError::DirectoryAhead {
            path: data.to_owned(),
            at,
            end: Box::new(end.clone()),
        }),
        false => Ok(()),
    }
}

/// The WAL files in `pg_wal`, by their names. What the server has noted as archived (`.done`) may have been so
/// elsewhere: a standby notes everything that it receives, and an archive may have lost it since.
fn files_of(directory: &Path) -> Result<Vec<WalFile>, ArchiveError> {
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
        })
    });
    Ok(named.collect())
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

/// Whether the archive has exactly this file.
async fn is_same(repository: &Repository, name: &str, path: &Path) -> Result<bool, ArchiveError> {
    let file = StableFile::open(path, PAGE_SIZE as u64).await?;
    match StoredWal::get(repository, name).await? {
        Some(stored) => file.is_in(name, stored).await,
        None => Ok(false),
    }
}

/// Whether a file that does not wait to be archived is WAL that the archive lacks: after the first segment that is
/// archived of its timeline, and with something in it. Servers without `archive_mode` note nothing, and no server
/// notes the segment that it writes.
fn is_worth_keeping(
    file: &WalFile,
    cluster: ClusterIdentity,
    listing: &[walzip_repo::WalEntry],
    forks: &[Fork],
) -> Result<bool, ArchiveError> {
    match file.name {
        WalFileName::Segment(name) => {
            let Some(segment) = LocalSegment::open(&file.path, name, cluster)? else {
                return Ok(false);
            };
            let archived = ArchivedWal::of(listing, segment.header.segment_size);
            let number = name.number(segment.header.segment_size)?;
            // What is older than the archive was never meant to be in it, or has expired: before the newest segments
            // that follow one another, a pinned backup may have some of its own.
            let numbers: Vec<u64> = archived.numbers_from(name.timeline, 0).collect();
            let pairs = numbers.windows(2).rev();
            let mut breaks = pairs
                .filter(|pair| pair[0] + 1 != pair[1])
                .map(|pair| pair[1]);
            let first = breaks.next().or(numbers.first().copied());
            // A timeline that left this one in it has a copy of what comes before.
            let copied = forks.iter().filter(|fork| {
                fork.parent == name.timeline
                    && archived.number_at(fork.switch) == number
                    && archived.numbers_from(fork.child, number).next() == Some(number)
            });
            let from = copied.map(|fork| fork.switch).max().unwrap_or_default();
            Ok(first.is_none_or(|first| number > first) && segment.has_changes(from)?)
        }
        WalFileName::History(_) => Ok(true),
        // A copy of it begins the next timeline; and where a backup began says nothing of data.
        WalFileName::Partial(_) | WalFileName::BackupHistory { .. } => Ok(false),
    }
}

/// A segment in `pg_wal`.
struct LocalSegment {
    path: PathBuf,
    file: fs::File,
    len: usize,
    header: SegmentHeader,
}

impl LocalSegment {
    /// Nothing for a file that the server has not begun to write: it is new, or recycled.
    fn open(
        path: &Path,
        name: SegmentName,
        cluster: ClusterIdentity,
    ) -> Result<Option<LocalSegment>, ArchiveError> {
        let failed = |error| ArchiveError::file("read", path, error);
        let (file, metadata) = regular_file::open(path).map_err(failed)?;
        let len = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        let mut beginning = vec![0; len.min(PAGE_SIZE)];
        read_at(&file, 0, &mut beginning).map_err(failed)?;
        let name = WalFileName::Segment(name);
        if content::check_beginning(&name, &beginning, len, cluster).is_err() {
            return Ok(None);
        }
        let header = SegmentHeader::read(&beginning);
        Ok(header.ok().map(|header| LocalSegment {
            path: path.to_owned(),
            file,
            len,
            header,
        }))
    }

    /// Whether it has more than checkpoints and what standbys need from a position on, as the segment has in which a
    /// server was shut down. A server replays no more than what follows without a gap: after that there may be remains
    /// of another segment.
    fn has_changes(&self, from: Lsn) -> Result<bool, ArchiveError> {
        let mut reader = SegmentReader::of_part(Input::Reader(self), self.header);
        let mut layout = RecordLayout::default();
        while let Some(event) = reader.next_event(&mut layout) {
            let is_change = match event {
                Event::Record { lsn } => {
                    lsn >= from && !matches!(layout.header.rmid, rmgr_id::XLOG | rmgr_id::STANDBY)
                }
                Event::Lead { .. } => from == Lsn::default(),
                Event::Tail { lsn } => lsn >= from,
                Event::RunEnd { .. } if from == Lsn::default() => break,
                Event::RunStart { .. } | Event::RunEnd { .. } | Event::Other { .. } => false,
            };
            if is_change {
                return Ok(true);
            }
        }
        match reader.take_error() {
            Some(error) => Err(ArchiveError::file("read", &self.path, error)),
            None => Ok(false),
        }
    }
}

impl ReadAt for LocalSegment {
    fn len(&self) -> usize {
        self.len
    }

    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
        read_at(&self.file, offset, buffer)
    }
}

fn read_at(file: &fs::File, offset: usize, buffer: &mut [u8]) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    file.read_exact_at(buffer, offset as u64)
}
