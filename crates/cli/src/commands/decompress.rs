//! `walzip decompress`: back to the bytes that were compressed, or an error.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use walzip_codec::{Claims, DecodeError, DecodeToError, HEADER_LEN_MAX, Header, MEMBER_LEN_MAX};

use crate::archive_error::decoding;
use crate::error::{CommandError, chain};
use crate::exit_code::Kind;
use crate::filter::{Filter, FilterArgs, Source, cannot_write, fill, write};

/// Decompress .wz files
///
/// FILE.wz is replaced by FILE, with the same owner, mode and time. Every byte is checked
/// against the hash of the original before a file appears. Without FILE, or for "-", standard
/// input is decompressed to standard output, a member (usually a segment) at a time.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  walzip decompress 000000010000000000000001.wz
  walzip decompress -c 000000010000000000000001.wz | pg_waldump ...
  restore_command = 'test -f /mnt/wal/is-mounted || exit 126; \
test -f /mnt/wal/%f.wz || exit 1; walzip decompress -f -o %p /mnt/wal/%f.wz || exit 126'
  custom_decompression_filter = walzip decompress -c    (barman.conf)")]
pub struct DecompressArgs {
    #[command(flatten)]
    filter: FilterArgs,

    /// Only check that the files can be decompressed, and write nothing
    #[arg(short, long, conflicts_with_all = ["stdout", "output", "keep", "force"])]
    test: bool,

    /// Decode what claims to become very much out of few bytes. The files of an earlier walzip
    /// may do so, for segments above 64 MB; decoding one takes up to three times its segment size
    /// in memory
    #[arg(long)]
    trust: bool,
}

/// No encoder makes more of the longest member; memory is bounded by this for an input that
/// claims otherwise, which then counts as truncated.
pub const ENCODED_LEN_MAX: u64 = 2 * MEMBER_LEN_MAX as u64;

/// An output that is seen at once gets a member when all of it is checked. Until then its
/// original is held in memory up to this length; of more it is decoded a second time.
const DECODED_ONCE_MAX: u64 = 64 << 20;

struct Decompress {
    only_checks: bool,
    claims: Claims,
}

/// Runs the command.
pub fn run(args: DecompressArgs) -> Result<(), CommandError> {
    let claims = match args.trust {
        true => Claims::Believed,
        false => Claims::Bounded,
    };
    args.filter.for_each_file(&Decompress {
        only_checks: args.test,
        claims,
    })
}

impl Filter for Decompress {
    const COMMAND: &'static str = "decompress";
    const OUTPUT_IS_KEPT: bool = false;

    fn only_checks(&self) -> bool {
        self.only_checks
    }

    /// As gzip does, FILE stands for FILE.wz where there is only that.
    fn input_path(&self, named: &Path) -> PathBuf {
        let mut with_suffix = named.as_os_str().to_owned();
        with_suffix.push(".");
        with_suffix.push(walzip_codec::SUFFIX);
        let with_suffix = PathBuf::from(with_suffix);
        match !named.exists() && with_suffix.exists() {
            true => with_suffix,
            false => named.to_owned(),
        }
    }

    fn output_path(&self, input: &Path) -> Result<PathBuf, CommandError> {
        match input.extension() {
            Some(extension) if extension == walzip_codec::SUFFIX => Ok(input.with_extension("")),
            _ => {
                let message = format!("has no suffix .{}", walzip_codec::SUFFIX);
                Err(CommandError::new(Kind::FileInvalid, message)
                    .hint("Use -o to name the output, or -c for standard output."))
            }
        }
    }

    fn run(
        &self,
        input: Source<'_>,
        output: &mut dyn Write,
        is_provisional: bool,
    ) -> Result<(), CommandError> {
        let mut buffer = Vec::new();
        let mut position = 0u64;
        loop {
            fill(input.reader, &mut buffer, HEADER_LEN_MAX)?;
            if buffer.is_empty() && position > 0 {
                return Ok(());
            }
            let failed = |error: DecodeError| decode_error(&error, position);
            let header = Header::read(&buffer).map_err(failed)?;
            let member_len = header.member_len.min(ENCODED_LEN_MAX) as usize;
            fill(input.reader, &mut buffer, member_len)?;
            let member = member_len.min(buffer.len());
            let encoded = &buffer[..member];
            let decode_to = |output: &mut dyn Write| {
                let decoded = walzip_codec::decode_member_to(encoded, output, self.claims);
                decoded.map_err(|error| match error {
                    DecodeToError::Decode(error) => failed(error),
                    DecodeToError::Write(error) => cannot_write(&error),
                })
            };
            if is_provisional {
                decode_to(output)?;
            } else if header.original_len <= DECODED_ONCE_MAX {
                let decoded = walzip_codec::decode_member(encoded, self.claims);
                write(output, &decoded.map_err(failed)?.0)?;
            } else {
                decode_to(&mut io::sink())?;
                decode_to(output)?;
            }
            buffer.drain(..member);
            position += member as u64;
        }
    }
}

/// Whether a compressed file holds exactly these bytes.
pub fn holds(compressed: &mut dyn Read, original: &mut dyn Read) -> Result<bool, CommandError> {
    let mut comparison = Comparison {
        original,
        is_equal: true,
    };
    let decompress = Decompress {
        only_checks: true,
        claims: Claims::Bounded,
    };
    let decoded = decompress.run(Source::stream(compressed), &mut comparison, true);
    let is_equal = comparison.is_equal;
    let mut rest = Vec::new();
    fill(original, &mut rest, 1)?;
    Ok(decoded.is_ok() && is_equal && rest.is_empty())
}

/// Compares what is written to it with another file.
struct Comparison<'r> {
    original: &'r mut dyn Read,
    is_equal: bool,
}

impl Write for Comparison<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut expected = Vec::new();
        (&mut *self.original)
            .take(bytes.len() as u64)
            .read_to_end(&mut expected)?;
        self.is_equal &= expected == bytes;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn decode_error(error: &DecodeError, position: u64) -> CommandError {
    let kind = decoding(error);
    let message = format!("{} (member at byte {position})", chain(error));
    match error {
        DecodeError::UnsupportedVersion { .. } => {
            CommandError::new(kind, message).hint("A newer walzip wrote it; use one to read it.")
        }
        DecodeError::Disproportionate { .. } => CommandError::new(kind, message)
            .hint("If you know who wrote the file, decompress it with --trust."),
        _ => CommandError::new(kind, message),
    }
}
