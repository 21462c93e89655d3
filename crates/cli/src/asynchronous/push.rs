//! `archive-push` with a worker.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::FutureExt;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use walzip_archive::is_ready;
use walzip_archive::push::Pushed;
use walzip_archive::push::ahead::{Ended, PushAheadOptions, Turn, push_ahead};
use walzip_archive::spool::{self, FileFacts, PushSpool};
use walzip_codec::Level;
use walzip_pgformat::wal_file_name::WalFileName;

use super::{data_directory_of, pause, settings, worker};
use crate::destinations::Destinations;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::metrics::Counters;
use crate::runtime;

/// A call waits so long for its file; an operation on a store has a limit of its own, which is
/// shorter, so that its error comes first.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// A worker without a sign of life is waited for so long.
const STUCK_MAX: Duration = Duration::from_secs(10);

/// The worker ends when nothing was to do for so long.
const IDLE: Duration = Duration::from_secs(5);

/// A call for a segment that a worker may push.
pub struct Call<'d> {
    path: &'d Path,
    name: String,
    worker: Worker<'d>,
}

/// What pushes all segments of a data directory that are ready.
pub struct Worker<'d> {
    data_directory: PathBuf,
    destinations: &'d Destinations<'d>,
    spool: PushSpool,
}

/// A failure that the worker had, for the call to tell.
#[derive(Debug, Serialize, Deserialize)]
struct Failure {
    code: u8,
    message: String,
    hint: Option<String>,
}

impl<'d> Call<'d> {
    /// Nothing for what is pushed by the call itself: all without a spool, what is not in `pg_wal`,
    /// what PostgreSQL does not wait for, and what is no segment. PostgreSQL has histories archived
    /// first, and they decide what becomes of the segments.
    pub fn of(
        path: &'d Path,
        destinations: &'d Destinations<'d>,
        spool_path: Option<&Path>,
    ) -> Result<Option<Call<'d>>, CommandError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_segment = matches!(name.parse(), Ok(WalFileName::Segment(_)));
        let (Some(spool_path), Some(data_directory), true) =
            (spool_path, data_directory_of(path), is_segment)
        else {
            return Ok(None);
        };
        if !is_ready(&data_directory, &name) {
            return Ok(None);
        }
        Ok(Some(Call {
            path,
            name: name.into_owned(),
            worker: Worker::new(&data_directory, destinations, spool_path)?,
        }))
    }

    /// Waits until the worker, started where there is none, has pushed the segment or failed. Nothing
    /// where a worker said neither, or the spool fails: then the call pushes it itself.
    pub fn wait(&self) -> Option<Result<(), CommandError>> {
        self.try_wait().unwrap_or_else(|error| {
            tracing::warn!("{}; this call pushes {}", error.message(), self.name);
            None
        })
    }

    fn try_wait(&self) -> Result<Option<Result<(), CommandError>>, CommandError> {
        let Ok(facts) = FileFacts::read(self.path) else {
            // Pushing it tells why.
            return Ok(None);
        };
        let spool = &self.worker.spool;
        if spool.is_acknowledged(&facts) {
            return Ok(Some(self.acknowledged()));
        }
        // Of an earlier attempt.
        spool.take_failure(&self.name);
        spool.claim()?;
        let mut is_started = false;
        let begun = Instant::now();
        while begun.elapsed() < WAIT_MAX {
            // Before what it said is read: it may say it and end in between.
            let lock = spool.try_lock()?;
            if spool.is_acknowledged(&facts) {
                return Ok(Some(self.acknowledged()));
            }
            if let Some(failure) = spool.take_failure(&self.name) {
                return Ok(Some(Err(shown(&failure))));
            }
            match lock {
                Some(_) if is_started => return Ok(self.does_it_itself("ended")),
                Some(lock) => {
                    spool.claim()?;
                    worker::start("archive-push", lock.into_file(), spool.log()?)?;
                    is_started = true;
                }
                None if begun.elapsed() > STUCK_MAX && spool.is_stuck() => {
                    return Ok(self.does_it_itself("shows no sign of life"));
                }
                None => {}
            }
            pause();
        }
        Ok(self.does_it_itself("has not pushed it yet"))
    }

    /// A push is the same whoever does it, and how often.
    fn does_it_itself(&self, why: &str) -> Option<Result<(), CommandError>> {
        tracing::warn!(
            "the worker in the background {why}; this call pushes {}",
            self.name
        );
        None
    }

    fn acknowledged(&self) -> Result<(), CommandError> {
        tracing::info!("{} is archived", self.name);
        Ok(())
    }

    /// Is the worker.
    pub fn work(&self, process_max: usize) -> Result<(), CommandError> {
        worker::leave_session();
        worker::leave_directory(self.worker.destinations.places());
        if !worker::lock().is_ok_and(|lock| self.worker.spool.is_lock(&lock)) {
            let message = "--worker is for walzip itself: the lock is not its standard input";
            return Err(CommandError::new(Kind::Usage, message));
        }
        let stop = worker::asked_to_end();
        runtime::block_on(self.worker.run(process_max, Some(IDLE), stop))?;
        Ok(())
    }
}

impl<'d> Worker<'d> {
    /// Nothing is opened yet but the spool.
    pub fn new(
        data_directory: &Path,
        destinations: &'d Destinations<'d>,
        spool_path: &Path,
    ) -> Result<Worker<'d>, CommandError> {
        let spool = open_spool(data_directory, destinations, spool_path)?;
        destinations.note_in(spool.clone());
        Ok(Worker {
            spool,
            data_directory: spool::canonical(data_directory)?,
            destinations,
        })
    }

    /// The spool, where calls meet it.
    pub fn spool(&self) -> &PushSpool {
        &self.spool
    }

    /// Pushes until it is idle for so long, or `stop` is there. Who calls this has the lock.
    pub async fn run(
        &self,
        process_max: usize,
        idle: Option<Duration>,
        stop: impl Future<Output = ()>,
    ) -> Result<Ended, CommandError> {
        let options = PushAheadOptions {
            data_directory: self.data_directory.clone(),
            // As many again are being stored, or wait for that.
            files_max: 2 * process_max,
            idle,
        };
        let encoders = Semaphore::new(process_max);
        let push = |path: PathBuf, turn: Turn| self.push(path, &encoders, turn).boxed_local();
        Ok(push_ahead(&self.spool, &options, &push, stop).await?)
    }

    async fn push(
        &self,
        path: PathBuf,
        encoders: &Semaphore,
        turn: Turn,
    ) -> Result<FileFacts, Option<String>> {
        let pushing = self.destinations.push_in_turn(&path, encoders, turn);
        let Some(pushed) = pushing.await else {
            return Err(None);
        };
        let all = pushed.pushed.all();
        self.count(&all);
        match (pushed.facts, all) {
            (Some(facts), Ok(_)) => Ok(facts),
            (_, all) => {
                let failures = all.err().unwrap_or_default();
                for failure in &failures {
                    tracing::warn!("{}", failure.message());
                }
                Err(Some(told(&failures)))
            }
        }
    }

    /// Counts for `walzip metrics`, which is worth no failure.
    fn count(&self, all: &Result<Vec<Pushed>, Vec<CommandError>>) {
        let counted = self.spool.tally();
        let counted = counted.and_then(|counted| serde_json::from_slice(&counted).ok());
        let mut counters: Counters = counted.unwrap_or_default();
        match all {
            Ok(all) => {
                if let Some(first) = all.first() {
                    counters.add(first.original_bytes, first.stored_bytes);
                }
            }
            Err(failures) => {
                for failure in failures {
                    counters.add_failure(failure.kind());
                }
            }
        }
        if let Err(error) = self
            .spool
            .keep_tally(&serde_json::to_vec(&counters).unwrap_or_default())
        {
            tracing::debug!("what was pushed is not counted: {error}");
        }
    }
}

/// Has a call that pushes by itself note what it pushed, for the next one. Without a spool, each is compared with the
/// archive.
pub fn note_pushed(path: &Path, destinations: &Destinations<'_>, spool_path: Option<PathBuf>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (Some(spool_path), Some(directory), Ok(WalFileName::Segment(_))) =
        (spool_path, path.parent(), name.parse())
    else {
        return;
    };
    let directory = match directory.as_os_str().is_empty() {
        true => Path::new("."),
        false => directory,
    };
    // As a worker names it.
    let directory = data_directory_of(path).unwrap_or_else(|| directory.to_owned());
    match open_spool(&directory, destinations, &spool_path) {
        Ok(spool) => destinations.note_in(spool),
        Err(error) => tracing::debug!("{}", error.message()),
    }
}

fn open_spool(
    data_directory: &Path,
    destinations: &Destinations<'_>,
    spool_path: &Path,
) -> Result<PushSpool, CommandError> {
    let options = destinations.options();
    let how: Vec<(Level, bool)> = options
        .map(|options| (options.level, options.verify))
        .collect();
    let settings = settings(destinations.places(), &how);
    Ok(PushSpool::open(spool_path, data_directory, &settings)?)
}

/// Failures as text for another process.
fn told(failures: &[CommandError]) -> String {
    let failures: Vec<Failure> = failures
        .iter()
        .map(|error| Failure {
            code: error.kind().code(),
            message: error.message().to_owned(),
            hint: error.hint_text().map(str::to_owned),
        })
        .collect();
    serde_json::to_string(&failures).unwrap_or_default()
}

/// The failure that a worker has told. One of several is reported here, and the first one's exit
/// code is the program's.
fn shown(told: &str) -> CommandError {
    let failures: Vec<Failure> = serde_json::from_str(told).unwrap_or_default();
    let mut errors = failures.into_iter().map(|failure| {
        let kind = Kind::of_code(failure.code).unwrap_or(Kind::Internal);
        let error = CommandError::new(kind, failure.message);
        match failure.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    });
    let Some(first) = errors.next() else {
        return CommandError::new(Kind::Internal, "the worker failed without saying why");
    };
    let further: Vec<CommandError> = errors.collect();
    if further.is_empty() {
        return first;
    }
    first.report();
    for error in &further {
        error.report();
    }
    CommandError::silent(first.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_shown_as_the_worker_had_it() {
        let error = CommandError::new(Kind::ArchiveDuplicate, "it differs").hint("Look at it.");
        let found = shown(&told(&[error]));
        assert_eq!(found.kind(), Kind::ArchiveDuplicate);
        assert_eq!(found.message(), "it differs");
        assert_eq!(found.hint_text(), Some("Look at it."));
    }

    #[test]
    fn what_is_not_understood_is_a_failure_all_the_same() {
        for text in ["", "[]", "{", "[{\"code\":0}]"] {
            assert_eq!(shown(text).kind(), Kind::Internal, "{text}");
        }
    }
}
