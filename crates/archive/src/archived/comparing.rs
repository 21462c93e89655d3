//! Whether what has a file's name already is the file, or has all that a server would replay of it.
//!
//! A server that is promoted, or follows one that was, archives the segment in which the timeline was left as it is: after the
//! last record there is what the file had before it got its name. So two servers have other bytes there, and the same WAL.

use std::path::Path;

use bytes::Bytes;
use walzip_codec::DecodeError;
use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{RepoError, Repository};

use crate::archived::difference::first_difference;
use crate::archived::later_beside::left_in;
use crate::archived::own_history;
use crate::archived::stable_file::StableFile;
use crate::archived::stored_wal::StoredWal;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::packs::is_damage;
use crate::wal::replayed::{self, ReplayedEnd};

/// Compares with what has the name already; returns its size as it is stored.
pub(crate) async fn compare(
    repository: &Repository,
    name: &str,
    file: &StableFile,
) -> Result<u64, ArchiveError> {
    let Some(stored) = StoredWal::get(repository, name).await? else {
        // The next attempt will find the name free, or taken for good.
        let reason = "the name was taken, and nothing has it now";
        return Err(ArchiveError::Repository(RepoError::Unavailable {
            key: name.to_owned(),
            source: reason.into(),
        }));
    };
    compare_with(repository, stored, name, file).await
}

/// The same with what was got from the repository.
pub(crate) async fn compare_with(
    repository: &Repository,
    stored: StoredWal,
    name: &str,
    file: &StableFile,
) -> Result<u64, ArchiveError> {
    let stored_bytes = stored.stored_bytes();
    if let StoredWal::Single(object) = &stored
        && is_rebuilt(name, file, object.clone()).await
    {
        return Ok(stored_bytes);
    }
    // What a get refuses is not archived, whatever its content.
    let is_single = matches!(stored, StoredWal::Single(_));
    match file.is_in(name, stored).await {
        Ok(true) => Ok(stored_bytes),
        Ok(false) if has_all_replayed(repository, name, file).await? => {
            tracing::warn!(
                "{name} is in the archive already, with the same records; what differs comes after the last one, and no \
                 server replays it"
            );
            Ok(stored_bytes)
        }
        Ok(false) => Err(ArchiveError::Duplicate {
            name: name.to_owned(),
        }),
        // A pack has others too, and what a later version wrote is not damaged.
        Err(error) if is_single && is_broken(&error) => Err(ArchiveError::DamagedThere {
            name: name.to_owned(),
            error: Box::new(error),
        }),
        Err(error) => Err(error),
    }
}

/// Whether the archived segment is this one, but for what comes after a switch record.
pub(crate) async fn is_in_up_to_switch(
    repository: &Repository,
    stored: StoredWal,
    (name, file): (&str, &StableFile),
) -> Result<bool, ArchiveError> {
    if file.is_in(name, stored).await? {
        return Ok(true);
    }
    let end = match difference(repository, name, (name, file)).await? {
        Some(at) => end_before(file, at, None).await?,
        None => None,
    };
    Ok(end.is_some_and(|end| end.is_switch))
}

/// Whether the archived segment has all that a server would replay of this one, and no server needs more: this one ends with
/// a switch, or its timeline was left there or later in it, as a history beside it says.
async fn has_all_replayed(
    repository: &Repository,
    name: &str,
    file: &StableFile,
) -> Result<bool, ArchiveError> {
    let Some(at) = difference(repository, name, (name, file)).await? else {
        return Ok(false);
    };
    for shared in left_in(name, file) {
        let end = end_before(file, at, Some(shared.end)).await?;
        if end.is_some_and(|end| end.offset <= shared.end) {
            return Ok(true);
        }
    }
    let end = end_before(file, at, None).await?;
    Ok(end.is_some_and(|end| end.is_switch))
}

/// Whether the first segment of a later timeline, of which a history lies beside this segment, has a copy of all that a server
/// would replay of this one: a recovery of the later timeline asks for that one. The copy is in the archive, or beside this
/// segment and waits to be archived; of a partial one, for which no recovery asks, it may have no mark yet.
pub(crate) async fn has_copy(
    repository: &Repository,
    name: &str,
    file: &StableFile,
) -> Result<bool, ArchiveError> {
    let is_partial = matches!(name.parse(), Ok(WalFileName::Partial(_)));
    for shared in left_in(name, file) {
        let copy = shared.first.to_string();
        let path = file.path().with_file_name(&copy);
        let archived = match difference(repository, &copy, (name, file)).await {
            Err(error) if is_damage(&error) => None,
            found => found?,
        };
        let beside = match is_partial || is_waiting(&path, &copy) {
            true => difference_beside(&path, file).await?,
            false => None,
        };
        for at in [archived, beside].into_iter().flatten() {
            let end = end_before(file, at, Some(shared.end)).await?;
            if end.is_some_and(|end| end.offset <= shared.end) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Where a segment first has another byte than what has a name in the archive, or where it ends; nothing of what is none, or
/// where nothing has the name. Where only the timelines in page headers differ, copies under other names are the same.
async fn difference(
    repository: &Repository,
    archived: &str,
    (name, file): (&str, &StableFile),
) -> Result<Option<usize>, ArchiveError> {
    let Ok(WalFileName::Segment(_) | WalFileName::Partial(_)) = name.parse() else {
        return Ok(None);
    };
    let (store, cluster) = (repository.store(), repository.cluster());
    let Some(stored) = StoredWal::get_unopened(store, cluster, archived).await? else {
        return Ok(None);
    };
    let found = file.first_difference(archived, stored, file.len()).await?;
    Ok(found.or((archived != name).then_some(file.len())))
}

/// The same with a file.
async fn difference_beside(path: &Path, file: &StableFile) -> Result<Option<usize>, ArchiveError> {
    let Ok(copy) = StableFile::open(path, PAGE_SIZE as u64).await else {
        return Ok(None);
    };
    let (copy, own) = (copy.content().await?, file.content().await?);
    let until = own.len().min(copy.len());
    let found = off_the_runtime(move || first_difference(0, &own, &copy)).await;
    Ok(Some(found.unwrap_or(until)))
}

/// [`replayed::end_before`] of a file.
async fn end_before(
    file: &StableFile,
    at: usize,
    left_at: Option<usize>,
) -> Result<Option<ReplayedEnd>, ArchiveError> {
    let own = file.content().await?;
    Ok(off_the_runtime(move || replayed::end_before(&own, at, left_at)).await)
}

/// Whether the server waits to have a segment archived.
fn is_waiting(path: &Path, name: &str) -> bool {
    path.with_file_name(format!("archive_status/{name}.ready"))
        .exists()
}

/// Whether a history that is archived was made of the WAL, and is otherwise this one.
async fn is_rebuilt(name: &str, file: &StableFile, object: Bytes) -> bool {
    let Ok(WalFileName::History(timeline)) = name.parse() else {
        return false;
    };
    let archived = StoredWal::Single(object).content(name).await;
    archived.is_ok_and(|archived| own_history::is_rebuilt_of(timeline, &archived, file.beginning()))
}

/// Whether an object can be decoded by nobody.
pub(crate) fn is_broken(error: &ArchiveError) -> bool {
    match error {
        ArchiveError::Damaged { .. } => true,
        ArchiveError::Undecodable { source, .. } => !matches!(
            source,
            DecodeError::UnsupportedVersion { .. } | DecodeError::Disproportionate { .. }
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use walzip_pgformat::wal::PageHeader;
    use walzip_repo::testing::memory_store;

    use super::*;
    use crate::push::{PushOptions, PushOutcome, push};
    use crate::wal::testing::{CLUSTER, Record, segment};

    const NUMBER: u64 = 3;
    const SEGMENT: &str = "000000010000000000000003";
    const PARTIAL: &str = "000000010000000000000003.partial";
    const FIRST: &str = "000000020000000000000003";
    /// Where the second record ends.
    const END: usize = 40 + 104 + 64;

    fn rows(lengths: &[usize], fill: u8) -> Vec<u8> {
        let rows: Vec<Record> = lengths.iter().map(|&len| Record::row(len, fill)).collect();
        segment(NUMBER, &rows)
    }

    /// Up to an end, and then what the file had before.
    fn with_remains(own: &[u8], end: usize, fill: u8) -> Vec<u8> {
        let older = [60, 60, 40, 60].map(|len| Record::row(len, fill));
        [&own[..end], &segment(NUMBER - 2, &older)[end..]].concat()
    }

    /// Two records, and remains.
    fn left_with(remains: u8) -> Vec<u8> {
        with_remains(&rows(&[100, 60], 1), END, remains)
    }

    /// What is pushed, and what is there.
    #[derive(Default)]
    struct Case<'a> {
        archived: &'a [u8],
        own: &'a [u8],
        /// Where a history in the directory says that timeline 2 left the first one.
        left_at: Option<usize>,
        /// The first segment of timeline 2 in the directory, and its mark.
        beside: Option<(&'a [u8], Option<&'a str>)>,
        /// The same in the archive.
        archived_first: Option<&'a [u8]>,
    }

    impl Case<'_> {
        async fn push(&self, name: &str) -> Result<PushOutcome, ArchiveError> {
            let repository = Repository::init(memory_store(), CLUSTER).await;
            let (repository, _) = repository.expect("a repository");
            let archived = [(name, Some(self.archived)), (FIRST, self.archived_first)];
            for (name, content) in archived {
                let Some(content) = content else { continue };
                let level = walzip_codec::Level::default();
                let object = walzip_codec::encode(content, level).expect("encoded");
                let put = repository.put_wal(name, object.into()).await;
                put.expect("archived");
            }
            let directory = tempfile::tempdir().expect("a directory");
            let status = directory.path().join("archive_status");
            fs::create_dir(&status).expect("made");
            let path = directory.path().join(name);
            fs::write(&path, self.own).expect("written");
            if let Some(at) = self.left_at {
                let history = format!("1\t0/{:X}\tx\n", (NUMBER << 20) + at as u64);
                fs::write(directory.path().join("00000002.history"), history).expect("written");
            }
            if let Some((content, mark)) = self.beside {
                fs::write(directory.path().join(FIRST), content).expect("written");
                if let Some(mark) = mark {
                    fs::write(status.join(format!("{FIRST}.{mark}")), "").expect("written");
                }
            }
            let pushed = push(&repository, &path, &PushOptions::default()).await;
            pushed.map(|pushed| pushed.outcome)
        }

        async fn is_archived(&self, name: &str) -> bool {
            match self.push(name).await {
                Ok(PushOutcome::AlreadyStored) => true,
                Err(ArchiveError::Duplicate { .. }) => false,
                other => panic!("{other:?}"),
            }
        }
    }

    /// Whether the second one is archived where the first one is, if timeline 2 left the first one there.
    async fn has(archived: &[u8], own: &[u8], left_at: Option<usize>) -> bool {
        let case = Case {
            archived,
            own,
            left_at,
            ..Case::default()
        };
        case.is_archived(SEGMENT).await
    }

    #[tokio::test]
    async fn what_the_file_had_before_it_got_its_name_does_not_tell_segments_apart() {
        let (one, other) = (left_with(3), left_with(4));
        for name in [SEGMENT, PARTIAL] {
            for (left_at, is_same) in [
                (Some(END), true),
                // Who archived it first was behind as well.
                (Some(END + 64), true),
                // Nothing says that the timeline was left here, or it was left before.
                (None, false),
                (Some(144), false),
            ] {
                let case = Case {
                    archived: &one,
                    own: &other,
                    left_at,
                    ..Case::default()
                };
                assert_eq!(case.is_archived(name).await, is_same);
            }
        }
        // The old primary went on.
        let longer = rows(&[100, 60, 80], 1);
        assert!(!has(&one, &longer, Some(END)).await);
        // What the archive has goes on.
        assert!(has(&longer, &one, Some(END)).await);
        // Other records.
        assert!(!has(&rows(&[100, 60], 2), &one, Some(END)).await);
    }

    #[tokio::test]
    async fn who_was_behind_has_nothing_that_the_archive_lacks() {
        let whole = left_with(4);
        let short = with_remains(&rows(&[100], 1), 144, 3);
        assert!(has(&whole, &short, Some(END)).await);
        assert!(has(&whole, &rows(&[100], 1), Some(END)).await);
        assert!(!has(&whole, &short, None).await);
        // It has another record where the archive's goes on.
        let other = [&rows(&[100], 1)[..144], &rows(&[100, 60], 2)[144..]].concat();
        assert!(!has(&whole, &other, Some(END)).await);
    }

    /// A server replays nothing behind damage. What is there may be found all the same.
    #[tokio::test]
    async fn records_behind_damage_are_no_remains() {
        let archived = rows(&[100, 60], 1);
        let with_damage = |own: &[u8], at: usize| {
            let mut own = own.to_vec();
            own[at] ^= 1;
            own
        };
        let longer = rows(&[100, 60, 80], 1);
        for at in [END - 60, END - 10] {
            let own = with_damage(&longer, at);
            assert!(!has(&archived, &own, Some(END)).await, "{at}");
        }
        let mut on_a_later_page = with_damage(&archived, END - 10);
        let page = 5 * PAGE_SIZE;
        let header = PageHeader {
            magic: 0xD110,
            flags: 0,
            timeline: 1,
            address: (NUMBER << 20) + page as u64,
            remaining_len: 0,
        };
        assert!(has(&archived, &on_a_later_page, Some(END)).await);
        on_a_later_page[page..page + PageHeader::SHORT_LEN].copy_from_slice(&header.to_bytes());
        assert!(!has(&archived, &on_a_later_page, Some(END)).await);
        // Behind the fork, too.
        let mut longer = with_damage(&longer, END + 20);
        longer[page..page + PageHeader::SHORT_LEN].copy_from_slice(&header.to_bytes());
        assert!(!has(&archived, &longer, Some(END)).await);
    }

    /// A server that crashes has begun what it has told nobody of.
    #[tokio::test]
    async fn a_record_that_was_being_written_is_no_reason_to_refuse() {
        let archived = left_with(3);
        let mut own = rows(&[100, 60, 80], 1);
        own[END + 40..].fill(0);
        assert!(has(&archived, &own, Some(END)).await);
        // It goes on for a page, and one more is missing.
        own[END..END + 4].copy_from_slice(&20_000_u32.to_le_bytes());
        let header = PageHeader {
            magic: 0xD110,
            flags: 1,
            timeline: 1,
            address: (NUMBER << 20) + PAGE_SIZE as u64,
            remaining_len: (20_000 - (PAGE_SIZE - END)) as u32,
        };
        own[PAGE_SIZE..PAGE_SIZE + PageHeader::SHORT_LEN].copy_from_slice(&header.to_bytes());
        assert!(has(&archived, &own, Some(END)).await);
        // All that is needed of it comes after another server's.
        assert!(!has(&archived, &own, Some(END - 8)).await);
    }

    #[tokio::test]
    async fn what_follows_a_switch_is_nobodys() {
        let switched = |fill| {
            let records = [
                Record::row(100, fill),
                Record::row(60, fill),
                Record::switch(),
            ];
            segment(NUMBER, &records)
        };
        let end = END + 24;
        let (whole, cut) = (switched(1), with_remains(&switched(1), end, 3));
        for (archived, own) in [(&whole, &cut), (&cut, &whole)] {
            assert!(has(archived, own, None).await);
        }
        assert!(!has(&switched(2), &cut, None).await);
        // The other server did not end its segment there.
        assert!(!has(&rows(&[100, 60], 1), &cut, None).await);
        assert!(!has(&rows(&[100, 60, 80], 1), &cut, None).await);
        assert!(!has(&cut, &rows(&[100, 60, 80], 1), None).await);
        // A page there has other bytes than zeros, and is of no older segment.
        let mut flipped = whole.clone();
        *flipped.last_mut().expect("bytes") ^= 1;
        assert!(!has(&whole, &flipped, None).await);
        let mut odd = whole.clone();
        let page = 5 * PAGE_SIZE;
        odd[page..page + 24].copy_from_slice(&whole[..24]);
        odd[page + 8..page + 16].copy_from_slice(&((NUMBER << 20) + page as u64).to_le_bytes());
        assert!(!has(&whole, &odd, None).await);
        odd[page + 8..page + 16].copy_from_slice(&((1 << 20) + page as u64).to_le_bytes());
        odd[page + 100] = 7;
        assert!(has(&whole, &odd, None).await);
    }

    #[tokio::test]
    async fn a_segment_is_not_needed_where_a_later_timeline_has_its_copy() {
        let (shorter, own) = (rows(&[100], 1), left_with(3));
        let (first, other) = (rows(&[100, 60, 200], 1), rows(&[100, 60, 200], 2));
        let longer = rows(&[100, 60, 80], 1);
        let of = |own, archived_first, beside| Case {
            archived: &shorter,
            own,
            left_at: Some(END),
            beside,
            archived_first,
        };
        let (ready, unmarked) = (Some((&*first, Some("ready"))), Some((&*first, None)));
        for name in [SEGMENT, PARTIAL] {
            assert!(of(&own, Some(&*first), None).is_archived(name).await);
            assert!(of(&own, None, ready).is_archived(name).await);
            assert!(!of(&own, None, None).is_archived(name).await);
            let of_another = Some((&*other, Some("ready")));
            assert!(!of(&own, None, of_another).is_archived(name).await);
            // It has records that the copy has not.
            assert!(!of(&longer, Some(&*first), ready).is_archived(name).await);
            // Nothing says that the server will archive it. No recovery asks for a partial one.
            let is_partial = name == PARTIAL;
            assert_eq!(of(&own, None, unmarked).is_archived(name).await, is_partial);
        }
        // Neither has all of what a third server has, and the copy has.
        let middle = with_remains(&rows(&[100, 40], 1), 144 + 40, 3);
        let of_middle = rows(&[100, 40, 60, 200], 1);
        let case = Case {
            left_at: Some(END + 40),
            ..of(&middle, Some(&*of_middle), None)
        };
        assert!(case.is_archived(SEGMENT).await);
        // Another server's copy: the archive's timeline 2 is not the one that left this.
        let refused = of(&own, Some(&*other), None).push(SEGMENT).await;
        assert!(matches!(refused, Err(ArchiveError::Duplicate { .. })));
    }
}
