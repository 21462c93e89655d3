//! Any bytes as the content of a member of differences, behind the checksums that let them through.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_codec::{DecodeError, MAGIC, VERSION, decode_differences};
use walzip_pgformat::PAGE_SIZE;

fuzz_target!(|input: &[u8]| {
    let Some((&[blocks, seed], content)) = input.split_first_chunk() else {
        return;
    };
    let len = usize::from(blocks % 4) * PAGE_SIZE;
    let base: Vec<u8> = (0..len).map(|at| (at as u8 ^ seed) & 0x3f).collect();
    match decode_differences(&member(&base, content), &base) {
        Ok(_) => panic!("the original has another hash"),
        Err(DecodeError::Checksum(what)) => panic!("the {what} has a right checksum"),
        Err(DecodeError::OtherBase) => panic!("the base has this hash"),
        Err(_) => {}
    }
});

/// A member with one stored block (docs/format/container.md), told from this base. The hash of
/// the original is that of any other bytes.
fn member(base: &[u8], content: &[u8]) -> Vec<u8> {
    let mut body = vec![0];
    push_varint(&mut body, content.len());
    push_varint(&mut body, content.len());
    body.extend_from_slice(&crc32c::crc32c(content).to_le_bytes());
    body.extend_from_slice(content);

    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&[VERSION, 3, 1]);
    file.extend_from_slice(&[0; 32]);
    file.extend_from_slice(blake3::hash(base).as_bytes());
    file.push(0);
    push_varint(&mut file, base.len());
    push_varint(&mut file, body.len());
    file.extend_from_slice(&crc32c::crc32c(&file).to_le_bytes());
    file.extend_from_slice(&body);
    file
}

fn push_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
