//! Whether the data directory of a server can be read here, and is the server's.
//!
//! A wrong directory must never be taken: a standby on another machine has the same cluster, the
//! same paths and the same port. So the server has to be connected to through a socket of this
//! machine, and the process behind that socket has to be the one that `postmaster.pid` names.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use walzip_pgformat::relation_file::BLOCKS_PER_FILE;
use walzip_repo::ClusterIdentity;

use super::DataDirectory;
use crate::backup::source_server::Server;
use crate::cluster;
use crate::coding::off_the_runtime;
use crate::server::replication::{Connection, OnlineBackup, ServerError};

/// The data directory of a server, or why it cannot be read.
pub(crate) async fn find(
    sql: &mut Connection,
    server: &Server,
) -> Result<Result<DataDirectory, String>, ServerError> {
    if server.in_recovery {
        return Ok(Err("the server is a standby".to_owned()));
    }
    let Some(peer) = sql.peer_process() else {
        return Ok(Err(
            "the connection is not through a socket of this machine".to_owned(),
        ));
    };
    let may = OnlineBackup::is_allowed(sql).await?;
    let query = "SELECT setting FROM pg_settings WHERE name = 'data_directory'";
    let rows = sql.query(query).await?;
    if !may {
        return Ok(Err(
            "the role may not start and stop a backup by SQL".to_owned()
        ));
    }
    let Some(path) = rows.into_iter().flatten().next().flatten() else {
        return Ok(Err(
            "the role may not know the data directory (pg_read_all_settings)".to_owned(),
        ));
    };
    let path = PathBuf::from(path);
    let lock_file = path.join("postmaster.pid");
    let checked = off_the_runtime(move || check_process(&lock_file, peer)).await;
    let file_mode = match checked {
        Ok(file_mode) => file_mode,
        Err(reason) => return Ok(Err(reason)),
    };
    let control_file = match cluster::read_control_file(&path).await {
        Ok(control_file) => control_file,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let found = ClusterIdentity {
        system_id: control_file.system_id.0,
        major: control_file.version.major,
    };
    if found != server.identity {
        return Ok(Err(format!("{} belongs to {found}", path.display())));
    }
    Ok(Ok(DataDirectory {
        version_directory: format!("PG_{}_{}", found.major, control_file.catalog_version),
        checksums: control_file.data_checksums,
        has_usual_files: control_file.blocks_per_file == BLOCKS_PER_FILE,
        file_mode,
        path,
    }))
}

/// The first line of `postmaster.pid` is the server's process. The permissions of the file are those
/// of all of the server's files.
fn check_process(lock_file: &Path, peer: i32) -> Result<u32, String> {
    let shown = lock_file.display();
    let text = fs::read_to_string(lock_file).map_err(|error| format!("{shown}: {error}"))?;
    let named = text
        .lines()
        .next()
        .and_then(|line| line.trim().parse().ok());
    let metadata = fs::metadata(lock_file).map_err(|error| format!("{shown}: {error}"))?;
    match named == Some(peer) {
        true => Ok(metadata.permissions().mode() & 0o777),
        false => Err(format!(
            "{shown} does not name the server's process, {peer}"
        )),
    }
}
