//! Any bytes as the content of a `.wz` member, behind the checksums that let them through.
//!
//! Checksums keep [`codec_decode`] from the streams; here every input reaches them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_codec::{DecodeError, decode};
use walzip_fuzz::member;
use walzip_pgformat::version::VERSIONS;

const SEGMENT_SIZE: u32 = 1 << 24;

fuzz_target!(|input: &[u8]| {
    let Some((&[major, a, b, c], content)) = input.split_first_chunk() else {
        return;
    };
    let version = &VERSIONS[usize::from(major & 0x7F) % VERSIONS.len()];
    // Told from its own pages, or not.
    let kind = if major & 0x80 != 0 { 6 } else { 1 };
    let original_len = u32::from_le_bytes([a, b, c, 0]);
    let file = member(
        kind,
        &identity(version.page_magic),
        original_len as usize,
        content,
    );
    match decode(&file) {
        Ok(original) => assert_eq!(original.len(), original_len as usize),
        Err(DecodeError::Checksum(what)) => panic!("the {what} has a right checksum"),
        Err(_) => {}
    }
});

/// Of the second segment of a cluster.
fn identity(page_magic: u16) -> Vec<u8> {
    let mut identity = page_magic.to_le_bytes().to_vec();
    identity.extend_from_slice(&7u64.to_le_bytes());
    identity.extend_from_slice(&1u32.to_le_bytes());
    identity.extend_from_slice(&u64::from(SEGMENT_SIZE).to_le_bytes());
    identity.extend_from_slice(&SEGMENT_SIZE.to_le_bytes());
    identity
}
