//! Encodes the segments of a folder one after the other, each told from those before it, and
//! compares the size with zstd -3 and with segments encoded alone.
//!
//! ```text
//! cargo run --release -p walzip-codec --example history -- FOLDER [SEGMENTS]
//! ```
//!
//! Variables:
//!
//! - `LEVEL`: the level, 3 if not set.
//! - `FIRST`: the number of segments that are left out at the beginning.
//! - `OUT`: a folder for the encoded files.
//! - `ALONE`: encodes each segment alone too.
//! - `PASS`: goes past each segment too, as one does to a later one.
//! - `SHARES`: the number of segments after which bytes are counted by kind of stream.
//! - `ALL`: writes a line for each segment.

use std::collections::BTreeMap;
use std::time::Instant;

use walzip_codec::{HistoryAccount, HistoryDecoder, HistoryEncoder, Level, encode};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Kinds of streams of which is said what they take.
const SHARES_SHOWN: usize = 24;

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("a folder");
    let most = args
        .next()
        .map_or(usize::MAX, |most| most.parse().expect("a number"));
    let alone = std::env::var_os("ALONE").is_some();
    let mut paths: Vec<_> = std::fs::read_dir(dir)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name.len() == 24))
        .collect();
    paths.sort();
    let first = std::env::var("FIRST").map_or(0, |first| first.parse().expect("a number"));
    paths.drain(..first);
    paths.truncate(most);
    let level = Level::new(std::env::var("LEVEL").map_or(3, |l| l.parse().expect("a level")))
        .expect("a level");
    let mut encoder = HistoryEncoder::new(level);
    let mut decoder = HistoryDecoder::new();
    let mut passing = std::env::var_os("PASS").map(|_| HistoryDecoder::new());
    let (mut zstd_all, mut all, mut alone_all) = (0, 0, 0);
    let (mut encoding, mut decoding, mut passed) = (0.0, 0.0, 0.0);
    let shares = std::env::var("SHARES").map(|first| first.parse::<usize>().expect("a number"));
    let mut account = HistoryAccount::default();
    let mut sums = BTreeMap::<&str, (usize, usize)>::new();
    for (number, path) in paths.iter().enumerate() {
        let segment = std::fs::read(path).expect("a segment");
        let mut packed = Vec::with_capacity(zstd_safe::compress_bound(segment.len()));
        zstd_safe::compress(&mut packed, &segment, 3).expect("zstd");
        let start = Instant::now();
        let file = encoder.encode(&segment).expect("encoded");
        encoding += start.elapsed().as_secs_f64();
        let start = Instant::now();
        let mut back = Vec::with_capacity(segment.len());
        decoder.decode(&file, &mut back).expect("decoded");
        decoding += start.elapsed().as_secs_f64();
        assert!(back == segment);
        if let Some(passing) = &mut passing {
            let start = Instant::now();
            passing.pass(&file).expect("passed");
            passed += start.elapsed().as_secs_f64();
        }
        let kind = walzip_codec::Header::read(&file).expect("header").kind;
        zstd_all += packed.len();
        all += file.len();
        if alone {
            alone_all += encode(&segment, level).expect("encoded").len();
        }
        if let Some(folder) = std::env::var_os("OUT") {
            let path = std::path::Path::new(&folder).join(format!("{number}.wz"));
            std::fs::write(path, &file).expect("written");
        }
        if let Ok(first) = shares {
            for kind in account
                .account(&segment, level)
                .expect("encoded")
                .expect("a segment")
            {
                if number < first {
                    continue;
                }
                let sum = sums.entry(kind.kind.label()).or_insert((0, 0));
                sum.0 += kind.packed_bytes;
                sum.1 += kind.stream_bytes;
            }
        }
        if number % 8 == 7 || number + 1 == paths.len() || std::env::var_os("ALL").is_some() {
            println!(
                "{number:3} {kind:?} zstd {:8} here {:8} {:.3} all {:.3} alone {:.3} encode {:.3} s decode {:.3} s pass {:.3} s",
                packed.len(),
                file.len(),
                file.len() as f64 / packed.len() as f64,
                all as f64 / zstd_all as f64,
                alone_all as f64 / zstd_all as f64,
                encoding / (number + 1) as f64,
                decoding / (number + 1) as f64,
                passed / (number + 1) as f64,
            );
        }
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (packed, _))| std::cmp::Reverse(*packed));
    for (label, (packed, bytes)) in sums.iter().take(SHARES_SHOWN) {
        println!("{packed:9} of {bytes:9} {label}");
    }
}
