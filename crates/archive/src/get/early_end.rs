//! Whether a recovery has come as far as it was said to.
//!
//! A server that finds no valid record where the next one has to be takes that for the end of its WAL, and opens the
//! database without a word. That is so after a segment of another server, too: by itself, it looks like the server's own.
//! Before it opens the database, a server asks for the history of the next timeline, to find a number that nobody
//! has (`findNewestTimeLine`, src/backend/access/transam/timeline.c, 15). By then the segments that it has restored are in
//! `pg_wal`.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use walzip_pgformat::wal::{EdgeReader, SegmentEdges, SegmentHeader};
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, PAGE_SIZE};

use crate::error::ArchiveError;
use crate::wal::expected_end::ExpectedEnd;

/// Refuses to let a recovery end that has not come to where it was expected to. One that has not begun may ask for
/// anything. Whether the archive has what follows, nobody is asked here.
pub fn refuse(data_directory: &Path, expected: ExpectedEnd) -> Result<(), ArchiveError> {
    let mut restored = restored(&data_directory.join("pg_wal"));
    // A segment of two timelines counts as the later one's.
    restored.sort_by_key(|segment| (segment.start, segment.name.timeline));
    // Where only later ones are left, the recovery has gone on for long.
    restored.retain(|of| of.start <= expected.lsn);
    for of in restored.windows(2) {
        // Others than the restored ones may lie there: somebody has put them there.
        if let [before, next] = of
            && before.end == next.start
            && before.name.timeline <= next.name.timeline
            && !continues(before, next)
        {
            return Err(refusal(before.name, expected));
        }
    }
    match restored.last() {
        Some(last) if last.end <= expected.lsn => Err(ArchiveError::EndedEarly {
            last: last.name,
            next: last.next,
            expected: expected.lsn,
        }),
        _ => Ok(()),
    }
}

/// The refusal where what follows is archived, and is not what the recovery needs.
pub fn refusal(last: SegmentName, ExpectedEnd { lsn, .. }: ExpectedEnd) -> ArchiveError {
    ArchiveError::Damaged {
        object: format!("the WAL after {last}"),
        reason: format!(
            "the recovery has ended before {lsn}, where it was expected to end. What follows does not continue \
             {last}: one of the two may be of another server that archived into the repository. To open the database \
             with what comes before, restore again with --target-lsn and a position that the server's log names"
        ),
    }
}

/// A segment that is in `pg_wal` under its name. What a server keeps there for later use has the content of another one.
struct Restored {
    name: SegmentName,
    path: PathBuf,
    start: Lsn,
    end: Lsn,
    next: SegmentName,
}

fn restored(pg_wal: &Path) -> Vec<Restored> {
    let entries = fs::read_dir(pg_wal).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let segment = |name: String| {
        let path = pg_wal.join(&name);
        let Ok(WalFileName::Segment(name)) = name.parse() else {
            return None;
        };
        let mut page = vec![0; PAGE_SIZE];
        File::open(&path).ok()?.read_exact(&mut page).ok()?;
        let header = SegmentHeader::read(&page).ok()?;
        let range = name.range(header.segment_size).ok()?;
        let next = name.next(header.segment_size).ok()?;
        (range.start == header.start).then_some(Restored {
            name,
            path,
            start: range.start,
            end: range.end,
            next,
        })
    };
    names.filter_map(segment).collect()
}

/// Whether a segment continues the one before, as far as they can be read.
fn continues(before: &Restored, last: &Restored) -> bool {
    match (edges(&before.path), edges(&last.path)) {
        (Some(before), Some(last)) => last.begin.discontinuity(&before.end).is_none(),
        _ => true,
    }
}

fn edges(segment: &Path) -> Option<SegmentEdges> {
    EdgeReader::read_from(File::open(segment).ok()?).ok()?
}

#[cfg(test)]
mod tests {
    use super::*;
    use walzip_testing::samples;

    /// A data directory with these segments in its `pg_wal`.
    fn with(segments: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
        let data = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(data.path().join("pg_wal")).expect("created");
        for (name, content) in segments {
            fs::write(data.path().join("pg_wal").join(name), content).expect("written");
        }
        data
    }

    fn name_of(text: &str) -> SegmentName {
        match text.parse() {
            Ok(WalFileName::Segment(name)) => name,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_recovery_has_to_come_as_far_as_it_was_expected_to() {
        let all = samples::all().iter();
        let all: Vec<(&str, Vec<u8>)> = all
            .filter(|sample| sample.workload == "oltp-steady")
            .map(|sample| {
                let name = sample.path.file_name().and_then(|name| name.to_str());
                (name.expect("a name"), sample.read())
            })
            .collect();
        let [first, second, third] = all.as_slice() else {
            assert!(all.is_empty(), "three segments in a row");
            return;
        };
        let end = SegmentHeader::read(&third.1).expect("a header").start;
        let expect = |lsn| ExpectedEnd { lsn, time: None };
        let in_second = expect(Lsn(end.0 - 1));
        let looked = |segments: &[(&str, Vec<u8>)], expected| {
            refuse(with(segments).path(), expected).map_err(|error| error.to_string())
        };
        assert_eq!(looked(&[], in_second), Ok(()), "it has not begun");
        assert_eq!(looked(&all, in_second), Ok(()));
        assert_eq!(looked(&all[..2], in_second), Ok(()));
        let said = looked(&all[..2], expect(end)).expect_err("the third is missing");
        assert!(said.contains(second.0), "{said}");
        // What is kept for later use.
        let recycled = (third.0, first.1.clone());
        let said = looked(&[first.clone(), second.clone(), recycled], expect(end));
        assert!(said.is_err());
        // Something later was there before the recovery, which has not come to the third.
        let later = "0000000100000000000000FF";
        let range = name_of(later).range(first.1.len() as u32).expect("a range");
        let mut copied = first.1.clone();
        copied[8..16].copy_from_slice(&range.start.0.to_le_bytes());
        let with_later = [first.clone(), second.clone(), (later, copied)];
        assert!(looked(&with_later, expect(end)).is_err());
        assert_eq!(looked(&with_later[2..], expect(end)), Ok(()), "long ago");
        // The last records of the first are not there, of which the second names one.
        let mut foreign = first.1.clone();
        let last_page = foreign.len() - PAGE_SIZE;
        foreign[last_page + 4096..].fill(0);
        let said = looked(&[(first.0, foreign), second.clone()], in_second).expect_err("other");
        assert!(said.contains(&format!("after {}", first.0)), "{said}");
        // Somebody has put the server's own there, which the recovery has not come to.
        let mut foreign = first.1.clone();
        foreign[last_page + 4096..].fill(0);
        let mixed = [(first.0, foreign), second.clone(), third.clone()];
        let said = looked(&mixed, expect(Lsn(end.0 + 1))).expect_err("other");
        assert!(said.contains(&format!("after {}", first.0)), "{said}");
    }
}
