//! What waits to be archived, and what the worker in the background has done.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use walzip_archive::{Backlog, spool};

use super::Metrics;
use crate::error::CommandError;
use crate::exit_code::Kind;

/// The cluster whose archiving is watched.
pub struct Watched {
    /// Its data directory.
    pub data_directory: PathBuf,
    /// Where its worker counts.
    pub spool_path: Option<PathBuf>,
}

/// What a worker has counted since the spool was made. Only workers write it, and there is one at a
/// time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Files that were pushed.
    pub files: u64,
    /// Their size.
    pub original_bytes: u64,
    /// The size of their objects, in the first repository.
    pub stored_bytes: u64,
    /// Failures, by their kind.
    pub failures: BTreeMap<String, u64>,
    /// When a file was pushed last.
    pub last_pushed: u64,
}

impl Counters {
    /// A file was pushed.
    pub fn add(&mut self, original_bytes: u64, stored_bytes: u64) {
        self.files = self.files.saturating_add(1);
        self.original_bytes = self.original_bytes.saturating_add(original_bytes);
        self.stored_bytes = self.stored_bytes.saturating_add(stored_bytes);
        self.last_pushed = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
    }

    /// A file could not be pushed.
    pub fn add_failure(&mut self, kind: Kind) {
        let count = self.failures.entry(kind.name().to_owned()).or_default();
        *count = count.saturating_add(1);
    }
}

/// What cannot be read is left out, and the rest is measured all the same.
pub(super) fn measure(metrics: &Metrics, watched: &Watched) -> Result<(), CommandError> {
    let backlog = Backlog::of(&watched.data_directory);
    let none: [&str; 0] = [];
    let up = metrics.gauge(
        "walzip_archive_status_up",
        "Whether it could be read what waits to be archived",
        &none,
    )?;
    up.with_label_values(&none)
        .set(f64::from(u8::from(backlog.is_ok())));
    match backlog {
        Ok(backlog) => show_backlog(metrics, backlog)?,
        Err(error) => tracing::warn!("what waits to be archived is not measured: {error}"),
    }
    let Some(spool_path) = &watched.spool_path else {
        return Ok(());
    };
    match spool::tally(spool_path, &watched.data_directory) {
        Ok(tally) => {
            let counters = tally.and_then(|text| serde_json::from_slice(&text).ok());
            count(metrics, &counters.unwrap_or_default())
        }
        Err(error) => {
            tracing::warn!("what the worker has done is not measured: {error}");
            Ok(())
        }
    }
}

fn show_backlog(metrics: &Metrics, backlog: Backlog) -> Result<(), CommandError> {
    let none: [&str; 0] = [];
    let waiting = metrics.gauge(
        "walzip_archive_ready_files",
        "Files that PostgreSQL waits to have archived",
        &none,
    )?;
    waiting.with_label_values(&none).set(backlog.files as f64);
    if let Some(oldest) = backlog.oldest {
        let since = metrics.gauge(
            "walzip_archive_ready_oldest_timestamp_seconds",
            "Since when the oldest of them waits",
            &none,
        )?;
        let oldest = oldest.duration_since(UNIX_EPOCH).unwrap_or_default();
        since.with_label_values(&none).set(oldest.as_secs_f64());
    }
    Ok(())
}

fn count(metrics: &Metrics, counters: &Counters) -> Result<(), CommandError> {
    let none: [&str; 0] = [];
    for (name, help, value) in [
        (
            "walzip_pushed_files_total",
            "Files that the worker has pushed",
            counters.files,
        ),
        (
            "walzip_pushed_original_bytes_total",
            "The size of these files",
            counters.original_bytes,
        ),
        (
            "walzip_pushed_stored_bytes_total",
            "The size of their objects in the first repository",
            counters.stored_bytes,
        ),
    ] {
        metrics
            .counter(name, help, &[])?
            .with_label_values(&none)
            .inc_by(value);
    }
    if counters.last_pushed > 0 {
        let last = metrics.gauge(
            "walzip_pushed_last_timestamp_seconds",
            "When the worker has pushed the last file",
            &[],
        )?;
        last.with_label_values(&none)
            .set(counters.last_pushed as f64);
    }
    let failures = metrics.counter(
        "walzip_push_failures_total",
        "Pushes of the worker that failed, by the kind of the failure, as in docs/errors.md",
        &["kind"],
    )?;
    for (kind, count) in &counters.failures {
        failures.with_label_values(&[kind]).inc_by(*count);
    }
    Ok(())
}
