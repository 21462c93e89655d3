//! Any bytes as the content of a member of differences, behind the checksums that let them through.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_codec::{DecodeError, decode_differences};
use walzip_fuzz::member;
use walzip_pgformat::PAGE_SIZE;

fuzz_target!(|input: &[u8]| {
    let Some((&[blocks, seed], content)) = input.split_first_chunk() else {
        return;
    };
    let len = usize::from(blocks % 4) * PAGE_SIZE;
    let base: Vec<u8> = (0..len).map(|at| (at as u8 ^ seed) & 0x3f).collect();
    let member = member(3, blake3::hash(&base).as_bytes(), len, content);
    match decode_differences(&member, &base) {
        Ok(_) => panic!("the original has another hash"),
        Err(DecodeError::Checksum(what)) => panic!("the {what} has a right checksum"),
        Err(DecodeError::OtherBase) => panic!("the base has this hash"),
        Err(_) => {}
    }
});
