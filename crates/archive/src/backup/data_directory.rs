//! The files of a data directory that its server works on, as a base backup needs them.
//!
//! What is left out, and how a file is read that changes meanwhile, is what the server itself does
//! for `BASE_BACKUP` (backup/basebackup.c, PostgreSQL 13 to 18): a file that is gone is passed
//! over, one that became shorter is filled up with zeros, and a page that was written while it was
//! read comes back whole from the WAL.

mod changing_file;
mod left_out;
pub(crate) mod pace;
mod row_order;
pub(crate) mod unproven_pages;
pub(crate) mod wal_summaries;
pub(crate) mod whose;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use walzip_pgformat::Lsn;
use walzip_pgformat::control_file::ControlFile;

use self::changing_file::ChangingFile;
use self::left_out::LeftOut;
use self::pace::{Pace, Paced};
use self::unproven_pages::UnprovenPages;
use self::wal_summaries::{ChangedBlocks, ChangedInFile};
use crate::backups::backup_files::{
    CONTROL_FILE, Entry, FileSink, PartlyRead, TABLESPACE_LINKS, tablespace_of_link,
};
use crate::error::ArchiveError;
use crate::progress::Progress;
use crate::server::indexed_tables::{self, IndexedTable};
use crate::server::needed_paths::is_needed;
use crate::server::replication::BackupTablespace;

/// Directories of WAL, whose files are not part of a backup.
const WAL: &str = "pg_wal";
const WAL_DIRECTORIES: [&str; 2] = ["pg_wal/archive_status", "pg_wal/summaries"];
/// Directories no deeper than this have files of PostgreSQL.
const DEPTH_MAX: usize = 100;
/// How often a control file is read that may be in the middle of a write.
const CONTROL_FILE_ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(20);

/// A data directory, and what of its server matters for copying it.
#[derive(Clone, Debug)]
pub(crate) struct DataDirectory {
    /// The directory.
    pub(crate) path: PathBuf,
    /// What a tablespace's directory has for this major: `PG_15_202209061`.
    pub(crate) version_directory: String,
    /// Whether the pages have checksums.
    pub(crate) checksums: bool,
    /// Whether the files of a fork are as long as walzip expects.
    pub(crate) has_usual_files: bool,
    /// The permissions of its files, which depend on whether the group may read them.
    pub(crate) file_mode: u32,
}

impl DataDirectory {
    /// Those of the tables, and of their indexes, for which it gains anything to tell these from the
    /// rows.
    pub(crate) fn worth_telling(&self, tables: Vec<IndexedTable>) -> Vec<IndexedTable> {
        row_order::without_such(&self.path, tables)
    }

    /// Those of the databases that may have tables of some size: of tablespaces that is not known.
    pub(crate) fn with_large_files(
        &self,
        databases: BTreeMap<u32, String>,
    ) -> BTreeMap<u32, String> {
        let links = fs::read_dir(self.path.join(TABLESPACE_LINKS));
        let has_tablespaces = links.is_ok_and(|mut links| links.next().is_some());
        let has_large = |oid: &u32| {
            let files = fs::read_dir(self.path.join(format!("base/{oid}")));
            let mut files = files.into_iter().flatten().flatten();
            files.any(|file| {
                file.metadata()
                    .is_ok_and(|file| file.len() > indexed_tables::BYTES_MIN)
            })
        };
        let mut databases = databases;
        databases.retain(|oid, _| has_tablespaces || has_large(oid));
        databases
    }
}

/// A copy that is being made.
pub(crate) struct Copying<'c> {
    pub(crate) directory: &'c DataDirectory,
    /// The tablespaces that there were when the backup began.
    pub(crate) tablespaces: &'c [BackupTablespace],
    /// Tables whose indexes are to come after them.
    pub(crate) tables: &'c [IndexedTable],
    /// Where the backup begins: the WAL has all pages that were written later.
    pub(crate) start: Lsn,
    /// What has changed since the backup that the new one is compared with, if the server says.
    pub(crate) changed: Option<&'c ChangedBlocks>,
    pub(crate) progress: &'c Progress,
    pub(crate) pace: Pace,
    /// Pages whose checksums are wrong, so far.
    pub(crate) wrong_pages: u64,
    /// Pages that are right if the backup ends after their positions.
    pub(crate) unproven: UnprovenPages,
    /// Directories with files of relations that were read, and what was left out of them.
    pub(crate) read_directories: Vec<(Place, LeftOut)>,
}

/// A directory that is being read.
#[derive(Clone)]
pub(crate) struct Place {
    tablespace: Option<u32>,
    /// Where it is.
    directory: PathBuf,
    /// Its path in the tablespace's or the data directory.
    below: PathBuf,
}

impl Place {
    fn entry(&self, name: &Path, metadata: &Metadata) -> Result<Entry, ArchiveError> {
        let path = self.below.join(name);
        let mode = metadata.permissions().mode() & 0o7777;
        Entry::new(self.tablespace, path.as_os_str().as_bytes(), mode)
            .map_err(ArchiveError::Internal)
    }

    fn child(&self, name: &Path) -> Place {
        Place {
            tablespace: self.tablespace,
            directory: self.directory.join(name),
            below: self.below.join(name),
        }
    }
}

impl Copying<'_> {
    /// Hands on everything but `backup_label`, which the server writes when the copy ends.
    pub(crate) fn read(&mut self, sink: &mut dyn FileSink) -> Result<(), ArchiveError> {
        sink.tables(self.tables);
        for tablespace in self.tablespaces {
            tracing::info!("copying tablespace {}", tablespace.oid);
            let place = Place {
                tablespace: Some(tablespace.oid),
                directory: PathBuf::from(&tablespace.location),
                below: PathBuf::new(),
            };
            let name = Path::new(&self.directory.version_directory);
            // The tablespace may have been dropped since.
            if let Some(metadata) = look_at(&place.directory.join(name))? {
                sink.directory(place.entry(name, &metadata)?)?;
                self.walk(&place.child(name), 0, sink)?;
            }
        }
        tracing::info!("copying the data directory");
        let root = Place {
            tablespace: None,
            directory: self.directory.path.clone(),
            below: PathBuf::new(),
        };
        self.walk(&root, 0, sink)?;
        self.control_file(&root, sink)
    }

    /// The control file is written at any time: it is read until it is whole.
    fn control_file(&self, root: &Place, sink: &mut dyn FileSink) -> Result<(), ArchiveError> {
        let path = root.directory.join(CONTROL_FILE);
        let unreadable = |error| ArchiveError::file("read", &path, error);
        let metadata = fs::symlink_metadata(&path).map_err(unreadable)?;
        let entry = root.entry(Path::new(CONTROL_FILE), &metadata)?;
        for _ in 0..CONTROL_FILE_ATTEMPTS {
            let content = fs::read(&path).map_err(unreadable)?;
            if ControlFile::read(&content).is_ok() {
                return sink.file(entry, content.len() as u64, &mut content.as_slice());
            }
            thread::sleep(PAUSE);
        }
        let reason = "it is not whole, however often it is read".to_owned();
        Err(ArchiveError::Invalid { path, reason })
    }

    fn walk(
        &mut self,
        place: &Place,
        depth: usize,
        sink: &mut dyn FileSink,
    ) -> Result<(), ArchiveError> {
        if depth > DEPTH_MAX {
            let reason = format!("{} lies too deep", place.directory.display());
            return Err(ArchiveError::Internal(reason));
        }
        let names = match names_in(&place.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            names => names.map_err(|error| ArchiveError::file("read", &place.directory, error))?,
        };
        let left_out = LeftOut::of(place.tablespace, &place.below, &names);
        let names = self.with_indexes_after(place, names);
        for name in names
            .iter()
            .map(Path::new)
            .filter(|name| !left_out.has(name))
        {
            let initial_fork = left_out.initial_fork_of(name);
            if let Some(initial_fork) = initial_fork
                && look_at(&place.directory.join(initial_fork))?.is_some()
            {
                continue;
            }
            let path = place.directory.join(name);
            // What is gone meanwhile, the WAL removes too.
            let Some(metadata) = look_at(&path)? else {
                continue;
            };
            self.take(place, name, &path, &metadata, depth, sink)?;
        }
        if left_out.has_relations() {
            self.read_directories.push((place.clone(), left_out));
        }
        Ok(())
    }

    /// The main forks, by their names in the manifest, of relations that have got an initial fork since their directory
    /// was listed: an index of an unlogged table gets it when it is built.
    pub(crate) fn unlogged_since(&self) -> Result<Vec<String>, ArchiveError> {
        let mut found = Vec::new();
        for (place, before) in &self.read_directories {
            let names = match names_in(&place.directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                names => {
                    names.map_err(|error| ArchiveError::file("read", &place.directory, error))?
                }
            };
            let now = LeftOut::of(place.tablespace, &place.below, &names);
            found.extend(before.main_forks_unlogged_since(&now));
        }
        Ok(found)
    }

    /// The same names, those of the indexes of a table after it.
    fn with_indexes_after(&self, place: &Place, names: Vec<PathBuf>) -> Vec<PathBuf> {
        let below = place.below.as_os_str().as_bytes();
        let here = Entry::new(place.tablespace, below, 0).map(|entry| entry.name());
        let is_here = |file: &str| {
            let (directory, name) = file.rsplit_once('/')?;
            let is_same = here.as_deref() == Ok(directory.as_bytes());
            is_same.then(|| PathBuf::from(name))
        };
        if !self
            .tables
            .iter()
            .any(|table| is_here(&table.file).is_some())
        {
            return names;
        }
        let there: HashSet<PathBuf> = names.iter().cloned().collect();
        let mut indexes: HashMap<PathBuf, Vec<PathBuf>> = HashMap::new();
        let mut moved = HashSet::new();
        for table in self.tables {
            let Some(file) = is_here(&table.file).filter(|file| there.contains(file)) else {
                continue;
            };
            let of_table: Vec<PathBuf> = table
                .indexes
                .iter()
                .filter_map(|file| is_here(file))
                .collect();
            moved.extend(of_table.iter().cloned());
            indexes.insert(file, of_table);
        }
        let mut ordered = Vec::with_capacity(names.len());
        for name in names.into_iter().filter(|name| !moved.contains(name)) {
            let of_table = indexes.remove(&name).unwrap_or_default();
            ordered.push(name);
            ordered.extend(of_table.into_iter().filter(|index| there.contains(index)));
        }
        ordered
    }

    /// Hands on what has this name.
    fn take(
        &mut self,
        place: &Place,
        name: &Path,
        path: &Path,
        metadata: &Metadata,
        depth: usize,
        sink: &mut dyn FileSink,
    ) -> Result<(), ArchiveError> {
        let entry = place.entry(name, metadata)?;
        let is_in_data = place.tablespace.is_none();
        if is_in_data && entry.path == Path::new(WAL) {
            return self.wal_directories(place, sink);
        }
        let is_link_of_tablespace =
            is_in_data && metadata.is_symlink() && place.below == Path::new(TABLESPACE_LINKS);
        if is_link_of_tablespace && let Some(oid) = tablespace_of_link(&entry.name()) {
            let location = fs::read_link(path);
            let location = location.map_err(|error| ArchiveError::file("read", path, error))?;
            return sink.link(oid, location.to_string_lossy().into_owned());
        }
        if is_in_data && left_out::has_contents_of_no_use(&entry.path) {
            return match as_directory(path)? {
                Some(metadata) => sink.directory(place.entry(name, &metadata)?),
                None => Ok(()),
            };
        }
        if metadata.is_dir() {
            sink.directory(entry)?;
            // A tablespace inside the data directory has been copied by itself.
            let is_tablespace = |of: &BackupTablespace| Path::new(&of.location) == path;
            return match is_in_data && self.tablespaces.iter().any(is_tablespace) {
                true => Ok(()),
                false => self.walk(&place.child(name), depth + 1, sink),
            };
        }
        if metadata.is_file() {
            return self.file(entry, path, sink);
        }
        if is_needed(&entry.name()) {
            return Err(ArchiveError::NeededLink(path.display().to_string()));
        }
        tracing::warn!(
            "{} is no file and no directory, and is left out",
            path.display()
        );
        Ok(())
    }

    /// The directories of WAL, which may lie elsewhere, without their files.
    fn wal_directories(&self, root: &Place, sink: &mut dyn FileSink) -> Result<(), ArchiveError> {
        for name in std::iter::once(WAL).chain(WAL_DIRECTORIES).map(Path::new) {
            if let Some(metadata) = as_directory(&root.directory.join(name))? {
                sink.directory(root.entry(name, &metadata)?)?;
            }
        }
        Ok(())
    }

    fn file(
        &mut self,
        entry: Entry,
        path: &Path,
        sink: &mut dyn FileSink,
    ) -> Result<(), ArchiveError> {
        let start = self.directory.checksums.then_some(self.start);
        let name = entry.name();
        let Some(mut file) = ChangingFile::open(path, &name, start)? else {
            return Ok(());
        };
        let size_bytes = file.size_bytes();
        let mut paced = Paced {
            inner: &mut file,
            pace: &mut self.pace,
        };
        let changed = self.changed.and_then(|of| of.of_file(&name, size_bytes));
        match changed {
            None => sink.file(entry, size_bytes, &mut paced)?,
            Some(changed) => {
                let mut content = ChangedContent { paced, changed };
                sink.partly_read_file(entry, size_bytes, &mut content)?;
            }
        }
        if let Some(error) = file.failure() {
            return Err(ArchiveError::file("read", path, error));
        }
        self.wrong_pages += file.wrong_pages();
        self.unproven.add(path, file.take_unproven());
        self.progress.add(size_bytes);
        Ok(())
    }

    /// Bytes that there are to copy, about.
    pub(crate) fn estimate(&self) -> u64 {
        let roots = self
            .tablespaces
            .iter()
            .map(|tablespace| PathBuf::from(&tablespace.location));
        let base = self.directory.path.join("base");
        let mut waiting: Vec<PathBuf> = roots.chain([base]).collect();
        let mut bytes = 0;
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                match entry.metadata() {
                    Ok(metadata) if metadata.is_dir() => waiting.push(entry.path()),
                    Ok(metadata) if metadata.is_file() => bytes += metadata.len(),
                    _ => {}
                }
            }
        }
        bytes
    }
}

/// A file of which the server says which blocks have changed.
struct ChangedContent<'f> {
    paced: Paced<'f, ChangingFile>,
    changed: ChangedInFile<'f>,
}

impl Read for ChangedContent<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.paced.read(buffer)
    }
}

impl PartlyRead for ChangedContent<'_> {
    fn is_unchanged(&self) -> bool {
        self.changed.is_unchanged(self.paced.inner.position())
    }

    fn step_over(&mut self, len: u64) {
        self.paced.inner.step_over(len);
    }
}

/// The names in a directory, in an order that does not depend on the file system.
fn names_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?;
    let mut names = entries
        .map(|entry| Ok(PathBuf::from(entry?.file_name())))
        .collect::<io::Result<Vec<_>>>()?;
    // The files of a fork follow one another: 9 before 10, and 16384.2 before 16384.10.
    names.sort_by_cached_key(|name| (name.as_os_str().len(), name.clone()));
    Ok(names)
}

/// What a path leads to, links not followed; nothing if it is gone.
fn look_at(path: &Path) -> Result<Option<Metadata>, ArchiveError> {
    there(path, fs::symlink_metadata(path))
}

/// What a path leads to, links followed, if that is a directory.
fn as_directory(path: &Path) -> Result<Option<Metadata>, ArchiveError> {
    Ok(there(path, fs::metadata(path))?.filter(Metadata::is_dir))
}

fn there(path: &Path, found: io::Result<Metadata>) -> Result<Option<Metadata>, ArchiveError> {
    match found {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ArchiveError::file("read", path, error)),
    }
}
