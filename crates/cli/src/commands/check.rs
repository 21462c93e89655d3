//! `walzip check`: does archiving work?

use std::io::Write;
use std::time::Duration;

use walzip_archive::check::{Arrival, Checked, MissingWal, check};
use walzip_archive::replication::ConnectionSettings;
use walzip_archive::{ArchiveError, SegmentRange};
use walzip_repo::{Location, Repository, probe_store};

use super::expire;
use crate::archive_command::{self, Destination, Setting};
use crate::competing_timelines;
use crate::config::Config;
use crate::connection_args::ConnectionArgs;
use crate::duration::SECONDS_MAX;
use crate::each_repository::each;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::repo_args::{self, Place, RepoArgs};
use crate::runtime;

/// Check that the server's WAL arrives in the repository
///
/// Asks the server which cluster it is, forces a WAL switch and waits until the segment is in
/// the repository. Says how long that took and whether archive_command or "walzip receive" did it or,
/// when the segment does not come, what the server's settings and its archiver say of the reason, and whether
/// the repository can be written. Where something else has brought it, such as "walzip serve", the server's own
/// archiver has to succeed too. It fails as well where WAL is missing after the newest backup, which no restore
/// gets past, and where another server has archived as this cluster, so that a restore asks which is meant. On a
/// standby, where no switch can be forced, only the cluster is compared. Without --repo, all repositories of the
/// configuration file are checked.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Example:
  walzip check --repo /var/lib/walzip -h /var/run/postgresql"
)]
pub struct CheckArgs {
    #[command(flatten)]
    repo: RepoArgs,

    /// How long to wait for the segment
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=SECONDS_MAX))]
    archive_timeout: u64,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Runs the command.
pub fn run(args: CheckArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    config.check_values()?;
    let places = args.repo.places(&config, None)?;
    repo_args::refuse_the_same(&places, Location::leads_to_same_place)?;
    if lacks_retention(&config)? {
        tracing::warn!(
            "expire-every is set, and no retention: \"walzip serve\" does not start unless its environment has one \
             (repo-retention-full, repo-retention-window)"
        );
    }
    let settings = args.connection.settings(&config)?;
    let timeout = Duration::from_secs(args.archive_timeout);
    each(&places, |place| check_one(place, &settings, timeout))
        .finish()
        .map(|_| ())
}

fn check_one(
    location: &Place,
    settings: &ConnectionSettings,
    timeout: Duration,
) -> Result<(), CommandError> {
    let Checked {
        arrival,
        missing,
        competing,
    } = runtime::block_on(async {
        let repository = repo_args::open(location).await?;
        if !location.is_local() {
            probe_store(repository.store()).await?;
        }
        match check(&repository, settings, timeout).await {
            Ok(checked) => Ok(checked),
            Err(error) => Err(explain(error, &repository, location).await),
        }
    })?;
    let mut out = std::io::stdout();
    match &arrival {
        Some(arrival) => report(&mut out, arrival, location),
        None => writeln!(
            out,
            "the server is the repository's cluster, and a standby: archiving was not tested"
        ),
    }
    .map_err(CommandError::stdout)?;
    if let Some(Arrival { archiver, .. }) = &arrival {
        archive_command::check_exit_code(archiver, location)?;
    }
    match missing {
        Some(missing) => Err(failure_of_missing(&missing)),
        None if !competing.is_empty() => {
            let question = competing_timelines::question(&competing);
            Err(CommandError::new(Kind::Problems, question).hint(
                "A restore asks which is meant. Stop the server that is not production first: it goes on archiving.",
            ))
        }
        None => Ok(()),
    }
}

/// Whether `serve` does not start with a file, unless its own variables have a retention.
fn lacks_retention(config: &Config) -> Result<bool, CommandError> {
    if config.expire_every.is_none() {
        return Ok(false);
    }
    // Where the file names none, its keys are those of the one that a variable names.
    let numbers = std::iter::once(1).chain(config.repositories());
    for number in numbers {
        if expire::has_retention(&config.of_repository(number)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Why a check failed. Where a segment does not arrive, it is tried whether anything can be put there: the server's
/// command would fail of the same.
async fn explain(error: ArchiveError, repository: &Repository, location: &Place) -> CommandError {
    let is_late = archive_command::is_late(&error, location);
    let explained = archive_command::explain(error, location);
    if !is_late {
        return explained;
    }
    match repository.try_writing().await {
        Ok(()) => explained,
        Err(error) => {
            let cause = CommandError::from(error);
            let message = format!(
                "{}; this command cannot write there either: {}",
                explained.message(),
                cause.message()
            );
            let hint = cause.hint_text().or(explained.hint_text());
            CommandError::new(explained.kind(), message).hint(hint.unwrap_or_default())
        }
    }
}

/// PostgreSQL marks on a standby as archived what its primary was to archive: whoever is promoted never
/// archives that.
fn failure_of_missing(missing: &MissingWal) -> CommandError {
    let MissingWal { backup, segments } = missing;
    let SegmentRange {
        first,
        last,
        segments: count,
        ..
    } = segments;
    let which = match count {
        1 => format!("segment {first} is"),
        _ => format!("{count} segments, {first} to {last}, are"),
    };
    let message = format!("{which} missing after backup {backup}: no restore gets past that");
    CommandError::new(Kind::Problems, message).hint(format_args!(
        "Where this server's pg_wal has what is missing, or that of one that was primary before, push it: walzip \
         archive-push PGDATA/pg_wal/{first}. Where another repository of the configuration file has it: walzip sync. \
         Otherwise take a backup: walzip backup. If check says \
         the same after that, another server has archived ahead of this one: \"walzip timeline set-aside\" with \
         --from puts its WAL away"
    ))
}

fn report(out: &mut impl Write, arrival: &Arrival, location: &Location) -> std::io::Result<()> {
    let Arrival {
        segment,
        took,
        archiver,
        is_received,
    } = arrival;
    let seconds = took.as_secs_f64();
    writeln!(
        out,
        "{segment} was archived in {seconds:.1} s and is in {location}"
    )?;
    let setting = Setting(archiver);
    let archives = archiver.mode != "off" && !archiver.has_no_command();
    match Destination::of(archiver, location) {
        Destination::OtherProgram | Destination::Library if *is_received => {
            write!(out, "\"walzip receive\" brings WAL here")?;
            match archives {
                true => writeln!(out, "; {setting} is not walzip's")?,
                false => writeln!(out, "; the server archives nothing itself")?,
            }
        }
        Destination::Here => writeln!(out, "{setting}")?,
        Destination::Elsewhere(_) => {
            writeln!(
                out,
                "{setting}, which leads to {location} under another name"
            )?;
        }
        Destination::Unclear(why) => writeln!(out, "{setting}; the repository: {why}")?,
        Destination::OtherProgram | Destination::Library => {
            writeln!(
                out,
                "{setting}, which is not walzip's: something else brings WAL here"
            )?;
        }
    }
    if let Some(failed) = archiver.past_failure() {
        writeln!(
            out,
            "an earlier failure, at {} for {}, is past: WAL was archived since",
            failed.time, failed.wal
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_serve_would_not_start_with_is_known() {
        let lacks = |text: &str| {
            let config = Config::parse(text).expect("valid");
            lacks_retention(&config).expect("valid")
        };
        let without = "repo = \"/r\"\nexpire-every = \"1d\"\n";
        assert!(lacks(without));
        assert!(lacks("expire-every = \"1d\"\n"));
        assert!(!lacks("repo = \"/r\"\n"));
        for retention in [
            "repo-retention-full = 2",
            "repo2 = \"/s\"\nrepo2-retention-window = \"14d\"",
        ] {
            assert!(!lacks(&format!("{without}{retention}\n")));
        }
    }
}
