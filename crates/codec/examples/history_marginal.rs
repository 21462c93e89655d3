//! What each model earns where segments are told from those before them: for each folder, the size with all
//! models, and what is added to it, in percent, when one of them is left out.
//!
//! ```text
//! cargo run --release -p walzip-codec --example history_marginal -- LEVEL SEGMENTS FOLDER...
//! ```
//!
//! SEGMENTS is how many of each folder are encoded, from the first one on.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use walzip_codec::{Header, HistoryEncoder, Level, MemberKind, OptionalModel};

/// The allocator keeps freed memory, so that not the kernel's work is measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let level = arguments.next().and_then(|level| level.parse().ok());
    let level = level
        .and_then(Level::new)
        .ok_or("the first argument is a level")?;
    let count = arguments.next().and_then(|count| count.parse().ok());
    let count: usize = count.ok_or("the second argument is a number of segments")?;
    let folders: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    let mut columns = Vec::new();
    for folder in &folders {
        let paths = segments(folder, count)?;
        let all = size(&paths, HistoryEncoder::new(level))?;
        let mut column = vec![all.to_string()];
        for model in OptionalModel::ALL {
            let without = size(&paths, HistoryEncoder::new(level).without(*model))?;
            column.push(format!(
                "{:.1}",
                (without as f64 / all as f64 - 1.0) * 100.0
            ));
        }
        columns.push(column);
    }
    let names = folders
        .iter()
        .map(|folder| folder.file_name().unwrap_or_default());
    let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
    println!("| without | {} |", names.join(" | "));
    println!("|---|{}", "---|".repeat(folders.len()));
    let labels = OptionalModel::ALL.iter().map(|model| model.label());
    for (row, label) in std::iter::once("(all models, bytes)")
        .chain(labels)
        .enumerate()
    {
        let cells = columns.iter().filter_map(|column| column.get(row));
        let cells: Vec<_> = cells.map(String::as_str).collect();
        println!("| {label} | {} |", cells.join(" | "));
    }
    Ok(())
}

fn segments(folder: &Path, count: usize) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<Result<Vec<_>, std::io::Error>>()?;
    paths.retain(|path| path.file_name().is_some_and(|name| name.len() == 24));
    paths.sort();
    paths.truncate(count);
    Ok(paths)
}

fn size(paths: &[PathBuf], mut encoder: HistoryEncoder) -> Result<usize, Box<dyn Error>> {
    let mut size = 0;
    for path in paths {
        let file = encoder.encode(&fs::read(path)?)?;
        if Header::read(&file)?.kind != MemberKind::WalAfter {
            return Err(format!("{} is not told from those before it", path.display()).into());
        }
        size += file.len();
    }
    Ok(size)
}
