//! What each model earns: the size of every workload with all models, and what is added to it
//! when one of them is left out, in percent.
//!
//! ```text
//! cargo run --release -p walzip-codec --example marginal -- LEVEL FOLDER...
//! ```
//!
//! FOLDER holds segments; its name is that of the workload.

use std::error::Error;
use std::fs;
use std::path::Path;

use walzip_codec::{Level, OptionalModel, encoded_len_without};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let level = arguments.next().and_then(|level| level.parse().ok());
    let level = level
        .and_then(Level::new)
        .ok_or("the first argument is a level")?;
    let mut header = String::from("| workload | zstd -LEVEL behind all models |");
    let mut rule = String::from("|---|---|");
    for model in OptionalModel::ALL {
        header += &format!(" {} |", model.label());
        rule += "---|";
    }
    println!(
        "{}\n{rule}",
        header.replace("LEVEL", &level.get().to_string())
    );
    for folder in arguments {
        let folder = Path::new(&folder);
        let segments = fs::read_dir(folder)?
            .map(|entry| fs::read(entry?.path()))
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
