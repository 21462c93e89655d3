//! Other commands, run again and again as processes of their own: what one of them does to itself
//! does nothing to the service.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use super::Stop;
use crate::asynchronous::THIS_PROGRAM;
use crate::log;

/// The first run comes so soon after the start, unless the period is shorter: not at once, since a
/// service that is started again and again would do nothing else.
const FIRST_AFTER: Duration = Duration::from_secs(600);

/// A command, and how often it is run.
pub struct Job {
    /// The time from one start to the next one.
    pub period: Duration,
    /// The arguments of `walzip`.
    pub arguments: Vec<String>,
}

impl Job {
    /// What it is, and how often: `expire every 1d`.
    pub(super) fn described(&self) -> String {
        let name = self.arguments.first().map_or("", String::as_str);
        let hours = self.period.as_secs() / 3600;
        let every = match hours % 24 {
            0 => format!("{}d", hours / 24),
            _ => format!("{hours}h"),
        };
        format!("{name} every {every}")
    }

    /// Runs it until the service stops, which it asks a running one to do as well.
    pub(super) async fn run_again_and_again(&self, stop: Stop) {
        let first = tokio::time::Instant::now() + self.period.min(FIRST_AFTER);
        let mut times = tokio::time::interval_at(first, self.period);
        times.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = times.tick() => self.run(stop.clone()).await,
                () = stop.clone() => return,
            }
        }
    }

    async fn run(&self, stop: Stop) {
        let name = self.arguments.join(" ");
        let started = Command::new(THIS_PROGRAM)
            .args(&self.arguments)
            .args(log::flags())
            .stdin(Stdio::null())
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) => return tracing::warn!("walzip {name} cannot be started: {error}"),
        };
        tracing::info!("walzip {name}: started");
        let ended = tokio::select! {
            ended = child.wait() => ended,
            () = stop => {
                ask_to_end(&child);
                child.wait().await
            }
        };
        match ended {
            Ok(status) if status.success() => tracing::info!("walzip {name}: done"),
            Ok(status) => tracing::warn!("walzip {name}: {}", described(status)),
            Err(error) => tracing::warn!("walzip {name}: {error}"),
        }
    }
}

fn ask_to_end(child: &Child) {
    let number = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(number) = number {
        // It may have ended at this moment.
        let _ = kill_process(number, Signal::TERM);
    }
}

fn described(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_described_by_its_name_and_its_period() {
        let described = |hours: u64| {
            let job = Job {
                period: Duration::from_secs(hours * 3600),
                arguments: vec!["expire".to_owned(), "--confirm".to_owned()],
            };
            job.described()
        };
        assert_eq!(described(24), "expire every 1d");
        assert_eq!(described(36), "expire every 36h");
    }
}
