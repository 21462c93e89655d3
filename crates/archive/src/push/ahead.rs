//! The worker behind `archive-push`: pushes the segments that PostgreSQL waits for before it asks
//! for each of them.
//!
//! Only what is marked as ready is pushed, oldest first. Several segments are encoded and proven at a
//! time, but each is stored after the one before it was: where another cluster has taken a position,
//! the segment there is refused, and what follows must not get in behind it. A segment is acknowledged
//! after all repositories have it, never before. The first failure is recorded for the call that will
//! ask for that segment, and ends the worker: that call tells PostgreSQL, and PostgreSQL's next
//! attempt starts another one.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::oneshot;

use crate::error::ArchiveError;
use crate::push::archive_status::{ArchiveStatus, NAMES_MAX};
use crate::spool::{FileFacts, PushSpool};

/// How often it looks for work.
const TICK: Duration = Duration::from_millis(10);

/// A directory may change without another time when it changed so recently: file systems count in
/// steps of some milliseconds.
const TIME_STEP: Duration = Duration::from_millis(100);

/// An acknowledgement is looked at again after so long: it may be none any more.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// How the worker works.
#[derive(Clone, Debug)]
pub struct PushAheadOptions {
    /// The cluster's data directory, by its whole path.
    pub data_directory: PathBuf,
    /// How many files are on their way at a time.
    pub files_max: usize,
    /// It ends when there was nothing to do for so long; without this, never.
    pub idle: Option<Duration>,
}

/// Why the worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// There was nothing to do for the time that was set.
    Idle,
    /// It was asked to.
    Stopped,
    /// The last call wanted other settings.
    OtherSettings,
    /// Another data directory is at the path.
    OtherDirectory,
    /// A file could not be pushed.
    Failed,
}

/// A file's turn to be stored.
pub struct Turn(Option<oneshot::Receiver<()>>);

impl Turn {
    /// Waits for it. It does not come where the file before could not be stored.
    pub async fn comes(self) -> bool {
        match self.0 {
            Some(before) => before.await.is_ok(),
            None => true,
        }
    }
}

/// Pushes a file into all repositories, storing it when its turn comes, and says what file it was;
/// or why it could not, or nothing where its turn did not come.
type Push<'a> = dyn Fn(PathBuf, Turn) -> LocalBoxFuture<'a, Result<FileFacts, Option<String>>> + 'a;

/// Pushes what is ready until there is nothing more to do, a file fails, or `stop` is there. What
/// was begun is finished, whatever fails.
pub async fn push_ahead(
    spool: &PushSpool,
    options: &PushAheadOptions,
    push: &Push<'_>,
    stop: impl Future<Output = ()>,
) -> Result<Ended, ArchiveError> {
    spool.forget_failures();
    let mut queue = Queue::new(spool, &options.data_directory)?;
    let mut alive = spool.alive();
    let mut running = FuturesUnordered::new();
    let mut before = None;
    let mut ending = None;
    let mut last_work = Instant::now();
    let mut stop = std::pin::pin!(stop.fuse());
    loop {
        alive.show();
        ending = ending.or_else(|| queue.reason_to_end().map(Ok));
        while ending.is_none() && running.len() < options.files_max.max(1) {
            let name = match queue.next() {
                Ok(Some(name)) => name,
                Ok(None) => break,
                Err(error) => {
                    ending = Some(Err(error));
                    break;
                }
            };
            tracing::debug!("pushing {name} ahead");
            let path = queue.pg_wal.join(&name);
            let (stored, next) = oneshot::channel();
            let turn = Turn(before.replace(next));
            running.push(push(path, turn).map(move |pushed| (name, stored, pushed)));
        }
        if running.is_empty() {
            // What comes next follows upon what is stored.
            before = None;
            let is_idle = options.idle.is_some_and(|idle| last_work.elapsed() > idle);
            if let Some(ended) = ending.take().or(is_idle.then_some(Ok(Ended::Idle))) {
                return ended;
            }
        } else {
            last_work = Instant::now();
        }
        tokio::select! {
            Some((name, stored, pushed)) = running.next() => {
                match queue.finish(&name, pushed) {
                    // Nobody waits for it where it was the last one.
                    Ok(true) => drop(stored.send(())),
                    Ok(false) => ending = ending.or(Some(Ok(Ended::Failed))),
                    Err(error) => ending = Some(Err(error)),
                }
            }
            () = tokio::time::sleep(TICK) => {}
            () = &mut stop => ending = ending.or(Some(Ok(Ended::Stopped))),
        }
    }
}

/// What is to be pushed next.
struct Queue<'s> {
    spool: &'s PushSpool,
    status: ArchiveStatus,
    data_directory: PathBuf,
    /// What the data directory was at the beginning.
    identity: (u64, u64),
    pg_wal: PathBuf,
    waiting: VecDeque<String>,
    /// What is being pushed, and what was acknowledged, with the time at which that was found.
    begun: HashMap<String, State>,
    /// When the directory was read last, and the time that it had, if that tells of any change.
    read: Option<(Instant, SystemTime)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Acknowledged(Instant),
}

impl State {
    fn is_certain(self) -> bool {
        match self {
            State::Running => true,
            State::Acknowledged(found) => found.elapsed() < LOOK_AGAIN,
        }
    }
}

impl<'s> Queue<'s> {
    fn new(spool: &'s PushSpool, data_directory: &Path) -> Result<Queue<'s>, ArchiveError> {
        let identity = identity(data_directory)
            .map_err(|error| ArchiveError::file("read", data_directory, error))?;
        Ok(Queue {
            spool,
            status: ArchiveStatus::of(data_directory),
            data_directory: data_directory.to_owned(),
            identity,
            pg_wal: data_directory.join("pg_wal"),
            waiting: VecDeque::new(),
            begun: HashMap::new(),
            read: None,
        })
    }

    fn reason_to_end(&self) -> Option<Ended> {
        if identity(&self.data_directory).ok() != Some(self.identity) {
            return Some(Ended::OtherDirectory);
        }
        (!self.spool.are_settings_wanted()).then_some(Ended::OtherSettings)
    }

    /// The oldest file that PostgreSQL will ask for.
    fn next(&mut self) -> Result<Option<String>, ArchiveError> {
        if self.waiting.is_empty() {
            self.read()?;
        }
        while let Some(name) = self.waiting.pop_front() {
            // It may have been archived by a call since.
            let is_wanted = self.status.is_ready(&name)
                && !self.status.is_before_its_history(&name)
                && !self.is_acknowledged(&name);
            if is_wanted {
                self.begun.insert(name.clone(), State::Running);
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Reads what is ready, unless nothing has changed.
    fn read(&mut self) -> Result<(), ArchiveError> {
        let failed = |error: io::Error| ArchiveError::file("read", &self.pg_wal, error);
        let changed = self.status.changed().map_err(failed)?;
        let is_read =
            |(at, time): (Instant, SystemTime)| time == changed && at.elapsed() < LOOK_AGAIN;
        if self.read.is_some_and(is_read) {
            return Ok(());
        }
        let begun = &self.begun;
        let is_new = |name: &str| !begun.get(name).is_some_and(|state| state.is_certain());
        let names = self.status.segments(is_new).map_err(failed)?;
        let age = SystemTime::now().duration_since(changed);
        let is_all = names.len() < NAMES_MAX && age.is_ok_and(|age| age > TIME_STEP);
        self.read = is_all.then(|| (Instant::now(), changed));
        if names.is_empty() {
            // What PostgreSQL no longer waits for is of no interest.
            let status = &self.status;
            self.begun
                .retain(|name, state| *state == State::Running || status.is_ready(name));
            self.spool.clean(|name| status.is_ready(name));
        }
        self.waiting = names.into();
        Ok(())
    }

    /// Whether this very file is acknowledged.
    fn is_acknowledged(&mut self, name: &str) -> bool {
        let facts = FileFacts::read(&self.pg_wal.join(name));
        let is_acknowledged = facts.is_ok_and(|facts| self.spool.is_acknowledged(&facts));
        if is_acknowledged {
            let state = State::Acknowledged(Instant::now());
            self.begun.insert(name.to_owned(), state);
        }
        is_acknowledged
    }

    /// Acknowledges what was pushed, or records why it was not. Says whether it was.
    fn finish(
        &mut self,
        name: &str,
        pushed: Result<FileFacts, Option<String>>,
    ) -> Result<bool, ArchiveError> {
        match pushed {
            Ok(facts) => {
                let state = State::Acknowledged(Instant::now());
                self.begun.insert(name.to_owned(), state);
                self.spool.acknowledge(&facts)?;
                Ok(true)
            }
            Err(why) => {
                self.begun.remove(name);
                if let Some(why) = why {
                    self.spool.fail(name, &why)?;
                }
                Ok(false)
            }
        }
    }
}

fn identity(directory: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::metadata(directory)?;
    Ok((metadata.dev(), metadata.ino()))
}
