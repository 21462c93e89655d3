//! `walzip init`: a repository for one cluster.

use std::io::Write;

use walzip_archive::init::Source;
use walzip_repo::begin_encryption;
use walzip_repo::encryption::Recipient;

use crate::each_repository::each;
use crate::error::CommandError;
use crate::repo_args::{Place, RepoArgs};
use crate::source_args::SourceArgs;
use crate::{running_as_root, runtime};

/// Make a repository for a cluster
///
/// The repository is bound to the cluster's system identifier and major version, which are read
/// from its data directory, or asked of the running server when a connection flag is given or no
/// data directory is known. Doing it twice for the same cluster is harmless. A place in the data
/// directory or in a tablespace is refused: base backups would contain the repository, and a
/// restore would remove it.
///
/// With a key file ("walzip key init FILE") the repository is encrypted, for the key file and for
/// each --recipient. Without --repo, all repositories of the configuration file are made.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  walzip init --repo /var/lib/walzip --pgdata /var/lib/postgresql/15/main
  walzip init --repo /var/lib/walzip -h db1 -U backup
  walzip init --repo s3://wal-archive/db1 --repo-key-file /etc/walzip.key --recipient age1...

Then set in postgresql.conf:
  archive_mode = on
  archive_command = 'walzip archive-push --repo /var/lib/walzip %p'"
)]
pub struct InitArgs {
    #[command(flatten)]
    repo: RepoArgs,

    #[command(flatten)]
    source: SourceArgs,

    /// Another one who can decrypt the repository: a public key, age1...; may be repeated
    #[arg(long, value_name = "RECIPIENT", help_heading = "Repository")]
    recipient: Vec<String>,
}

/// Runs the command.
pub fn run(args: InitArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let places = args.repo.places(&config, None)?;
    let source = args.source.source(&config)?;
    let recipients = super::key::recipients(&args.recipient)?;
    each(&places, |place| init_one(place, &source, &recipients))
        .finish()
        .map(|_| ())
}

fn init_one(
    location: &Place,
    source: &Source,
    recipients: &[Recipient],
) -> Result<(), CommandError> {
    running_as_root::refuse_foreign_repository(location)?;
    if !recipients.is_empty() && location.settings.key_file.is_none() {
        return Err(super::key::no_key_file());
    }
    let done = runtime::block_on(async {
        begin_encryption(location, &location.settings, recipients).await?;
        Ok(walzip_archive::init::init_at(location, &location.settings, source).await?)
    })?;
    if done.created {
        running_as_root::warn_of_own_repository(location);
    }
    let what = match done.created {
        true => match location.settings.key_file {
            Some(_) => "created, encrypted".to_owned(),
            None => "created, not encrypted".to_owned(),
        },
        false if recipients.is_empty() => "exists already".to_owned(),
        false => format!(
            "exists already; its keys are given to {} more: \"walzip key list\" shows to whom",
            recipients.len()
        ),
    };
    writeln!(
        std::io::stdout(),
        "repository {location} for {}: {what}",
        done.cluster
    )
    .map_err(CommandError::stdout)
}
