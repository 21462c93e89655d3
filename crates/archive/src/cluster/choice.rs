//! Which cluster of a repository a person means.

use std::fmt;
use std::str::FromStr;

use walzip_repo::{ClusterIdentity, Clusters, RepoError, Repository};

use crate::error::ArchiveError;

/// A cluster by its major version, or by its name, as in `15-7575000000000000001`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterChoice {
    /// The only one of this major version.
    Major(u32),
    /// This one.
    Cluster(ClusterIdentity),
}

impl ClusterChoice {
    pub(crate) fn means(self, cluster: ClusterIdentity) -> bool {
        match self {
            ClusterChoice::Major(major) => cluster.major == major,
            ClusterChoice::Cluster(chosen) => cluster == chosen,
        }
    }
}

impl FromStr for ClusterChoice {
    type Err = RepoError;

    fn from_str(text: &str) -> Result<ClusterChoice, RepoError> {
        match text.parse() {
            Ok(major) => Ok(ClusterChoice::Major(major)),
            Err(_) => text.parse().map(ClusterChoice::Cluster),
        }
    }
}

impl fmt::Display for ClusterChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterChoice::Major(major) => write!(f, "PostgreSQL {major}"),
            ClusterChoice::Cluster(cluster) => cluster.fmt(f),
        }
    }
}

/// The part of the repository of the chosen cluster; of the one that was registered last, where
/// none is chosen.
pub async fn part(
    repository: &Repository,
    choice: Option<ClusterChoice>,
) -> Result<Repository, ArchiveError> {
    part_of(repository.read_clusters().await?, choice)
}

/// The same, of what a repository says of its clusters.
pub(crate) fn part_of(
    clusters: Clusters,
    choice: Option<ClusterChoice>,
) -> Result<Repository, ArchiveError> {
    let Some(choice) = choice else {
        return Ok(clusters.newest()?);
    };
    let (chosen, others): (Vec<_>, Vec<_>) = clusters
        .parts
        .into_iter()
        .partition(|part| choice.means(part.cluster()));
    match chosen.as_slice() {
        [part] => Ok(part.clone()),
        [] => match clusters.faults.into_iter().next() {
            // It may be the one whose record cannot be read.
            Some(fault) => Err(fault.into()),
            None => Err(ArchiveError::Request(format!(
                "{choice} is none of the repository's clusters, which are {}",
                names(&others)
            ))),
        },
        several => Err(ArchiveError::Request(format!(
            "the repository has several clusters of {choice}: {}",
            names(several)
        ))),
    }
}

fn names(parts: &[Repository]) -> String {
    let names: Vec<String> = parts.iter().map(|part| part.cluster().name()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_chosen_by_major_or_by_name() {
        let cluster = ClusterIdentity {
            system_id: 7,
            major: 15,
        };
        let chosen = |text: &str| text.parse::<ClusterChoice>().ok();
        assert_eq!(chosen("15"), Some(ClusterChoice::Major(15)));
        assert_eq!(chosen("15-7"), Some(ClusterChoice::Cluster(cluster)));
        for wrong in ["", "x", "15-", "-15", "15.2"] {
            assert_eq!(chosen(wrong), None, "{wrong}");
        }
    }
}
