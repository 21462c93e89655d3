//! What encoding and decoding hold at once, on the heap of Rust. libzstd's tables come on top:
//! `cargo run --release -p walzip-codec --example peak_memory` measures the whole process.

use walzip_codec::{Header, Level, decode, encode, limits};
use walzip_pgformat::wal::{
    Block, PageState, RecordLayout, RelFileLocator, SegmentHeader, SegmentWriter,
};

use walzip_testing::samples;

use crate::counting_allocator::peak_of;
use crate::inputs::BEGINNINGS;

const MB: usize = 1 << 20;

/// The kinds of samples that need the most: images that the server compressed, by each method,
/// and pages with the most items.
const WORKLOADS: &[(&str, u8)] = &[
    // Its images expand most, and it is too long to be mixed.
    ("pgbench-zstd", 9),
    // And its pages are kept.
    ("pgbench-zstd", 8),
    ("pgbench-pglz", 3),
    ("pgbench-lz4", 3),
    ("pg18full-oltp-zstd", 3),
    ("oltp-mixed", 3),
    ("create-index", 3),
];

#[test]
fn a_segment_of_16_mb_is_encoded_in_350_mb_and_decoded_in_280() {
    for &(workload, level) in WORKLOADS {
        let Some(sample) = samples::of_workload(workload) else {
            return;
        };
        let segment = sample.read();
        let level = Level::new(level).expect("a level");
        let (file, encoding) = peak_of(|| encode(&segment, level));
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

/// A segment of records without data, each of which refers to relations of its own: `blocks`
/// of them in `records` records. Nothing takes more memory for so few bytes.
fn segment_of_relations(records: u32, blocks: u32) -> Vec<u8> {
    let mut header = BEGINNINGS[2].1[..40].to_vec();
    header[32..36].copy_from_slice(&(64u32 << 20).to_le_bytes());
    header[8..16].fill(0);
    let header = SegmentHeader::read(&header).expect("a header");
    let mut writer = SegmentWriter::new(header, 0);
    let state = PageState {
        page: 0,
        flags: 0,
        timeline: 1,
    };
    writer.start_run(state, 0, Vec::new());
    let mut layout = RecordLayout::default();
    for number in 0..records {
        layout.header.rmid = 10;
        layout.blocks.clear();
        layout.blocks.extend((0..blocks).map(|block| Block {
            id: block as u8,
            fork_flags: 0,
            data_len: 0,
            data_start: 0,
            image: None,
            locator: RelFileLocator {
                tablespace: 1663,
                database: 5,
                relation: number * blocks + block,
            },
            number: 0,
        }));
        let mut record = vec![0; layout.headers_len()];
        layout.write_headers(&mut record);
        writer.record(&record);
    }
    writer.into_bytes()
}

#[test]
fn more_kinds_and_relations_than_the_format_has_are_carried_as_foreign_bytes() {
    let kinds = limits::KINDS_MAX as u32;
    let blocks = limits::KIND_BLOCKS_MAX as u32;
    let full = limits::KIND_BLOCKS_TOTAL_MAX as u32 / blocks;
    for (records, blocks, fits) in [
        (kinds, 1, true),
        (kinds + 1, 1, false),
        (full, blocks, true),
        (full + 1, blocks, false),
    ] {
        let segment = segment_of_relations(records, blocks);
        let (file, encoding) = peak_of(|| encode(&segment, Level::MIN).expect("encodes"));
        let (decoded, decoding) = peak_of(|| decode(&file));
        assert!(decoded.as_deref() == Ok(&segment[..]), "{records} records");
        let is_wal = Header::read(&file).expect("a header").identity.is_some();
        assert_eq!(is_wal, fits, "{records} records of {blocks} blocks");
        println!(
            "{records} records of {blocks} blocks: {} MB, {} MB",
            encoding / MB,
            decoding / MB
        );
        let most = encoding.max(decoding) + segment.len();
        assert!(most <= 300 * MB, "{records}: {} MB", most / MB);
    }
}
