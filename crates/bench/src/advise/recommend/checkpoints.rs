//! Checkpoint spacing: `max_wal_size` and `checkpoint_timeout`.

use super::super::rate::spoken;
use super::{Recommendation, Saves, percent};
use crate::advise::{Advice, Stretch};
use crate::text::bytes;

/// What is saved below this share of the WAL is not worth a longer recovery.
const WORTH_SHARE: f64 = 0.05;
/// Checkpoints that somebody or max_wal_size asked for: more than this share is too many.
const REQUESTED_MAX: f64 = 0.1;
/// What `checkpoint_timeout` can be at most: a day.
const TIMEOUT_MAX_SECONDS: f64 = 86_400.0;
const GIB: f64 = (1u64 << 30) as f64;

/// What to do about the distance of checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::advise) enum Spacing {
    /// Too many come before their time: `max_wal_size` is too small.
    MoreWal,
    /// Twice the distance saves much.
    Twice,
    /// It would not save much.
    Keep,
    /// The sample has no checkpoint to tell by.
    Unknown,
}

/// What keeps checkpoints apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::advise) struct Distance {
    pub(in crate::advise) timeout_s: f64,
    pub(in crate::advise) wal_bytes: f64,
}

impl Distance {
    /// `checkpoint_timeout`, as it is written for the server.
    pub(in crate::advise) fn timeout(self) -> String {
        match self.timeout_s {
            seconds if seconds % 60.0 == 0.0 => format!("{:.0}min", seconds / 60.0),
            seconds => format!("{seconds:.0}s"),
        }
    }

    /// `max_wal_size`, in the same way.
    pub(in crate::advise) fn size(self) -> String {
        format!("{:.0}GB", (self.wal_bytes / GIB).ceil())
    }
}

fn avoidable_share(stretch: &Stretch) -> f64 {
    stretch.avoidable_bytes_half / (stretch.bytes as f64).max(1.0)
}

impl Advice {
    pub(in crate::advise) fn checkpoints(&self) -> Recommendation {
        let spacing = self.spacing();
        let mut reasons = Vec::new();
        let mut saves = None;
        match self.stretch_with_checkpoints() {
            Some(stretch) => {
                reasons.extend(self.measured_spacing(stretch));
                let share = avoidable_share(stretch);
                let per_day = self.wal_bytes_per_day().filter(|_| share >= WORTH_SHARE);
                saves = per_day.map(|per_day| per_day * share);
            }
            None => reasons.push(format!(
                "no checkpoint was seen in a row of segments; {} of the WAL is full-page images, \
                 which fewer checkpoints would reduce",
                percent(self.wal.image_share())
            )),
        }
        reasons.extend(self.settings_said());
        if self.setting("full_page_writes") == Some("off") {
            reasons.push(
                "full_page_writes is off: a crash can tear pages beyond repair unless the file \
                 system writes them whole"
                    .to_owned(),
            );
        }
        Recommendation {
            subject: "checkpoint spacing",
            change: matches!(spacing, Spacing::MoreWal | Spacing::Twice),
            advice: match spacing {
                Spacing::MoreWal => {
                    "raise max_wal_size until checkpoints come by time alone".to_owned()
                }
                Spacing::Twice => self.farther(),
                Spacing::Keep => "leave it as it is".to_owned(),
                Spacing::Unknown => "not known from this sample".to_owned(),
            },
            reasons,
            saves_bytes_per_day: saves,
            saves_of: Saves::Written,
            saves_per_month: None,
        }
    }

    pub(in crate::advise) fn spacing(&self) -> Spacing {
        if self
            .requested_share()
            .is_some_and(|share| share > REQUESTED_MAX)
        {
            return Spacing::MoreWal;
        }
        match self.stretch_with_checkpoints().map(avoidable_share) {
            Some(share) if share >= WORTH_SHARE => Spacing::Twice,
            Some(_) => Spacing::Keep,
            None => Spacing::Unknown,
        }
    }

    /// Today's settings, and both doubled; none where no server told them.
    pub(in crate::advise) fn doubled_distance(&self) -> Option<(Distance, Distance)> {
        let today = Distance {
            timeout_s: self.number("checkpoint_timeout")?,
            wal_bytes: self.number("max_wal_size")?,
        };
        let gigabytes = (2.0 * today.wal_bytes / GIB).ceil();
        let doubled = Distance {
            timeout_s: (2.0 * today.timeout_s).min(TIMEOUT_MAX_SECONDS),
            wal_bytes: gigabytes * GIB,
        };
        Some((today, doubled))
    }

    fn stretch_with_checkpoints(&self) -> Option<&Stretch> {
        let stretch = self.wal.longest_stretch();
        stretch.filter(|stretch| stretch.checkpoints > 0)
    }

    fn farther(&self) -> String {
        match self.doubled_distance() {
            Some((_, doubled)) => format!(
                "twice the distance: checkpoint_timeout = {}, max_wal_size = {} or more; recovery \
                 after a crash takes up to twice as long",
                doubled.timeout(),
                doubled.size()
            ),
            None => {
                "twice the distance (checkpoint_timeout, max_wal_size); recovery after a crash \
                     takes up to twice as long"
                    .to_owned()
            }
        }
    }

    fn measured_spacing(&self, stretch: &Stretch) -> Vec<String> {
        let share = |avoidable: f64| percent(avoidable / (stretch.bytes as f64).max(1.0));
        let mut reasons = vec![format!(
            "in {} segments in a row ({}), {} began{}; {} of their bytes is page images",
            stretch.segments,
            bytes(stretch.bytes as f64),
            match stretch.checkpoints {
                1 => "one checkpoint".to_owned(),
                count => format!("{count} checkpoints"),
            },
            match stretch.checkpoint_distance_bytes {
                Some(distance) => format!(", {} apart", bytes(distance)),
                None => String::new(),
            },
            share(stretch.image_bytes as f64),
        )];
        reasons.push(format!(
            "images of pages that had one in the interval before: with every second checkpoint {} of \
             the WAL would not have been written, with every fourth {}, with none of these {}",
            share(stretch.avoidable_bytes_half),
            share(stretch.avoidable_bytes_quarter),
            share(stretch.avoidable_bytes_most),
        ));
        let timed = self
            .wal_bytes_per_day()
            .zip(stretch.checkpoint_distance_bytes)
            .map(|(per_day, distance)| distance / per_day * 86_400.0);
        if let Some(seconds) = timed {
            reasons.push(format!(
                "at this WAL rate that is a checkpoint every {}",
                spoken(seconds)
            ));
        }
        reasons
    }

    fn requested_share(&self) -> Option<f64> {
        let checkpoints = self.server.as_ref()?.checkpoints?;
        let all = checkpoints.timed + checkpoints.requested;
        (all > 0).then(|| checkpoints.requested as f64 / all as f64)
    }

    fn settings_said(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if let Some(checkpoints) = self.server.as_ref().and_then(|server| server.checkpoints) {
            reasons.push(format!(
                "the server counts {} checkpoints by time and {} by size or request",
                checkpoints.timed, checkpoints.requested
            ));
        }
        let settings = (
            self.number("checkpoint_timeout"),
            self.number("max_wal_size"),
        );
        if let (Some(timeout), Some(size)) = settings {
            reasons.push(format!(
                "today: checkpoint_timeout = {timeout:.0} s, max_wal_size = {:.1} GB",
                size / 1e9
            ));
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use crate::advise::text::fixture::advice;
    use crate::advise::{CheckpointStatistics, Server, Stretch};

    #[test]
    fn a_greater_distance_is_advised_only_where_it_saves_much() {
        let mut example = advice(|_| {});
        assert_eq!(example.checkpoints().advice, "not known from this sample");
        example.wal.stretches = vec![Stretch {
            segments: 10,
            bytes: 1000,
            checkpoints: 3,
            checkpoint_distance_bytes: Some(300.0),
            image_bytes: 600,
            avoidable_bytes_half: 200.0,
            avoidable_bytes_quarter: 300.0,
            avoidable_bytes_most: 400.0,
            seconds: None,
        }];
        let found = example.checkpoints();
        assert!(found.change && found.advice.starts_with("twice the distance"));
        assert_eq!(found.saves_bytes_per_day, Some(2e9));
        example.wal.stretches[0].avoidable_bytes_half = 10.0;
        assert_eq!(example.checkpoints().advice, "leave it as it is");
    }

    #[test]
    fn checkpoints_by_size_are_too_many() {
        let mut example = advice(|_| {});
        let checkpoints = CheckpointStatistics {
            timed: 10,
            requested: 90,
            seconds: None,
        };
        example.server = Some(Server {
            checkpoints: Some(checkpoints),
            ..Server::default()
        });
        assert!(
            example
                .checkpoints()
                .advice
                .starts_with("raise max_wal_size")
        );
    }
}
