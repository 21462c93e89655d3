//! The two ways in which the files of a running cluster are copied: its server sends them, or they
//! are read where they lie. docs/decisions/2026-11-24-data-directory-read-in-place.md compares them.

mod beginnings;
mod changed_blocks;
mod from_files;
mod from_server;
mod lineage;

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::sync::oneshot;
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::{BackupWriter, Repository};

use crate::backup::data_directory::whose;
use crate::backup::databases::Database;
use crate::backup::source_server::Server;
use crate::backups::chunks::cutter::Cut;
use crate::backups::chunks::writing::{Earlier, Encoding, Packed};
use crate::error::ArchiveError;
use crate::progress::Progress;
use crate::server::replication::{BackupEnd, BackupTablespace, Connection, ConnectionSettings};

/// Who reads the files of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyMethod {
    /// walzip, where it can; otherwise the server.
    #[default]
    Auto,
    /// The server, which sends them.
    Server,
    /// walzip, in the data directory.
    Files,
}

/// What is to be copied, and how.
pub(crate) struct Request<'r> {
    pub(crate) repository: &'r Repository,
    pub(crate) writer: &'r BackupWriter,
    pub(crate) settings: &'r ConnectionSettings,
    /// A session of the server, without timeouts.
    pub(crate) sql: Connection,
    pub(crate) server: &'r Server,
    pub(crate) method: CopyMethod,
    /// The names of the tablespaces that there were before, by OID.
    pub(crate) known_tablespaces: &'r BTreeMap<u32, String>,
    /// Whether the server notes which blocks its WAL changes.
    pub(crate) summarizes_wal: bool,
    /// Whether all blocks are compared, whatever the server's WAL summaries say.
    pub(crate) compares_all: bool,
    /// No backup is made of pages with wrong checksums, if the cluster has them.
    pub(crate) verify_checksums: bool,
    /// Checkpoint at once, or spread over minutes.
    pub(crate) fast_checkpoint: bool,
    /// No more than this many kilobytes are copied in a second.
    pub(crate) max_rate_kilobytes: Option<u32>,
    /// Look for the size of everything first.
    pub(crate) estimate_size: bool,
    pub(crate) progress: &'r Progress,
    pub(crate) encoding: Encoding,
    /// What the repository has already.
    pub(crate) earlier: Earlier,
    /// Sends when the first chunk may be stored.
    pub(crate) may_store: oneshot::Receiver<()>,
}

impl Request<'_> {
    /// What the server calls the backup.
    fn label(&self) -> String {
        name_at_server(self.writer.label().as_str())
    }
}

/// What the server calls the backup with a label.
fn name_at_server(label: &str) -> String {
    format!("walzip {label}")
}

/// What was copied, and stored.
pub(crate) struct Copy {
    pub(crate) start: Lsn,
    pub(crate) timeline: TimelineId,
    pub(crate) end: BackupEnd,
    /// The tablespaces that there were when the backup began.
    pub(crate) tablespaces: Vec<BackupTablespace>,
    /// The databases as they were listed when the backup had begun, by OID.
    pub(crate) databases_at_start: BTreeMap<u32, Database>,
    /// The main forks, by their names in the manifest, of relations that have got an initial fork meanwhile, as far as
    /// that was seen.
    pub(crate) unlogged: Vec<String>,
    /// A session after the backup.
    pub(crate) sql: Connection,
    /// PostgreSQL's manifest of the files.
    pub(crate) manifest: Bytes,
    /// The labels of earlier backups that the server is known to have seen.
    pub(crate) follows: Vec<String>,
    /// No page has a wrong checksum, as far as checksums tell.
    pub(crate) checksums_verified: bool,
    pub(crate) cut: Cut,
    pub(crate) packed: Packed,
}

/// Copies the cluster.
pub(crate) async fn copy(mut request: Request<'_>) -> Result<Copy, ArchiveError> {
    let found = match request.method {
        CopyMethod::Server => Err("that is what was asked for".to_owned()),
        CopyMethod::Auto | CopyMethod::Files => {
            whose::find(&mut request.sql, request.server).await?
        }
    };
    match found {
        Ok(directory) => {
            tracing::info!("the files are read in {}", directory.path.display());
            from_files::copy(request, directory).await
        }
        Err(reason) if request.method == CopyMethod::Files => {
            let reason = format!("the files cannot be read in place: {reason}");
            Err(ArchiveError::Request(reason))
        }
        Err(reason) => {
            tracing::info!("the server sends the files: {reason}");
            from_server::copy(request).await
        }
    }
}

/// `allow_in_place_tablespaces` is for PostgreSQL's own tests; such a tablespace has no place of
/// its own to be restored to.
fn refuse_in_place(tablespaces: &[BackupTablespace]) -> Result<(), ArchiveError> {
    match tablespaces
        .iter()
        .find(|tablespace| !tablespace.location.starts_with('/'))
    {
        None => Ok(()),
        Some(tablespace) => {
            let BackupTablespace { oid, location } = tablespace;
            let reason = match location.starts_with("pg_tblspc/") {
                true => format!(
                    "tablespace {oid} lies inside the data directory (allow_in_place_tablespaces): drop \
                     it, or make it with a directory of its own"
                ),
                false => format!(
                    "the link pg_tblspc/{oid} leads to {location}, which is relative: stop the server, and make the link \
                     anew with an absolute path"
                ),
            };
            Err(ArchiveError::Request(reason))
        }
    }
}
