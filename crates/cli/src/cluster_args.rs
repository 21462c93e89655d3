//! Which of the repository's clusters: the flag of every command that reads of one.

use walzip_archive::ClusterChoice;
use walzip_repo::Repository;

use crate::error::CommandError;
use crate::repo_args::{self, Place};

/// The flag.
#[derive(Debug, clap::Args)]
pub struct ClusterArgs {
    /// In a repository that was kept through upgrades: the cluster, by its major version, or as
    /// 15-7575000000000000001 [default: the newest]
    #[arg(long, value_name = "CLUSTER", help_heading = "Repository")]
    pub cluster: Option<ClusterChoice>,
}

/// Opens the repository at a place, at the chosen cluster.
pub async fn open(
    place: &Place,
    choice: Option<ClusterChoice>,
) -> Result<Repository, CommandError> {
    let repository = repo_args::open(place).await?;
    Ok(walzip_archive::part(&repository, choice).await?)
}
