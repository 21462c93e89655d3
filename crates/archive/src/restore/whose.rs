//! From which cluster's backups a restore chooses, in a repository that was kept through upgrades.
//!
//! Nobody gets an older major version without having asked for it, and nobody the newer one when
//! the older one was gone back to: whose restore it is, is decided by the cluster that was
//! registered last, and asked for where an older one was written to after that one's last backup.

use jiff::Timestamp;
use walzip_pgformat::Lsn;
use walzip_repo::{ClusterIdentity, RepoError, Repository};

use super::RestoreOptions;
use crate::archived::archived_wal::ArchivedWal;
use crate::archived::branches::{Branches, Life};
use crate::archived::stored_times::StoredTimes;
use crate::archived::timelines::Timelines;
use crate::archived::wal_index;
use crate::backups::backup_record::{BackupRecord, ListedBackup, of_another};
use crate::cluster::choice::part_of;
use crate::error::ArchiveError;

/// The cluster that is to be restored.
pub(super) struct Whose {
    /// Its part of the repository.
    pub(super) part: Repository,
    /// Its backups, oldest first. What cannot be read may be its.
    pub(super) backups: Vec<ListedBackup>,
    /// The older clusters, with their backups, where nobody said which cluster is meant.
    older: Vec<(Repository, Vec<BackupRecord>)>,
}

impl Whose {
    /// Decides by what was asked for.
    pub(super) async fn choose(
        repository: &Repository,
        options: &RestoreOptions,
    ) -> Result<Whose, ArchiveError> {
        let listed = ListedBackup::all(repository).await?;
        let clusters = repository.read_clusters().await?;
        let known: Vec<ClusterIdentity> = clusters.parts.iter().map(Repository::cluster).collect();
        let is_implied = options.backup.is_none() && options.cluster.is_none();
        let mut older = Vec::new();
        let part = match &options.backup {
            Some(label) => {
                let record = BackupRecord::read_any(repository, label).await;
                let record = record.map_err(|error| error.of_named_backup(label))?;
                let own = clusters.parts.into_iter();
                let mut own = own.filter(|part| record.cluster() == Some(part.cluster()));
                own.next().ok_or_else(|| of_another(label))?
            }
            None if is_implied => {
                older = clusters.complete()?;
                older.pop().unwrap_or_else(|| repository.clone())
            }
            None => part_of(clusters, options.cluster)?,
        };
        if let Some(choice) = options
            .cluster
            .filter(|choice| !choice.means(part.cluster()))
        {
            return Err(ArchiveError::Request(format!(
                "the backup is of {}, not of {choice}",
                part.cluster()
            )));
        }
        let of_cluster = |part: Repository| {
            let backups = listed.iter().filter_map(|backup| backup.read.as_ref().ok());
            let own = backups.filter(|record| record.cluster() == Some(part.cluster()));
            let own = own.cloned().collect();
            (part, own)
        };
        let older = older.into_iter().map(of_cluster).collect();
        let backups = own_backups(listed, part.cluster(), &known);
        Ok(Whose {
            part,
            backups,
            older,
        })
    }

    /// Adds what older clusters have to the reason why no backup serves.
    pub(super) fn name_older(&self, error: ArchiveError) -> ArchiveError {
        let has = |(part, backups): &(Repository, Vec<BackupRecord>)| {
            let newest = &backups.last()?.label;
            let cluster = part.cluster();
            Some(match backups.len() {
                1 => format!("{cluster} has {newest}"),
                count => format!("{cluster} has {newest} and {} older ones", count - 1),
            })
        };
        let older: Vec<String> = self.older.iter().filter_map(has).collect();
        let reason = match error {
            ArchiveError::NoBackup(reason) if !older.is_empty() => reason,
            ArchiveError::TooEarly { target, .. } if !older.is_empty() => {
                format!("all ended after the target, {target}")
            }
            error => return error,
        };
        ArchiveError::NoBackup(format!(
            "for {}, {reason}; from before the upgrade, {}, which --backup restores",
            self.part.cluster(),
            older.join(", ")
        ))
    }

    /// Refuses to guess where an older cluster went on after the last backup of this one: the
    /// upgrade was rolled back, or a restored copy of the older one archives.
    pub(super) async fn refuse_rolled_back(&self) -> Result<(), ArchiveError> {
        let own = self.backups.iter().filter_map(|own| own.read.as_ref().ok());
        let Some(since) = own.map(|record| record.stop.time).max() else {
            return Ok(());
        };
        for (part, backups) in &self.older {
            let last = match last_life(part, backups, since).await? {
                Life::Until(last) if last > since => Some(last),
                Life::Unknown => None,
                Life::Until(_) | Life::Over => continue,
            };
            return Err(ArchiveError::OlderClusterWentOn {
                newest: self.part.cluster(),
                other: part.cluster(),
                last,
            });
        }
        Ok(())
    }
}

/// Leaves out the backups of the repository's other clusters. One of a cluster that is not
/// registered is of no use, and may show that a record is lost.
fn own_backups(
    listed: Vec<ListedBackup>,
    own: ClusterIdentity,
    known: &[ClusterIdentity],
) -> Vec<ListedBackup> {
    let mut backups = Vec::new();
    for mut backup in listed {
        match backup.cluster() {
            Some(cluster) if cluster == own => {}
            Some(cluster) if known.contains(&cluster) => continue,
            Some(_) => backup.read = Err(of_another(&backup.label)),
            None => {}
        }
        backups.push(backup);
    }
    backups
}

/// Until when a cluster was written to, as far as that is after `since`.
async fn last_life(
    part: &Repository,
    backups: &[BackupRecord],
    since: Timestamp,
) -> Result<Life, ArchiveError> {
    let listing = match part.list_wal().await {
        Ok(listing) => listing,
        // Who has no more use for the older cluster may well have removed its WAL.
        Err(error @ RepoError::NotInPlace { .. }) => {
            tracing::warn!("whether {} went on is not known: {error}", part.cluster());
            return Ok(Life::Over);
        }
        Err(error) => return Err(error.into()),
    };
    let segment_size = match backups.last() {
        Some(backup) => backup.segment_size_bytes,
        None => wal_index::segment_size(part, &listing)
            .await?
            .unwrap_or(wal_index::DEFAULT_SEGMENT_SIZE),
    };
    let wal = ArchivedWal::of(&listing, segment_size);
    let branches = Branches {
        repository: part,
        timelines: &Timelines::default(),
        wal: &wal,
        backups,
        stored: &StoredTimes::default(),
    };
    let backed_up = backups.iter().map(|backup| backup.stop.time).max();
    let mut last = backed_up.map_or(Life::Over, Life::Until);
    for timeline in wal.timelines() {
        last = last.max(branches.life(timeline, Lsn(0), Some(since)).await?);
    }
    Ok(last)
}
