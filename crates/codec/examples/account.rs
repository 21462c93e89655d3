//! What each kind of stream costs: `account SEGMENT [LEVEL]`.

use walzip_codec::{Level, account};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("a segment");
    let level = arguments
        .next()
        .and_then(|level| level.parse().ok())
        .and_then(Level::new);
    let segment = std::fs::read(path).expect("a readable segment");
    let kinds = account(&segment, level.unwrap_or_default()).expect("zstd works");
    let kinds = kinds.expect("a WAL segment");
    for kind in &kinds {
        println!(
            "{:9} {:9} {:6}  {}",
            kind.stream_bytes,
            kind.packed_bytes,
            kind.streams,
            kind.kind.label()
        );
    }
    println!(
        "{:9}",
        kinds.iter().map(|kind| kind.packed_bytes).sum::<usize>()
    );
}
