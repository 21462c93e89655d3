//! `walzip archive-get`: what `restore_command` calls.

use std::path::{Path, PathBuf};
use std::time::Duration;

use walzip_archive::get::early_end;
use walzip_archive::get::{FoundWal, Got};
use walzip_archive::restore::RecoveryTarget;
use walzip_archive::{ArchiveError, ExpectedEnd};
use walzip_pgformat::Lsn;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};

use crate::asynchronous::{self, AsyncArgs, get::Call};
use crate::config::Config;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::repo_args::RepoArgs;
use crate::sources::{Asked, Sources};
use crate::store_args::ARCHIVE_TIMEOUT;
use crate::{running_as_root, runtime};

/// Get a WAL file from the archive (restore_command)
///
/// DEST appears complete or not at all, after every byte was checked. In a repository that was kept
/// through upgrades, the file is the newest cluster's, or in a data directory that cluster's. When
/// the archive does not have the file, which PostgreSQL asks for at the end of a recovery, the exit
/// code is 1 and nothing is printed. Storage that fails is tried again for some seconds, and storage
/// on another host for a minute.
///
/// Without --repo, the repositories of the configuration file are asked in the order of their
/// numbers, and the first one that has the file and can give it is taken. Where none has it and one
/// gave no answer, the exit code is not 1.
///
/// A segment of a pack is decoded after those before it. So the second call in a row, and the first one
/// of a recovery that "walzip restore" has planned, also decodes segments that follow, up to 256 MiB,
/// leaves them for the next calls, and a worker in the background goes on from there. They meet in the spool directory, or where there is none, in walzip-UID in the
/// directory for temporary files.
///
/// "walzip restore" says with --expected-end where the recovery is expected to end. Where PostgreSQL ends it before,
/// since a segment does not continue the one before it, the answer to its question for the next timeline is an error,
/// and it does not open the database. A recovery to a time (--target-time) ends at the first transaction that ended
/// later: a segment before the expected end is not given out if it has one, since a clock was ahead there, and what
/// follows would be left out.
///
/// Where the server's own file of a segment goes on after what the archive has of it, the exit code is 1, with a warning: PostgreSQL
/// replays its own file then, which it would have replaced.
///
/// With --archive-async, a worker in the background fetches the segments that will be asked for next.
/// What it has not fetched is fetched by the call, as always.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example, in postgresql.conf of a standby, which asks again by itself:
  restore_command = 'walzip archive-get --repo /var/lib/walzip %f %p'

A recovery does not ask again: PostgreSQL takes every exit code up to 125 for the end of the WAL,
and opens the database. \"walzip restore\" writes a command at which it stops instead. By hand:
  restore_command = 'walzip archive-get --repo /var/lib/walzip %f %p || exit $(($? == 1 ? 1 : 126))'")]
pub struct ArchiveGetArgs {
    /// The file's name: %f of restore_command
    name: String,

    /// Where to write it: %p of restore_command
    #[arg(value_name = "DEST")]
    destination: PathBuf,

    #[command(flatten)]
    repo: RepoArgs,

    #[command(flatten)]
    background: AsyncArgs,

    #[command(flatten)]
    end: EndArgs,
}

/// What "walzip restore" says to each call.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "A recovery that \"walzip restore\" has planned")]
struct EndArgs {
    /// Where the recovery is expected to end: one that ends before does not open the database
    #[arg(long, value_name = "LSN")]
    expected_end: Option<Lsn>,

    /// The time to which it goes: a segment before the expected end is refused if it would end there
    #[arg(long, value_name = "TIME", requires = "expected_end")]
    target_time: Option<String>,

    /// The timeline to which it goes
    #[arg(long, value_name = "TIMELINE")]
    to_timeline: Option<u32>,

    /// The first segment that the timeline has for itself to which it goes: no older timeline's is given in its
    /// place
    #[arg(long, value_name = "SEGMENT")]
    own_from: Option<String>,
}

impl EndArgs {
    /// The server asks for an older timeline's since it has not got the right one. A standby waits for that. Where the
    /// archive does not have the older one either, it says so.
    fn refuse_older(&self, asked: &Asked, sources: &Sources) -> Result<(), CommandError> {
        let segment = |name: &str| match name.parse() {
            Ok(WalFileName::Segment(segment)) => Some(segment),
            _ => None,
        };
        let Some(own) = self.own_from.as_deref().and_then(segment) else {
            return Ok(());
        };
        let is_older = segment(&asked.name).is_some_and(|asked| {
            let place = |of: SegmentName| (of.log, of.segment);
            place(asked) == place(own) && asked.timeline < own.timeline
        });
        if !is_older {
            return Ok(());
        }
        // Once the younger timeline is set aside, the older one's are right.
        let history = WalFileName::History(own.timeline).to_string();
        if !runtime::block_on(sources.have(asked, &history))? {
            return Ok(());
        }
        let directory = asked.data_directory.as_deref();
        let is_standby = directory.is_some_and(|of| of.join("standby.signal").exists());
        if is_standby {
            return Err(CommandError::silent(Kind::NotInArchive));
        }
        // What arrives a moment later must not be given either.
        if !runtime::block_on(sources.have(asked, &asked.name))? {
            return Err(CommandError::silent(Kind::NotInArchive));
        }
        let message = format!(
            "{} is not on the way to timeline {}, whose own segment {own} is not archived",
            asked.name, own.timeline
        );
        Err(CommandError::new(Kind::WalMissing, message).hint(
            "Copy that segment from pg_wal of the server that wrote it into pg_wal of this one, and start it again; \
             or restore up to where the timeline began, as \"walzip restore\" has said.",
        ))
    }

    fn expected(&self) -> Result<Option<ExpectedEnd>, CommandError> {
        let target = self.target_time.as_deref().map(RecoveryTarget::time);
        let time = match target.transpose()? {
            Some(RecoveryTarget::Time(time)) => Some(time),
            _ => None,
        };
        Ok(self.expected_end.map(|lsn| ExpectedEnd { lsn, time }))
    }
}

/// How long to wait before each further attempt when the repository's storage fails: a recovery
/// that gets no answer has to be started again by somebody.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(4),
];

/// How long a store may be asked where another repository can answer as well.
const TIMEOUT_OF_ONE_OF_SEVERAL: Duration = Duration::from_secs(15);

/// Runs the command.
pub fn run(args: ArchiveGetArgs) -> Result<(), CommandError> {
    let config = args.repo.config()?;
    let timeout = match args.repo.places(&config, None)?.len() {
        1 => ARCHIVE_TIMEOUT,
        _ => TIMEOUT_OF_ONE_OF_SEVERAL,
    };
    let sources = Sources::new(args.repo.places(&config, Some(timeout))?);
    let directory = args
        .destination
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    running_as_root::refuse_foreign_directory(directory.unwrap_or(Path::new(".")))?;
    let asked = Asked {
        name: args.name,
        // PostgreSQL runs restore_command in the data directory, and %p is relative to it. With
        // an absolute path, the current directory says nothing about who asks.
        data_directory: args.destination.is_relative().then(|| PathBuf::from(".")),
        destination: args.destination,
        expected_end: args.end.expected()?,
    };
    args.end.refuse_older(&asked, &sources)?;
    let call = call(&asked, &sources, &args.background, &config);
    if args.background.is_worker() {
        // The destination is that of a call which has ended: it may be another one's by now.
        return match &call {
            Some(call) => call.work(args.background.process_max(&config)?),
            None => Err(asynchronous::no_work()),
        };
    }
    let call = match call {
        Some(call) if call.is_for_history() => {
            call.begin_recovery();
            None
        }
        call => call,
    };
    if let Some(call) = &call
        && let Some(original_bytes) = call.take()
    {
        tracing::info!("got {}: {original_bytes} bytes, fetched ahead", asked.name);
        return Ok(());
    }
    let show = |found: &FoundWal| {
        if let Some(call) = &call {
            call.found(found.following().unwrap_or_default());
        }
    };
    match runtime::block_on(get(&sources, &asked, &show))? {
        Got::Found {
            original_bytes,
            stored_bytes,
            following,
        } => {
            tracing::info!(
                "got {}: {original_bytes} bytes, stored as {stored_bytes}",
                asked.name
            );
            if let Some(call) = call {
                call.gave(following.unwrap_or_default());
            }
            Ok(())
        }
        Got::NotFound => {
            refuse_early_end(&asked, &sources, args.end.to_timeline)?;
            tracing::info!("{} is not in the archive", asked.name);
            Err(CommandError::silent(Kind::NotInArchive))
        }
    }
}

/// A server that asks for a history that there is not may be about to open its database. Before it begins, it asks for
/// those of all numbers up to that of its timeline, of which some may have been set aside.
fn refuse_early_end(
    asked: &Asked,
    sources: &Sources,
    to_timeline: Option<u32>,
) -> Result<(), CommandError> {
    let is_history = match asked.name.parse() {
        Ok(WalFileName::History(timeline)) => to_timeline.is_none_or(|to| timeline.0 > to),
        _ => false,
    };
    let (Some(expected), Some(directory), true) =
        (asked.expected_end, asked.cluster_directory(), is_history)
    else {
        return Ok(());
    };
    match early_end::refuse(directory, expected) {
        Err(ArchiveError::EndedEarly { last, next, .. })
            if runtime::block_on(sources.have(asked, &next.to_string()))? =>
        {
            Err(early_end::refusal(last, expected).into())
        }
        other => Ok(other?),
    }
}

/// The call's part in the background. What is wrong with that is no reason to fail: PostgreSQL would
/// take it for the end of the WAL.
fn call<'s>(
    asked: &'s Asked,
    sources: &'s Sources,
    background: &AsyncArgs,
    config: &Config,
) -> Option<Call<'s>> {
    let call = background.spool_path(config).and_then(|path| match path {
        Some(path) => Call::of(asked, sources, Some(&path), true),
        // What a call decodes of a pack may be what the next ones ask for. Where the spool cannot be
        // used, each call decodes what it needs.
        None => {
            let path = background.usual_spool_path(config);
            Ok(path.and_then(|path| Call::of(asked, sources, Some(&path), false).ok()?))
        }
    });
    call.unwrap_or_else(|error| {
        tracing::warn!("{}; nothing is fetched ahead", error.message());
        None
    })
}

/// Gets it, and asks storage that fails again.
async fn get(
    sources: &Sources,
    asked: &Asked,
    show: &dyn Fn(&FoundWal),
) -> Result<Got, CommandError> {
    // A store on another host has been asked again already.
    let pauses = match sources.are_local() {
        true => &PAUSES[..],
        false => &[],
    };
    for &pause in pauses {
        match sources.get(asked, show).await {
            Err(error) if error.kind() == Kind::Service => {
                tracing::warn!("{}; trying again", error.message());
                tokio::time::sleep(pause).await;
            }
            other => return other,
        }
    }
    sources.get(asked, show).await
}
