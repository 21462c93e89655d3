//! `restore --delta`: over a data directory of the same cluster, of which only what differs is
//! written.
//!
//! What is there is somebody's. So it is looked at first, and nothing is touched in a directory
//! that is not this cluster's, that a server uses, or that has WAL which is nowhere else. Then the
//! directory is marked, and the control file gets another name: from there on no server starts in
//! it until the restore is finished, by this run or by a repetition of it.

mod cleaning;
mod come_further;
mod left_behind;
mod local_segment;
mod unarchived;
mod wal_files;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use walzip_repo::{ClusterIdentity, Location, Repository};

pub use self::cleaning::Removed;
use super::directories::Directories;
use super::marker::{DirectoryLock, Marker};
use super::unpack::CONTROL_FILE_UNFINISHED;
use crate::backups::backup_files::{CONTROL_FILE, TABLESPACE_LINKS};
use crate::cluster;
use crate::cluster::placement;
use crate::cluster::running_server;
use crate::error::ArchiveError;
use crate::files::durable;
use crate::wal::wal_end::WalEnd;

/// How to restore over what is there.
#[derive(Clone, Debug)]
pub struct DeltaOptions {
    /// Even where WAL is lost that is not archived.
    pub force: bool,
    /// Where the repository is, which must not be among the files.
    pub location: Location,
}

/// A data directory of this cluster, in which nothing has been changed yet.
pub(super) struct Found {
    directories: Directories,
    /// What an interrupted restore marked it with.
    marker: Option<Marker>,
    cluster: ClusterIdentity,
    /// Where the links in `pg_tblspc` lead, by OID.
    links: BTreeMap<u32, PathBuf>,
    lock: DirectoryLock,
}

/// Looks at the directories; returns nothing where the data directory is empty or missing, so
/// that the restore is one into an empty directory. Where all is restored that is archived, `end` says where that
/// ends.
pub(super) async fn look(
    repository: &Repository,
    directories: &Directories,
    options: &DeltaOptions,
    end: Option<&WalEnd>,
) -> Result<Option<Found>, ArchiveError> {
    let data = &directories.data;
    if !super::directories::has_content(data)? {
        tracing::warn!("{} is empty: all of it is written", data.display());
        return Ok(None);
    }
    let lock = DirectoryLock::take(data)?;
    let marker = Marker::read(data)?;
    let found = match &marker {
        Some(marker) => marker.cluster(),
        None => Some(cluster_of(data).await?),
    };
    let cluster = repository.cluster();
    match found {
        Some(found) if found == cluster => {}
        Some(found) => {
            return Err(ArchiveError::Mismatch {
                what: data.display().to_string(),
                found,
                repository: cluster,
            });
        }
        None => return Err(foreign(data, "the mark of its restore is damaged")),
    }
    running_server::refuse(data)?;
    let links = links_of(data)?;
    let tablespaces = links.values().chain(directories.tablespaces.values());
    running_server::refuse_shared(data, tablespaces)?;
    placement::check(
        &options.location,
        &cluster::Source::DataDirectory(data.clone()),
    )
    .await?;
    placement::check_tablespaces(&options.location, directories.tablespaces.values())?;
    if !options.force {
        let files = unarchived::find(repository, data).await?;
        if !files.is_empty() {
            return Err(ArchiveError::WalNotArchived { files });
        }
        if let (Some(end), None) = (end, &marker) {
            come_further::refuse(repository, data, end).await?;
        }
    }
    let found = Found {
        links,
        directories: directories.clone(),
        marker,
        cluster,
        lock,
    };
    directories.refuse_occupied(|path| found.is_own(path))?;
    cleaning::check_access(directories, found.given_up())?;
    Ok(Some(found))
}

/// The cluster of a data directory that no restore has marked.
async fn cluster_of(data: &Path) -> Result<ClusterIdentity, ArchiveError> {
    if !data.join("PG_VERSION").is_file() {
        return Err(foreign(data, "it has no PG_VERSION"));
    }
    match cluster::of_data_directory(data).await {
        Err(ArchiveError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Err(foreign(data, "it has no global/pg_control"))
        }
        found => found,
    }
}

fn foreign(data: &Path, reason: &str) -> ArchiveError {
    ArchiveError::NotOfCluster {
        path: data.to_owned(),
        reason: reason.to_owned(),
    }
}

/// The links to the cluster's tablespaces.
fn links_of(data: &Path) -> Result<BTreeMap<u32, PathBuf>, ArchiveError> {
    let directory = data.join(TABLESPACE_LINKS);
    let failed = |error| ArchiveError::file("read", &directory, error);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut links = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let oid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let (Some(oid), Ok(target)) = (oid, fs::read_link(entry.path())) {
            links.insert(oid, target);
        }
    }
    Ok(links)
}

/// Whether two paths are the same directory.
fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

impl Found {
    /// Whether the directory of a tablespace has this cluster's files: the data directory leads
    /// there, or an interrupted restore has taken it.
    fn is_own(&self, path: &Path) -> bool {
        let taken = self.marker.iter().flat_map(|marker| &marker.tablespaces);
        let mut known = self.links.values().chain(taken);
        known.any(|own| is_same(own, path))
    }

    /// The directories of tablespaces that the backup does not have.
    fn given_up(&self) -> impl Iterator<Item = &PathBuf> {
        let planned = &self.directories.tablespaces;
        let links = self.links.iter();
        links
            .filter(|(oid, location)| {
                !planned.contains_key(oid) && !planned.values().any(|path| is_same(path, location))
            })
            .map(|(_, location)| location)
    }

    /// Takes the directories, and removes the files that the backup does not list.
    pub(super) fn take(
        self,
        files: &HashSet<Vec<u8>>,
    ) -> Result<(DirectoryLock, Removed), ArchiveError> {
        self.keep_servers_out()?;
        let removed = self.remove_files(files)?;
        Ok((self.lock, removed))
    }

    /// From here on, no server starts in the data directory.
    fn keep_servers_out(&self) -> Result<(), ArchiveError> {
        let data = &self.directories.data;
        self.directories.create()?;
        Marker::new(self.cluster, &self.directories, self.marker.as_ref()).write(data)?;
        let (named, unfinished) = (data.join(CONTROL_FILE), data.join(CONTROL_FILE_UNFINISHED));
        let rename = |from: &Path, to: &Path| match fs::rename(from, to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ArchiveError::file("rename", from, error))
            }
            _ => Ok(()),
        };
        rename(&named, &unfinished)?;
        // A server that began to start meanwhile has noted itself before it read the control
        // file: it gets its file back, unless that is one of an interrupted restore. One that
        // comes later does not find it.
        if let Err(refusal) = running_server::refuse(data) {
            if self.marker.is_none() {
                rename(&unfinished, &named)?;
                Marker::remove(data)?;
            }
            return Err(refusal);
        }
        match data.join("global").is_dir() {
            true => durable::sync_directory(&data.join("global")),
            false => Ok(()),
        }
    }

    fn remove_files(&self, files: &HashSet<Vec<u8>>) -> Result<Removed, ArchiveError> {
        let mut removed = Removed::default();
        let planned = &self.directories.tablespaces;
        for (oid, location) in &self.links {
            if planned
                .get(oid)
                .is_some_and(|path| !is_same(path, location))
            {
                tracing::warn!(
                    "tablespace {oid} was in {}: what is there is left, and is not the cluster's \
                     any more",
                    location.display()
                );
            }
        }
        for location in self.given_up() {
            cleaning::empty_tablespace(location, self.directories.major(), &mut removed)?;
        }
        self.warn_of_link_for_wal();
        cleaning::remove_files(&self.directories, files, &mut removed)?;
        Ok(removed)
    }

    /// A directory for WAL elsewhere is no part of a backup.
    fn warn_of_link_for_wal(&self) {
        let path = self.directories.data.join("pg_wal");
        if let Ok(target) = fs::read_link(&path) {
            tracing::warn!(
                "{} was a link to {}: it becomes a directory. To have WAL there again, move it \
                 and make the link before the server is started",
                path.display(),
                target.display()
            );
        }
    }
}

/// Removes the directories that the backup does not have.
pub(super) fn remove_directories(
    directories: &Directories,
    kept: &HashSet<Vec<u8>>,
    removed: &mut Removed,
) -> Result<(), ArchiveError> {
    cleaning::remove_directories(directories, kept, removed)
}
