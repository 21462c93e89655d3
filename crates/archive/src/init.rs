//! `init`: a repository is bound to one cluster, once.

use std::path::PathBuf;
use std::sync::Arc;

use object_store::ObjectStore;
use walzip_repo::{ClusterIdentity, Initialised, Repository};

use crate::cluster;
use crate::error::ArchiveError;
use crate::replication::{Connection, ConnectionSettings, Mode};

/// Where the cluster's identity is read from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The control file in this data directory.
    DataDirectory(PathBuf),
    /// A running server.
    Server(ConnectionSettings),
}

/// What `init` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initialisation {
    /// The cluster that the repository is bound to.
    pub cluster: ClusterIdentity,
    /// False when the repository was there already, for the same cluster.
    pub created: bool,
}

/// Makes a repository for a cluster. One that exists for the same cluster is left as it is; one
/// for another cluster is an error that names both.
pub async fn init(
    store: Arc<dyn ObjectStore>,
    source: &Source,
) -> Result<Initialisation, ArchiveError> {
    let cluster = match source {
        Source::DataDirectory(path) => cluster::of_data_directory(path).await?,
        Source::Server(settings) => of_server(settings).await?,
    };
    let (repository, initialised) = Repository::init(store, cluster).await?;
    Ok(Initialisation {
        cluster: repository.cluster(),
        created: initialised == Initialised::Created,
    })
}

async fn of_server(settings: &ConnectionSettings) -> Result<ClusterIdentity, ArchiveError> {
    let mut connection = Connection::open(settings, Mode::Replication).await?;
    let system = connection.identify_system().await?;
    let major = connection.major()?;
    connection.close().await;
    Ok(ClusterIdentity {
        system_id: system.system_id.0,
        major,
    })
}
