//! Any bytes as the data of a mixed block, behind a directory of streams of several shapes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_codec::{DecodeError, MAGIC, VERSION, decode};

const SEGMENT_SIZE: u32 = 1 << 24;
const ORIGINAL_LEN: usize = 1 << 16;
/// The page magic of PostgreSQL 18.
const PAGE_MAGIC: u16 = 0xD118;
/// Three streams of kind 0 and one of kind 1: their lengths, widths and layouts follow.
const KINDS: &[u8] = &[0, 3, 1, 1, 255];
const WIDTHS: &[u8] = &[1, 4, 4, 2];
const LAYOUTS: &[u8] = &[0, 0, 1, 2];

fuzz_target!(|input: &[u8]| {
    let Some((lens, data)) = input.split_first_chunk::<4>() else {
        return;
    };
    match decode(&member(lens.map(|len| usize::from(len) * 16), data)) {
        Ok(original) => assert_eq!(original.len(), ORIGINAL_LEN),
        Err(DecodeError::Checksum(what)) => panic!("the {what} has a right checksum"),
        Err(_) => {}
    }
});

/// A member with a stored block for the directory and a mixed one (docs/format/mixing.md).
fn member(lens: [usize; 4], data: &[u8]) -> Vec<u8> {
    let mut directory = KINDS.to_vec();
    for len in lens {
        push_number(&mut directory, len);
    }
    directory.extend_from_slice(WIDTHS);
    directory.extend_from_slice(LAYOUTS);
    let mut content = Vec::new();
    push_number(&mut content, directory.len());
    content.extend_from_slice(&directory);

    let mut body = Vec::new();
    push_block(&mut body, 0, content.len(), &content);
    push_block(&mut body, 2, lens.iter().sum(), data);

    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&[VERSION, 1, 0]);
    file.extend_from_slice(&[0; 32]);
    file.extend_from_slice(&PAGE_MAGIC.to_le_bytes());
    file.extend_from_slice(&7u64.to_le_bytes());
    file.extend_from_slice(&1u32.to_le_bytes());
    file.extend_from_slice(&u64::from(SEGMENT_SIZE).to_le_bytes());
    file.extend_from_slice(&SEGMENT_SIZE.to_le_bytes());
    push_number(&mut file, ORIGINAL_LEN);
    push_number(&mut file, body.len());
    file.extend_from_slice(&crc32c::crc32c(&file).to_le_bytes());
    file.extend_from_slice(&body);
    file
}

fn push_block(body: &mut Vec<u8>, coding: u8, content_len: usize, data: &[u8]) {
    body.push(coding);
    push_number(body, content_len);
    push_number(body, data.len());
    body.extend_from_slice(&crc32c::crc32c(data).to_le_bytes());
    body.extend_from_slice(data);
}

fn push_number(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
