//! One segment compressed by one program at one level, decompressed, and compared.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;

use crate::contender::{self, Contender};
use crate::input;
use crate::input::Input;
use crate::process::{self, Failure, Surroundings};
use crate::usage::Usage;

/// What one round trip took, and how many bytes the compressed file has.
pub(super) struct RoundTrip {
    pub(super) compress: Usage,
    pub(super) decompress: Usage,
    pub(super) output_bytes: u64,
}

/// Compresses, decompresses and compares; leaves no file behind.
pub(super) fn round_trip(
    contender: &Contender,
    level: u8,
    program: &Path,
    input: &Input,
    surroundings: Surroundings<'_>,
) -> Result<RoundTrip, Failure> {
    let directory = TempDir::new_in(surroundings.temp_dir)?;
    let compressed = directory
        .path()
        .join(format!("{}.{}", input.name, contender.suffix));
    let restored = directory.path().join("restored");
    let measure = |arguments: &[&str], from: &Path, to: &Path| {
        let writes_itself = arguments.contains(&"{output}");
        let output = if writes_itself {
            Stdio::null()
        } else {
            Stdio::from(File::create(to)?)
        };
        let arguments = contender::fill(arguments, level, from, to);
        process::run(
            program,
            &arguments,
            contender.environment,
            output,
            surroundings,
        )
    };
    let compress = measure(contender.compress, &input.path, &compressed)?;
    let output_bytes = fs::metadata(&compressed)?.len();
    let decompress = measure(contender.decompress, &compressed, &restored)?;
    let restored = input::hash(&restored)?.to_string();
    if restored != input.blake3 {
        let reason = format!(
            "the round trip changed the data: BLAKE3 was {} and is {restored}",
            input.blake3
        );
        return Err(Failure::Io(io::Error::other(reason)));
    }
    Ok(RoundTrip {
        compress,
        decompress,
        output_bytes,
    })
}
