//! Any index of a pack of WAL, whose hashes are right, and any bytes as its segments.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_archive::ArchiveError;
use walzip_archive::packs::file::decode;

const HEADER: [u8; 16] = *b"WZPK\x03\x02\0\0\0\0\0\0\0\0\0\0";
const ENTRY_LEN: usize = 152;
const NAMES: [&str; 3] = [
    "000000010000000A000000FE",
    "000000010000000A000000FF",
    "000000010000000A00000100",
];

fuzz_target!(|input: &[u8]| {
    let Some((&[count, lie, from, to], rest)) = input.split_first_chunk() else {
        return;
    };
    let count = 1 + usize::from(count) % NAMES.len();
    let mut pack = HEADER.to_vec();
    let mut index = Vec::new();
    for (number, name) in NAMES.iter().take(count).enumerate() {
        let len = rest.len() / count;
        let bytes = &rest[number * len..(number + 1) * len];
        index.extend_from_slice(name.as_bytes());
        for value in [pack.len() as u64, len as u64, 1 << 20, 0] {
            index.extend_from_slice(&value.to_le_bytes());
        }
        index.extend_from_slice(blake3::hash(b"").as_bytes());
        index.extend_from_slice(blake3::hash(bytes).as_bytes());
        // No record and no end of a transaction, or some.
        let times = match lie % 2 {
            0 => [0, i64::MAX as u64, i64::MIN as u64, 0],
            _ => [
                0xA_0FE0_0028 + ((number as u64) << 20),
                5,
                5 + u64::from(from),
                u64::from(to),
            ],
        };
        for value in times {
            index.extend_from_slice(&value.to_le_bytes());
        }
        pack.extend_from_slice(bytes);
    }
    // One byte of the index is another one, and one is anywhere.
    let at = usize::from(from) % ENTRY_LEN;
    index[at] = index[at].wrapping_add(lie);
    let index_offset = pack.len() as u64;
    index.extend_from_slice(&index_offset.to_le_bytes());
    index.extend_from_slice(&(count as u32).to_le_bytes());
    index.extend_from_slice(&3_u32.to_le_bytes());
    let hash = blake3::hash(&index);
    pack.extend_from_slice(&index);
    pack.extend_from_slice(hash.as_bytes());
    pack.extend_from_slice(b"WZPKENDS");
    if to != 0 {
        let at = usize::from(to) * pack.len() / 256;
        pack[at] ^= from;
    }
    let decoded = decode(&pack, |_, _, _| Ok::<(), ArchiveError>(()));
    assert!(decoded.is_err(), "a segment of 1 MiB has the hash of none");
});
