//! Threads for one kind of work, whose results are taken in the order of the jobs.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use tokio::sync::oneshot;

use crate::error::ArchiveError;

/// More threads than this gain little, and take their memory.
const THREADS_MAX: usize = 8;

/// A thread for each processor, within reason.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, |count| count.get().min(THREADS_MAX))
}

/// What will be the result of a job.
pub(crate) struct Pending<R>(oneshot::Receiver<R>);

impl<R> Pending<R> {
    /// Waits for the result.
    pub(crate) async fn result(self) -> Result<R, ArchiveError> {
        self.0.await.map_err(|_| died())
    }

    /// Waits for the result on a thread that may block.
    pub(crate) fn blocking_result(self) -> Result<R, ArchiveError> {
        self.0.blocking_recv().map_err(|_| died())
    }
}

fn died() -> ArchiveError {
    ArchiveError::Internal("a thread died at its work".to_owned())
}

type Job<J, R> = (J, oneshot::Sender<R>);

/// The threads. They end when this is dropped and what was handed in is done.
pub(crate) struct Workers<J, R> {
    jobs: mpsc::Sender<Job<J, R>>,
}

impl<J: Send + 'static, R: Send + 'static> Workers<J, R> {
    /// Starts threads, each of which does its own work.
    pub(crate) fn start<W: FnMut(J) -> R + Send + 'static>(
        threads: usize,
        mut new_work: impl FnMut() -> W,
    ) -> Result<Workers<J, R>, ArchiveError> {
        let (jobs, waiting) = mpsc::channel::<Job<J, R>>();
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..threads.max(1) {
            let (waiting, mut work) = (Arc::clone(&waiting), new_work());
            let run = move || {
                while let Some((job, result)) = next(&waiting) {
                    // Nobody waits for it any more where the whole has failed.
                    let _ = result.send(work(job));
                }
            };
            let started = thread::Builder::new().name("worker".to_owned()).spawn(run);
            match started {
                Ok(_) => {}
                // Fewer do as well.
                Err(error) if number > 0 => tracing::debug!("no more threads: {error}"),
                Err(error) => return Err(no_thread(&error)),
            }
        }
        Ok(Workers { jobs })
    }

    /// Hands in a job. The caller bounds how many wait.
    pub(crate) fn submit(&self, job: J) -> Pending<R> {
        let (result, pending) = oneshot::channel();
        // Where all threads have died, the waiting fails.
        let _ = self.jobs.send((job, result));
        Pending(pending)
    }
}

fn next<J, R>(waiting: &Mutex<mpsc::Receiver<Job<J, R>>>) -> Option<Job<J, R>> {
    let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.recv().ok()
}

fn no_thread(error: &io::Error) -> ArchiveError {
    ArchiveError::Internal(format!("cannot start a thread: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let workers = Workers::start(3, || |number: u32| number * 2).expect("threads");
        let pending: Vec<_> = (0..100).map(|number| workers.submit(number)).collect();
        for (number, pending) in (0..).zip(pending) {
            assert_eq!(pending.blocking_result().expect("a result"), number * 2);
        }
    }

    #[test]
    fn a_panic_at_work_is_an_error_for_who_waits() {
        let work = |panics: bool| assert!(!panics, "on purpose");
        let workers = Workers::start(2, || work).expect("threads");
        assert!(workers.submit(true).blocking_result().is_err());
        assert!(workers.submit(false).blocking_result().is_ok());
        assert!(workers.submit(true).blocking_result().is_err());
        assert!(workers.submit(false).blocking_result().is_err());
    }
}
