//! Rows on page images, from which updates and other images are told.

use walzip_codec::{Header, Level, MemberKind, decode, encode, encode_verified};

/// Updates of two pages between three checkpoints, so that the same rows are on images again.
const GOLDEN: &[u8] = include_bytes!("../golden/v15_image_rows.wz");

#[test]
fn rows_that_are_on_images_again_come_back_at_each_level() {
    let segment = decode(GOLDEN).expect("decodes");
    for level in 1..=9 {
        let level = Level::new(level).expect("a level");
        let file = encode_verified(&segment, level).expect("encodes");
        assert!(decode(&file).as_deref() == Ok(&segment[..]), "{level}");
    }
}

/// Each image of a page has all of its rows; but they take hardly more than those of the first one.
#[test]
fn an_image_with_the_rows_of_another_one_takes_little() {
    let segment = decode(GOLDEN).expect("decodes");
    let len = |pages: usize| {
        let file = encode(&segment[..pages * 8192], Level::default()).expect("encodes");
        let header = Header::read(&file).expect("a header");
        assert_eq!(header.kind, MemberKind::Wal);
        file.len()
    };
    // The images of the table's pages after the first checkpoint are on pages 0 and 1, those after
    // the second and the third one behind them.
    let (first, all) = (len(2), len(4));
    assert!(all < first * 3 / 2, "{first} bytes, then {all}");
}
