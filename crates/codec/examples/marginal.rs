//! What each model earns: for each workload, its size with all models of a level, and what is
//! added to it when one of them is left out; and the processor time of encoding and decoding that
//! is saved then. All in percent; times are the least of some runs.
//!
//! ```text
//! cargo run --release -p walzip-codec --example marginal -- LEVEL FOLDER...
//! ```
//!
//! FOLDER holds segments, which may be xz-compressed; its name is that of the workload.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use walzip_codec::{Level, OptionalModel, decode, encode, encode_without};

/// The allocator keeps freed memory, so that not the kernel's work is measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 5;

/// What a workload costs.
struct Cost {
    bytes: usize,
    time: Duration,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let level = arguments.next().and_then(|level| level.parse().ok());
    let level = level
        .and_then(Level::new)
        .ok_or("the first argument is a level")?;
    let mut header = String::from("| workload | all models, bytes |");
    let mut rule = String::from("|---|---|");
    for model in models() {
        header += &format!(" {} |", model.label());
        rule += "---|";
    }
    println!("{header}\n{rule}");
    for folder in arguments {
        let folder = Path::new(&folder);
        let segments = fs::read_dir(folder)?
            .map(|entry| read_segment(&entry?.path()))
            .collect::<Result<Vec<_>, _>>()?;
        let all = measure(&segments, |segment| Ok(encode(segment, level)?))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        print!("| {name} | {} |", all.bytes);
        for model in models() {
            let without = measure(&segments, |segment| {
                Ok(encode_without(segment, level, model)?)
            })?;
            let added = (without.bytes as f64 / all.bytes as f64 - 1.0) * 100.0;
            let saved = (1.0 - without.time.as_secs_f64() / all.time.as_secs_f64()) * 100.0;
            print!(" {added:.1}, {saved:.0} |");
        }
        println!();
    }
    Ok(())
}

/// Those of a segment by itself.
fn models() -> impl Iterator<Item = OptionalModel> {
    let all = OptionalModel::ALL.iter().copied();
    all.filter(|model| !model.needs_history())
}

fn measure(
    segments: &[Vec<u8>],
    encoded: impl Fn(&[u8]) -> Result<Vec<u8>, Box<dyn Error>>,
) -> Result<Cost, Box<dyn Error>> {
    let mut cost = Cost {
        bytes: 0,
        time: Duration::ZERO,
    };
    for segment in segments {
        let mut least = Duration::MAX;
        let mut len = 0;
        for _ in 0..RUNS {
            let start = Instant::now();
            let file = encoded(segment)?;
            let is_same = decode(&file)? == *segment;
            least = least.min(start.elapsed());
            len = file.len();
            if !is_same {
                return Err("decodes to something else".into());
            }
        }
        cost.bytes += len;
        cost.time += least;
    }
    Ok(cost)
}

fn read_segment(file: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    if file.extension().is_none_or(|suffix| suffix != "xz") {
        return Ok(fs::read(file)?);
    }
    let output = Command::new("xz").arg("-dc").arg(file).output()?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("xz cannot unpack {}", file.display()).into()),
    }
}
