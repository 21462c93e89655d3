//! Whether a segment that is pushed continues what the archive has before it.
//!
//! A copy of a server, started without a recovery, has its system identifier and timeline. Where it archives segments that
//! the original has not archived, nothing has their names. What shows it is the segment before: the archive has the
//! original's.

use std::path::Path;

use walzip_pgformat::wal::{Discontinuity, SegmentHeader};
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_pgformat::{Lsn, PAGE_SIZE};
use walzip_repo::Repository;

use crate::error::ArchiveError;
use crate::packs::is_damage;
use crate::stable_file::StableFile;
use crate::stored_wal::StoredWal;

/// How many segments are compared to find the first one that differs.
const LOOKED_BACK_MAX: usize = 100;

/// The segment before one that begins with this page.
pub(crate) fn segment_before(segment: SegmentName, first_page: &[u8]) -> Option<SegmentName> {
    let header = SegmentHeader::read(first_page).ok()?;
    segment.previous(header.segment_size).ok()?
}

/// Refuses a segment where the archive has another server's before it. The one before in the same directory is compared
/// byte for byte; where it is gone, the archived one has to end as this one says.
pub(crate) async fn check(
    part: &Repository,
    (segment, file): (SegmentName, &StableFile),
    path: &Path,
) -> Result<(), ArchiveError> {
    let Some(before) = segment_before(segment, file.beginning()) else {
        return Ok(());
    };
    let checked = match compare_with_own(part, before, path).await {
        Ok(Compared::Same | Compared::NotArchived) => Ok(()),
        Ok(Compared::Differs) => Err(ArchiveError::NotContinued {
            segment: segment.to_string(),
            before: before.to_string(),
            why: differs(part, before, path).await,
        }),
        Ok(Compared::NoOwn) => check_edges(part, (segment, file), before).await,
        Err(error) => Err(error),
    };
    match checked {
        // What cannot be read contradicts nothing.
        Err(error) if is_damage(&error) => {
            tracing::warn!("{segment} cannot be compared with the segment before it: {error}");
            Ok(())
        }
        checked => checked,
    }
}

/// What came of comparing the archived segment before with the one in the same directory.
enum Compared {
    Same,
    NotArchived,
    Differs,
    /// There is none any more, or it is being recycled.
    NoOwn,
}

async fn compare_with_own(
    part: &Repository,
    before: SegmentName,
    path: &Path,
) -> Result<Compared, ArchiveError> {
    let name = before.to_string();
    let (store, cluster) = (part.store(), part.cluster());
    let Some(stored) = StoredWal::get_unopened(store, cluster, &name).await? else {
        return Ok(Compared::NotArchived);
    };
    let own = path.with_file_name(&name);
    let Ok(file) = StableFile::open(&own, PAGE_SIZE as u64).await else {
        return Ok(Compared::NoOwn);
    };
    if !is_of(before, &file) {
        return Ok(Compared::NoOwn);
    }
    match file.is_in(&name, stored).await {
        Ok(true) => Ok(Compared::Same),
        Ok(false) => Ok(Compared::Differs),
        Err(ArchiveError::Invalid { .. } | ArchiveError::File { .. }) => Ok(Compared::NoOwn),
        Err(error) => Err(error),
    }
}

/// Says from which segment on the archive has others than this directory: that is where it is to be set aside from.
async fn differs(part: &Repository, before: SegmentName, path: &Path) -> String {
    let directory = path.parent().unwrap_or(Path::new("")).display();
    let first = first_that_differs(part, before, path).await;
    match first == before {
        true => format!("{directory} has another one"),
        false => format!("{directory} has another one, and others from {first} on"),
    }
}

async fn first_that_differs(part: &Repository, before: SegmentName, path: &Path) -> SegmentName {
    let mut first = before;
    for _ in 0..LOOKED_BACK_MAX {
        let own = StableFile::open(&path.with_file_name(first.to_string()), PAGE_SIZE as u64).await;
        let previous = own.map(|own| segment_before(first, own.beginning()));
        let Ok(Some(previous)) = previous else { break };
        match compare_with_own(part, previous, path).await {
            Ok(Compared::Differs) => first = previous,
            _ => break,
        }
    }
    first
}

/// Whether a file is the segment that its name says, and whole. What a server keeps for later use is not.
fn is_of(segment: SegmentName, file: &StableFile) -> bool {
    SegmentHeader::read(file.beginning()).is_ok_and(|header| {
        let start: Option<Lsn> = segment.start(header.segment_size).ok();
        start == Some(header.start) && file.len() == header.segment_size as usize
    })
}

async fn check_edges(
    part: &Repository,
    (segment, file): (SegmentName, &StableFile),
    before: SegmentName,
) -> Result<(), ArchiveError> {
    let name = before.to_string();
    let (store, cluster) = (part.store(), part.cluster());
    let Some(stored) = StoredWal::get_unopened(store, cluster, &name).await? else {
        return Ok(());
    };
    let (Some(own), Some(archived)) = (
        file.edges().await?,
        stored.proof(&name).await?.edges.finish(),
    ) else {
        return Ok(());
    };
    match own.begin.discontinuity(&archived.end) {
        None => Ok(()),
        // Its administrator knows, and needs the WAL of the backups to come.
        Some(why @ Discontinuity::Anew) => {
            tracing::warn!(
                "{segment} does not continue {before}: {why}; take a backup, since none from before leads beyond it"
            );
            Ok(())
        }
        Some(why) => Err(ArchiveError::NotContinued {
            segment: segment.to_string(),
            before: name,
            why: why.to_string(),
        }),
    }
}
