//! Images that the server compressed, and that are not what its compressor makes of their pages.

use walzip_codec::{Header, Level, PageImages, decode, encode, encode_verified};
use walzip_pgformat::pglz::{CharSign, Compressor};
use walzip_pgformat::wal::{Compression, RecordLayout};
use walzip_testing::samples;

use crate::inputs::with_records;

/// Images so far behind the first ones that nothing is left to learn of the compressor, and not
/// as far apart as those that are tried nevertheless.
const FOREIGN: [usize; 2] = [200, 240];

#[test]
fn an_image_that_no_compressor_wrote_comes_back() {
    for workload in ["pgbench-lz4", "pgbench-pglz"] {
        let Some(sample) = samples::of_workload(workload) else {
            return;
        };
        let segment = with_records(&sample.read(), |records| {
            let mut images = records
                .iter_mut()
                .filter(|(layout, _)| image(layout).is_some());
            let mut at = 0;
            for foreign in FOREIGN {
                let (layout, record) = images.nth(foreign - at).expect("an image");
                make_foreign(layout, record);
                at = foreign + 1;
            }
        });
        for level in [Level::MIN, Level::default()] {
            let file = encode_verified(&segment, level).expect("encodes");
            assert_eq!(decode(&file), Ok(segment.clone()), "{workload}");
            assert!(Header::read(&file).expect("a header").identity.is_some());
            // Which tries every image.
            assert!(
                file == encode(&segment, level).expect("encodes"),
                "{workload}"
            );
        }
    }
}

/// A server whose `char` is unsigned makes another image of one page in a thousand here.
#[test]
fn images_of_the_compressor_that_is_not_expected_come_back() {
    let Some(sample) = samples::of_workload("pgbench-pglz") else {
        return;
    };
    let mut differing = 0;
    let segment = with_records(&sample.read(), |records| {
        let (mut images, mut compressor) = (PageImages::default(), Compressor::new());
        let mut packed = Vec::new();
        for (layout, record) in records {
            let Some((method, place, page_len)) = image(layout) else {
                continue;
            };
            let known = &record[place.clone()];
            let page = images.decompress(method, known, page_len).expect("a page");
            assert!(compressor.compress(page, &mut packed, CharSign::Unsigned));
            differing += usize::from(packed != known);
            let changed = layout.blocks.iter_mut().filter_map(|b| b.image.as_mut());
            let changed = changed.filter(|image| image.start == place.start);
            changed.for_each(|image| image.len = packed.len() as u16);
            record.splice(place, packed.iter().copied());
            layout.write_headers(record);
        }
    });
    assert!(differing > 0);
    let file = encode_verified(&segment, Level::MIN).expect("encodes");
    assert_eq!(decode(&file), Ok(segment.clone()));
    // Where each is tried, the flags change at the first image that tells the compressors apart,
    // unless this machine's `char` is unsigned too.
    let each = encode(&segment, Level::MIN).expect("encodes");
    assert_eq!(file.len() < each.len(), std::ffi::c_char::MIN != 0);
}

/// The method, the place and the bytes of the page of a record's compressed image.
fn image(layout: &RecordLayout) -> Option<(Compression, std::ops::Range<usize>, usize)> {
    let images = layout
        .blocks
        .iter()
        .filter_map(|block| block.image.as_ref());
    images
        .filter(|image| image.compression != Compression::None)
        .map(|image| {
            let place = image.start..image.start + usize::from(image.len);
            (image.compression, place, image.page_len())
        })
        .next()
}

/// Changes a byte so that the image still decompresses, but not as the server would write it.
fn make_foreign(layout: &RecordLayout, record: &mut [u8]) {
    let (method, place, page_len) = image(layout).expect("an image");
    let mut images = PageImages::default();
    for at in place.clone().rev() {
        record[at] ^= 1;
        let packed = &record[place.clone()];
        if let Some(page) = images.decompress(method, packed, page_len) {
            let page = page.to_vec();
            if images.compress(method, &page) != Some(packed) {
                return;
            }
        }
        record[at] ^= 1;
    }
    panic!("any change gives what the server writes");
}
