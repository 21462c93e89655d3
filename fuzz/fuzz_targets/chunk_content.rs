//! Any bytes as the content of a member of pages, behind the checksums that let them through.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_codec::{DecodeError, decode};
use walzip_fuzz::member;

fuzz_target!(|input: &[u8]| {
    let Some((&[a, b, c], content)) = input.split_first_chunk() else {
        return;
    };
    let original_len = u32::from_le_bytes([a, b, c, 0]);
    match decode(&member(2, &[], original_len as usize, content)) {
        Ok(original) => assert_eq!(original.len(), original_len as usize),
        Err(DecodeError::Checksum(what)) => panic!("the {what} has a right checksum"),
        Err(_) => {}
    }
});
