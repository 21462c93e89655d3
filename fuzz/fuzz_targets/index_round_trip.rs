//! Any bytes as pages of an index that is told from any bytes as its table, encoded and decoded again;
//! and the member with a byte of it changed: an error or the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_codec::{ChunkEncoder, Extent, Level, decode, decode_index_chunk};
use walzip_fuzz::entries;
use walzip_pgformat::PAGE_SIZE;

/// A change has three bytes of position and one of value.
const CHANGE: usize = 4;

fuzz_target!(|input: &[u8]| {
    let Some((&[key, pages, level], rest)) = input.split_first_chunk() else {
        return;
    };
    let Some((change, bytes)) = rest.split_at_checked(CHANGE) else {
        return;
    };
    let (table, index) = bytes.split_at(bytes.len() / 2);
    let entries = entries(usize::from(key), usize::from(pages % 3), table);
    let blocks = index.len().max(1).div_ceil(PAGE_SIZE);
    let mut chunk = index.to_vec();
    chunk.resize(blocks * PAGE_SIZE, 0);
    let extents = [Extent::Pages {
        relation: 0,
        first_block: 1,
        pages: blocks as u32,
    }];
    let level = Level::new(level % 3 + 1).expect("1 to 9");
    let encoded = ChunkEncoder::new(level, true).encode_index(&extents, &chunk, &entries);
    let (mut member, is_told) = encoded.expect("it is proven");
    if !is_told {
        assert!(decode(&member).expect("what was encoded") == chunk);
        return;
    }
    assert!(decode_index_chunk(&member, &entries).expect("what was encoded") == chunk);
    let at = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize % member.len();
    member[at] ^= change[3];
    if let Ok(decoded) = decode_index_chunk(&member, &entries) {
        assert!(decoded == chunk, "other bytes without an error");
    }
});
