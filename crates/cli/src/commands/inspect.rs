//! `walzip inspect`: what is in segments, and where their bytes go.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use walzip_codec::{HEADER_LEN_MAX, Header, Level, MAGIC};
use walzip_pgformat::PAGE_SIZE;

use crate::archive_error::decoding;
use crate::error::{CommandError, chain};
use crate::exit_code::Kind;
use crate::filter::fill;
use crate::inspection::Inspection;
use crate::level_args::LevelArgs;

/// Show what is in WAL segments and where their bytes go
///
/// Segments may be raw or compressed by walzip. The tables are over all files: the bytes as
/// PostgreSQL wrote them, by record type, relation and page images; and what is left of them
/// after encoding, by what the encoder's streams hold.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  walzip inspect 000000010000000000000001
  walzip inspect --json *.wz | jq .record_types")]
pub struct InspectArgs {
    /// The segments, raw or .wz; "-" is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Print JSON, whose fields are stable
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    level: LevelArgs,
}

/// Runs the command.
pub fn run(args: InspectArgs) -> Result<(), CommandError> {
    let level = args.level.level.unwrap_or_default();
    let mut inspection = Inspection::new(level);
    for path in &args.files {
        inspect(&mut inspection, path, level).map_err(|error| error.at(path.display()))?;
    }
    if args.json {
        return super::print_json(&inspection);
    }
    write!(std::io::stdout(), "{inspection}").map_err(CommandError::stdout)
}

fn inspect(inspection: &mut Inspection, path: &Path, level: Level) -> Result<(), CommandError> {
    let mut input: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin().lock()),
        _ => Box::new(File::open(path).map_err(|error| CommandError::cannot_read(&error))?),
    };
    inspection.begin_file(path);
    let mut buffer = Vec::new();
    loop {
        fill(&mut input, &mut buffer, HEADER_LEN_MAX.max(PAGE_SIZE))?;
        if buffer.is_empty() {
            return Ok(());
        }
        let member = if buffer.starts_with(&MAGIC) {
            encoded_member(inspection, &mut input, &mut buffer, level)?
        } else {
            let member_len = walzip_codec::member_len(&buffer);
            fill(&mut input, &mut buffer, member_len)?;
            let member = member_len.min(buffer.len());
            inspection
                .add(&buffer[..member], None, level)
                .map_err(encode_error)?;
            member
        };
        buffer.drain(..member);
    }
}

/// Inspects the member at the front of the buffer; returns its length.
fn encoded_member(
    inspection: &mut Inspection,
    input: &mut dyn Read,
    buffer: &mut Vec<u8>,
    level: Level,
) -> Result<usize, CommandError> {
    let failed = |error| CommandError::new(decoding(&error), chain(&error));
    let header = Header::read(buffer).map_err(failed)?;
    fill(
        input,
        buffer,
        header.member_len.min(super::decompress::ENCODED_LEN_MAX) as usize,
    )?;
    let (original, member) = walzip_codec::decode_member(buffer).map_err(failed)?;
    inspection
        .add(&original, Some(&header), level)
        .map_err(encode_error)?;
    Ok(member)
}

fn encode_error(error: walzip_codec::EncodeError) -> CommandError {
    CommandError::new(Kind::Internal, chain(&error)).hint("Please report this.")
}
