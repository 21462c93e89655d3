//! Any bytes as the content of a member of an index, behind the checksums that let them through, with
//! any bytes as its table.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walzip_codec::{DecodeError, decode_index_chunk};
use walzip_fuzz::{entries, member};
use walzip_pgformat::PAGE_SIZE;

fuzz_target!(|input: &[u8]| {
    let Some((&[key, pages, blocks], rest)) = input.split_first_chunk() else {
        return;
    };
    let half = rest.len() / 2;
    let (table, content) = rest.split_at(half);
    let entries = entries(usize::from(key), usize::from(pages % 3), table);
    let len = usize::from(blocks % 4) * PAGE_SIZE;
    match decode_index_chunk(&member(5, &[], len, content), &entries) {
        Ok(_) => panic!("the original has another hash"),
        Err(DecodeError::Checksum(what)) => panic!("the {what} has a right checksum"),
        Err(_) => {}
    }
});
