//! `walzip bench`: measured on the user's own data, against what else there is.

mod archive;
mod archived;
mod basebackup;
mod generate;
mod insert;
mod packs;
mod report;
mod segments;
pub mod standard_error;
mod stores;
mod wal;
mod wal_compression;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use walzip_bench::{Cancel, Error, Files};
use walzip_repo::{ClusterIdentity, LocalStore, Repository};

use crate::error::{CommandError, chain};
use crate::exit_code::Kind;
use crate::{runtime, shell};

/// Measure compressors on your own WAL
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    experiment: Experiment,
}

/// What to measure.
#[derive(Debug, clap::Subcommand)]
enum Experiment {
    Wal(wal::WalArgs),
    WalCompression(wal_compression::WalCompressionArgs),
    Insert(insert::InsertArgs),
    Segments(segments::SegmentsArgs),
    Archive(archive::ArchiveArgs),
    Packs(packs::PacksArgs),
    Basebackup(basebackup::BasebackupArgs),
    Generate(generate::GenerateArgs),
    Report(report::ReportArgs),
}

/// What an experiment takes from the process that runs it.
struct Surroundings {
    /// This program, which is a contender too.
    walzip: PathBuf,
    search_path: OsString,
    temp_dir: PathBuf,
    cancel: Cancel,
}

impl Surroundings {
    fn new() -> Result<Surroundings, CommandError> {
        let internal = |error| CommandError::caused(Kind::Internal, "cannot begin", &error);
        Ok(Surroundings {
            walzip: std::env::current_exe().map_err(internal)?,
            search_path: std::env::var_os("PATH").unwrap_or_default(),
            temp_dir: std::env::temp_dir(),
            cancel: Cancel::on_signals().map_err(internal)?,
        })
    }
}

/// Runs the command.
pub fn run(args: BenchArgs) -> Result<(), CommandError> {
    let surroundings = Surroundings::new()?;
    match args.experiment {
        Experiment::Wal(args) => wal::run(args, surroundings),
        Experiment::Insert(args) => insert::run(args, surroundings),
        Experiment::WalCompression(args) => wal_compression::run(args, surroundings),
        Experiment::Segments(args) => segments::run(args, surroundings),
        Experiment::Archive(args) => archive::run(args, surroundings),
        Experiment::Packs(args) => packs::run(args, surroundings),
        Experiment::Basebackup(args) => basebackup::run(args, surroundings),
        Experiment::Generate(args) => generate::run(args, surroundings),
        Experiment::Report(args) => report::run(args),
    }
}

/// What `walzip init` does, for a cluster that need not be there.
fn make_repository(directory: &Path, system_id: u64, major: u32) -> Result<(), String> {
    let cluster = ClusterIdentity { system_id, major };
    let made = runtime::block_on(async {
        let init = async { Repository::init(Arc::new(LocalStore::new(directory)), cluster).await };
        Ok(init.await)
    });
    match made {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(chain(&error)),
        Err(_) => Err("no runtime could be started".to_owned()),
    }
}

/// The files that an experiment writes.
#[derive(Debug, clap::Args)]
struct FileArgs {
    /// Write every measurement to FILE, one a line
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Write everything to FILE; it is kept up to date while measuring
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Go on from what --json has: what was measured there is not measured again, but for a segment
    /// that bench wal had not finished
    #[arg(long, requires = "json")]
    resume: bool,

    /// Write a page with charts to FILE (HTML, complete in itself)
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Replace these files if they exist; with --resume, drop measurements that are not taken over
    #[arg(short, long)]
    force: bool,
}

impl From<FileArgs> for Files {
    fn from(args: FileArgs) -> Files {
        Files {
            csv: args.csv,
            json: args.json,
            report: args.report,
            resume: args.resume,
            force: args.force,
            command: Some(shown_command(std::env::args_os().skip(1))),
            ..Files::default()
        }
    }
}

/// Options whose value is somebody's address, or may have a password in it.
const PRIVATE: [&str; 10] = [
    "--server",
    "--repo",
    "--target",
    "--host",
    "-h",
    "--dbname",
    "-d",
    "--user",
    "--username",
    "-U",
];

/// What may stand before another short option in the same word: it takes no value.
const SHORT_FLAG: char = 'f';

/// A word's option, and the value that is attached to it: `--repo=VALUE`, `-hVALUE`.
fn attached(word: &str) -> Option<(&str, &str)> {
    if word.starts_with("--") {
        let end = word.find('=')?;
        return Some((&word[..end], &word[end + 1..]));
    }
    let options = word.strip_prefix('-')?.trim_start_matches(SHORT_FLAG);
    let is_private = PRIVATE.contains(&format!("-{}", options.get(..1)?).as_str());
    let value = options.get(1..).filter(|_| is_private)?;
    (!value.is_empty()).then(|| word.split_at(word.len() - value.len()))
}

/// Whether the next word is a private value of this one.
fn announces(word: &str) -> bool {
    let short = word
        .strip_prefix('-')
        .map(|of| of.trim_start_matches(SHORT_FLAG));
    PRIVATE.contains(&word) || short.is_some_and(|short| PRIVATE.contains(&&*format!("-{short}")))
}

/// A word as a shell takes it.
fn pasted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+%=:,@".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => shell::word(word),
    }
}

/// The command as a page may show it: files by their names, and nobody's address.
pub(super) fn shown_command(arguments: impl Iterator<Item = OsString>) -> String {
    let mut words = vec!["walzip".to_owned()];
    let mut is_private = false;
    for argument in arguments {
        let argument = argument.to_string_lossy();
        let (option, value) = match attached(&argument) {
            Some((option, value)) if !is_private => (option, value),
            _ => ("", &*argument),
        };
        let hidden = is_private || announces(option);
        is_private = !is_private && announces(&argument);
        let value = match hidden {
            true => "...",
            false => value
                .trim_end_matches('/')
                .rsplit('/')
                .next()
                .unwrap_or_default(),
        };
        let equals = if option.starts_with("--") { "=" } else { "" };
        words.push(pasted(&format!("{option}{equals}{value}")));
    }
    words.join(" ")
}

/// Prints what an experiment found. It ends in an error where something is missing from it.
fn conclude(
    results: &impl Display,
    stopped: &Option<String>,
    (failed, what): (usize, &str),
) -> Result<(), CommandError> {
    write!(std::io::stdout(), "{results}").map_err(CommandError::stdout)?;
    let message = match (stopped, failed) {
        (Some(reason), _) => format!("stopped early: {reason}"),
        (None, 0) => return Ok(()),
        (None, failed) => format!("{failed} {what} failed; the figures leave them out"),
    };
    Err(CommandError::new(Kind::Problems, message))
}

impl From<Error> for CommandError {
    fn from(error: Error) -> CommandError {
        let kind = match &error {
            Error::Usage(_) => Kind::Usage,
            Error::Missing { .. } => Kind::FileMissing,
            Error::OtherCluster { .. } => Kind::ArchiveMismatch,
            Error::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Kind::FileMissing
            }
            Error::File { .. } => Kind::FileRead,
            Error::Exists(_)
            | Error::NotEmpty(_)
            | Error::Appeared { .. }
            | Error::WouldLose { .. } => Kind::FileExists,
            Error::NotAFile(_) => Kind::FileWrite,
            Error::Unpack { .. } => Kind::FileInvalid,
            Error::NoSpace { .. } => Kind::FileWrite,
            Error::Server { .. } => Kind::DbConnect,
            Error::Stopped { .. } | Error::Interrupted => Kind::Problems,
        };
        let message = CommandError::new(kind, chain(&error));
        match error {
            Error::Exists(_) => message.hint(
                "Nothing was measured. Name another file, remove this one, or use -f to replace it. \
                 An experiment is continued by --resume and its own --json.",
            ),
            Error::OtherCluster { .. } => message.hint(
                "Nothing was measured. Connect to the server that wrote the segments, or to none.",
            ),
            Error::NotEmpty(_) => message.hint(
                "Nothing was generated. Name a new directory, or empty this one.",
            ),
            Error::WouldLose { .. } => message.hint(
                "Nothing was measured. Name another --json, or ask for what the earlier run measured \
                 too; -f drops it.",
            ),
            _ => message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attached_values_are_hidden_and_words_can_be_pasted() {
        let shown = |words: &[&str]| shown_command(words.iter().map(OsString::from));
        let words = [
            "advise",
            "-hdb1.example.com",
            "-dhost=db1 password=x",
            "-fhdb2",
            "-fd",
            "db3",
            "-h",
            "-d",
            "--report=/srv/my page.html",
            "/srv/a b/c's",
            "-3",
        ];
        assert_eq!(
            shown(&words),
            "walzip advise -h... -d... -fh... -fd ... -h ... '--report=my page.html' 'c'\\''s' -3"
        );
    }

    #[test]
    fn a_command_is_shown_without_directories_and_addresses() {
        let shown = |words: &str| shown_command(words.split(' ').map(OsString::from));
        assert_eq!(
            shown("bench wal --report /srv/me/r.html --repo s3://secret/db wal/oltp/"),
            "walzip bench wal --report r.html --repo ... oltp"
        );
        assert_eq!(
            shown("bench basebackup --server=host=db1 --loops 3"),
            "walzip bench basebackup --server=... --loops 3"
        );
    }
}
