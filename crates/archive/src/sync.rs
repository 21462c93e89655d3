//! `sync`: what a repository lacks of the WAL that another one of the same cluster has.
//!
//! A repository that could not be reached, or that joined later, has holes. What fills them is
//! proven by decoding before it is put, and nothing is ever replaced. `lacking` decides what is
//! brought.

mod aside;
mod away;
mod both;
mod lacking;
mod packs;
mod problem;
mod putting;

use std::collections::BTreeSet;

use futures::StreamExt;
use serde::Serialize;
use walzip_pgformat::wal::SegmentEdges;
use walzip_repo::Repository;

use crate::archived::neighbours::{Neighbours, NotContinued};
use crate::archived::stored_wal::StoredWal;
use crate::archived::wal_object;
use crate::error::ArchiveError;
use crate::progress::{Phase, Progress};
use lacking::Lacking;
pub use problem::Problem;
use problem::is_of_one_file;
use putting::put;

/// How to bring a repository up to date.
#[derive(Clone, Debug)]
pub struct SyncOptions {
    /// How many objects are on their way at once.
    pub parallel: usize,
    /// Bring what follows pinned backups too, although an expiry may have removed it.
    pub pinned: bool,
    /// Where to leave how far it has come.
    pub progress: Progress,
}

/// What came of it, for one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Synced {
    /// The cluster, as `15-7575000000000000001`.
    pub cluster: String,
    /// WAL files that were put.
    pub wal_files: u64,
    /// Their bytes as they are stored.
    pub stored_bytes: u64,
    /// Files that an expiry would remove from the repository again.
    pub not_retained: u64,
    /// What could not be brought over, and why.
    pub problems: Vec<Problem>,
    /// The files that were put.
    #[serde(skip)]
    brought: BTreeSet<String>,
}

impl Synced {
    /// Leaves out of earlier runs what this one, from another repository, has brought.
    pub fn solve<'s>(&self, earlier: impl Iterator<Item = &'s mut Synced>) {
        for synced in earlier.filter(|earlier| earlier.cluster == self.cluster) {
            let is_left = |problem: &Problem| !problem.is_solved_by(&self.brought);
            synced.problems.retain(is_left);
        }
    }

    fn add(&mut self, names: impl IntoIterator<Item = String>, stored_bytes: u64) {
        let before = self.brought.len();
        self.brought.extend(names);
        self.wal_files += (self.brought.len() - before) as u64;
        self.stored_bytes += stored_bytes;
    }
}

/// Brings `to` what it lacks of the WAL in `from`: of each cluster that both have.
pub async fn sync(
    from: &Repository,
    to: &Repository,
    options: &SyncOptions,
) -> Result<Vec<Synced>, ArchiveError> {
    let (sources, targets) = (from.read_clusters().await?, to.read_clusters().await?);
    let mut all = Vec::new();
    for from in &sources.parts {
        let same = |to: &&Repository| from.cluster() == to.cluster();
        let synced = match targets.parts.iter().find(same) {
            Some(to) => sync_cluster(from, to, options).await?,
            None => Synced {
                cluster: from.cluster().name(),
                problems: vec![Problem::new(
                    from.cluster().name(),
                    "this cluster is not registered in the repository: run \"walzip upgrade\" on it",
                )],
                ..Synced::default()
            },
        };
        all.push(synced);
    }
    for fault in sources.faults.iter().chain(&targets.faults) {
        all.push(Synced {
            problems: vec![Problem::new("a cluster's record", fault)],
            ..Synced::default()
        });
    }
    Ok(all)
}

async fn sync_cluster(
    from: &Repository,
    to: &Repository,
    options: &SyncOptions,
) -> Result<Synced, ArchiveError> {
    let lacking = Lacking::find(from, to, options.pinned).await?;
    let bytes = lacking.all().map(|entry| entry.size_bytes).sum();
    options.progress.begin(Phase::Synchronizing, bytes);
    let mut synced = Synced {
        cluster: to.cluster().name(),
        not_retained: lacking.not_retained,
        problems: lacking.problems,
        ..Synced::default()
    };
    let mut neighbours = Neighbours::default();
    // A timeline's segments are of no use without its history.
    for entries in [&lacking.histories, &lacking.others] {
        let single = entries.iter().filter(|entry| entry.packed.is_none());
        let copies = single.clone().map(|entry| copy(from, to, &entry.name));
        let mut copies = futures::stream::iter(copies).buffered(options.parallel.max(1));
        let mut entries = single;
        while let (Some(copied), Some(entry)) = (copies.next().await, entries.next()) {
            options.progress.add(entry.size_bytes);
            match copied {
                Ok(edges) => {
                    neighbours.add(&entry.name, edges);
                    synced.add([entry.name.clone()], entry.size_bytes);
                }
                Err(error) if is_of_one_file(&error) => {
                    synced.problems.push(Problem::of_file(&entry.name, error));
                }
                Err(error) => return Err(error),
            }
        }
    }
    let so_far = (options, &mut synced, &mut neighbours);
    let packed = (&*lacking.others, &lacking.away);
    packs::copy_packs(from, to, packed, so_far).await?;
    if !synced.brought.is_empty() {
        compare_neighbours(to, neighbours, &mut synced).await?;
    }
    Ok(synced)
}

/// What was brought has to continue what is beside it there, and to be continued.
async fn compare_neighbours(
    to: &Repository,
    mut neighbours: Neighbours,
    synced: &mut Synced,
) -> Result<(), ArchiveError> {
    let there = to.list_wal().await?;
    let there: BTreeSet<&str> = there.iter().map(|entry| entry.name.as_str()).collect();
    neighbours
        .read_others(to, |name| there.contains(name))
        .await;
    for NotContinued {
        segment,
        before,
        why,
    } in neighbours.found()
    {
        let why = format!(
            "it does not continue {before}: {why}; one of the two may be of another server"
        );
        synced.problems.push(Problem::new(segment.to_string(), why));
    }
    Ok(())
}

async fn copy(
    from: &Repository,
    to: &Repository,
    name: &str,
) -> Result<Option<SegmentEdges>, ArchiveError> {
    let object = match StoredWal::get(from, name).await? {
        Some(StoredWal::Single(object)) => object,
        // Its own object came after the pack.
        Some(packed) => wal_object::encode(name, packed.content(name).await?).await?,
        None => {
            return Err(ArchiveError::Damaged {
                object: name.to_owned(),
                reason: "it disappeared after it was listed: run this again".to_owned(),
            });
        }
    };
    let stored = StoredWal::Single(object.clone());
    let proven = wal_object::prove(name, stored, from.cluster()).await?;
    put(to, name, object).await?;
    Ok(proven.edges)
}
