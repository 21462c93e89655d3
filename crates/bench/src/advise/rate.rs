//! How much WAL there is in a day, and how that is known.

use serde::Serialize;

use super::look::Look;
use super::sample::Sample;
use super::server::Server;

const DAY_SECONDS: f64 = 86_400.0;
/// A shorter time says nothing about a day.
const SECONDS_MIN: f64 = 1.0;

/// How much WAL there is in a day.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    /// Bytes before any program compresses them.
    pub bytes_per_day: f64,
    /// How that is known.
    pub source: String,
    /// Over how long a time; none where the user said it.
    pub seconds: Option<f64>,
}

impl Rate {
    fn over(bytes: f64, seconds: f64, source: &str) -> Option<Rate> {
        (bytes > 0.0 && seconds >= SECONDS_MIN).then(|| Rate {
            bytes_per_day: bytes / seconds * DAY_SECONDS,
            source: source.to_owned(),
            seconds: Some(seconds),
        })
    }

    /// Seconds that it takes to fill a segment.
    pub fn segment_seconds(&self, segment_bytes: u64) -> f64 {
        DAY_SECONDS * segment_bytes as f64 / self.bytes_per_day.max(1.0)
    }

    /// Segments in a day.
    pub fn segments_per_day(&self, segment_bytes: u64) -> f64 {
        self.bytes_per_day / (segment_bytes as f64).max(1.0)
    }
}

/// The rate from the best source that there is.
pub(super) fn rate(
    given_bytes: Option<f64>,
    server: Option<&Server>,
    look: &Look,
    samples: &[Sample],
) -> Option<Rate> {
    if let Some(bytes_per_day) = given_bytes {
        return Some(Rate {
            bytes_per_day,
            source: "given with --wal-per-day".to_owned(),
            seconds: None,
        });
    }
    let statistics = server.and_then(|server| server.wal).and_then(|wal| {
        let seconds = wal.seconds?;
        Rate::over(wal.bytes, seconds, "the server's pg_stat_wal")
    });
    statistics
        .or_else(|| of_transactions(look))
        .or_else(|| of_file_times(look, samples))
        .or_else(|| of_archiver(server?))
}

/// By the positions and times of transactions: copying files does not change those.
fn of_transactions(look: &Look) -> Option<Rate> {
    let (first, last) = look.transactions.filter(|_| look.clusters.len() == 1)?;
    let bytes = last.position.checked_sub(first.position)?;
    let seconds = (last.microseconds - first.microseconds) as f64 / 1e6;
    Rate::over(
        bytes as f64,
        seconds,
        "positions and times of transactions in the WAL",
    )
}

fn of_file_times(look: &Look, samples: &[Sample]) -> Option<Rate> {
    samples.iter().find_map(|sample| {
        let times = sample.times?;
        let bytes = times.segments as f64 * look.segment_size_bytes as f64;
        Rate::over(
            bytes,
            times.seconds,
            &format!("the times of the files in {}", sample.source),
        )
    })
}

fn of_archiver(server: &Server) -> Option<Rate> {
    let archiver = server.archiver?;
    let bytes = archiver.archived as f64 * server.number("wal_segment_size")?;
    Rate::over(bytes, archiver.seconds?, "the server's pg_stat_archiver")
}

/// A time in the unit that a person would use.
pub(super) fn spoken(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} seconds"),
        s if s < 5400.0 => format!("{:.0} minutes", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} hours", s / 3600.0),
        s => format!("{:.1} days", s / DAY_SECONDS),
    }
}

#[cfg(test)]
mod tests {
    use super::super::look::Moment;
    use super::*;

    fn look() -> Look {
        let moment = |position, seconds: i64| Moment {
            position,
            microseconds: seconds * 1_000_000,
        };
        Look {
            clusters: ["1".to_owned()].into(),
            transactions: Some((moment(1000, 50), moment(11_000, 150))),
            segment_size_bytes: 1 << 20,
            ..Look::default()
        }
    }

    #[test]
    fn what_is_given_is_stronger_than_what_is_found() {
        let found = rate(None, None, &look(), &[]).unwrap();
        assert_eq!(found.bytes_per_day, 8_640_000.0);
        assert!(found.source.contains("transactions"));
        let given = rate(Some(5.0), None, &look(), &[]).unwrap();
        assert_eq!(given.bytes_per_day, 5.0);
    }

    #[test]
    fn segments_of_several_clusters_have_no_common_rate() {
        let mut look = look();
        look.clusters.insert("2".to_owned());
        assert!(rate(None, None, &look, &[]).is_none());
    }

    #[test]
    fn file_times_serve_where_nothing_else_does() {
        let look = Look {
            transactions: None,
            ..look()
        };
        let sample = Sample {
            source: "the archive".to_owned(),
            available: 3,
            times: Some(super::super::sample::FileTimes {
                segments: 2,
                seconds: 43_200.0,
            }),
            measured: Vec::new(),
            looked_at: Vec::new(),
        };
        let found = rate(None, None, &look, &[sample]).unwrap();
        assert_eq!(found.segments_per_day(1 << 20), 4.0);
        assert!(found.source.contains("the archive"));
    }
}
