//! `init`: a repository is bound to one cluster, once.

use std::sync::Arc;

use object_store::ObjectStore;
use walzip_repo::{ClusterIdentity, Initialised, Location, Repository, open_store};

pub use crate::cluster::Source;
use crate::error::ArchiveError;
use crate::placement;

/// What `init` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initialisation {
    /// The cluster that the repository is bound to.
    pub cluster: ClusterIdentity,
    /// False when the repository was there already, for the same cluster.
    pub created: bool,
}

/// Makes a repository at a place, which must not be among the cluster's own files.
pub async fn init_at(location: &Location, source: &Source) -> Result<Initialisation, ArchiveError> {
    placement::check(location, source).await?;
    init(open_store(location)?, source).await
}

/// Makes a repository for a cluster. One that exists for the same cluster is left as it is; one
/// for another cluster is an error that names both.
pub async fn init(
    store: Arc<dyn ObjectStore>,
    source: &Source,
) -> Result<Initialisation, ArchiveError> {
    let (repository, initialised) = Repository::init(store, source.identity().await?).await?;
    Ok(Initialisation {
        cluster: repository.cluster(),
        created: initialised == Initialised::Created,
    })
}
