//! The worker behind `archive-push`: pushes the segments that PostgreSQL waits for before it asks
//! for each of them.
//!
//! A segment is acknowledged after all repositories have it, never before. Several are pushed at a
//! time, oldest first. The first failure is recorded for the call that will ask for that segment, and
//! ends the worker: that call tells PostgreSQL, and PostgreSQL's next attempt starts another one.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};

use crate::archive_status::ArchiveStatus;
use crate::error::ArchiveError;
use crate::spool::{FileFacts, PushSpool};

/// How often it looks for work.
const TICK: Duration = Duration::from_millis(10);

/// A directory may change without another time when it changed so recently: file systems count in
/// steps of some milliseconds.
const TIME_STEP: Duration = Duration::from_millis(100);

/// How the worker works.
#[derive(Clone, Debug)]
pub struct PushAheadOptions {
    /// The cluster's data directory.
    pub data_directory: PathBuf,
    /// How many files it pushes at a time.
    pub process_max: usize,
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
    /// A file could not be pushed.
    Failed,
}

/// Pushes a file into all repositories, and says what file it was, or why it could not.
type Push<'a> = dyn Fn(PathBuf) -> LocalBoxFuture<'a, Result<FileFacts, String>> + 'a;

/// Pushes what is ready until there is nothing more to do, a file fails, or `stop` is there. What
/// was begun is finished.
pub async fn push_ahead(
    spool: &PushSpool,
    options: &PushAheadOptions,
    push: &Push<'_>,
    stop: impl Future<Output = ()>,
) -> Result<Ended, ArchiveError> {
    spool.forget_failures();
    let mut queue = Queue::new(spool, &options.data_directory);
    let mut running = FuturesUnordered::new();
    let mut ending = None;
    let mut last_work = Instant::now();
    let mut stop = std::pin::pin!(stop.fuse());
    loop {
        if ending.is_none() && !spool.are_settings_wanted() {
            ending = Some(Ended::OtherSettings);
        }
        while ending.is_none() && running.len() < options.process_max.max(1) {
            let Some(name) = queue.next()? else { break };
            tracing::debug!("pushing {name} ahead");
            let path = options.data_directory.join("pg_wal").join(&name);
            running.push(push(path).map(move |pushed| (name, pushed)));
        }
        if running.is_empty() {
            let is_idle = options.idle.is_some_and(|idle| last_work.elapsed() > idle);
            if let Some(ended) = ending.or(is_idle.then_some(Ended::Idle)) {
                return Ok(ended);
            }
        } else {
            last_work = Instant::now();
        }
        tokio::select! {
            Some((name, pushed)) = running.next() => {
                if !queue.finish(&name, pushed)? {
                    ending = Some(Ended::Failed);
                }
            }
            () = tokio::time::sleep(TICK) => {}
            () = &mut stop => ending = Some(Ended::Stopped),
        }
    }
}

/// What is to be pushed next.
struct Queue<'s> {
    spool: &'s PushSpool,
    status: ArchiveStatus,
    pg_wal: PathBuf,
    waiting: VecDeque<String>,
    /// What was begun; and what was acknowledged, with the time at which that was found.
    begun: HashMap<String, State>,
    /// The time of the directory when it was read last and nothing was in it that is not begun.
    read_at: Option<SystemTime>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Acknowledged,
}

impl<'s> Queue<'s> {
    fn new(spool: &'s PushSpool, data_directory: &Path) -> Queue<'s> {
        Queue {
            spool,
            status: ArchiveStatus::of(data_directory),
            pg_wal: data_directory.join("pg_wal"),
            waiting: VecDeque::new(),
            begun: HashMap::new(),
            read_at: None,
        }
    }

    /// The file that a call waits for, or else the oldest one that PostgreSQL will ask for.
    fn next(&mut self) -> Result<Option<String>, ArchiveError> {
        if let Some(name) = self.spool.take_request()
            && self.begun.get(&name) != Some(&State::Running)
            && !self.is_acknowledged(&name)
        {
            self.waiting.retain(|waiting| *waiting != name);
            self.begun.insert(name.clone(), State::Running);
            return Ok(Some(name));
        }
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
        if self.read_at == Some(changed) {
            return Ok(());
        }
        let is_new = |name: &str| !self.begun.contains_key(name);
        let names = self.status.segments(is_new).map_err(failed)?;
        let age = SystemTime::now().duration_since(changed);
        let is_certain = age.is_ok_and(|age| age > TIME_STEP);
        self.read_at = (names.is_empty() && is_certain).then_some(changed);
        if names.is_empty() {
            // Nothing else is to do: what PostgreSQL has asked for is no longer of interest.
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
            self.begun.insert(name.to_owned(), State::Acknowledged);
        }
        is_acknowledged
    }

    /// Acknowledges what was pushed, or records why it was not.
    fn finish(
        &mut self,
        name: &str,
        pushed: Result<FileFacts, String>,
    ) -> Result<bool, ArchiveError> {
        match pushed {
            Ok(facts) => {
                self.begun.insert(name.to_owned(), State::Acknowledged);
                self.spool.acknowledge(&facts)?;
                Ok(true)
            }
            Err(why) => {
                self.begun.remove(name);
                self.spool.fail(name, &why)?;
                Ok(false)
            }
        }
    }
}
