//! Whether a segment that is pushed continues what the archive has before it, and is continued by what it has after it.
//!
//! A copy of a server, started without a recovery, has its system identifier and timeline. Where it archives segments that
//! the original has not archived, nothing has their names. What shows it is the segment before: the archive has the
//! original's.

use std::fs;
use std::path::Path;

use futures::future::try_join;
use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::timeline_history::TimelineHistory;
use walzip_pgformat::wal::{Discontinuity, SegmentHeader};
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::{RepoError, Repository};

use crate::archived::neighbours::before_branch;
use crate::archived::own_history;
use crate::archived::stable_file::StableFile;
use crate::archived::stored_wal::StoredWal;
use crate::error::ArchiveError;
use crate::packs::is_damage;

/// How many segments are compared to find the first one that differs.
const LOOKED_BACK_MAX: usize = 100;

/// Refuses a segment where the archive has another server's before it or after it. The one before in the same directory
/// is compared byte for byte; where it is gone, the archived one has to end as this one says.
pub(crate) async fn check(
    part: &Repository,
    (segment, file): (SegmentName, &StableFile),
    path: &Path,
) -> Result<(), ArchiveError> {
    let Ok(header) = SegmentHeader::read(file.beginning()) else {
        return Ok(());
    };
    let size = header.segment_size;
    let pushed = Pushed {
        part,
        segment,
        file,
        path,
    };
    let before = async {
        match before(segment, path, size) {
            Some(before) => tolerate(segment, pushed.check_before(before).await),
            None => Ok(()),
        }
    };
    let after = async {
        match segment.next(size) {
            Ok(after) => tolerate(segment, pushed.check_after(after).await),
            Err(_) => Ok(()),
        }
    };
    try_join(before, after).await.map(|_| ())
}

/// The segment before: of its timeline, or of the one that its timeline left in it.
fn before(segment: SegmentName, path: &Path, size: u32) -> Option<SegmentName> {
    let of_parent = || {
        let beside = own_history::left_beside(path, segment.timeline)?;
        let history = TimelineHistory::read(segment.timeline, &fs::read(beside).ok()?).ok()?;
        let parent = history.ancestors.last()?;
        before_branch(segment, size, (parent.timeline, parent.switch))
    };
    of_parent().or_else(|| segment.previous(size).ok()?)
}

/// What cannot be read contradicts nothing. Who pushes may not be let read.
fn tolerate(segment: SegmentName, checked: Result<(), ArchiveError>) -> Result<(), ArchiveError> {
    match checked {
        Err(error) if is_damage(&error) || is_permission(&error) => {
            tracing::warn!("{segment} cannot be compared with the segment beside it: {error}");
            Ok(())
        }
        checked => checked,
    }
}

fn is_permission(error: &ArchiveError) -> bool {
    matches!(
        error,
        ArchiveError::Repository(RepoError::Permission { .. })
    )
}

/// A segment that is pushed into a part of a repository.
struct Pushed<'a> {
    part: &'a Repository,
    segment: SegmentName,
    file: &'a StableFile,
    path: &'a Path,
}

impl Pushed<'_> {
    async fn check_before(&self, before: SegmentName) -> Result<(), ArchiveError> {
        let Some(stored) = archived(self.part, before).await? else {
            return Ok(());
        };
        let Some(own) = own(before, self.path).await else {
            return self.check_edges(before, stored).await;
        };
        match own.is_in(&before.to_string(), stored).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(ArchiveError::NotContinued {
                segment: self.segment.to_string(),
                before: in_repository(before),
                why: differs(self.part, before, self.path).await,
            }),
            // It is being recycled.
            Err(ArchiveError::Invalid { .. } | ArchiveError::File { .. }) => {
                match archived(self.part, before).await? {
                    Some(stored) => self.check_edges(before, stored).await,
                    None => Ok(()),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn check_edges(
        &self,
        before: SegmentName,
        stored: StoredWal,
    ) -> Result<(), ArchiveError> {
        let archived = stored.proof(&before.to_string()).await?.edges.finish();
        let own = self.file.edges().await?;
        let why = own.zip(archived);
        let why = why.and_then(|(own, archived)| own.begin.discontinuity(&archived.end));
        match why {
            None => Ok(()),
            // Its administrator knows, and needs the WAL of the backups to come.
            Some(why @ Discontinuity::Anew) => {
                let segment = self.segment;
                tracing::warn!(
                    "{segment} does not continue {before}: {why}; take a backup, since none from before leads beyond it"
                );
                Ok(())
            }
            Some(why) => Err(ArchiveError::NotContinued {
                segment: self.segment.to_string(),
                before: in_repository(before),
                why: why.to_string(),
            }),
        }
    }

    /// What is archived after it has to continue it: a gap is filled with the server's own.
    async fn check_after(&self, after: SegmentName) -> Result<(), ArchiveError> {
        let Some(stored) = archived(self.part, after).await? else {
            return Ok(());
        };
        let archived = stored.proof(&after.to_string()).await?.edges.finish();
        let own = self.file.edges().await?;
        let why = own.zip(archived);
        match why.and_then(|(own, archived)| archived.begin.discontinuity(&own.end)) {
            None | Some(Discontinuity::Anew) => Ok(()),
            Some(why) => Err(ArchiveError::NotContinued {
                segment: in_repository(after),
                before: self.segment.to_string(),
                why: why.to_string(),
            }),
        }
    }
}

fn in_repository(segment: SegmentName) -> String {
    format!("{segment} in the repository")
}

async fn archived(
    part: &Repository,
    segment: SegmentName,
) -> Result<Option<StoredWal>, ArchiveError> {
    let (store, cluster) = (part.store(), part.cluster());
    StoredWal::get_unopened(store, cluster, &segment.to_string()).await
}

/// The segment beside a file, if it is there under its name and whole. What a server keeps for later use is not.
async fn own(segment: SegmentName, beside: &Path) -> Option<StableFile> {
    let path = beside.with_file_name(segment.to_string());
    let file = StableFile::open(&path, PAGE_SIZE as u64).await.ok()?;
    let header = SegmentHeader::read(file.beginning()).ok()?;
    let start = segment.start(header.segment_size).ok()?;
    let is_it = start == header.start && file.len() == header.segment_size as usize;
    is_it.then_some(file)
}

/// Says from which segment on the archive has others than this directory: that is where it is to be set aside from.
async fn differs(part: &Repository, before: SegmentName, path: &Path) -> String {
    let directory = path.parent().unwrap_or(Path::new("")).display();
    let first = first_that_differs(part, before, path).await;
    match first == before {
        true => format!("{directory} has another one; those before it may be others too"),
        false => format!("{directory} has another one, and others from {first} on"),
    }
}

async fn first_that_differs(part: &Repository, before: SegmentName, path: &Path) -> SegmentName {
    let mut first = before;
    for _ in 0..LOOKED_BACK_MAX {
        let Some(file) = own(first, path).await else {
            break;
        };
        let size = SegmentHeader::read(file.beginning()).map(|header| header.segment_size);
        let Some(previous) = size.ok().and_then(|size| first.previous(size).ok()?) else {
            break;
        };
        let (Some(file), Ok(Some(stored))) =
            (own(previous, path).await, archived(part, previous).await)
        else {
            break;
        };
        match file.is_in(&previous.to_string(), stored).await {
            Ok(false) => first = previous,
            _ => break,
        }
    }
    first
}
