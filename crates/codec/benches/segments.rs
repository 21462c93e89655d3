//! Encoding and decoding of WAL samples, beside zstd -1 on the same bytes in the same run.
//!
//! ```text
//! cargo bench -p walzip-codec --bench segments [FILTER]
//! ```
//!
//! Everything runs in this process, on one thread, with the input in memory; `encode` does not
//! verify. The samples are found in the folder that `WALZIP_SAMPLES` names, else in
//! `../shared/wal-samples` beside the repository. As a test (`cargo test --benches`) each
//! benchmark runs once, on the first pages of each sample.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use walzip_codec::{Level, decode, encode};

/// The command's allocator, but it keeps freed memory for its own second: this measures the codec,
/// not how the kernel gives pages again and again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SAMPLES: [&str; 5] = [
    "oltp-mixed",
    "oltp-steady",
    "insert-bench",
    "bulk-copy",
    "pgbench-off",
];

/// What a test takes of a sample: eight pages.
const TEST_BYTES: usize = 8 * 8192;

fn segments(criterion: &mut Criterion) {
    for (name, segment) in samples() {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(segment.len() as u64));
        group.sample_size(10);
        group.sampling_mode(SamplingMode::Flat);
        group.warm_up_time(Duration::from_millis(500));
        group.measurement_time(Duration::from_secs(3));
        zstd(&mut group, &segment);
        for level in [1, 3] {
            walzip(&mut group, &segment, level);
        }
        group.finish();
    }
}

fn walzip(group: &mut BenchmarkGroup<'_, WallTime>, segment: &[u8], number: u8) {
    let level = Level::new(number).expect("a level from 1 to 9");
    let file = encode(segment, level).expect("any bytes can be encoded");
    let decoded = decode(&file).expect("what was just encoded can be decoded");
    assert!(decoded == segment, "the round trip changed the data");
    group.bench_function(format!("walzip -{number} encode"), |bencher| {
        bencher.iter(|| encode(segment, level));
    });
    group.bench_function(format!("walzip -{number} decode"), |bencher| {
        bencher.iter(|| decode(&file));
    });
}

fn zstd(group: &mut BenchmarkGroup<'_, WallTime>, segment: &[u8]) {
    let compress = || {
        let mut file = Vec::with_capacity(zstd_safe::compress_bound(segment.len()));
        zstd_safe::compress(&mut file, segment, 1).expect("the buffer is large enough");
        file
    };
    let file = compress();
    let decompress = || {
        let mut decoded = Vec::with_capacity(segment.len());
        zstd_safe::decompress(&mut decoded, &file).expect("what was just compressed is valid");
        decoded
    };
    assert!(decompress() == segment, "the round trip changed the data");
    group.bench_function("zstd -1 encode", |bencher| bencher.iter(compress));
    group.bench_function("zstd -1 decode", |bencher| bencher.iter(decompress));
}

/// The first segment of each sample; of a test, their first pages.
fn samples() -> Vec<(String, Vec<u8>)> {
    // Cargo asks a benchmark to measure with --bench; without it, criterion only tests.
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let root = match std::env::var_os("WALZIP_SAMPLES") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/wal-samples"),
    };
    if !root.is_dir() {
        let absent = format!("no WAL samples in {}: set WALZIP_SAMPLES", root.display());
        let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
        assert!(!measuring && !in_ci, "{absent}");
        eprintln!("NOT TESTED ON REAL WAL: {absent}");
        let numbers = (0..TEST_BYTES as u32 / 4).flat_map(|number| (number / 3).to_le_bytes());
        return vec![("numbers".to_owned(), numbers.collect())];
    }
    let read = |name: &str| {
        let mut segment = first_segment(&root.join(name))
            .unwrap_or_else(|reason| panic!("cannot read the sample {name}: {reason}"));
        if !measuring {
            segment.truncate(TEST_BYTES);
        }
        (name.to_owned(), segment)
    };
    SAMPLES.into_iter().map(read).collect()
}

fn first_segment(folder: &Path) -> Result<Vec<u8>, String> {
    let describe = |error: &dyn Display| error.to_string();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| describe(&error))? {
        files.push(entry.map_err(|error| describe(&error))?.path());
    }
    let first = files.iter().min().ok_or("the folder is empty")?;
    if first.extension().is_none_or(|suffix| suffix != "xz") {
        return std::fs::read(first).map_err(|error| describe(&error));
    }
    let output = Command::new("xz").arg("-dc").arg(first).output();
    let output = output.map_err(|error| format!("xz: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(output.stdout)
}

criterion_group!(benches, segments);
criterion_main!(benches);
