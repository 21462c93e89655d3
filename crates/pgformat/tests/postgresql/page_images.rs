//! Page images that servers compressed with pglz come out of our pglz bit for bit.

use walzip_pgformat::pglz::{CharSign, Compressor, decompress};
use walzip_pgformat::wal::{Compression, Event, RecordLayout, SegmentReader};
use walzip_testing::samples;

use crate::beginnings::BEGINNINGS;

/// Calls `visit` with each pglz image of a segment and with its length when decompressed.
fn for_each_pglz_image(segment: &[u8], mut visit: impl FnMut(&[u8], usize)) {
    let mut reader = SegmentReader::new(segment).expect("a segment");
    let mut layout = RecordLayout::default();
    while let Some(event) = reader.next_event(&mut layout) {
        let Event::Record { .. } = event else {
            continue;
        };
        for image in layout.blocks.iter().filter_map(|block| block.image) {
            if image.compression == Compression::Pglz {
                let end = image.start + usize::from(image.len);
                visit(&reader.bytes()[image.start..end], image.page_len());
            }
        }
    }
}

/// Takes every image apart and makes it again; the result is how many there were.
fn remake_images(segment: &[u8]) -> usize {
    let mut compressor = Compressor::new();
    let (mut page, mut again, mut count) = (Vec::new(), Vec::new(), 0);
    for_each_pglz_image(segment, |image, page_len| {
        page.clear();
        page.resize(page_len, 0);
        decompress(image, &mut page).expect("what a server compressed");
        assert!(
            compressor.compress(&page, &mut again, CharSign::Signed),
            "image {count}"
        );
        assert!(again == image, "image {count}");
        count += 1;
    });
    count
}

#[test]
fn remakes_every_pglz_image_of_the_samples() {
    for sample in samples::all() {
        let count = remake_images(&sample.read());
        let is_pglz =
            ["pg14-oltp-on", "pg18-oltp-pglz", "pgbench-pglz"].contains(&sample.workload.as_str());
        assert_eq!(
            count > 0,
            is_pglz,
            "{}: {count} images",
            sample.path.display()
        );
    }
}

#[test]
fn remakes_the_pglz_images_at_the_beginning_of_segments() {
    let counts = BEGINNINGS.iter().map(|(_, pages)| remake_images(pages));
    assert!(counts.sum::<usize>() > 0);
}

#[test]
fn compresses_otherwise_where_char_is_unsigned() {
    let mut compressor = Compressor::new();
    let (mut page, mut again, mut differing, mut count) = (Vec::new(), Vec::new(), 0, 0);
    for (_, pages) in BEGINNINGS {
        for_each_pglz_image(pages, |image, page_len| {
            page.clear();
            page.resize(page_len, 0);
            decompress(image, &mut page).expect("what a server compressed");
            assert!(compressor.compress(&page, &mut again, CharSign::Unsigned));
            differing += usize::from(again != image);
            count += 1;
            let unsigned = again.clone();
            let mut back = vec![0; page_len];
            decompress(&unsigned, &mut back).expect("what we compressed");
            assert!(back == page);
        });
    }
    assert!(differing > 0, "{count} images");
}
