//! Any bytes as the content of a member that is told from the WAL before it, after segments of a
//! server.
#![no_main]

use std::io;

use libfuzzer_sys::fuzz_target;
use walzip_codec::{DecodeError, DecodeToError, HistoryDecoder};
use walzip_fuzz::member;

const GOLDEN: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../crates/codec/tests/golden/history"
);
/// How the first files of two sequences begin: of an old format, and with tables of indexes.
const SEQUENCES: [&str; 2] = ["pg15_changes/v7_", "v13_pg16_rows/"];

fuzz_target!(|input: &[u8]| {
    let Some((&pages, content)) = input.split_first() else {
        return;
    };
    let sequence = usize::from(pages >> 7);
    let (mut decoder, identity) = BEGUN.with(|begun| begun[sequence].clone());
    let member = member(4, &identity, usize::from(pages & 0x7F) * 8192, content);
    match decoder.decode(&member, &mut io::sink()) {
        Ok(()) => panic!("the original has another hash"),
        Err(DecodeToError::Decode(DecodeError::Checksum(what))) => {
            panic!("the {what} has a right checksum")
        }
        Err(_) => {}
    }
});

thread_local! {
    /// A decoder of two segments of each sequence, and the identity of the third one.
    static BEGUN: [(HistoryDecoder, Vec<u8>); 2] = SEQUENCES.map(begun);
}

fn begun(sequence: &str) -> (HistoryDecoder, Vec<u8>) {
    let read =
        |number| std::fs::read(format!("{GOLDEN}/{sequence}{number}.wz")).expect("a golden file");
    let mut decoder = HistoryDecoder::new();
    for number in 0..2 {
        let decoded = decoder.decode(&read(number), &mut io::sink());
        decoded.expect("a golden file decodes");
    }
    let identity = read(2).get(39..39 + 26).expect("an identity").to_vec();
    (decoder, identity)
}
