//! Any bytes as the content of a `.wz` member, behind the checksums that let them through.
//!
//! Checksums keep [`codec_decode`] from the streams; here every input reaches them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_codec::{DecodeError, MAGIC, VERSION, decode};
use walzip_pgformat::version::VERSIONS;

const SEGMENT_SIZE: u32 = 1 << 24;

fuzz_target!(|input: &[u8]| {
    let Some((&[major, a, b, c], content)) = input.split_first_chunk() else {
        return;
    };
    let version = &VERSIONS[usize::from(major) % VERSIONS.len()];
    let original_len = u32::from_le_bytes([a, b, c, 0]);
    let file = member(version.page_magic, original_len, content);
    match decode(&file) {
        Ok(original) => assert_eq!(original.len(), original_len as usize),
        Err(DecodeError::Checksum(what)) => panic!("the {what} has a right checksum"),
        Err(_) => {}
    }
});

/// A member with one stored block (docs/format/container.md). The hash of the original is
/// that of any other bytes.
fn member(page_magic: u16, original_len: u32, content: &[u8]) -> Vec<u8> {
    let mut body = vec![0];
    push_varint(&mut body, content.len());
    push_varint(&mut body, content.len());
    body.extend_from_slice(&crc32c::crc32c(content).to_le_bytes());
    body.extend_from_slice(content);

    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&[VERSION, 1, 0]);
    file.extend_from_slice(&[0; 32]);
    file.extend_from_slice(&page_magic.to_le_bytes());
    file.extend_from_slice(&7u64.to_le_bytes());
    file.extend_from_slice(&1u32.to_le_bytes());
    file.extend_from_slice(&u64::from(SEGMENT_SIZE).to_le_bytes());
    file.extend_from_slice(&SEGMENT_SIZE.to_le_bytes());
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
