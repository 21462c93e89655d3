//! Where a repository must not be: among the files of the cluster that it is for.
//!
//! A base backup of such a cluster would contain the repository and every backup before it, and a
//! restore or pg_rewind would remove it together with the cluster.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use walzip_repo::layout::REPOSITORY_JSON;
use walzip_repo::{ClusterIdentity, Location};

use crate::cluster::{self, Source};
use crate::error::ArchiveError;
use crate::server::replication::{Connection, ConnectionSettings, Mode, ServerError};

/// `insufficient_privilege`.
const NO_PRIVILEGE: &str = "42501";

/// A directory of a cluster.
#[derive(Clone, Debug)]
struct ClusterDirectory {
    what: &'static str,
    path: PathBuf,
}

impl ClusterDirectory {
    fn new(what: &'static str, path: impl Into<PathBuf>) -> ClusterDirectory {
        let path = path.into();
        ClusterDirectory { what, path }
    }
}

/// Refuses a repository among the files of a cluster; of a running server's, as far as they are on
/// this host.
pub(crate) async fn check(location: &Location, source: &Source) -> Result<(), ArchiveError> {
    let Location::Local(repository) = location else {
        return Ok(());
    };
    let directories = match source {
        Source::DataDirectory(path) => directories_of(path).map_err(|error| {
            let links = path.join("pg_tblspc");
            ArchiveError::file("read", &links, error)
        })?,
        Source::Server(settings) => {
            directories_of_server(settings, source.identity().await?).await?
        }
    };
    check_apart(repository, &directories)
}

/// Refuses a new repository in the data directory of any cluster, and within another repository.
pub(crate) fn check_surroundings(location: &Location) -> Result<(), ArchiveError> {
    let Location::Local(repository) = location else {
        return Ok(());
    };
    let real = future_path(repository)
        .map_err(|error| ArchiveError::file("look at", repository, error))?;
    if real.join(REPOSITORY_JSON).exists() {
        return Ok(());
    }
    for level in real.ancestors() {
        let has = |name: &str| level.join(name).is_file();
        let (repository, level) = (repository.display(), level.display());
        if has("PG_VERSION") && has("global/pg_control") {
            return Err(ArchiveError::AmongClusterFiles(format!(
                "the repository {repository} would lie in the data directory {level}"
            )));
        }
        if has(REPOSITORY_JSON) {
            return Err(ArchiveError::WithinRepository(format!(
                "the repository {repository} would lie in another one, {level}"
            )));
        }
    }
    Ok(())
}

/// Refuses a directory to restore into that would lie in a repository, whichever it is.
pub(crate) fn check_outside_repositories(directory: &Path) -> Result<(), ArchiveError> {
    let real =
        future_path(directory).map_err(|error| ArchiveError::file("look at", directory, error))?;
    let repository = real
        .ancestors()
        .find(|level| level.join(REPOSITORY_JSON).is_file());
    match repository {
        Some(repository) => Err(ArchiveError::AmongClusterFiles(format!(
            "the directory to restore into, {}, would lie in the repository {}",
            directory.display(),
            repository.display()
        ))),
        None => Ok(()),
    }
}

/// Refuses a repository in the directory of a tablespace, or around one.
pub(crate) fn check_tablespaces<'p>(
    location: &Location,
    tablespaces: impl Iterator<Item = &'p PathBuf>,
) -> Result<(), ArchiveError> {
    let Location::Local(repository) = location else {
        return Ok(());
    };
    let directories: Vec<_> = tablespaces
        .map(|path| ClusterDirectory::new("tablespace", path))
        .collect();
    check_apart(repository, &directories)
}

async fn directories_of_server(
    settings: &ConnectionSettings,
    identity: ClusterIdentity,
) -> Result<Vec<ClusterDirectory>, ArchiveError> {
    let Some(data_directory) = data_directory_of(settings).await? else {
        return Ok(Vec::new());
    };
    if !data_directory.is_dir() {
        return Ok(Vec::new());
    }
    match cluster::of_data_directory(&data_directory).await {
        // A directory of this name on this host, and the server on another one.
        Ok(found) if found != identity => return Ok(Vec::new()),
        Err(ArchiveError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        // What cannot be read may well be the server's.
        _ => {}
    }
    if let Ok(directories) = directories_of(&data_directory) {
        return Ok(directories);
    }
    let mut directories = vec![ClusterDirectory::new("data directory", data_directory)];
    directories.extend(tablespaces_of(settings).await?);
    Ok(directories)
}

/// What the server says; nothing where it may not say it.
async fn data_directory_of(settings: &ConnectionSettings) -> Result<Option<PathBuf>, ArchiveError> {
    let mut connection = Connection::open(settings, Mode::Replication).await?;
    let answer = connection.query_value("SHOW data_directory").await;
    connection.close().await;
    match answer {
        Ok(path) => Ok(Some(PathBuf::from(path))),
        Err(error) if error.sqlstate() == Some(NO_PRIVILEGE) => {
            tracing::warn!(
                "whether the repository lies in the server's data directory is not known: {error}"
            );
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

async fn tablespaces_of(
    settings: &ConnectionSettings,
) -> Result<Vec<ClusterDirectory>, ServerError> {
    let query = "SELECT pg_tablespace_location(oid) FROM pg_tablespace \
                 WHERE pg_tablespace_location(oid) LIKE '/%'";
    let mut connection = Connection::open(settings, Mode::Sql).await?;
    let rows = connection.query(query).await;
    connection.close().await;
    let locations = rows?.into_iter().flatten().flatten();
    Ok(locations
        .map(|location| ClusterDirectory::new("tablespace", location))
        .collect())
}

/// The directories of the cluster in a data directory: itself, and where its links lead.
fn directories_of(data_directory: &Path) -> io::Result<Vec<ClusterDirectory>> {
    let mut directories = vec![
        ClusterDirectory::new("data directory", data_directory),
        ClusterDirectory::new("directory for WAL", data_directory.join("pg_wal")),
    ];
    match fs::read_dir(data_directory.join("pg_tblspc")) {
        Ok(links) => {
            for link in links {
                directories.push(ClusterDirectory::new("tablespace", link?.path()));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(directories)
}

fn check_apart(repository: &Path, directories: &[ClusterDirectory]) -> Result<(), ArchiveError> {
    let real = future_path(repository)
        .map_err(|error| ArchiveError::file("look at", repository, error))?;
    for ClusterDirectory { what, path } in directories {
        // A tablespace's directory may be gone, and nothing can be in it then.
        let Ok(directory) = path.canonicalize() else {
            continue;
        };
        let (repository, directory_shown) = (repository.display(), directory.display());
        if lies_in(&real, &directory) {
            return Err(ArchiveError::AmongClusterFiles(format!(
                "the repository {repository} would lie in the cluster's {what} {directory_shown}"
            )));
        }
        if lies_in(&directory, &real) {
            return Err(ArchiveError::AmongClusterFiles(format!(
                "the cluster's {what} {directory_shown} lies in the place of the repository, \
                 {repository}"
            )));
        }
    }
    Ok(())
}

/// Whether a path is a directory or leads through it, whatever the directory is called there.
fn lies_in(path: &Path, directory: &Path) -> bool {
    let identity = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    match identity(directory) {
        Some(directory) => path
            .ancestors()
            .any(|level| identity(level) == Some(directory)),
        None => path.starts_with(directory),
    }
}

/// Where a path will be when what is missing of it has been made: without links and dots.
pub(crate) fn future_path(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    for existing in path.ancestors() {
        let mut real = match existing.canonicalize() {
            Ok(real) => real,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                continue;
            }
            Err(error) => return Err(error),
        };
        for missing in path.components().skip(existing.components().count()) {
            match missing {
                Component::ParentDir => {
                    real.pop();
                }
                other => real.push(other),
            }
        }
        return Ok(real);
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_repository_is_apart_from_the_clusters_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        for made in ["data/pg_tblspc", "data/base", "fast/PG_15", "wal", "beside"] {
            fs::create_dir_all(at(made)).expect("made");
        }
        symlink(at("fast"), at("data/pg_tblspc/16400")).expect("a link");
        symlink(at("gone"), at("data/pg_tblspc/16401")).expect("a link");
        symlink(at("wal"), at("data/pg_wal")).expect("a link");
        symlink(at("data/base"), at("beside/to-base")).expect("a link");
        symlink(at("data"), at("to-data")).expect("a link");
        let check = |repository: &str, data: &str| {
            let directories = directories_of(&at(data)).expect("readable");
            let refused = check_apart(&at(repository), &directories).err();
            refused.map(|error| error.to_string())
        };
        for (repository, expected) in [
            ("data", "would lie in the cluster's data directory"),
            ("data/walzip", "would lie in the cluster's data directory"),
            (
                "data/base/not/yet",
                "would lie in the cluster's data directory",
            ),
            (
                "beside/to-base/walzip",
                "would lie in the cluster's data directory",
            ),
            (
                "beside/../data/walzip",
                "would lie in the cluster's data directory",
            ),
            (
                "missing/../data/walzip",
                "would lie in the cluster's data directory",
            ),
            ("fast/walzip", "would lie in the cluster's tablespace"),
            ("wal/walzip", "would lie in the cluster's directory for WAL"),
            ("", "the cluster's data directory"),
        ] {
            for data in ["data", "to-data"] {
                let refused = check(repository, data).expect(repository);
                assert!(refused.contains(expected), "{repository}: {refused}");
            }
        }
        for apart in ["beside", "beside/walzip", "data2/walzip", "gone/walzip"] {
            assert_eq!(check(apart, "data"), None);
        }
    }

    #[test]
    fn a_new_repository_is_in_nobodys_place() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        for made in ["data/global", "wal/15", "inner"] {
            fs::create_dir_all(at(made)).expect("made");
        }
        for made in [
            "data/PG_VERSION",
            "data/global/pg_control",
            "wal/repository.json",
        ] {
            fs::write(at(made), "").expect("made");
        }
        let check = |repository: &str| {
            let refused = check_surroundings(&Location::Local(at(repository))).err();
            refused.map(|error| error.to_string())
        };
        for (repository, expected) in [
            ("data", "would lie in the data directory"),
            ("data/base/walzip", "would lie in the data directory"),
            ("wal/15", "would lie in another one"),
            ("wal/not/yet", "would lie in another one"),
        ] {
            let refused = check(repository).expect(repository);
            assert!(refused.contains(expected), "{repository}: {refused}");
        }
        for apart in ["wal", "inner", "not/yet"] {
            assert_eq!(check(apart), None);
        }
        for within in ["wal", "wal/15/restored"] {
            let refused = check_outside_repositories(&at(within));
            let told = refused.expect_err("it is within").to_string();
            assert!(told.contains("would lie in the repository"), "{told}");
        }
        assert!(check_outside_repositories(&at("inner/restored")).is_ok());
    }
}
