//! `walzip key`: who can decrypt an encrypted repository.

use std::io::{self, Write};
use std::path::PathBuf;

use walzip_repo::encryption::{Epochs, KeyFile, Recipient};

use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::output_file::OutputFile;
use crate::repo_args::{self, RepoArgs};
use crate::{running_as_root, runtime};

/// Make a key file, and say who can decrypt a repository
#[derive(Debug, clap::Args)]
pub struct KeyArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Init(InitArgs),
    List(ListArgs),
    Rotate(RotateArgs),
    Rewrap(RewrapArgs),
}

/// Make a key file
///
/// The file is an identity file of age (https://age-encryption.org), readable by its owner only.
/// Its public key is printed: with it others can be let in, and nothing can be decrypted. An
/// encrypted repository without a key file is lost. Make a second one with --recovery, keep it offline,
/// and let it in with --recipient of "walzip init".
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  walzip key init /etc/walzip.key
  walzip key init --recovery recovery.key")]
struct InitArgs {
    /// The file to make
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// A key file for the day on which the other one is lost: it reads, and never writes
    #[arg(long)]
    recovery: bool,
}

/// Show the epochs of an encrypted repository and who can decrypt them
///
/// Nothing is decrypted. A recipient that has no copy of an epoch's key cannot read what was put in
/// it.
#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    repo: RepoArgs,
}

/// Encrypt with a new key from now on
///
/// What was put before keeps its key. Everyone who can decrypt the last epoch gets the key of the
/// new one. When it is interrupted, run it again: until it has ended, new objects have the key of
/// before.
#[derive(Debug, clap::Args)]
struct RotateArgs {
    #[command(flatten)]
    repo: RepoArgs,
}

/// Add or remove those who can decrypt an encrypted repository
///
/// A public key that is added is that of a recovery key file ("walzip key init --recovery"): it can
/// decrypt everything. One that is removed may have kept the keys: "walzip key rotate" afterwards, and
/// what is put from then on is safe.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  walzip key rewrap --add age1... --repo /var/lib/walzip
  walzip key rewrap --remove age1... --repo /var/lib/walzip")]
struct RewrapArgs {
    /// A public key to add; may be repeated
    #[arg(long, value_name = "RECIPIENT", required_unless_present = "remove")]
    add: Vec<String>,

    /// A public key to remove; may be repeated
    #[arg(long, value_name = "RECIPIENT")]
    remove: Vec<String>,

    #[command(flatten)]
    repo: RepoArgs,
}

/// Runs the command.
pub fn run(args: KeyArgs) -> Result<(), CommandError> {
    match args.what {
        What::Init(args) => init(args),
        What::List(args) => list(&args.repo),
        What::Rotate(args) => rotate(&args.repo),
        What::Rewrap(args) => rewrap(args),
    }
}

fn init(args: InitArgs) -> Result<(), CommandError> {
    let key_file = match args.recovery {
        true => KeyFile::generate_recovery(),
        false => KeyFile::generate(),
    };
    let output = OutputFile::create(&args.file, false, true);
    let mut output = output.map_err(|error| match error.kind() {
        Kind::FileExists => error.hint(
            "It may be the key of a repository, which nobody can read without it: name another file.",
        ),
        _ => error,
    })?;
    let written = output.write_all(key_file.text().as_bytes());
    written.map_err(|error| CommandError::write(&args.file, &error))?;
    output.publish()?;
    for recipient in key_file.recipients() {
        say(format_args!("public key: {recipient}"))?;
    }
    Ok(())
}

fn list(repo: &RepoArgs) -> Result<(), CommandError> {
    let place = repo.place(&repo.config()?)?;
    let known = runtime::block_on(async { Ok(epochs(&place)?.recipients().await?) })?;
    if known.is_empty() {
        return say(format_args!("repository {place} is not encrypted"));
    }
    for epoch in known {
        for recipient in &epoch.recipients {
            say(format_args!("epoch {}: {recipient}", epoch.epoch))?;
        }
    }
    Ok(())
}

fn rotate(repo: &RepoArgs) -> Result<(), CommandError> {
    let place = repo.sole_place(&repo.config()?)?;
    running_as_root::refuse_foreign_repository(&place)?;
    let epoch = runtime::block_on(async { Ok(epochs(&place)?.rotate().await?) })?;
    say(format_args!("what is put from now on is of epoch {epoch}"))
}

fn rewrap(args: RewrapArgs) -> Result<(), CommandError> {
    let place = args.repo.sole_place(&args.repo.config()?)?;
    let add = recipients(&args.add)?;
    let remove = recipients(&args.remove)?;
    running_as_root::refuse_foreign_repository(&place)?;
    runtime::block_on(async {
        let epochs = epochs(&place)?;
        epochs.add(&add).await?;
        for recipient in &add {
            say(format_args!(
                "added {recipient}: a recovery key file with this public key can read the \
                 repository; one without the line \"# walzip: recovery\" does not"
            ))?;
        }
        for recipient in &remove {
            let copies = epochs.remove(recipient).await?;
            say(format_args!("removed {recipient} from {copies} epochs"))?;
        }
        Ok(())
    })
}

/// Reads recipients as they are given on a command line.
pub(super) fn recipients(texts: &[String]) -> Result<Vec<Recipient>, CommandError> {
    let read = texts.iter().map(|text| text.parse().map_err(Into::into));
    read.collect()
}

fn epochs(place: &repo_args::Place) -> Result<Epochs, CommandError> {
    let epochs = walzip_repo::open_epochs(place, &place.settings)?;
    epochs.ok_or_else(no_key_file)
}

/// What is said where a key file is needed.
pub(super) fn no_key_file() -> CommandError {
    CommandError::new(Kind::OptionRequired, "no key file is named").hint(
        "Use --repo-key-file, WALZIP_REPO_KEY_FILE, or the key \"repo-key-file\" of the \
         configuration file.",
    )
}

fn say(line: impl std::fmt::Display) -> Result<(), CommandError> {
    let written: io::Result<()> = writeln!(io::stdout(), "{line}");
    written.map_err(CommandError::stdout)
}
