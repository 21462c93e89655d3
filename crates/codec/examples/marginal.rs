//! What each model earns: the size of every workload with all models, and what is added to it
//! when one of them is left out, in percent.
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

use walzip_codec::{Level, OptionalModel, encoded_len_without};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let level = arguments.next().and_then(|level| level.parse().ok());
    let level = level
        .and_then(Level::new)
        .ok_or("the first argument is a level")?;
    let mut header = String::from("| workload | all models, bytes |");
    let mut rule = String::from("|---|---|");
    for model in OptionalModel::ALL {
        header += &format!(" {} |", model.label());
        rule += "---|";
    }
    println!("{header}\n{rule}");
    for folder in arguments {
        let folder = Path::new(&folder);
        let segments = fs::read_dir(folder)?
            .map(|entry| read_segment(&entry?.path()))
            .collect::<Result<Vec<_>, _>>()?;
        let len_without = |model| -> Result<usize, Box<dyn Error>> {
            let mut total = 0;
            for segment in &segments {
                let len = encoded_len_without(segment, level, model)?;
                total += len.ok_or("not a WAL segment")?;
            }
            Ok(total)
        };
        let all = len_without(None)?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        print!("| {name} | {all} |");
        for model in OptionalModel::ALL {
            let without = len_without(Some(*model))?;
            let added = (without as f64 / all as f64 - 1.0) * 100.0;
            print!(" {added:.1} |");
        }
        println!();
    }
    Ok(())
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
