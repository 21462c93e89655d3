//! Any bytes as the content of a member of pages, behind the checksums that let them through.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_codec::{DecodeError, MAGIC, VERSION, decode};

fuzz_target!(|input: &[u8]| {
    let Some((&[a, b, c], content)) = input.split_first_chunk() else {
        return;
    };
    let original_len = u32::from_le_bytes([a, b, c, 0]);
    match decode(&member(original_len, content)) {
        Ok(original) => assert_eq!(original.len(), original_len as usize),
        Err(DecodeError::Checksum(what)) => panic!("the {what} has a right checksum"),
        Err(_) => {}
    }
});

/// A member with one stored block (docs/format/container.md). The hash of the original is
/// that of any other bytes.
fn member(original_len: u32, content: &[u8]) -> Vec<u8> {
    let mut body = vec![0];
    push_varint(&mut body, content.len());
    push_varint(&mut body, content.len());
    body.extend_from_slice(&crc32c::crc32c(content).to_le_bytes());
    body.extend_from_slice(content);

    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&[VERSION, 2, 0]);
    file.extend_from_slice(&[0; 32]);
    file.push(0);
    push_varint(&mut file, original_len as usize);
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
