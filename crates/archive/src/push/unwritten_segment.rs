//! A segment that is marked as ready, and of which nothing was ever written.
//!
//! Servers make files for the segments to come, most of them out of older ones. Where production leaves a timeline before a
//! standby was sent anything of such a segment, the file stays there under the old timeline's name, and the next checkpoint
//! marks it as ready, as it does with every older file that has no mark (XLogArchiveCheckDone in
//! access/transam/xlogarchive.c, 13 to 18). It cannot be archived, and PostgreSQL would ask for ever.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use walzip_pgformat::wal::SegmentHeader;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_pgformat::{PAGE_SIZE, TimelineId};
use walzip_repo::{ClusterIdentity, Repository};

use super::unfinished_segment::is_empty;
use crate::archived::later_beside::{begins_in, gone_on_with};
use crate::archived::stable_file::StableFile;
use crate::archived::stored_wal::StoredWal;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::packs::is_damage;
use crate::wal::content;

/// The timeline with which the server has gone on, where a file that has a segment's name has nothing of it. That no page
/// says that it is at the segment's position may be damage too, as long as the server could still need the segment.
pub(crate) async fn left_unwritten(
    path: &Path,
    segment: SegmentName,
    cluster: ClusterIdentity,
) -> Option<TimelineId> {
    let path = path.to_owned();
    off_the_runtime(move || {
        let size = made_for_later(&path, segment, cluster).ok()??;
        // Pages of any timeline at this position are WAL of somebody.
        match is_empty(&path, segment, true) {
            Some(true) => gone_on_with(&path, segment, size),
            _ => None,
        }
    })
    .await
}

/// Whether a file is the archived segment of an older timeline at this position, although the segment's own timeline does not begin
/// there, as its history beside it says: the server went back in place, and has made it for later out of that one. Returns the
/// older timeline.
pub(crate) async fn left_as_parents(
    part: &Repository,
    (path, segment): (&Path, SegmentName),
    file: &StableFile,
) -> Result<Option<TimelineId>, ArchiveError> {
    let Ok(header) = SegmentHeader::read(file.beginning()) else {
        return Ok(None);
    };
    let is_older = header.timeline < segment.timeline;
    if !is_older || begins_in(path, segment, header.segment_size) != Some(false) {
        return Ok(None);
    }
    let of_parent = SegmentName {
        timeline: header.timeline,
        ..segment
    };
    let name = of_parent.to_string();
    let Some(stored) = StoredWal::get(part, &name).await? else {
        return Ok(None);
    };
    match file.is_in(&name, stored).await {
        Ok(is_it) => Ok(is_it.then_some(header.timeline)),
        Err(error) if is_damage(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The size of a segment whose file is as a server makes it for later: zeros, or one that begins as another segment of the
/// same cluster. After a recovery in place that may be a newer one.
fn made_for_later(
    path: &Path,
    segment: SegmentName,
    cluster: ClusterIdentity,
) -> io::Result<Option<u32>> {
    let mut file = fs::File::open(path)?;
    let len = file.metadata()?.len();
    let mut page = vec![0; PAGE_SIZE];
    file.read_exact(&mut page)?;
    let size = u32::try_from(len).ok();
    let Some((size, start)) = size.and_then(|size| Some((size, segment.start(size).ok()?))) else {
        return Ok(None);
    };
    if let Ok(header) = SegmentHeader::read(&page) {
        let is_other = header.start != start;
        let is_own = content::cluster_of_segment(&page) == Some(cluster);
        return Ok((header.segment_size == size && is_other && is_own).then_some(size));
    }
    let mut read = page.len();
    while read > 0 {
        if page[..read].iter().any(|byte| *byte != 0) {
            return Ok(None);
        }
        read = file.read(&mut page)?;
    }
    Ok(Some(size))
}

#[cfg(test)]
mod tests {
    use walzip_pgformat::wal::PageHeader;
    use walzip_repo::testing::memory_store;

    use super::*;
    use crate::push::{PushOptions, PushOutcome, push};
    use crate::wal::testing::{CLUSTER, Record, SIZE, segment};

    const NAME: &str = "000000010000000000000015";
    /// In the middle of that segment.
    const HISTORY: &str = "1\t0/1500100\tno recovery target specified\n";

    fn older() -> Vec<u8> {
        segment(0x12, &[Record::row(100, 1)])
    }

    /// A directory with the file, the history of timeline 2, and WAL of that.
    fn directory(file: &[u8], history: Option<&str>, has_gone_on: bool) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, content: &[u8]| {
            fs::write(directory.path().join(name), content).expect("written");
        };
        write(NAME, file);
        if let Some(history) = history {
            write("00000002.history", history.as_bytes());
        }
        if has_gone_on {
            write("000000020000000000000016", &older());
        }
        directory
    }

    async fn left(file: &[u8]) -> bool {
        let directory = directory(file, Some(HISTORY), true);
        let name = NAME.parse().expect("a segment");
        let later = left_unwritten(&directory.path().join(NAME), name, CLUSTER).await;
        later.is_some()
    }

    /// With a page header of this timeline at this position.
    fn with_page(mut file: Vec<u8>, page: usize, timeline: u32, address: u64) -> Vec<u8> {
        let header = PageHeader {
            magic: 0xD110,
            flags: 0,
            timeline,
            address,
            remaining_len: 0,
        };
        let at = page * PAGE_SIZE;
        file[at..at + PageHeader::SHORT_LEN].copy_from_slice(&header.to_bytes());
        file
    }

    #[tokio::test]
    async fn a_file_that_was_made_for_later_and_left_does_not_stop_the_archiving() {
        let repository = Repository::init(memory_store(), CLUSTER).await;
        let (repository, _) = repository.expect("a repository");
        let newer = segment(0x18, &[Record::row(100, 1)]);
        for file in [older(), newer, vec![0; SIZE]] {
            let before = "1\t0/14FFF00\tx\n";
            for history in [HISTORY, before] {
                let place = directory(&file, Some(history), true);
                let path = place.path().join(NAME);
                let pushed = push(&repository, &path, &PushOptions::default()).await;
                let pushed = pushed.expect("nothing to archive");
                assert_eq!(pushed.outcome, PushOutcome::NothingThere);
            }
            // It is needed whole, or nothing says that it is not, or only an old primary was given the history.
            let after = "1\t0/1600000\tx\n";
            for (history, has_gone_on) in
                [(Some(after), true), (None, true), (Some(HISTORY), false)]
            {
                let place = directory(&file, history, has_gone_on);
                let path = place.path().join(NAME);
                let pushed = push(&repository, &path, &PushOptions::default()).await;
                assert!(matches!(pushed, Err(ArchiveError::Invalid { .. })));
            }
        }
        assert!(repository.find_wal(NAME).await.expect("readable").is_none());
    }

    /// A server went back to an earlier moment in place. Its file for later was the parent's segment of the same number.
    #[tokio::test]
    async fn a_file_of_the_parent_is_a_segment_only_where_its_timeline_begins() {
        const OF_CHILD: &str = "000000020000000000000015";
        let parents = segment(0x15, &[Record::row(100, 1)]);
        let (before, here) = ("1\t0/1200100\tx\n", "1\t0/1500090\tx\n");
        for (began, archived, has_gone_on, expected) in [
            (before, Some(1), true, Some(PushOutcome::NothingThere)),
            // A server that needs the segment still.
            (before, Some(1), false, None),
            // What nobody has may be WAL, whatever the history says: it may be another server's.
            (before, Some(2), true, Some(PushOutcome::Stored)),
            (before, None, true, Some(PushOutcome::Stored)),
            (here, Some(1), true, Some(PushOutcome::Stored)),
        ] {
            let repository = Repository::init(memory_store(), CLUSTER).await;
            let (repository, _) = repository.expect("a repository");
            if let Some(fill) = archived {
                let of_parent = segment(0x15, &[Record::row(100, fill)]);
                let object = walzip_codec::encode(&of_parent, walzip_codec::Level::default());
                let put = repository.put_wal(NAME, object.expect("encoded").into());
                put.await.expect("archived");
            }
            let place = tempfile::tempdir().expect("a directory");
            let write = |name: &str, content: &[u8]| {
                fs::write(place.path().join(name), content).expect("written");
            };
            write(OF_CHILD, &parents);
            write("00000002.history", began.as_bytes());
            write(
                "00000003.history",
                format!("{began}2\t0/1500098\ty\n").as_bytes(),
            );
            if has_gone_on {
                write("000000030000000000000016", &older());
            }
            let path = place.path().join(OF_CHILD);
            let pushed = push(&repository, &path, &PushOptions::default()).await;
            match (pushed, expected) {
                (Ok(pushed), Some(expected)) => assert_eq!(pushed.outcome, expected),
                (Err(ArchiveError::Invalid { .. }), None) => {}
                (other, _) => panic!("{began}: {other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn what_may_be_wal_of_the_segment_is_not_left() {
        let here = |page: usize| 0x150_0000 + (page * PAGE_SIZE) as u64;
        // What the file had before has other positions.
        assert!(left(&with_page(older(), 5, 1, here(5) - 3 * SIZE as u64)).await);
        for timeline in [1, 2] {
            assert!(!left(&with_page(older(), 5, timeline, here(5))).await);
            let last = SIZE / PAGE_SIZE - 1;
            assert!(!left(&with_page(vec![0; SIZE], last, timeline, here(last))).await);
        }
        assert!(!left(&segment(0x15, &[Record::row(100, 1)])).await);
        // The first page is damaged, or lost.
        let mut damaged = older();
        damaged[0] = 0;
        assert!(!left(&damaged).await);
        let mut lost = older();
        lost[..PAGE_SIZE].fill(0);
        lost[SIZE - 1] = 1;
        assert!(!left(&lost).await);
        // Another cluster's, or a part of one.
        let mut foreign = older();
        foreign[24] ^= 1;
        assert!(!left(&foreign).await);
        assert!(!left(&older()[..SIZE / 2]).await);
    }
}
