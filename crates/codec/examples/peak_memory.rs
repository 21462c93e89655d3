//! The most memory that a process holds to encode or decode a file, libzstd's tables and the
//! file itself included:
//!
//! ```text
//! cargo run --release -p walzip-codec --example peak_memory -- encode 3 SEGMENT FILE.wz
//! cargo run --release -p walzip-codec --example peak_memory -- decode FILE.wz
//! ```
//!
//! On Linux only, which tells it in /proc/self/status.

use walzip_codec::{Level, decode, encode};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["encode", level, segment, file] => {
            let level = Level::new(level.parse()?).ok_or("a level is from 1 to 9")?;
            let segment = std::fs::read(segment)?;
            let encoded = encode(&segment, level)?;
            println!("encode -{level}: {} MB", peak_kib()? / 1024);
            std::fs::write(file, encoded)?;
        }
        ["decode", file] => {
            let decoded = decode(&std::fs::read(file)?)?;
            println!("decode: {} MB", peak_kib()? / 1024);
            drop(decoded);
        }
        _ => return Err("usage: peak_memory encode LEVEL SEGMENT FILE, or decode FILE".into()),
    }
    Ok(())
}

fn peak_kib() -> Result<u64, Error> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let value = line.and_then(|line| line.split_whitespace().next());
    Ok(value.ok_or("no VmHWM")?.parse()?)
}
