//! The clusters of a repository: the first one, and what became of it by upgrades.
//!
//! `pg_upgrade` gives a new system identifier and a new major version: to WAL, another cluster.
//! Its record is `cluster/N.json`, N from 2 on in the order of upgrades, and its WAL has a prefix
//! of its own, so that the older cluster's stays as it is. Like the first one's, the record is put
//! once, after its copy among the cluster's WAL, and until then the cluster is not registered.
//!
//! A record that is lost or damaged must not make an older cluster the newest. Records have no
//! gaps between their numbers, and WAL without a record shows that the last one is lost.

use std::collections::BTreeSet;
use std::future::ready;
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::path::Path;

use crate::cluster::ClusterRecord;
use crate::cluster_identity::ClusterIdentity;
use crate::error::RepoError;
use crate::layout::{self, CLUSTER_PREFIX, FIRST_CLUSTER, WAL_PREFIX};
use crate::repository::Initialised;
use crate::repository::Repository;

/// How often a number is looked for that nobody else takes meanwhile.
const ATTEMPTS: usize = 10;

/// What a repository says of its clusters.
#[derive(Debug)]
pub struct Clusters {
    /// Each cluster's part of the repository whose record can be read, oldest first.
    pub parts: Vec<Repository>,
    /// What is wrong with the records: damaged, of a newer format, lost.
    pub faults: Vec<RepoError>,
}

impl Clusters {
    /// The parts, where nothing is wrong with any record.
    pub fn complete(mut self) -> Result<Vec<Repository>, RepoError> {
        match self.faults.is_empty() {
            true => Ok(self.parts),
            false => Err(self.faults.swap_remove(0)),
        }
    }

    /// The part of the cluster that was registered last, unless anything is wrong with a record:
    /// then another one might be it.
    pub fn newest(self) -> Result<Repository, RepoError> {
        let newest = self.complete()?.pop();
        newest.ok_or_else(|| missing_record(FIRST_CLUSTER))
    }

    fn find(&self, cluster: ClusterIdentity) -> Option<&Repository> {
        self.parts.iter().find(|part| part.cluster() == cluster)
    }
}

impl Repository {
    /// The part of a registered cluster. It costs nothing where this is it, and otherwise a
    /// listing and one request for each cluster after it, and its own.
    pub async fn of(&self, cluster: ClusterIdentity) -> Result<Repository, RepoError> {
        if self.cluster() == cluster {
            return Ok(self.clone());
        }
        let (mut newest, mut fault) = (None, None);
        let numbers = self.record_numbers().await?;
        for &number in numbers.iter().rev() {
            match self.part_of(number).await {
                Ok(part) if part.cluster() == cluster => return Ok(part),
                Ok(part) => newest = newest.or(Some(part.cluster())),
                Err(error) if is_of_record(&error) => fault = fault.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        // Perhaps it is the one whose record cannot be read.
        Err(fault
            .or_else(|| missing_records(&numbers).next())
            .unwrap_or(RepoError::Mismatch {
                repository: newest.unwrap_or(self.cluster()),
                cluster,
            }))
    }

    /// Whether no further cluster is registered.
    pub async fn is_sole(&self) -> Result<bool, RepoError> {
        Ok(self.record_numbers().await?.len() == 1)
    }

    /// Reads all records, and looks for lost ones.
    pub async fn read_clusters(&self) -> Result<Clusters, RepoError> {
        let numbers = self.record_numbers().await?;
        let mut clusters = Clusters {
            parts: Vec::new(),
            faults: missing_records(&numbers).collect(),
        };
        for &number in &numbers {
            match self.part_of(number).await {
                Ok(part) => {
                    clusters
                        .faults
                        .extend(contradiction(&clusters.parts, &part));
                    clusters.parts.push(part);
                }
                Err(error) if is_of_record(&error) => clusters.faults.push(error),
                Err(error) => return Err(error),
            }
        }
        // WAL may well be that of a cluster whose record cannot be read.
        if clusters.faults.is_empty() {
            let known: Vec<_> = clusters.parts.iter().map(Repository::cluster).collect();
            let lost = self.clusters_without_record(&known).await?;
            clusters.faults.extend(lost.into_iter().map(record_lost));
        }
        Ok(clusters)
    }

    /// Registers the cluster that the newest one became by an upgrade to a newer major version, or
    /// by one that was rolled back and done again, to the same. Success as well when it is
    /// registered already.
    pub async fn register(
        &self,
        cluster: ClusterIdentity,
        same_major: bool,
    ) -> Result<(Repository, Initialised), RepoError> {
        let mut taken = RepoError::AlreadyExists {
            key: CLUSTER_PREFIX.to_owned(),
        };
        for _ in 0..ATTEMPTS {
            let clusters = self.read_clusters().await?;
            if let Some(known) = clusters.find(cluster) {
                known.check_wal().await?;
                return Ok((known.clone(), Initialised::Existed));
            }
            let newest = newest_before(clusters, cluster)?;
            let order = cluster.major.cmp(&newest.cluster().major);
            if order.is_lt() || (order.is_eq() && !same_major) {
                return Err(RepoError::NotAnUpgrade {
                    newest: newest.cluster(),
                    cluster,
                });
            }
            let store = Arc::clone(self.store());
            let mut part = Self::part(store, newest.number() + 1, ClusterRecord::new(cluster));
            part.mark_wal().await?;
            match part
                .create(&part.record_key(), part.record().write()?)
                .await
            {
                Ok(()) => return Ok((part, Initialised::Created)),
                // Another process was faster, with this cluster or another one.
                Err(error @ RepoError::AlreadyExists { .. }) => taken = error,
                Err(error) => return Err(error),
            }
        }
        Err(taken)
    }

    /// Refuses to initialise a repository where the first cluster's record is lost, for another cluster
    /// than that.
    pub(crate) async fn refuse_lost_first(&self) -> Result<(), RepoError> {
        let mut known = vec![self.cluster()];
        let mut lost = None;
        for number in self.record_numbers().await? {
            if number == FIRST_CLUSTER {
                continue;
            }
            let part = self.part_of(number).await?;
            if part.cluster() == self.cluster() {
                lost = Some(part.record_key());
            }
            known.push(part.cluster());
        }
        if lost.is_none() {
            let others = self.clusters_without_record(&known).await?;
            lost = others.first().map(|&other| layout::wal_prefix(other));
        }
        match lost {
            None => Ok(()),
            Some(key) => Err(RepoError::NotInPlace {
                place: layout::record_key(FIRST_CLUSTER),
                detail: format!(
                    "it is gone, and {key} shows that there was one of another cluster; \
                     the cluster.json or packed.json among that cluster's WAL is a copy of it"
                ),
            }),
        }
    }

    /// The numbers of the records, the first one's included.
    async fn record_numbers(&self) -> Result<BTreeSet<u32>, RepoError> {
        let listing = self
            .store()
            .list_with_delimiter(Some(&Path::from(CLUSTER_PREFIX)))
            .await
            .map_err(|error| RepoError::from_store(CLUSTER_PREFIX, error))?;
        let keys = listing.objects.iter().map(|meta| meta.location.as_ref());
        let further = keys.filter_map(layout::record_number);
        Ok(further.chain([FIRST_CLUSTER]).collect())
    }

    async fn part_of(&self, number: u32) -> Result<Repository, RepoError> {
        if number == self.number() {
            return Ok(self.clone());
        }
        let part = Self::read_part(self.store(), number).await?;
        part.ok_or_else(|| missing_record(number))
    }

    /// The clusters that have WAL here, and are none of these. One of which there is a mark alone
    /// was never registered.
    async fn clusters_without_record(
        &self,
        known: &[ClusterIdentity],
    ) -> Result<Vec<ClusterIdentity>, RepoError> {
        let listing = self
            .store()
            .list_with_delimiter(Some(&Path::from(WAL_PREFIX)))
            .await
            .map_err(|error| RepoError::from_store(WAL_PREFIX, error))?;
        let mut found = Vec::new();
        for directory in &listing.common_prefixes {
            let cluster = directory.filename().and_then(|name| name.parse().ok());
            let Some(cluster) = cluster.filter(|cluster| !known.contains(cluster)) else {
                continue;
            };
            if self.has_wal_of(cluster).await? {
                found.push(cluster);
            }
        }
        Ok(found)
    }

    async fn has_wal_of(&self, cluster: ClusterIdentity) -> Result<bool, RepoError> {
        let prefix = layout::wal_prefix(cluster);
        let objects = self.store().list(Some(&Path::from(prefix.as_str())));
        let mut wal = std::pin::pin!(objects.try_filter(|meta| {
            let key = meta.location.as_ref();
            let is_pack = layout::pack_name(cluster, key).is_some();
            ready(is_pack || layout::wal_name(cluster, key).is_some())
        }));
        let first = wal.try_next().await;
        let first = first.map_err(|error| RepoError::from_store(&prefix, error))?;
        Ok(first.is_some())
    }
}

/// The part that was registered last before `cluster`, whose own record may be the lost one.
fn newest_before(
    mut clusters: Clusters,
    cluster: ClusterIdentity,
) -> Result<Repository, RepoError> {
    let own = layout::wal_prefix(cluster);
    clusters
        .faults
        .retain(|fault| !matches!(fault, RepoError::NotInPlace { place, .. } if *place == own));
    clusters.newest()
}

/// Whether an error says something of a record, and nothing of the store.
fn is_of_record(error: &RepoError) -> bool {
    matches!(
        error,
        RepoError::Corrupt { .. } | RepoError::NewerFormat { .. } | RepoError::NotInPlace { .. }
    )
}

/// The records that are missing before others.
fn missing_records(numbers: &BTreeSet<u32>) -> impl Iterator<Item = RepoError> {
    let pairs = numbers.iter().zip(numbers.iter().skip(1));
    let missing = pairs.filter(|(before, after)| **before + 1 < **after);
    missing.map(|(before, _)| missing_record(before + 1))
}

fn missing_record(number: u32) -> RepoError {
    RepoError::NotInPlace {
        place: layout::record_key(number),
        detail:
            "it is gone; the cluster.json or packed.json among that cluster's WAL is a copy of it"
                .to_owned(),
    }
}

fn record_lost(cluster: ClusterIdentity) -> RepoError {
    RepoError::NotInPlace {
        place: layout::wal_prefix(cluster),
        detail: format!(
            "it holds WAL, and no record says that {cluster} is one of the repository's: its \
             cluster/N.json is gone. \"walzip upgrade\" on its server makes it again"
        ),
    }
}

/// What is wrong with a record after these. An upgrade leads to a newer major version, or to the
/// same once more.
fn contradiction(before: &[Repository], part: &Repository) -> Option<RepoError> {
    let cluster = part.cluster();
    let last = before.last()?;
    let same = before.iter().find(|other| other.cluster() == cluster);
    let other = same.or((last.cluster().major > cluster.major).then_some(last))?;
    let (earlier, its_key) = (other.cluster(), other.record_key());
    Some(RepoError::Corrupt {
        key: part.record_key(),
        detail: format!("it is of {cluster}, although {its_key} is of {earlier}"),
    })
}
