//! The worker of `archive-push`, for ever.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use walzip_archive::push::ahead::Ended;

use super::Stop;
use crate::asynchronous::push::Worker;
use crate::destinations::Destinations;
use crate::error::CommandError;

const PAUSE: Duration = Duration::from_secs(1);
/// After failures the pauses grow to this.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What is pushed, and where to.
pub struct Pushing<'s> {
    /// The cluster's data directory. It may come later.
    pub data_directory: PathBuf,
    /// Where calls and the worker meet.
    pub spool_path: PathBuf,
    /// The repositories.
    pub destinations: Destinations<'s>,
    /// How many files are encoded at a time.
    pub process_max: usize,
}

/// Pushes what is ready until it is to stop. A call can do without this: where it fails, the call
/// for that file has the error, and tells PostgreSQL.
pub(super) async fn push_for_ever(pushing: &Pushing<'_>, stop: Stop) {
    let mut pause = PAUSE;
    loop {
        let begun = Instant::now();
        let ended = push(pushing, stop.clone()).await;
        if begun.elapsed() > PAUSE_MAX {
            // It went well for a while: this failure is a new one.
            pause = PAUSE;
        }
        pause = match ended {
            Ok(Some(Ended::Stopped)) => return,
            // A worker that a call has started ends soon.
            Ok(None) => PAUSE,
            Ok(Some(Ended::OtherSettings)) => {
                tracing::warn!(
                    "archive_command has other settings or repositories than this service had, and \
                     archives by itself for now: unless a repository was made anew, or a file of keys or credentials \
                     has changed meanwhile, give both the same flags, configuration file and variables"
                );
                PAUSE_MAX
            }
            Ok(Some(Ended::OtherDirectory)) => PAUSE,
            Ok(Some(Ended::Failed | Ended::Idle)) => (pause * 2).min(PAUSE_MAX),
            Err(error) => {
                tracing::warn!("{}; trying again", error.message());
                (pause * 2).min(PAUSE_MAX)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.clone() => return,
        }
    }
}

/// Pushes until there is a reason to end; nothing where another worker has the lock. What is at the
/// paths is looked at anew each time.
async fn push(pushing: &Pushing<'_>, stop: Stop) -> Result<Option<Ended>, CommandError> {
    let Pushing {
        data_directory,
        spool_path,
        destinations,
        process_max,
    } = pushing;
    let worker = Worker::new(data_directory, destinations, spool_path)?;
    let Some(_lock) = worker.spool().try_lock()? else {
        return Ok(None);
    };
    worker.spool().claim()?;
    Ok(Some(worker.run(*process_max, None, stop).await?))
}
