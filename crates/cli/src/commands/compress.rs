//! `walzip compress`: gzip's habits, a WAL segment to a member.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use walzip_archive::members::Members;
use walzip_codec::{EncodeError, Encoder};
use walzip_pgformat::PAGE_SIZE;

use crate::commands::decompress;
use crate::error::{CommandError, chain};
use crate::exit_code::Kind;
use crate::filter::{Filter, FilterArgs, Source, changed, fill, write};
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
  archive_command = 'test -f /mnt/wal/is-mounted && walzip compress -o /mnt/wal/%f.wz %p'
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
        input: Source<'_>,
        output: &mut dyn Write,
        _is_provisional: bool,
    ) -> Result<(), CommandError> {
        match input.file {
            Some(file) => self.compress_file(file, output),
            None => self.compress_stream(input.reader, output),
        }
    }
}

impl Compress {
    /// Compresses what can be read only once: of it a member at a time is in memory.
    fn compress_stream(
        &self,
        input: &mut dyn Read,
        output: &mut dyn Write,
    ) -> Result<(), CommandError> {
        let mut encoder = self.encoder.clone();
        let mut buffer = Vec::new();
        let mut members = 0u64;
        loop {
            fill(input, &mut buffer, PAGE_SIZE)?;
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

    /// Compresses a file, of which a piece at a time is in memory.
    fn compress_file(&self, file: &File, output: &mut dyn Write) -> Result<(), CommandError> {
        let members = Members {
            file: Some(file),
            len: len_of(file)?,
            known: &[],
        };
        let check_unchanged = || match len_of(file)? == members.len {
            true => Ok(()),
            false => Err(changed()),
        };
        let encoded = members.encode(self.encoder.clone(), |member| {
            check_unchanged().map_err(Failure)?;
            write(output, &member.bytes).map_err(Failure)
        });
        // What changed meanwhile cannot be proven either.
        check_unchanged()?;
        encoded.map_err(|Failure(error)| error)
    }
}

/// Why a file is not compressed.
struct Failure(CommandError);

impl From<EncodeError> for Failure {
    fn from(error: EncodeError) -> Failure {
        Failure(encode_error(error))
    }
}

fn len_of(file: &File) -> Result<u64, CommandError> {
    let metadata = file.metadata();
    let metadata = metadata.map_err(|error| CommandError::cannot_read(&error))?;
    Ok(metadata.len())
}

fn encode_error(error: EncodeError) -> CommandError {
    if let EncodeError::Read(error) = &error {
        return CommandError::cannot_read(error);
    }
    CommandError::new(Kind::Internal, chain(&error))
        .hint("The input is untouched. Please report this, if you can with the input.")
}
