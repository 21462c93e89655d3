//! `archive_timeout`: how much is lost with the server, against what half-empty segments cost.

use super::super::rate::spoken;
use super::{Recommendation, Saves, percent};
use crate::advise::Advice;
use crate::text::bytes;

/// A segment that takes longer than this to fill leaves too much outside the archive.
const FILLS_WITHIN_SECONDS: f64 = 300.0;
/// What is advised then.
pub(in crate::advise) const ADVISED_SECONDS: f64 = 60.0;
const DAY_SECONDS: f64 = 86_400.0;

/// What to do about `archive_timeout`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::advise) enum Timeout {
    /// Segments fill faster than it would end them.
    NotNeeded,
    /// Today's is good.
    Keep(f64),
    /// So many seconds.
    Set(f64),
    /// How fast segments fill is not known, so only the user can tell.
    AsMayBeLost,
}

impl Advice {
    pub(in crate::advise) fn archive_timeout(&self) -> Recommendation {
        let survey = &self.wal;
        let mut reasons = vec![format!(
            "{} of {} segments were ended before they were full, and left {} of all bytes empty",
            survey.switched,
            survey.segments,
            percent(survey.switched_zero_bytes as f64 / (survey.bytes as f64).max(1.0))
        )];
        let timeout = self.number("archive_timeout");
        if let Some(timeout) = timeout {
            reasons.push(format!("today: archive_timeout = {timeout:.0} s"));
        }
        let rate = self.rate.as_ref();
        let interval = rate.and_then(|rate| rate.segment_seconds(survey.segment_size_bytes));
        if let Some(interval) = interval {
            reasons.push(format!(
                "a segment fills every {} at the mean rate: without archive_timeout, about so much is \
                 lost with the server's disk, and more at quiet times",
                spoken(interval)
            ));
        }
        reasons.extend(self.empty_segments());
        let decision = self.timeout();
        let advice = match decision {
            Timeout::NotNeeded => {
                "not needed for its own sake: segments fill faster than it would end them; set it \
                 to what may be lost at quiet times"
                    .to_owned()
            }
            Timeout::Keep(seconds) => format!("leave it as it is ({seconds:.0} s)"),
            Timeout::Set(seconds) => format!(
                "{seconds:.0} s, or what may be lost; what it costs in the archive is below"
            ),
            Timeout::AsMayBeLost => {
                "set it to what may be lost; what that costs is below".to_owned()
            }
        };
        Recommendation {
            subject: "archive_timeout",
            advice,
            change: matches!(decision, Timeout::Set(_)),
            reasons,
            saves_bytes_per_day: None,
            saves_of: Saves::Archived,
            saves_per_month: None,
        }
    }

    pub(in crate::advise) fn timeout(&self) -> Timeout {
        let rate = self.rate.as_ref();
        let fills = rate.and_then(|rate| rate.segment_seconds(self.wal.segment_size_bytes));
        let today = self.number("archive_timeout");
        match (fills, today) {
            (Some(fills), _) if fills <= FILLS_WITHIN_SECONDS => Timeout::NotNeeded,
            (_, Some(today)) if today > 0.0 && today <= FILLS_WITHIN_SECONDS => {
                Timeout::Keep(today)
            }
            (Some(_), _) => Timeout::Set(ADVISED_SECONDS),
            (None, _) => Timeout::AsMayBeLost,
        }
    }

    /// What an empty segment costs, by program.
    fn empty_segments(&self) -> Vec<String> {
        let measured: Vec<String> = self
            .programs
            .iter()
            .filter_map(|program| {
                let size = program.empty_segment_bytes? as f64;
                Some(format!(
                    "{} {} (at most {} a day at 60 s)",
                    program.label,
                    bytes(size),
                    bytes(size * DAY_SECONDS / ADVISED_SECONDS)
                ))
            })
            .collect();
        if measured.is_empty() {
            return Vec::new();
        }
        vec![format!(
            "a segment with nothing in it becomes: {}; uncompressed {} (at most {} a day)",
            measured.join(", "),
            bytes(self.wal.segment_size_bytes as f64),
            bytes(self.wal.segment_size_bytes as f64 * DAY_SECONDS / ADVISED_SECONDS)
        )]
    }
}

#[cfg(test)]
mod tests {
    use crate::advise::Server;
    use crate::advise::text::fixture::advice;

    #[test]
    fn where_segments_fill_slowly_a_timeout_bounds_the_loss() {
        let mut example = advice(|_| {});
        if let Some(rate) = &mut example.rate {
            rate.bytes_per_day = Some(100e6);
        }
        let found = example.archive_timeout();
        assert!(
            found.change && found.advice.starts_with("60 s"),
            "{found:?}"
        );
        let settings = [("archive_timeout".to_owned(), "120".to_owned())];
        example.server = Some(Server {
            settings: settings.into(),
            ..Server::default()
        });
        let found = example.archive_timeout();
        assert_eq!(found.advice, "leave it as it is (120 s)");
        assert!(!found.change);
    }

    #[test]
    fn where_segments_fill_quickly_it_is_not_needed() {
        let mut example = advice(|_| {});
        if let Some(rate) = &mut example.rate {
            rate.bytes_per_day = Some(1e12);
        }
        assert!(example.archive_timeout().advice.starts_with("not needed"));
    }
}
