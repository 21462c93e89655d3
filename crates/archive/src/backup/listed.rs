//! What a server says of itself before its files are copied: what it lists then is compared with what
//! it lists afterwards.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::archived::own_wal::Replayed;
use crate::backup::databases::{self, Database};
use crate::backup::source_server::{self, Server};
use crate::error::ArchiveError;
use crate::server::replication::Connection;
use crate::server::tablespaces;

/// What the server says of itself before the copy.
pub(crate) struct Before {
    /// The names of the tablespaces, by OID.
    pub(crate) tablespaces: BTreeMap<u32, String>,
    /// The databases, by OID.
    pub(crate) databases: BTreeMap<u32, Database>,
    pub(crate) summarizes_wal: bool,
    pub(crate) time: Timestamp,
    /// Of a standby: how far it has replayed. That is asked last.
    pub(crate) replayed: Option<Replayed>,
}

impl Before {
    /// Asks the server.
    pub(crate) async fn ask(sql: &mut Connection, server: &Server) -> Result<Before, ArchiveError> {
        Ok(Before {
            tablespaces: tablespaces::names(sql).await?,
            databases: databases::list(sql).await?,
            summarizes_wal: source_server::summarizes_wal(sql).await?,
            time: source_server::clock(sql).await?,
            replayed: replayed(sql, server).await?,
        })
    }
}

/// Of a standby: how far it has replayed.
pub(crate) async fn replayed(
    sql: &mut Connection,
    server: &Server,
) -> Result<Option<Replayed>, ArchiveError> {
    match server.in_recovery {
        true => Ok(source_server::replayed(sql).await?),
        false => Ok(None),
    }
}
