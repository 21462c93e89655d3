//! `pack`: segments that were archived one by one, into packs.
//!
//! A pack is decoded and compared, put, and read back, and only then its segments' own objects go. So each
//! segment is there at every moment, and whoever was interrupted begins again: what an earlier run has put is
//! decoded once more.

mod encoding;
mod plan;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Instant;

use object_store::PutPayload;
use serde::Serialize;
use walzip_codec::Level;
use walzip_repo::layout::MAX_PACK_SEGMENTS;
use walzip_repo::{PackName, PutOutcome, Repository, WalPack};

use crate::archived::settling::{OwnPack, ProvenPack, prove, read_back};
use crate::archived::wal_index;
use crate::error::ArchiveError;
use crate::pack::encoding::{encode, warn_of_gone};
use crate::pack::plan::{Candidate, Plan, Rules};
use crate::packs::reading::is_damage;
use crate::progress::{Phase, Progress};

/// The newest segments of each timeline that stay objects of their own by default: what a standby
/// asks for, one at a time.
pub const NEWEST_KEPT: usize = 64;

/// The segments that a pack has at most.
pub const SEGMENTS_MAX: u16 = MAX_PACK_SEGMENTS as u16;

/// How to pack.
#[derive(Clone, Debug)]
pub struct PackOptions {
    /// How hard the codec tries.
    pub level: Level,
    /// The newest segments of each timeline that stay objects of their own.
    pub newest: usize,
    /// How many segments a pack has at most; never more than [`SEGMENTS_MAX`].
    pub segments: usize,
    /// Make packs that more segments could follow, too.
    pub all: bool,
    /// Say what would be packed, and pack nothing.
    pub dry_run: bool,
    /// The directory in which a pack is kept in a file without a name while it becomes longer.
    pub scratch: PathBuf,
    /// Where to leave how far it has come.
    pub progress: Progress,
}

/// What was packed of one cluster, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Packing {
    /// The cluster, as `15-7575000000000000001`.
    pub cluster: String,
    /// The packs.
    pub packs: Vec<Packed>,
    /// Packs of an earlier time whose segments were objects of their own still.
    pub settled: Vec<Packed>,
    /// What could not be packed, and why.
    pub problems: Vec<PackProblem>,
}

/// A pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Packed {
    /// Its first segment.
    pub first: String,
    /// Its last segment.
    pub last: String,
    /// How many it has.
    pub segments: u64,
    /// Their size as objects of their own; nothing for a pack of an earlier time.
    pub single_bytes: Option<u64>,
    /// The size of the pack; nothing where it was not made.
    pub stored_bytes: Option<u64>,
}

/// Something that could not be packed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PackProblem {
    /// The first of the segments that stay as they are.
    pub first: String,
    /// What is wrong.
    pub detail: String,
}

impl Packed {
    fn planned(candidates: &[Candidate]) -> Packed {
        let name = |of: Option<&Candidate>| of.map(|of| of.name.clone()).unwrap_or_default();
        Packed {
            first: name(candidates.first()),
            last: name(candidates.last()),
            segments: candidates.len() as u64,
            single_bytes: Some(candidates.iter().map(|of| of.stored_bytes).sum()),
            stored_bytes: None,
        }
    }

    fn there(pack: &WalPack) -> Packed {
        let name = |index| pack.name.segment(index).unwrap_or_default();
        Packed {
            first: name(0),
            last: name(pack.name.count().saturating_sub(1)),
            segments: pack.name.count() as u64,
            single_bytes: None,
            stored_bytes: Some(pack.size_bytes),
        }
    }
}

/// Packs the WAL of every cluster of a repository.
pub async fn pack(
    repository: &Repository,
    options: &PackOptions,
) -> Result<Vec<Packing>, ArchiveError> {
    let mut all = Vec::new();
    for part in repository.read_clusters().await?.complete()? {
        all.push(pack_cluster(&part, options).await?);
    }
    Ok(all)
}

async fn pack_cluster(part: &Repository, options: &PackOptions) -> Result<Packing, ArchiveError> {
    let listing = part.list_wal_objects().await?;
    let size = wal_index::segment_size(part, &listing.entries()).await?;
    let since = Instant::now();
    let rules = Rules {
        newest: options.newest,
        segments: options.segments,
        all: options.all,
        segment_size: size.unwrap_or(wal_index::DEFAULT_SEGMENT_SIZE).into(),
    };
    let plan = Plan::of(&listing, rules);
    let mut packing = Packing {
        cluster: part.cluster().name(),
        ..Packing::default()
    };
    if options.dry_run {
        packing.settled = plan.unsettled.iter().map(Packed::there).collect();
        packing.packs = plan.packs.iter().map(|run| Packed::planned(run)).collect();
        return Ok(packing);
    }
    let candidates = plan.packs.iter().flatten();
    let bytes = candidates.map(|candidate| candidate.stored_bytes).sum();
    options.progress.begin(Phase::Packing, bytes);
    let mut work = Work {
        part,
        options,
        packing,
        proven: VecDeque::new(),
    };
    for pack in &plan.unsettled {
        let settled = work.prove(pack, since, None).await;
        let first = pack.name.segment(0).unwrap_or_default();
        if work.note(&first, settled)? == Some(true) {
            work.packing.settled.push(Packed::there(pack));
        }
    }
    for run in plan.packs {
        work.pack_run(run).await?;
    }
    work.settle().await?;
    Ok(work.packing)
}

struct Work<'w> {
    part: &'w Repository,
    options: &'w PackOptions,
    packing: Packing,
    /// Packs that settle while others are encoded.
    proven: VecDeque<ProvenPack>,
}

impl Work<'_> {
    /// Makes packs of consecutive segments: one, unless it would be too long.
    async fn pack_run(&mut self, run: Vec<Candidate>) -> Result<(), ArchiveError> {
        let mut rest = VecDeque::from(run);
        while let Some(first) = rest.front() {
            let first = first.name.clone();
            let made = self.make(rest.make_contiguous()).await;
            let count = self.note(&first, made)?.flatten();
            let done = count.unwrap_or(rest.len());
            let bytes = rest.drain(..done).map(|of| of.stored_bytes).sum();
            self.options.progress.add(bytes);
        }
        Ok(())
    }

    /// Makes a pack of the first of these segments; says how many.
    async fn make(&mut self, candidates: &[Candidate]) -> Result<Option<usize>, ArchiveError> {
        let PackOptions { level, scratch, .. } = self.options;
        let Some(encoded) = encode(self.part, candidates, *level, scratch).await? else {
            return Ok(None);
        };
        let name = encoded.name;
        let first = name.segment(0).unwrap_or_default();
        let last = name.segment(name.count() - 1).unwrap_or_default();
        for end in [&first, &last] {
            if self.part.find_single(end).await?.is_none() {
                warn_of_gone(end);
                return Ok(None);
            }
        }
        let beside = self.part.packs().overlapping(&name).await?;
        if let Some(other) = beside.iter().find(|pack| pack.name != name) {
            tracing::warn!(
                "pack {name} is not put: {} has segments of it, and came meanwhile; is another walzip pack at work?",
                other.name
            );
            return Ok(None);
        }
        // Where there is one of its name already, of another process, that one is proven.
        let object: PutPayload = encoded.object.into_iter().collect();
        let put = self.part.put_pack(&name, object).await?;
        let since = Instant::now();
        let packs = self.part.packs().with(&first).await?;
        let Some(pack) = packs.into_iter().find(|pack| pack.name == name) else {
            return Ok(None);
        };
        for end in [&first, &last] {
            if put == PutOutcome::Created && self.part.find_single(end).await?.is_none() {
                self.packing.problems.push(came_too_late(&name, end));
                break;
            }
        }
        let own = (put == PutOutcome::Created).then_some(&encoded.own);
        if !self.prove(&pack, since, own).await? {
            return Ok(None);
        }
        let planned = candidates.get(..name.count()).unwrap_or_default();
        self.packing.packs.push(Packed {
            stored_bytes: Some(pack.size_bytes),
            ..Packed::planned(planned)
        });
        Ok(Some(name.count()))
    }

    /// Proves a pack, and finishes those that have settled. `own` is of a pack that was proven before this run put it:
    /// it is read back. A pack that is not there any more has expired or was set aside meanwhile, and is nothing to
    /// prove.
    async fn prove(
        &mut self,
        pack: &WalPack,
        since: Instant,
        own: Option<&OwnPack>,
    ) -> Result<bool, ArchiveError> {
        let proven = match own {
            Some(own) => read_back(self.part, pack, since, own).await,
            None => prove(self.part, pack, since).await,
        };
        let proven = match proven {
            Err(error) if is_damage(&error) && !self.is_there(pack).await? => return Ok(false),
            proven => proven?,
        };
        while self.proven.front().is_some_and(ProvenPack::has_settled)
            && let Some(settled) = self.proven.pop_front()
        {
            settled.settle(self.part).await?;
        }
        self.proven.push_back(proven);
        Ok(true)
    }

    async fn is_there(&self, pack: &WalPack) -> Result<bool, ArchiveError> {
        let first = pack.name.segment(0).unwrap_or_default();
        Ok(self.part.packs().with(&first).await?.contains(pack))
    }

    /// Waits until all have settled, and finishes them.
    async fn settle(&mut self) -> Result<(), ArchiveError> {
        while let Some(proven) = self.proven.pop_front() {
            proven.settle(self.part).await?;
        }
        Ok(())
    }

    /// What came of it, unless something is damaged: that keeps nobody from packing the rest.
    fn note<T>(
        &mut self,
        first: &str,
        outcome: Result<T, ArchiveError>,
    ) -> Result<Option<T>, ArchiveError> {
        match outcome {
            Ok(outcome) => Ok(Some(outcome)),
            Err(error) if is_damage(&error) || is_of_content(&error) => {
                self.packing.problems.push(PackProblem {
                    first: first.to_owned(),
                    detail: error.to_string(),
                });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// The pack is not removed: another process may have proven it, and its segments' own objects may
/// be gone for that.
fn came_too_late(pack: &PackName, first: &str) -> PackProblem {
    PackProblem {
        first: first.to_owned(),
        detail: format!(
            "{first} was set aside or expired while pack {pack} was put; if its timeline was set \
             aside, repeat that (walzip timeline set-aside), and the pack goes with it"
        ),
    }
}

/// Whether a segment is not what it has to be.
fn is_of_content(error: &ArchiveError) -> bool {
    matches!(
        error,
        ArchiveError::Mismatch { .. } | ArchiveError::Encode { .. } | ArchiveError::PutLate { .. }
    )
}
