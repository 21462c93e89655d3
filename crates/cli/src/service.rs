//! `walzip serve`: what an archive needs all day, in one process that a service manager watches.
//!
//! Nothing depends on it. Without it the calls of PostgreSQL start their own workers, and timers run
//! the other commands.

mod endpoint;
mod pushing;
mod schedule;

use std::net::SocketAddr;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, join_all};
use sd_notify::NotifyState;
use tokio::net::TcpListener;

use crate::error::CommandError;
use crate::log;
use crate::metrics::Watched;
use crate::repo_args::{self, Place};
use crate::runtime;

pub use pushing::Pushing;
pub use schedule::Job;

/// Resolves when the service is to end.
type Stop = Shared<BoxFuture<'static, ()>>;

/// What the service does.
pub struct Service<'s> {
    /// The repositories.
    pub places: &'s [Place],
    /// What is ready is pushed, if it is to be.
    pub pushing: Option<Pushing<'s>>,
    /// What is measured besides the repositories.
    pub watched: Option<Watched>,
    /// Where measurements can be had.
    pub metrics_listen: Option<SocketAddr>,
    /// What is run again and again.
    pub jobs: Vec<Job>,
}

impl Service<'_> {
    /// Runs until a signal ends it. What was begun is finished.
    pub async fn run(&self) -> Result<(), CommandError> {
        let stop = stop()?;
        let listener = match self.metrics_listen {
            Some(address) => Some(endpoint::bind(address).await?),
            None => None,
        };
        tell(&[NotifyState::Ready]);
        let address = listener.as_ref().map(TcpListener::local_addr);
        log::notice(&self.described(address.and_then(Result::ok)));
        let pushing = async {
            if let Some(pushing) = &self.pushing {
                pushing::push_for_ever(pushing, stop.clone()).await;
            }
        };
        let answering = async {
            if let Some(listener) = listener {
                let measured = endpoint::Measured::new(self.places, self.watched.as_ref());
                endpoint::answer(listener, &measured, stop.clone()).await;
            }
        };
        let looking = async {
            tokio::select! {
                () = self.look_at_repositories() => {}
                () = stop.clone() => {}
            }
        };
        let jobs = self
            .jobs
            .iter()
            .map(|job| job.run_again_and_again(stop.clone()));
        let stopping = async {
            stop.clone().await;
            tell(&[NotifyState::Stopping]);
            tracing::info!("stopping");
        };
        tokio::join!(
            pushing,
            answering,
            looking,
            join_all(jobs),
            stopping,
            live(stop.clone())
        );
        log::notice("the service was ended by a signal");
        Ok(())
    }

    /// What it does, in one line.
    fn described(&self, address: Option<SocketAddr>) -> String {
        let pushing = self.pushing.as_ref().map(|pushing| {
            let data_directory = pushing.data_directory.display();
            format!("pushing the WAL of {data_directory}")
        });
        let metrics = address.map(|address| format!("metrics at {address}"));
        let jobs = self.jobs.iter().map(Job::described);
        let all: Vec<String> = pushing.into_iter().chain(metrics).chain(jobs).collect();
        let places: Vec<String> = self.places.iter().map(Place::to_string).collect();
        format!("serving {}: {}", places.join(", "), all.join(", "))
    }

    /// A mistake in the configuration is told at once. A repository that is not there yet is no reason to
    /// end: whatever needs it asks again.
    async fn look_at_repositories(&self) {
        for place in self.places {
            if let Err(error) = repo_args::open(place).await {
                tracing::warn!("{}", place.name_in(error).message());
            }
        }
    }
}

fn stop() -> Result<Stop, CommandError> {
    let signals = runtime::signals()
        .map_err(|error| CommandError::of_system("cannot handle signals", &error))?;
    Ok(async move { drop(signals.await) }.boxed().shared())
}

/// Shows the service manager that this process is alive, where it wants to know.
async fn live(stop: Stop) {
    let mut micros = 0;
    if !sd_notify::watchdog_enabled(false, &mut micros) {
        return;
    }
    let mut ticks = tokio::time::interval(Duration::from_micros((micros / 2).max(1)));
    loop {
        tokio::select! {
            _ = ticks.tick() => tell(&[NotifyState::Watchdog]),
            () = stop.clone() => return,
        }
    }
}

/// Tells the service manager, if there is one.
fn tell(state: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(false, state) {
        tracing::warn!("the service manager cannot be told: {error}");
    }
}
