//! Any bytes as blocks that are told from others, encoded and decoded again; and the member with a
//! byte of it changed: an error or the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_codec::{Extent, Level, decode_differences, encode_differences};
use walzip_pgformat::PAGE_SIZE;

/// A change has three bytes of position and one of value.
const CHANGE: usize = 4;

fuzz_target!(|input: &[u8]| {
    let Some((&[level, block, shift, unpaged], rest)) = input.split_first_chunk() else {
        return;
    };
    let Some((change, bytes)) = rest.split_at_checked(CHANGE) else {
        return;
    };
    // What is changed in a block is in the second half of the input.
    let (before, after) = bytes.split_at(bytes.len() / 2);
    let blocks = after.len().max(1).div_ceil(PAGE_SIZE);
    let mut base = vec![0; blocks * PAGE_SIZE];
    base.iter_mut()
        .zip(before.iter().cycle())
        .for_each(|(to, from)| *to = *from);
    let mut new = base.clone();
    let len = new.len();
    new.rotate_right(usize::from(shift) % len);
    new[len - after.len()..].copy_from_slice(after);
    let extents: Vec<Extent> = (0..blocks as u32)
        .map(|number| match number % 2 == 1 && unpaged & 1 != 0 {
            true => Extent::Bytes {
                len: PAGE_SIZE as u32,
            },
            false => Extent::Pages {
                relation: number % 3,
                first_block: u32::from(block) + number,
                pages: 1,
            },
        })
        .collect();
    let level = Level::new(level % 3 + 1).expect("1 to 9");
    let encoded = encode_differences(&extents, &new, &base, level, true);
    let mut member = encoded.expect("it is proven").expect("whole blocks");
    assert!(decode_differences(&member, &base).expect("what was encoded") == new);
    let at = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize % member.len();
    member[at] ^= change[3];
    if let Ok(decoded) = decode_differences(&member, &base) {
        assert!(decoded == new, "other bytes without an error");
    }
});
