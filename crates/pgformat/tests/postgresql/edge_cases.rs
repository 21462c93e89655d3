//! Segments that servers write only when something happened: a crash in the middle of a
//! record, a promotion. PostgreSQL 15 wrote those in data/segments, 1 MiB each:
//!
//! - `overwritten_within`: the server crashed, the rest of a record that goes on over pages
//!   was lost, and the log went on from the page where the loss begins.
//! - `overwritten_at_start`: the same, with the loss at the boundary of two segments.
//! - `new_timeline`: a promotion; the pages up to it are copies from the old timeline.
//! - `recycled_partial`: what a promotion left of the old timeline's last segment, in a file
//!   whose pages were used before.

use std::fs;
use std::path::{Path, PathBuf};

use walzip_pgformat::wal::{Event, FIRST_IS_CONTRECORD, PageState, RecordLayout, SegmentReader};
use walzip_pgformat::{Lsn, PAGE_SIZE};
use walzip_testing::samples;

use crate::pg_waldump;
use crate::rewrite::rewritten;

const SEGMENT_LEN: usize = 1 << 20;
/// `XLP_FIRST_IS_OVERWRITE_CONTRECORD` up to 18.
const OVERWRITE_CONTRECORD: u16 = 8;
/// `XLP_BKP_REMOVABLE`, which pages have when no backup runs.
const BACKUP_REMOVABLE: u16 = 4;

fn segment(case: &str, name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/segments");
    let segment = samples::unpacked(&folder.join(case).join(format!("{name}.xz")));
    assert_eq!(segment.len(), SEGMENT_LEN);
    let (written, _) = rewritten(&segment).expect("a segment");
    assert!(
        written == segment,
        "{case}/{name} is not written back identically"
    );
    segment
}

/// The events other than records, and the positions of the records.
fn outline(segment: &[u8]) -> (Vec<Event>, Vec<Lsn>) {
    let mut reader = SegmentReader::new(segment).expect("a segment");
    let mut layout = RecordLayout::default();
    let (mut events, mut records) = (Vec::new(), Vec::new());
    while let Some(event) = reader.next_event(&mut layout) {
        match event {
            Event::Record { lsn } => records.push(lsn),
            event => events.push(event),
        }
    }
    (events, records)
}

fn run_start(page: u32, flags: u16, timeline: u32, remaining_len: u32) -> Event {
    Event::RunStart {
        state: PageState {
            page,
            flags,
            timeline,
        },
        remaining_len,
    }
}

#[test]
fn reads_on_behind_a_record_whose_rest_was_lost_within_a_segment() {
    let segment = segment("overwritten_within", "00000001000000000000000C");
    let (events, records) = outline(&segment);
    let switch_end = 0x4988;
    let expected = [
        run_start(0, BACKUP_REMOVABLE, 1, 0),
        Event::Tail {
            lsn: Lsn(0xC0_08A8),
        },
        Event::RunEnd {
            offset: 2 * PAGE_SIZE,
        },
        run_start(2, BACKUP_REMOVABLE | OVERWRITE_CONTRECORD, 1, 0),
        Event::RunEnd { offset: switch_end },
        Event::Other {
            start: switch_end,
            end: SEGMENT_LEN,
        },
    ];
    assert_eq!(events, expected);
    assert_eq!(records.len(), 7);
}

#[test]
fn reads_a_segment_that_begins_in_place_of_a_lost_rest() {
    let (events, _) = outline(&segment("overwritten_at_start", "00000001000000000000000D"));
    assert_eq!(
        events[1..],
        [
            Event::Tail {
                lsn: Lsn(0xDF_0078)
            },
            Event::RunEnd {
                offset: SEGMENT_LEN
            }
        ]
    );
    let (events, records) = outline(&segment("overwritten_at_start", "00000001000000000000000E"));
    assert_eq!(
        events[0],
        run_start(0, BACKUP_REMOVABLE | OVERWRITE_CONTRECORD, 1, 0)
    );
    assert_eq!(records.first(), Some(&Lsn(0xE0_0028)));
}

#[test]
fn reads_over_a_change_of_timeline_within_a_segment() {
    let segment = segment("new_timeline", "000000020000000000000018");
    let mut reader = SegmentReader::new(&segment).expect("a segment");
    let mut layout = RecordLayout::default();
    let mut timelines = Vec::new();
    while let Some(event) = reader.next_event(&mut layout) {
        match event {
            Event::RunStart { state, .. } => timelines.push((state.page, state.timeline)),
            Event::RunEnd { .. } => {
                let changes = reader.changes().iter();
                timelines.extend(changes.map(|change| (change.page, change.timeline)));
            }
            _ => {}
        }
    }
    timelines.dedup_by_key(|(_, timeline)| *timeline);
    assert_eq!(timelines, [(0, 1), (85, 2)]);
}

#[test]
fn takes_no_record_from_the_recycled_bytes_behind_the_last_one() {
    let segment = segment("recycled_partial", "000000010000000000000013.partial");
    // They are records, at the positions of an earlier segment.
    let recycled = walzip_pgformat::wal::PageHeader::read(&segment[PAGE_SIZE..]).expect("a page");
    assert_eq!(
        (recycled.address, recycled.flags & FIRST_IS_CONTRECORD),
        (0xE0_2000, 1)
    );
    let (events, records) = outline(&segment);
    let end = 0xB58;
    let expected = [
        run_start(0, BACKUP_REMOVABLE, 1, 0),
        Event::RunEnd { offset: end },
        Event::Other {
            start: end,
            end: SEGMENT_LEN,
        },
    ];
    assert_eq!(events, expected);
    assert!(
        records
            .iter()
            .all(|lsn| (0x130_0000..0x130_0000 + end as u64).contains(&lsn.0))
    );
}

#[test]
fn reads_the_same_records_as_pg_waldump_in_all_of_them() {
    let Some(program) = pg_waldump::program(15) else {
        return walzip_testing::not_run("there is no pg_waldump of 15");
    };
    for (case, file) in [
        ("overwritten_within", "00000001000000000000000C"),
        ("overwritten_at_start", "00000001000000000000000D"),
        ("overwritten_at_start", "00000001000000000000000E"),
        ("new_timeline", "000000020000000000000018"),
        ("recycled_partial", "000000010000000000000013.partial"),
    ] {
        let segment = segment(case, file);
        let path = under_a_segments_name(case, file, &segment);
        assert!(
            pg_waldump::compare(&path, &program, &segment) > 0,
            "{case}/{file}"
        );
    }
}

/// Writes the segment to where `pg_waldump`, which knows no `.partial`, reads it.
fn under_a_segments_name(case: &str, file: &str, segment: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(case);
    fs::create_dir_all(&folder).expect("the target directory is writable");
    let path = folder.join(file.trim_end_matches(".partial"));
    fs::write(&path, segment).expect("the target directory is writable");
    path
}
