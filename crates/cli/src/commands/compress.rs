//! `walzip compress`: gzip's habits, a WAL segment to a member.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use walzip_codec::{EncodeError, Encoder};

use crate::commands::decompress;
use crate::error::{CommandError, chain};
use crate::exit_code::Kind;
use crate::filter::{Filter, FilterArgs, fill, write};
use crate::level_args::LevelArgs;

/// Compress WAL segments, or any other files
///
/// FILE is replaced by FILE.wz, with the same owner, mode and time. The input is removed only
/// after the output was decoded again, compared with the input, and is durable. Without FILE,
/// or for "-", standard input is compressed to standard output. A FILE of -o that exists and holds
/// the same bytes is a success, anything else under its name an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  walzip compress 000000010000000000000001
  walzip compress -9 -k pg_wal_copy/*
  archive_command = 'walzip compress -o /archive/%f.wz %p'
  custom_compression_filter = walzip compress -c        (barman.conf)

No configuration file is read. For an archive that refuses to overwrite by content and knows
its cluster, use \"walzip archive-push\".")]
pub struct CompressArgs {
    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    level: LevelArgs,

    /// Do not decode the output to prove it: faster, and a fault in walzip or in the
    /// machine's memory goes unnoticed until the data is needed
    #[arg(long)]
    no_verify: bool,
}

struct Compress {
    encoder: Encoder,
}

/// Runs the command.
pub fn run(args: CompressArgs) -> Result<(), CommandError> {
    let level = args.level.level.unwrap_or_default();
    let encoder = Encoder::new(level, !args.no_verify);
    args.filter.for_each_file(&Compress { encoder })
}

impl Filter for Compress {
    const COMMAND: &'static str = "compress";
    const OUTPUT_IS_KEPT: bool = true;

    fn output_path(&self, input: &Path) -> Result<PathBuf, CommandError> {
        if input
            .extension()
            .is_some_and(|extension| extension == walzip_codec::SUFFIX)
        {
            let message = format!("already has the suffix .{}", walzip_codec::SUFFIX);
            return Err(CommandError::new(Kind::FileInvalid, message)
                .hint("Use -o to name the output, or -c for standard output."));
        }
        let mut name = input.as_os_str().to_owned();
        name.push(".");
        name.push(walzip_codec::SUFFIX);
        Ok(PathBuf::from(name))
    }

    fn is_in(&self, input: &mut dyn Read, output: &mut File) -> Result<bool, CommandError> {
        decompress::holds(output, input)
    }

    fn run(
        &self,
        input: &mut dyn Read,
        output: &mut dyn Write,
        _is_provisional: bool,
    ) -> Result<(), CommandError> {
        let mut encoder = self.encoder.clone();
        let mut buffer = Vec::new();
        let mut members = 0u64;
        loop {
            fill(input, &mut buffer, walzip_pgformat::PAGE_SIZE)?;
            if buffer.is_empty() && members > 0 {
                return Ok(());
            }
            let member_len = encoder.member_len(&buffer);
            fill(input, &mut buffer, member_len)?;
            let member = member_len.min(buffer.len());
            let encoded = encoder.encode(&buffer[..member]).map_err(encode_error)?;
            write(output, &encoded)?;
            buffer.drain(..member);
            members += 1;
        }
    }
}

fn encode_error(error: EncodeError) -> CommandError {
    CommandError::new(Kind::Internal, chain(&error))
        .hint("The input is untouched. Please report this, if you can with the input.")
}
