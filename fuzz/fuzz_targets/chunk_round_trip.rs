//! Any bytes as pages of relations, encoded and decoded again; and the file with bytes of it
//! changed: an error or the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_codec::{Extent, Level, decode, encode_chunk};
use walzip_pgformat::PAGE_SIZE;

/// A change has three bytes of position and one of value.
const CHANGE: usize = 4;

fuzz_target!(|input: &[u8]| {
    let Some((&[level, block, relations, unpaged], rest)) = input.split_first_chunk() else {
        return;
    };
    let Some((change, bytes)) = rest.split_at_checked(CHANGE) else {
        return;
    };
    // A short input is a page with zeros in its middle, where pages have their holes.
    let mut pages = bytes.to_vec();
    let missing = bytes.len().next_multiple_of(PAGE_SIZE) - bytes.len();
    let middle = bytes.len() / PAGE_SIZE * PAGE_SIZE + bytes.len() % PAGE_SIZE / 2;
    pages.splice(middle..middle, std::iter::repeat_n(0, missing));
    let mut extents = Vec::new();
    for number in 0..(pages.len() / PAGE_SIZE) as u32 {
        extents.push(match number % 8 == 7 && unpaged & 1 != 0 {
            true => Extent::Bytes {
                len: PAGE_SIZE as u32,
            },
            false => Extent::Pages {
                relation: number % (u32::from(relations) + 1),
                first_block: u32::from(block) + number,
                pages: 1,
            },
        });
    }
    let level = Level::new(level % 3 + 1).expect("1 to 9");
    let mut file = encode_chunk(&extents, &pages, level, true).expect("any pages can be encoded");
    assert!(decode(&file).expect("what was encoded") == pages);
    let at = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize % file.len();
    file[at] ^= change[3];
    if let Ok(decoded) = decode(&file) {
        assert!(decoded == pages, "other bytes without an error");
    }
});
