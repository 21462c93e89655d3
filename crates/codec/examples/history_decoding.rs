//! Decodes the files that the example `history` has written to a folder, one after the other, and
//! goes past them.
//!
//! ```text
//! cargo run --release -p walzip-codec --example history_decoding -- FOLDER
//! ```

use std::time::Instant;

use walzip_codec::HistoryDecoder;

fn main() {
    let folder = std::env::args().nth(1).expect("a folder");
    let file = |number: u32| std::fs::read(format!("{folder}/{number}.wz")).ok();
    let files: Vec<_> = (0..).map_while(file).collect();
    let (mut decoder, mut passing) = (HistoryDecoder::new(), HistoryDecoder::new());
    let start = Instant::now();
    for file in &files {
        decoder.decode(file, &mut std::io::sink()).expect("decoded");
    }
    let decoded = start.elapsed().as_secs_f64() / files.len() as f64;
    let start = Instant::now();
    for file in &files {
        passing.pass(file).expect("passed");
    }
    let passed = start.elapsed().as_secs_f64() / files.len() as f64;
    assert!(passing.history_hash() == decoder.history_hash());
    println!(
        "{} segments: decoding {decoded:.4} s each, passing {passed:.4} s",
        files.len()
    );
}
