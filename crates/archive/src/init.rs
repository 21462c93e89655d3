//! `init`: a repository is bound to one cluster, once; and `upgrade`: to what became of it.

use std::sync::Arc;

use object_store::ObjectStore;
use walzip_repo::{
    ClusterIdentity, Initialised, Location, Repository, StoreSettings, open_store, probe_store,
};

pub use crate::cluster::Source;
use crate::cluster::placement;
use crate::error::ArchiveError;

/// What `init` or `upgrade` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initialisation {
    /// The cluster that the repository is bound to.
    pub cluster: ClusterIdentity,
    /// False when that was done before.
    pub created: bool,
}

/// Makes a repository at a location, which must not be among a cluster's files or within another
/// repository, and on another host must be one that never overwrites.
pub async fn init_at(
    location: &Location,
    settings: &StoreSettings,
    source: &Source,
) -> Result<Initialisation, ArchiveError> {
    placement::check(location, source).await?;
    placement::check_surroundings(location)?;
    let store = open_store(location, settings)?;
    if !location.is_local() {
        probe_store(&store).await?;
    }
    init(store, source).await
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

/// Registers the cluster that the repository's newest one became by an upgrade. Its own files must
/// not be where the repository is.
///
/// With `same_major`, it may have the same major version: of an upgrade that was rolled back and
/// done again.
pub async fn upgrade_at(
    location: &Location,
    settings: &StoreSettings,
    source: &Source,
    same_major: bool,
) -> Result<Initialisation, ArchiveError> {
    placement::check(location, source).await?;
    upgrade(open_store(location, settings)?, source, same_major).await
}

/// The same on a store.
pub async fn upgrade(
    store: Arc<dyn ObjectStore>,
    source: &Source,
    same_major: bool,
) -> Result<Initialisation, ArchiveError> {
    let repository = Repository::open(store).await?;
    let cluster = source.identity().await?;
    let (part, registered) = repository.register(cluster, same_major).await?;
    Ok(Initialisation {
        cluster: part.cluster(),
        created: registered == Initialised::Created,
    })
}
