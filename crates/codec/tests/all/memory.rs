//! What encoding and decoding hold at once, on the heap of Rust. libzstd's tables come on top:
//! `cargo run --release -p walzip-codec --example peak_memory` measures the whole process.

use walzip_codec::{Level, decode, encode};

use crate::counting_allocator::peak_of;
use crate::samples;

const MB: usize = 1 << 20;

/// The kinds of samples that need the most: images that the server compressed, by each method,
/// and pages with the most items.
const WORKLOADS: &[&str] = &[
    "pgbench-zstd",
    "pgbench-pglz",
    "pgbench-lz4",
    "pg18full-oltp-zstd",
    "oltp-mixed",
    "create-index",
];

#[test]
fn a_segment_of_16_mb_is_encoded_in_350_mb_and_decoded_in_280() {
    for workload in WORKLOADS {
        let Some(sample) = samples::of_workload(workload) else {
            return;
        };
        let segment = sample.read();
        let (file, encoding) = peak_of(|| encode(&segment, Level::default()));
        let file = file.expect("encodes");
        let (decoded, decoding) = peak_of(|| decode(&file));
        assert!(decoded.as_deref() == Ok(&segment[..]), "{workload}");
        // The segment and the file themselves are held besides.
        let (encoding, decoding) = (encoding + segment.len(), decoding + file.len());
        println!("{workload}: {} MB, {} MB", encoding / MB, decoding / MB);
        assert!(
            encoding <= 350 * MB,
            "{workload}: {} MB to encode",
            encoding / MB
        );
        assert!(
            decoding <= 280 * MB,
            "{workload}: {} MB to decode",
            decoding / MB
        );
    }
}
