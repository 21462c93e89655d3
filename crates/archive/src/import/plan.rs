//! Which files are taken into which part of the repository.
//!
//! Some segments of each archive are looked at, so that one of another cluster is left out as a
//! whole, and histories and backup histories are known to be the cluster's beside whose WAL they
//! lie.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use walzip_pgformat::wal::SegmentEdges;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{ClusterIdentity, Repository};

use super::find::{Found, Group};
use super::findings::{Finding, FindingKind, shown};
use super::source::Source;
use super::{Import, unpack};
use crate::archived::neighbours::{Neighbours, NotContinued};
use crate::cluster::choice::{self, ClusterChoice};
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;

/// How many segments are tried for one that can be read.
const TRIED: usize = 3;

/// The part of the repository of one cluster, and what it has.
pub(super) struct Part {
    pub(super) repository: Repository,
    pub(super) names: HashSet<String>,
    /// Where what is taken over meets, and what was there before.
    pub(super) neighbours: Mutex<Neighbours>,
}

impl Part {
    /// The chosen cluster's, or all there are.
    pub(super) async fn all(
        repository: &Repository,
        choice: Option<ClusterChoice>,
    ) -> Result<Vec<Part>, ArchiveError> {
        let chosen = match choice {
            Some(_) => vec![choice::part(repository, choice).await?],
            None => repository.read_clusters().await?.complete()?,
        };
        let mut parts = Vec::new();
        for repository in chosen {
            let listing = repository.list_wal().await?;
            let names = listing.into_iter().map(|entry| entry.name).collect();
            parts.push(Part {
                repository,
                names,
                neighbours: Mutex::default(),
            });
        }
        Ok(parts)
    }

    /// Notes how a segment begins and ends that was taken over.
    pub(super) fn add_neighbour(&self, name: &str, edges: Option<SegmentEdges>) {
        let mut neighbours = self
            .neighbours
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        neighbours.add(name, edges);
    }

    /// Which of these segments, and of those beside them that were there before, do not continue one another.
    pub(super) async fn not_continued(self) -> Vec<Finding> {
        let neighbours = self.neighbours.into_inner();
        let mut neighbours = neighbours.unwrap_or_else(PoisonError::into_inner);
        let is_listed = |name: &str| self.names.contains(name);
        neighbours.read_others(&self.repository, is_listed).await;
        let found = neighbours.found().into_iter();
        let finding = |NotContinued {
                           segment,
                           before,
                           why,
                       }| Finding {
            kind: FindingKind::Conflict,
            file: segment.to_string(),
            detail: format!(
                "it does not continue {before}: {why}. One of the two may be of another server; the imported ones are \
                 in the repository"
            ),
        };
        found.map(finding).collect()
    }
}

pub(super) fn part_of(parts: &[Part], cluster: ClusterIdentity) -> Option<&Part> {
    parts
        .iter()
        .find(|part| part.repository.cluster() == cluster)
}

/// A file to take over.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) source: Source,
    /// Whose the WAL around it is, where that is one cluster.
    pub(super) owner: Option<ClusterIdentity>,
}

/// The first file of each name, and the others, each in their order.
pub(super) fn first_of_each(tasks: Vec<&Task>) -> (Vec<&Task>, Vec<&Task>) {
    let mut names = HashSet::new();
    tasks
        .into_iter()
        .partition(|task| names.insert(task.source.name.to_string()))
}

/// All files to take over, in their order.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) tasks: Vec<Task>,
}

impl Plan {
    /// Plans what was found, and notes what is left out. It is an error when nothing remains.
    pub(super) async fn make(
        directory: &Path,
        found: Found,
        parts: &[Part],
        import: &mut Import,
    ) -> Result<Plan, ArchiveError> {
        let mut tasks = Vec::new();
        let mut foreign = None;
        for group in found.groups {
            let known: HashSet<ClusterIdentity> =
                parts.iter().map(|part| part.repository.cluster()).collect();
            let (group, owners) = off_the_runtime(move || {
                let mut owners = owners(&group);
                // Files of several clusters may lie together: then each file says whose it is.
                if !owners.is_empty() && owners.is_disjoint(&known) {
                    owners.extend(one_of(&group, &known));
                }
                (group, owners)
            })
            .await;
            let mut others = owners.iter().filter(|&&one| part_of(parts, one).is_none());
            if let Some(&other) = others.next()
                && owners.iter().all(|&one| part_of(parts, one).is_none())
            {
                let files = group.sources.len() as u64;
                import.leave_out(shown(directory, &group.directory), other, files);
                foreign = Some(other);
                continue;
            }
            let owner = match owners.len() {
                1 => owners.iter().next().copied(),
                _ => None,
            };
            let sources = group.sources.into_iter();
            tasks.extend(sources.map(|source| Task { source, owner }));
        }
        let nothing = tasks.is_empty() && import.findings.is_empty() && import.unused == 0;
        match (nothing, foreign, parts.last()) {
            (true, Some(found), Some(part)) => Err(ArchiveError::Mismatch {
                what: format!("the WAL in {}", directory.display()),
                found,
                repository: part.repository.cluster(),
            }),
            (true, None, _) => Err(ArchiveError::Request(format!(
                "there is no WAL in {}: no file below it has the name of a WAL file",
                directory.display()
            ))),
            _ => Ok(Plan { tasks }),
        }
    }
}

/// A cluster of these that has any segment in an archive.
fn one_of(group: &Group, known: &HashSet<ClusterIdentity>) -> Option<ClusterIdentity> {
    let mut clusters = group
        .sources
        .iter()
        .filter_map(|source| unpack::cluster(source).ok().flatten());
    clusters.find(|cluster| known.contains(cluster))
}

/// Whose the WAL of an archive is, by the first and the last segment of each timeline.
fn owners(group: &Group) -> HashSet<ClusterIdentity> {
    let mut timelines: BTreeMap<_, Vec<&Source>> = BTreeMap::new();
    for source in &group.sources {
        if let WalFileName::Segment(_) | WalFileName::Partial(_) = source.name {
            let of_timeline = timelines.entry(source.name.timeline()).or_default();
            of_timeline.push(source);
        }
    }
    let first_read = |sources: &mut dyn Iterator<Item = &&Source>| {
        let mut read = sources.take(TRIED);
        read.find_map(|source| unpack::cluster(source).ok().flatten())
    };
    let ends = timelines.values().flat_map(|sources| {
        let (mut forward, mut backward) = (sources.iter(), sources.iter().rev());
        [first_read(&mut forward), first_read(&mut backward)]
    });
    ends.flatten().collect()
}
