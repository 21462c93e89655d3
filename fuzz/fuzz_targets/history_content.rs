//! Any bytes as the content of a member that is told from the WAL before it, after segments of a
//! server.
#![no_main]

use std::io;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use walzip_codec::{DecodeError, DecodeToError, HistoryDecoder, MAGIC, VERSION};

fuzz_target!(|input: &[u8]| {
    let Some((&length, content)) = input.split_first() else {
        return;
    };
    let mut decoder = HistoryDecoder::new();
    for file in golden() {
        decoder.decode(file, &mut io::sink()).expect("a golden file");
    }
    let member = member(u32::from(length) * 8192, content);
    match decoder.decode(&member, &mut io::sink()) {
        Err(DecodeToError::Decode(DecodeError::Checksum(what))) => {
            panic!("the {what} has a right checksum")
        }
        _ => {}
    }
});

fn golden() -> &'static [Vec<u8>] {
    static GOLDEN: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    GOLDEN.get_or_init(|| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/codec/tests/golden/history/pg13");
        let read = |number| std::fs::read(format!("{folder}/v7_{number}.wz")).expect("a golden file");
        (0..2).map(read).collect()
    })
}

/// A member with one stored block (docs/format/container.md), of the segment after the golden
/// ones. The hash of the original is that of any other bytes.
fn member(original_len: u32, content: &[u8]) -> Vec<u8> {
    let mut body = vec![0];
    push_varint(&mut body, content.len());
    push_varint(&mut body, content.len());
    body.extend_from_slice(&crc32c::crc32c(content).to_le_bytes());
    body.extend_from_slice(content);

    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&[VERSION, 4, 1]);
    file.extend_from_slice(&[0; 32]);
    let identity = golden()[1].get(39..39 + 26).expect("an identity");
    file.extend_from_slice(identity);
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
