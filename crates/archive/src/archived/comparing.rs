//! Whether what has a file's name already is the file, or has all that a server would replay of it.
//!
//! A server that is promoted, or follows one that was, archives the segment in which the timeline was left as it is: after the
//! last record there is what the file had before it got its name. So two servers have other bytes there, and the same WAL.

use bytes::Bytes;
use walzip_codec::DecodeError;
use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{RepoError, Repository};

use crate::archived::later_beside::left_in;
use crate::archived::own_history;
use crate::archived::shared_segment::end_of_replayed;
use crate::archived::stable_file::StableFile;
use crate::archived::stored_wal::StoredWal;
use crate::error::ArchiveError;

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

/// Whether the archived segment differs from this one only after the position at which the timeline was left, as a history
/// beside this one says, and a server would replay nothing of this one there.
async fn has_all_replayed(
    repository: &Repository,
    name: &str,
    file: &StableFile,
) -> Result<bool, ArchiveError> {
    let left_at: Vec<usize> = left_in(name, file).map(|shared| shared.end).collect();
    if left_at.is_empty() {
        return Ok(false);
    }
    let (store, cluster) = (repository.store(), repository.cluster());
    let Some(stored) = StoredWal::get_unopened(store, cluster, name).await? else {
        return Ok(false);
    };
    let Some(at) = file.first_difference(name, stored, file.len()).await? else {
        return Ok(false);
    };
    let end = end_of_replayed(file.content().await?).await;
    let is_behind = |end| left_at.into_iter().any(|left| end <= left && left <= at);
    Ok(end.is_some_and(is_behind))
}

/// Whether a later timeline, whose first segment lies beside a partial one, has a copy of all that a server would replay of
/// that: no recovery asks for the partial one then.
pub(crate) async fn has_copy_beside(name: &str, file: &StableFile) -> Result<bool, ArchiveError> {
    if !matches!(name.parse(), Ok(WalFileName::Partial(_))) {
        return Ok(false);
    }
    let mut later = left_in(name, file).peekable();
    if later.peek().is_none() {
        return Ok(false);
    }
    let own = file.content().await?;
    let end = end_of_replayed(own.clone()).await;
    for shared in later.filter(|shared| end.is_some_and(|end| end <= shared.end)) {
        let copy = file.path().with_file_name(shared.first.to_string());
        let Ok(copy) = StableFile::open(&copy, PAGE_SIZE as u64).await else {
            continue;
        };
        let copy = copy.content().await?;
        let copied = copy.get(..shared.end);
        if copied.is_some() && copied == own.get(..shared.end) {
            return Ok(true);
        }
    }
    Ok(false)
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

    use walzip_repo::testing::memory_store;

    use super::*;
    use crate::push::{PushOptions, PushOutcome, push};
    use crate::wal::testing::{CLUSTER, Record, segment};

    const SEGMENT: &str = "000000010000000000000001";
    const PARTIAL: &str = "000000010000000000000001.partial";
    /// Where the second record ends.
    const END: usize = 40 + 104 + 64;

    fn rows(lengths: &[usize], fill: u8) -> Vec<u8> {
        let rows: Vec<Record> = lengths.iter().map(|&len| Record::row(len, fill)).collect();
        segment(1, &rows)
    }

    /// Two records, and what the file had before.
    fn left_with(remains: u8) -> Vec<u8> {
        let own = rows(&[100, 60], 1);
        [&own[..END], &rows(&[60, 60, 40, 60], remains)[END..]].concat()
    }

    /// Pushes the one and then the other from another directory, in which timeline 2 left the first one there.
    async fn pushed(
        name: &str,
        (archived, own): (&[u8], &[u8]),
        left_at: Option<usize>,
        first_of_second: Option<&[u8]>,
    ) -> Result<PushOutcome, ArchiveError> {
        let repository = Repository::init(memory_store(), CLUSTER).await;
        let (repository, _) = repository.expect("a repository");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(name);
        fs::write(&path, archived).expect("written");
        let first = push(&repository, &path, &PushOptions::default()).await;
        first.expect("archived");
        fs::write(&path, own).expect("written");
        if let Some(at) = left_at {
            let history = format!("1\t0/{:X}\tx\n", (1 << 20) + at);
            fs::write(directory.path().join("00000002.history"), history).expect("written");
        }
        if let Some(content) = first_of_second {
            let copy = directory.path().join("000000020000000000000001");
            fs::write(copy, content).expect("written");
        }
        let pushed = push(&repository, &path, &PushOptions::default()).await;
        pushed.map(|pushed| pushed.outcome)
    }

    #[tokio::test]
    async fn what_the_file_had_before_it_got_its_name_does_not_tell_segments_apart() {
        let (one, other) = (left_with(3), left_with(4));
        for name in [SEGMENT, PARTIAL] {
            let same = pushed(name, (&one, &other), Some(END), None).await;
            assert_eq!(same.expect("the same WAL"), PushOutcome::AlreadyStored);
            // Nothing says that the timeline was left here, or it was left elsewhere.
            for left_at in [None, Some(END + 64), Some(144)] {
                let refused = pushed(name, (&one, &other), left_at, None).await;
                assert!(matches!(refused, Err(ArchiveError::Duplicate { .. })));
            }
        }
        // The old primary went on.
        let longer = rows(&[100, 60, 80], 1);
        let refused = pushed(SEGMENT, (&one, &longer), Some(END), None).await;
        assert!(matches!(refused, Err(ArchiveError::Duplicate { .. })));
        // What the archive has goes on.
        let same = pushed(SEGMENT, (&longer, &one), Some(END), None).await;
        assert_eq!(same.expect("all of it"), PushOutcome::AlreadyStored);
        // Other records.
        let refused = pushed(SEGMENT, (&rows(&[100, 60], 2), &one), Some(END), None).await;
        assert!(matches!(refused, Err(ArchiveError::Duplicate { .. })));
    }

    #[tokio::test]
    async fn a_partial_segment_is_not_needed_where_its_copy_is_there() {
        let (shorter, own) = (rows(&[100], 1), left_with(3));
        let first = rows(&[100, 60, 200], 1);
        let outcome = pushed(PARTIAL, (&shorter, &own), Some(END), Some(&first)).await;
        assert_eq!(outcome.expect("not needed"), PushOutcome::AlreadyStored);
        let other = rows(&[100, 60, 200], 2);
        for first in [None, Some(&*other)] {
            let refused = pushed(PARTIAL, (&shorter, &own), Some(END), first).await;
            assert!(matches!(refused, Err(ArchiveError::Duplicate { .. })));
        }
        // It has records that the copy has not.
        let longer = rows(&[100, 60, 80], 1);
        let refused = pushed(PARTIAL, (&shorter, &longer), Some(END), Some(&first)).await;
        assert!(matches!(refused, Err(ArchiveError::Duplicate { .. })));
        // A segment is asked for.
        let refused = pushed(SEGMENT, (&shorter, &own), Some(END), Some(&first)).await;
        assert!(matches!(refused, Err(ArchiveError::Duplicate { .. })));
    }
}
