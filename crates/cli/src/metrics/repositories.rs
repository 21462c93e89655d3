//! What is in the repositories.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use prometheus::GaugeVec;
use walzip_archive::info::{ClusterContent, Info, info};

use super::Metrics;
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::repo_args::{self, Place};

/// No repository takes longer to list that is well.
const ANSWER_MAX: Duration = Duration::from_secs(300);

/// The gauges of all repositories; each has the label `repo`.
struct Gauges {
    up: GaugeVec,
    error: GaugeVec,
    wal_files: GaugeVec,
    wal_bytes: GaugeVec,
    wal_last_stored: GaugeVec,
    wal_gaps: GaugeVec,
    competing: GaugeVec,
    backups: GaugeVec,
    unusable: GaugeVec,
    backup_bytes: GaugeVec,
    backup_last_stop: GaugeVec,
    window_from: GaugeVec,
    window_to: GaugeVec,
    last_verified: GaugeVec,
    findings: GaugeVec,
    ratio: GaugeVec,
}

pub(super) async fn measure(metrics: &Metrics, places: &[Place]) -> Result<(), CommandError> {
    let gauges = Gauges::register(metrics)?;
    for place in places {
        let repo = place
            .number
            .map_or_else(|| "1".to_owned(), |number| number.to_string());
        match read(place).await {
            Ok(info) => gauges.set(&repo, &info),
            Err(error) => {
                tracing::warn!("{place}: {}", error.message());
                gauges.up.with_label_values(&[&repo]).set(0.0);
                gauges
                    .error
                    .with_label_values(&[&repo, error.kind().name()])
                    .set(1.0);
            }
        }
    }
    Ok(())
}

/// A local disk that hangs is a repository that cannot be read: it never answers.
async fn read(place: &Place) -> Result<Info, CommandError> {
    let read = async {
        let repository = repo_args::open(place).await?;
        Ok(info(&repository).await?)
    };
    match tokio::time::timeout(ANSWER_MAX, read).await {
        Ok(read) => read,
        Err(_) => {
            let message = format!("no answer within {} s", ANSWER_MAX.as_secs());
            Err(CommandError::new(Kind::Service, message))
        }
    }
}

impl Gauges {
    fn register(metrics: &Metrics) -> Result<Gauges, CommandError> {
        let gauge = |name, help| metrics.gauge(name, help, &["repo"]);
        Ok(Gauges {
            up: gauge(
                "walzip_repository_up",
                "Whether the repository could be read",
            )?,
            error: metrics.gauge(
                "walzip_repository_error",
                "Why it could not be read: the kind of the failure, as in docs/errors.md",
                &["repo", "kind"],
            )?,
            wal_files: gauge("walzip_wal_files", "WAL files in the repository")?,
            wal_bytes: gauge("walzip_wal_stored_bytes", "The size of their objects")?,
            wal_last_stored: gauge(
                "walzip_wal_last_stored_timestamp_seconds",
                "When the newest WAL file was stored",
            )?,
            wal_gaps: gauge("walzip_wal_gaps", "Places at which WAL is missing")?,
            competing: gauge(
                "walzip_competing_timelines",
                "Timelines that went on at the same time: two servers have archived as one",
            )?,
            backups: metrics.gauge("walzip_backups", "Finished backups", &["repo", "type"])?,
            unusable: gauge(
                "walzip_backups_unusable",
                "Backups that cannot be restored: unreadable, or without WAL or backups that they need",
            )?,
            backup_bytes: gauge("walzip_backup_stored_bytes", "The size of all backups")?,
            backup_last_stop: metrics.gauge(
                "walzip_backup_last_stop_timestamp_seconds",
                "When the newest backup ended",
                &["repo", "type"],
            )?,
            window_from: metrics.gauge(
                "walzip_restore_window_start_timestamp_seconds",
                "The earliest moment of the last span that can be restored",
                &["repo", "timeline"],
            )?,
            window_to: metrics.gauge(
                "walzip_restore_window_end_timestamp_seconds",
                "When the last transaction ended that can be restored",
                &["repo", "timeline"],
            )?,
            last_verified: gauge(
                "walzip_verify_last_timestamp_seconds",
                "When the newest verification began that has left a note",
            )?,
            findings: gauge(
                "walzip_verify_findings",
                "What the newest verification has found wrong",
            )?,
            ratio: gauge(
                "walzip_wal_compression_ratio",
                "The size of the WAL of the last seven days, by the size of its objects",
            )?,
        })
    }

    fn set(&self, repo: &str, info: &Info) {
        let content = &info.newest;
        self.up.with_label_values(&[repo]).set(1.0);
        if let Some(time) = info.last_verified {
            self.last_verified
                .with_label_values(&[repo])
                .set(seconds(time));
        }
        if let Some(findings) = info.last_verified_findings {
            let gauge = self.findings.with_label_values(&[repo]);
            gauge.set(findings as f64);
        }
        self.set_wal(repo, content);
        self.set_backups(repo, info);
    }

    fn set_wal(&self, repo: &str, content: &ClusterContent) {
        let stored = content.stored_wal;
        self.wal_files
            .with_label_values(&[repo])
            .set(stored.files as f64);
        self.wal_bytes
            .with_label_values(&[repo])
            .set(stored.bytes as f64);
        if let Some(time) = stored.last_stored {
            self.wal_last_stored
                .with_label_values(&[repo])
                .set(seconds(time));
        }
        let gaps = gaps(content);
        self.wal_gaps.with_label_values(&[repo]).set(gaps as f64);
        let competing = content.competing_timelines.len();
        let gauge = self.competing.with_label_values(&[repo]);
        gauge.set(competing as f64);
        if let Some(growth) = &content.growth
            && growth.wal_stored_bytes_per_day > 0
        {
            let stored = growth.wal_stored_bytes_per_day as f64;
            let ratio = growth.wal_original_bytes_per_day as f64 / stored;
            self.ratio.with_label_values(&[repo]).set(ratio);
        }
        for timeline in &content.wal {
            let Some(window) = timeline.recovery_windows.last() else {
                continue;
            };
            let labels = [repo, &timeline.timeline.to_string()];
            self.window_from
                .with_label_values(&labels)
                .set(seconds(window.from.time));
            let to = window.to.last_transaction.unwrap_or(window.from.time);
            self.window_to.with_label_values(&labels).set(seconds(to));
        }
    }

    fn set_backups(&self, repo: &str, info: &Info) {
        let backups = &info.newest.backups;
        let not_whole = backups.iter().filter(|backup| !backup.is_whole()).count();
        let unusable = not_whole + info.unreadable_backups.len();
        self.unusable
            .with_label_values(&[repo])
            .set(unusable as f64);
        let bytes: u64 = backups.iter().map(|backup| backup.stored_bytes).sum();
        self.backup_bytes
            .with_label_values(&[repo])
            .set(bytes as f64);
        for backup in backups {
            let labels = [repo, &backup.backup_type.to_string()];
            self.backups.with_label_values(&labels).inc();
            let last = self.backup_last_stop.with_label_values(&labels);
            last.set(last.get().max(seconds(backup.stop.time)));
        }
    }
}

/// Within a timeline, and between one and the timeline that it left.
fn gaps(content: &ClusterContent) -> usize {
    let of_timelines = content.wal.iter().flat_map(|timeline| {
        // After an older one, a pinned backup's, an expiry may have removed what follows.
        let newest = timeline.recovery_windows.last();
        let missing = newest.and_then(|window| window.then_missing.as_ref());
        timeline.gaps.iter().chain(missing)
    });
    let firsts: BTreeSet<&str> = of_timelines.map(|gap| gap.first.as_str()).collect();
    firsts.len()
}

fn seconds(time: Timestamp) -> f64 {
    time.as_duration().as_secs_f64()
}
