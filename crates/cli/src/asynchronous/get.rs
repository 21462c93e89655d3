//! `archive-get` with a worker.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use walzip_archive::get::Got;
use walzip_archive::get::ahead::{GetAheadOptions, fetch_following, get_ahead};
use walzip_archive::spool::{self, Advance, GetSpool};
use walzip_pgformat::wal_file_name::WalFileName;

use super::{pause, settings, worker};
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::runtime;
use crate::sources::{Asked, Sources};

/// What a worker is about to have is waited for so long: the call would need as long itself, as it
/// may in a pack.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The worker ends when no call came for so long.
const IDLE: Duration = Duration::from_secs(60);

/// So much may lie ready: enough to replay while a worker comes to the middle of a pack.
const BYTES_MAX: u64 = 256 << 20;

/// A call for a segment that a worker may have fetched, or for a history.
pub struct Call<'s> {
    asked: &'s Asked,
    sources: &'s Sources,
    spool: GetSpool,
    /// Whether a worker is to be there.
    has_worker: bool,
    /// Whether the spool knows of the segment: it may be found again, where it could not be decoded.
    is_recorded: Cell<bool>,
}

impl<'s> Call<'s> {
    /// Nothing for what is fetched by the call alone: all without a spool, what no cluster asks for,
    /// and what is neither a segment nor a history.
    pub fn of(
        asked: &'s Asked,
        sources: &'s Sources,
        spool_path: Option<&Path>,
        has_worker: bool,
    ) -> Result<Option<Call<'s>>, CommandError> {
        let (Some(spool_path), Some(data_directory)) = (spool_path, asked.cluster_directory())
        else {
            return Ok(None);
        };
        let settings = settings(sources.places(), &asked.expected_end);
        let spool = GetSpool::open(spool_path, data_directory, &settings)?;
        if !matches!(
            asked.name.parse(),
            Ok(WalFileName::Segment(_) | WalFileName::History(_))
        ) {
            return Ok(None);
        }
        Ok(spool.map(|spool| Call {
            asked,
            sources,
            spool,
            has_worker,
            is_recorded: Cell::new(false),
        }))
    }

    /// Whether it is for a history, which no worker fetches.
    pub fn is_for_history(&self) -> bool {
        matches!(self.asked.name.parse(), Ok(WalFileName::History(_)))
    }

    /// What timelines there are is asked where a recovery begins. A worker fetches its first segments meanwhile.
    pub fn begin_recovery(&self) {
        self.spool.begin_again();
        if !self.has_worker {
            return;
        }
        let begun = self.spool.expect_first().map_err(CommandError::from);
        let started = begun.and_then(|is_expected| match is_expected {
            true => self.start_worker(),
            false => Ok(()),
        });
        if let Err(error) = started {
            tracing::warn!("{}; nothing is fetched ahead", error.message());
        }
    }

    /// Takes the segment if a worker has fetched it; says how large it is.
    pub fn take(&self) -> Option<u64> {
        let taken = self.try_take().unwrap_or_else(|error| {
            tracing::warn!("{}; what was fetched ahead is not used", error.message());
            None
        });
        taken.inspect(|_| self.found(0))
    }

    fn try_take(&self) -> Result<Option<u64>, CommandError> {
        let name = &self.asked.name;
        let begun = Instant::now();
        while self.spool.is_fetching(name)
            && begun.elapsed() < WAIT_MAX
            && !self.spool.is_stuck()
            && self.spool.try_lock()?.is_none()
        {
            pause();
        }
        let Some(prefetched) = self.spool.find(name) else {
            return Ok(None);
        };
        Ok(prefetched.deliver(&self.asked.destination)?)
    }

    /// Records that the segment was found, before it is decoded. Where a recovery begins or goes on,
    /// a worker fetches those that follow meanwhile; pg_rewind asks backwards. So many follow in the
    /// same pack: those have to wait for it.
    pub fn found(&self, following: usize) {
        if following == 0 {
            self.record(|advance| match advance {
                Advance::Begun | Advance::Following if self.has_worker => self.start_worker(),
                _ => Ok(()),
            });
        }
    }

    /// The segment was given out. Those that follow in its pack are decoded, after two in a row, or where a recovery
    /// begins to replay.
    pub fn gave(&self, following: usize) {
        self.record(|advance| match (advance, following) {
            (Advance::Following, 1..) => self.go_on_in_pack(following),
            (Advance::Begun, 1..) if self.begins_replay() => self.go_on_in_pack(following),
            _ => Ok(()),
        });
    }

    /// Whether a recovery that a restore has planned begins with the segment. Where its checkpoint is in a later one, it
    /// asks for that first.
    fn begins_replay(&self) -> bool {
        let directory = self.asked.cluster_directory();
        let first = directory.and_then(walzip_archive::first_segment_of_replay);
        self.asked.expected_end.is_some()
            && first.is_some_and(|first| first.to_string() == self.asked.name)
    }

    fn record(&self, then: impl Fn(Advance) -> Result<(), CommandError>) {
        if self.is_recorded.replace(true) {
            return;
        }
        let advanced = self.spool.advance(&self.asked.name);
        if let Err(error) = advanced.map_err(CommandError::from).and_then(then) {
            tracing::warn!("{}; nothing is fetched ahead", error.message());
        }
    }

    fn start_worker(&self) -> Result<(), CommandError> {
        if let Some(lock) = self.spool.try_lock()? {
            worker::start("archive-get", lock.into_file(), self.spool.log()?)?;
        }
        Ok(())
    }

    /// Leaves the segments for the next calls that follow in the pack of the one that was got, since
    /// the pack's decoder is gone with this process. A worker goes on from there, and removes what
    /// nobody has asked for.
    fn go_on_in_pack(&self, following: usize) -> Result<(), CommandError> {
        self.spool
            .remember(&self.asked.name, &self.asked.destination)?;
        let fetch = |name, path| self.fetch(name, path, self.asked.data_directory.clone());
        let left = runtime::block_on(async {
            let left = fetch_following(&self.spool, following, BYTES_MAX, &fetch);
            Ok(left.await?)
        })?;
        match left {
            Some(_) => self.start_worker(),
            None => Ok(()),
        }
    }

    fn fetch(
        &self,
        name: String,
        destination: PathBuf,
        data_directory: Option<PathBuf>,
    ) -> LocalBoxFuture<'_, Result<bool, String>> {
        let asked = Asked {
            name,
            destination,
            data_directory,
            expected_end: self.asked.expected_end,
        };
        async move {
            // Without a control file, the newest cluster's would be meant.
            if asked.cluster_directory().is_none() {
                return Err("the data directory is gone".to_owned());
            }
            match self.sources.get(&asked, &|_| ()).await {
                Ok(got) => Ok(got != Got::NotFound),
                Err(error) => Err(error.message().to_owned()),
            }
        }
        .boxed_local()
    }

    /// Is the worker.
    pub fn work(&self, process_max: usize) -> Result<(), CommandError> {
        worker::leave_session();
        if !worker::lock().is_ok_and(|lock| self.spool.is_lock(&lock)) {
            let message = "--worker is for walzip itself: the lock is not its standard input";
            return Err(CommandError::new(Kind::Usage, message));
        }
        let options = GetAheadOptions {
            process_max,
            bytes_max: BYTES_MAX,
            idle: IDLE,
        };
        let data_directory = self
            .asked
            .data_directory
            .as_deref()
            .unwrap_or(Path::new("."));
        let data_directory = spool::canonical(data_directory)?;
        worker::leave_directory(self.sources.places());
        let fetch = |name, destination| self.fetch(name, destination, Some(data_directory.clone()));
        runtime::block_on(async {
            Ok(get_ahead(&self.spool, &options, &fetch, worker::asked_to_end()).await?)
        })
    }
}
