//! How much WAL there is in a day, and how that is known.
//!
//! A server's load changes within minutes: what was written in less than an hour is shown as what
//! it is, and says nothing of a day.

use serde::Serialize;

use super::sample::Sample;
use super::server::Server;
use super::wal_survey::WalSurvey;
use crate::text::bytes;

const DAY_SECONDS: f64 = 86_400.0;
/// Over a shorter time there is no rate at all: times are taken to the second.
const SECONDS_MIN: f64 = 1.0;
/// A shorter time says nothing about a day.
const DAY_KNOWN_SECONDS: f64 = 3600.0;

/// How much WAL there is.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    /// Bytes in a second, before any program compresses them.
    pub bytes_per_second: f64,
    /// The same in a day; none where it is from less than an hour.
    pub bytes_per_day: Option<f64>,
    /// How that is known.
    pub source: String,
    /// Over how long a time; none where the user said it.
    pub seconds: Option<f64>,
}

impl Rate {
    fn over(bytes: f64, seconds: f64, source: &str) -> Option<Rate> {
        let bytes_per_second = bytes / seconds;
        (bytes > 0.0 && seconds >= SECONDS_MIN).then(|| Rate {
            bytes_per_second,
            bytes_per_day: (seconds >= DAY_KNOWN_SECONDS).then_some(bytes_per_second * DAY_SECONDS),
            source: source.to_owned(),
            seconds: Some(seconds),
        })
    }

    /// As the user said it.
    pub(super) fn given(bytes_per_day: f64) -> Rate {
        Rate {
            bytes_per_second: bytes_per_day / DAY_SECONDS,
            bytes_per_day: Some(bytes_per_day),
            source: "given with --wal-per-day".to_owned(),
            seconds: None,
        }
    }

    /// Seconds that it takes to fill a segment, where a day is known.
    pub fn segment_seconds(&self, segment_bytes: u64) -> Option<f64> {
        Some(DAY_SECONDS * segment_bytes as f64 / self.bytes_per_day?.max(1.0))
    }

    /// Segments in a day, where that is known.
    pub fn segments_per_day(&self, segment_bytes: u64) -> Option<f64> {
        Some(self.bytes_per_day? / (segment_bytes as f64).max(1.0))
    }
}

/// In one line, what is known of the WAL in a day.
pub(super) fn line(rate: Option<&Rate>) -> String {
    let Some(rate) = rate else {
        return "WAL a day: not known (say it with --wal-per-day)".to_owned();
    };
    let over = rate.seconds.map(spoken);
    match (rate.bytes_per_day, over) {
        (Some(day), None) => format!("WAL: {} a day ({})", bytes(day), rate.source),
        (Some(day), Some(over)) => {
            format!("WAL: {} a day ({}, over {over})", bytes(day), rate.source)
        }
        (None, over) => format!(
            "in the {} of this WAL: {}/s ({}); WAL a day: not known from less than an hour",
            over.unwrap_or_default(),
            bytes(rate.bytes_per_second),
            rate.source
        ),
    }
}

/// What is not known of the WAL in a day, and how to know it; none when all is.
pub(super) fn unknown(rate: Option<&Rate>) -> Option<String> {
    const WAYS: &str = "More segments tell it: --repo, or a folder with an hour of WAL; \
        --wal-per-day says it";
    match rate {
        None => Some(format!(
            "how much WAL there is in a day is not known, so no program was ruled out by it. {WAYS}"
        )),
        Some(Rate {
            bytes_per_day: None,
            seconds,
            ..
        }) => Some(format!(
            "how much WAL there is in a day is not known: {} of it say nothing of a day, and no \
             program was ruled out by them. {WAYS}",
            spoken(seconds.unwrap_or_default())
        )),
        Some(_) => None,
    }
}

/// The rate from the best source that there is: the first that tells of a day, else the first.
pub(super) fn rate(
    given_bytes: Option<f64>,
    server: Option<&Server>,
    survey: &WalSurvey,
    samples: &[Sample],
) -> Option<Rate> {
    if let Some(bytes_per_day) = given_bytes {
        return Some(Rate::given(bytes_per_day));
    }
    let statistics = server.and_then(|server| server.wal).and_then(|wal| {
        let seconds = wal.seconds?;
        Rate::over(wal.bytes, seconds, "the server's pg_stat_wal")
    });
    let rates = [
        statistics,
        of_transactions(survey),
        of_file_times(survey, samples),
        server.and_then(of_archiver),
    ];
    let mut rates = rates.into_iter().flatten();
    let first = rates.next()?;
    if first.bytes_per_day.is_some() {
        return Some(first);
    }
    let of_a_day = rates.find(|rate| rate.bytes_per_day.is_some());
    Some(of_a_day.unwrap_or(first))
}

/// By the positions and times of transactions: copying files does not change those.
fn of_transactions(survey: &WalSurvey) -> Option<Rate> {
    let (first, last) = survey.transactions.filter(|_| survey.clusters.len() == 1)?;
    let bytes = last.position.checked_sub(first.position)?;
    let seconds = (last.microseconds - first.microseconds) as f64 / 1e6;
    Rate::over(
        bytes as f64,
        seconds,
        "positions and times of transactions in the WAL",
    )
}

fn of_file_times(survey: &WalSurvey, samples: &[Sample]) -> Option<Rate> {
    let rates = samples.iter().filter_map(|sample| {
        let times = sample.times?;
        let bytes = times.segments as f64 * survey.segment_size_bytes as f64;
        Rate::over(
            bytes,
            times.seconds,
            &format!("the times of the files in {}", sample.source),
        )
    });
    rates.max_by(|a, b| {
        a.seconds
            .unwrap_or_default()
            .total_cmp(&b.seconds.unwrap_or_default())
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
    use super::super::stretch::Moment;
    use super::*;

    /// A million bytes of WAL, written in so many seconds.
    fn survey_of(seconds: i64) -> WalSurvey {
        let moment = |position, seconds: i64| Moment {
            position,
            microseconds: seconds * 1_000_000,
        };
        WalSurvey {
            clusters: ["1".to_owned()].into(),
            transactions: Some((moment(1000, 50), moment(1_001_000, 50 + seconds))),
            segment_size_bytes: 1 << 20,
            ..WalSurvey::default()
        }
    }

    fn survey() -> WalSurvey {
        survey_of(7200)
    }

    #[test]
    fn less_than_an_hour_of_wal_says_nothing_of_a_day() {
        for (seconds, over) in [(3, "3 seconds"), (59 * 60, "59 minutes")] {
            let found = rate(None, None, &survey_of(seconds), &[]).unwrap();
            assert_eq!(found.bytes_per_day, None);
            assert_eq!(found.segment_seconds(1 << 20), None);
            assert_eq!(found.segments_per_day(1 << 20), None);
            assert!((found.bytes_per_second * seconds as f64 - 1e6).abs() < 1e-3);
            let said = line(Some(&found));
            assert!(
                said.starts_with(&format!("in the {over} of this WAL: ")),
                "{said}"
            );
            assert!(said.contains("/s (") && !said.contains("B a day"), "{said}");
            let ways = unknown(Some(&found)).unwrap();
            assert!(ways.contains(over) && ways.contains("--repo"), "{ways}");
        }
        let found = rate(None, None, &survey_of(61 * 60), &[]).unwrap();
        let said = line(Some(&found));
        assert!(said.starts_with("WAL: 23.6 MB a day (positions"), "{said}");
        assert!(said.ends_with("over 61 minutes)"), "{said}");
        assert_eq!(unknown(Some(&found)), None);
    }

    #[test]
    fn a_source_of_more_than_an_hour_is_better_than_one_of_less() {
        let sample = Sample {
            source: "the archive".to_owned(),
            available: 3,
            times: Some(super::super::sample::FileTimes {
                segments: 2,
                seconds: 7200.0,
            }),
            measured: Vec::new(),
            looked_at: Vec::new(),
        };
        let found = rate(None, None, &survey_of(3), std::slice::from_ref(&sample)).unwrap();
        assert!(found.source.contains("the archive"), "{found:?}");
        let found = rate(None, None, &survey(), &[sample]).unwrap();
        assert!(found.source.contains("transactions"), "{found:?}");
    }

    #[test]
    fn what_is_given_is_stronger_than_what_is_found() {
        let found = rate(None, None, &survey(), &[]).unwrap();
        assert_eq!(found.bytes_per_day.map(f64::round), Some(12e6));
        assert!(found.source.contains("transactions"));
        let given = rate(Some(5.0), None, &survey(), &[]).unwrap();
        assert_eq!(given.bytes_per_day, Some(5.0));
    }

    #[test]
    fn segments_of_several_clusters_have_no_common_rate() {
        let mut survey = survey();
        survey.clusters.insert("2".to_owned());
        assert!(rate(None, None, &survey, &[]).is_none());
    }

    #[test]
    fn file_times_serve_where_nothing_else_does() {
        let survey = WalSurvey {
            transactions: None,
            ..survey()
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
        let found = rate(None, None, &survey, &[sample]).unwrap();
        assert_eq!(found.segments_per_day(1 << 20), Some(4.0));
        assert!(found.source.contains("the archive"));
    }
}
