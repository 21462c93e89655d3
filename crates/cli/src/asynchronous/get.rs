//! `archive-get` with a worker.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use walzip_archive::get::Got;
use walzip_archive::get_ahead::{GetAheadOptions, fetch_following, get_ahead};
use walzip_archive::spool::{self, GetSpool};
use walzip_pgformat::wal_file_name::WalFileName;

use super::{pause, settings, worker};
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::runtime;
use crate::sources::{Asked, Sources};

/// What a worker is about to have is waited for so long: the call would need as long itself.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The worker ends when no call came for so long.
const IDLE: Duration = Duration::from_secs(60);

/// So much of a pack is decoded and left by a call without a worker: the next calls find it.
const UNPACKED_BYTES_MAX: u64 = 256 << 20;

/// So much may lie ready, as with pgBackRest's `archive-get-queue-max`.
const BYTES_MAX: u64 = 128 << 20;

/// A call for a segment that a worker may have fetched.
pub struct Call<'s> {
    asked: &'s Asked,
    sources: &'s Sources,
    spool: GetSpool,
    /// Whether a worker is to be there.
    has_worker: bool,
}

impl<'s> Call<'s> {
    /// Nothing for what is fetched by the call alone: all without a spool, what no cluster asks for,
    /// and what is no segment.
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
        let settings = settings(sources.places(), &"");
        let spool = GetSpool::open(spool_path, data_directory, &settings)?;
        match asked.name.parse() {
            Ok(WalFileName::Segment(_)) => {}
            // What timelines there are is asked where a recovery begins.
            Ok(WalFileName::History(_)) => {
                if let Some(spool) = spool {
                    spool.begin_again();
                }
                return Ok(None);
            }
            _ => return Ok(None),
        }
        Ok(spool.map(|spool| Call {
            asked,
            sources,
            spool,
            has_worker,
        }))
    }

    /// Takes the segment if a worker has fetched it; says how large it is.
    pub fn take(&self) -> Option<u64> {
        let taken = self.try_take().unwrap_or_else(|error| {
            tracing::warn!("{}; what was fetched ahead is not used", error.message());
            None
        });
        taken.inspect(|&original_bytes| self.advance(original_bytes))
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

    /// Records that the segment was given out. After two in a row a worker is started: pg_rewind asks
    /// backwards, and a standby for one at a time.
    pub fn advance(&self, original_bytes: u64) {
        if let Err(error) = self.try_advance(original_bytes) {
            tracing::warn!("{}; nothing is fetched ahead", error.message());
        }
    }

    fn try_advance(&self, original_bytes: u64) -> Result<(), CommandError> {
        if self.spool.advance(&self.asked.name, original_bytes)?
            && self.has_worker
            && let Some(lock) = self.spool.try_lock()?
        {
            worker::start("archive-get", lock.into_file(), self.spool.log()?)?;
        }
        Ok(())
    }

    /// Whether a worker is to be there.
    pub fn has_worker(&self) -> bool {
        self.has_worker
    }

    /// Leaves the segments for the next calls that follow in the pack of the one that was got: its
    /// decoder is gone with this process.
    pub async fn leave_following(&self, following: usize) {
        let fetch = |name, path| self.fetch(name, path, self.asked.data_directory.clone());
        let fetched = fetch_following(&self.spool, following, UNPACKED_BYTES_MAX, &fetch);
        if let Err(error) = fetched.await {
            tracing::warn!("{error}; what follows in the pack is decoded when it is asked for");
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
        };
        async move {
            // Without a control file, the newest cluster's would be meant.
            if asked.cluster_directory().is_none() {
                return Err("the data directory is gone".to_owned());
            }
            match self.sources.get(&asked).await {
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
