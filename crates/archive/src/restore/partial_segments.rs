//! Commits that only partial segments have.
//!
//! No recovery asks the archive for `NAME.partial`. One is archived where a timeline was left, by a server that
//! was promoted or by `receive`, which may have got more than the promoted server had.

use jiff::Timestamp;
use walzip_pgformat::wal::SegmentHeader;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::{Repository, WalEntry};

use crate::archived::archived_wal::ArchivedWal;
use crate::archived::stored_wal::StoredWal;
use crate::archived::timelines::Timelines;
use crate::archived::wal_times::SegmentTimes;
use crate::error::ArchiveError;
use crate::wal::replayed::end_of_records;

/// So many of the newest are read.
const READ_MAX: usize = 4;

/// A partial segment with commits that a restore lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutPartial {
    /// The segment. Its object is called after it, with `.partial`.
    pub segment: SegmentName,
    /// How many commits.
    pub commits: usize,
    /// The time of the last one.
    pub last: Option<Timestamp>,
}

/// The partial segments of a timeline and of those that it comes from.
#[derive(Debug)]
pub(super) struct Partials(Vec<SegmentName>);

impl Partials {
    pub(super) fn of(listing: &[WalEntry]) -> Partials {
        let names = listing.iter().filter_map(|entry| entry.name.parse().ok());
        Partials(
            names
                .filter_map(|name| match name {
                    WalFileName::Partial(segment) => Some(segment),
                    _ => None,
                })
                .collect(),
        )
    }

    /// Those with commits that a recovery along a timeline lacks, whose WAL ends with this record.
    pub(super) async fn left_out(
        &self,
        repository: &Repository,
        (wal, timelines): (&ArchivedWal, &Timelines),
        (goal, last_record): (TimelineId, Lsn),
    ) -> Result<Vec<LeftOutPartial>, ArchiveError> {
        let (mut left_out, mut reads) = (Vec::new(), 0);
        for &segment in self.0.iter().rev() {
            let timeline = segment.timeline;
            let switch = match timelines.history(goal) {
                _ if timeline == goal => Some(Lsn(last_record.0.saturating_add(1))),
                Some(history) => history.switch_of(timeline),
                None => None,
            };
            let Some(mut from) = switch else {
                continue;
            };
            // What is no segment of this size is in nobody's way.
            let Ok(missing) = wal.missing(&[segment]) else {
                continue;
            };
            reads += 1;
            if reads > READ_MAX {
                break;
            }
            let name = WalFileName::Partial(segment).to_string();
            let whole = match missing.is_empty() {
                true => read(repository, &segment.to_string()).await.map(Some),
                false => Ok(None),
            };
            let (content, whole) = match (read(repository, &name).await, whole) {
                (Ok(content), Ok(whole)) => (content, whole),
                // No recovery reads it.
                (Err(error), _) | (_, Err(error)) => {
                    tracing::warn!("{name} is not looked at: {error}");
                    continue;
                }
            };
            // A server that was sent less may have archived the whole one, or one that has other WAL there.
            if let Some(end) = whole
                .as_deref()
                .and_then(|whole| shared_until(&content, whole))
            {
                from = match timeline == goal {
                    true => end,
                    false => from.max(end),
                };
            }
            let commits = SegmentTimes::of(&content).commits_from(from);
            if !commits.is_empty() {
                left_out.push(LeftOutPartial {
                    segment,
                    commits: commits.len(),
                    last: commits.into_iter().flatten().max(),
                });
            }
        }
        Ok(left_out)
    }
}

/// Up to where a whole segment has the records of a partial one.
fn shared_until(partial: &[u8], whole: &[u8]) -> Option<Lsn> {
    let start = SegmentHeader::read(whole).ok()?.start;
    let end = end_of_records(whole)?.offset;
    let mut pairs = partial.iter().zip(whole);
    let same = pairs.position(|(one, other)| one != other);
    let until = same.map_or(end, |same| same.min(end));
    // A record that has begun before is not shared.
    let shared = end_of_records(&[&whole[..until], &vec![0; whole.len() - until]].concat())?;
    Some(Lsn(start.0 + shared.offset as u64))
}

async fn read(repository: &Repository, name: &str) -> Result<Vec<u8>, ArchiveError> {
    let stored = StoredWal::get_listed(repository, name).await?;
    stored.content(name).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;
    use walzip_repo::ClusterIdentity;
    use walzip_repo::testing::memory_store;

    use crate::wal::testing::{Record, segment};

    #[test]
    fn a_whole_segment_has_of_a_partial_one_what_both_begin_with() {
        let rows = |rows: &[(usize, u8)]| {
            let rows: Vec<Record> = rows
                .iter()
                .map(|&(len, fill)| Record::row(len, fill))
                .collect();
            segment(3, &rows)
        };
        let partial = rows(&[(100, 1), (60, 1), (80, 1)]);
        let at = |offset: u64| Some(Lsn(0x30_0000 + offset));
        let (one, two, three) = (40 + 104, 40 + 104 + 64, 40 + 104 + 64 + 80);
        for (whole, shared) in [
            (partial.clone(), three),
            (rows(&[(100, 1), (60, 1)]), two),
            (rows(&[(100, 1), (90, 2), (90, 2), (90, 2)]), one),
        ] {
            assert_eq!(shared_until(&partial, &whole), at(shared));
        }
    }

    /// Neither a name that segments of this size do not have, nor an object that is not there.
    #[tokio::test]
    async fn no_partial_segment_keeps_a_restore_back() {
        let cluster = ClusterIdentity {
            system_id: 1,
            major: 15,
        };
        let made = Repository::init(memory_store(), cluster).await;
        let (repository, _) = made.expect("made");
        let entry = |name: &str| WalEntry {
            name: name.to_owned(),
            size_bytes: 10,
            modified: SystemTime::UNIX_EPOCH,
            packed: None,
        };
        let listing = [
            "000000010000000000000005.partial",
            "0000000100000000FFFFFFFF.partial",
        ]
        .map(entry);
        let wal = ArchivedWal::of(&listing, 16 << 20);
        let partials = Partials::of(&listing);
        let known = (&wal, &Timelines::default());
        let goal = (TimelineId(1), Lsn(u64::MAX));
        let left_out = partials.left_out(&repository, known, goal).await;
        assert_eq!(left_out.expect("asked"), []);
    }
}
