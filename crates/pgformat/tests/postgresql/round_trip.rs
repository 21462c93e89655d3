//! What the segment reader takes apart, the segment writer puts together again, to the byte.

use walzip_testing::samples;

use crate::beginnings::BEGINNINGS;
use crate::rewrite::rewritten;

#[test]
fn writes_every_sample_back_identically() {
    for sample in samples::all() {
        let segment = sample.read();
        let (written, counts) = rewritten(&segment).expect("a segment");
        assert!(written == segment, "{}", sample.path.display());
        // A segment is one run of records up to the last record that fits or to a switch.
        assert_eq!(counts.runs, 1, "{}", sample.path.display());
        assert!(counts.records > 0, "{}", sample.path.display());
        let behind = &segment[segment.len() - counts.other_bytes..];
        assert!(
            behind.iter().all(|byte| *byte == 0),
            "{}",
            sample.path.display()
        );
    }
}

#[test]
fn writes_the_beginning_of_a_segment_of_every_major_back_identically() {
    for (name, pages) in BEGINNINGS {
        let (written, counts) = rewritten(pages).expect(name);
        assert!(written == *pages, "{name}");
        assert!(
            counts.records > 0 && counts.other_bytes == 0,
            "{name}: {counts:?}"
        );
    }
}

#[test]
fn writes_every_length_of_the_beginning_of_a_segment_back_identically() {
    for (name, pages) in BEGINNINGS {
        for len in 0..pages.len() {
            match rewritten(&pages[..len]) {
                Some((written, _)) => assert!(written == pages[..len], "{name}: {len} bytes"),
                None => assert!(len < 40, "{name}: {len} bytes"),
            }
        }
    }
}
