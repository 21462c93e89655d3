//! The settings of a plan: as recommended, and what they cost.

use super::Plan;
use crate::advise::rate::spoken;
use crate::advise::recommend::{ADVISED_SECONDS, Distance, Spacing, Timeout};
use crate::advise::{Advice, Program, WhatIf};
use crate::text::bytes;

const DAY_SECONDS: f64 = 86_400.0;

impl Advice {
    pub(super) fn add_settings(&self, plan: &mut Plan, program: Option<&Program>) {
        let label = program.map(|program| program.label.as_str());
        self.add_wal_compression(plan, label);
        self.add_checkpoints(plan);
        if !self.archives_nothing(program) {
            self.add_archive_timeout(plan, program);
        }
        if !plan.sql.is_empty() {
            plan.sql.push("SELECT pg_reload_conf();".to_owned());
        }
        if !self.archives_nothing(program) {
            plan.reasons
                .extend(plan.amounts_in_words(self.limits.retention_days));
        }
    }

    fn add_wal_compression(&self, plan: &mut Plan, label: Option<&str>) {
        let present = self.what_if.iter().find(|what_if| what_if.present);
        let (Some(best), Some(present)) = (self.best_setting_behind(label), present) else {
            return;
        };
        if !self.has_images() {
            return;
        }
        let behind = label.unwrap_or("no program");
        let archived =
            |what_if: &WhatIf| what_if.archived_by(label?).map(|archived| archived.bytes);
        let share = archived(best).zip(archived(present));
        let share = share.map_or(String::new(), |(best, present)| {
            let share = best as f64 / present.max(1) as f64;
            format!(", {share:.2} of today's archive")
        });
        plan.reasons.push(format!(
            "wal_compression = {} is the best behind {behind}: {:.2} of today's WAL{share}",
            best.setting,
            best.wal_bytes as f64 / present.wal_bytes.max(1) as f64
        ));
        if best.setting != present.setting {
            let value = self.spelled(best);
            let value = value.split(' ').next().unwrap_or_default();
            plan.sql
                .push(format!("ALTER SYSTEM SET wal_compression = '{value}';"));
        }
    }

    /// As recommended; and what a crash then costs in any case.
    fn add_checkpoints(&self, plan: &mut Plan) {
        let Some((today, doubled)) = self.doubled_distance() else {
            return;
        };
        let more_wal = Distance {
            wal_bytes: doubled.wal_bytes,
            ..today
        };
        let (next, how) = match self.spacing() {
            Spacing::MoreWal => (
                more_wal,
                "max_wal_size twice as large, and again while checkpoints come before their time",
            ),
            Spacing::Twice => (doubled, "checkpoints twice as far apart"),
            Spacing::Keep | Spacing::Unknown => (
                today,
                "checkpoints as they are (checkpoint_timeout, max_wal_size)",
            ),
        };
        if next.timeout_s > today.timeout_s {
            plan.sql.push(format!(
                "ALTER SYSTEM SET checkpoint_timeout = '{}';",
                next.timeout()
            ));
        }
        if next.wal_bytes > today.wal_bytes {
            plan.sql.push(format!(
                "ALTER SYSTEM SET max_wal_size = '{}';",
                next.size()
            ));
        }
        let instead = match next == today {
            true => String::new(),
            false => format!(" (today {})", self.replayed(today)),
        };
        let caveat = match self.wal_bytes_per_day() {
            Some(_) => "at the mean rate; more after a burst, and max_wal_size is no hard limit",
            None => "where WAL fills max_wal_size, which is no hard limit",
        };
        plan.reasons.push(format!(
            "{how}: after a crash the server replays {}{instead} {caveat}",
            self.replayed(next)
        ));
    }

    /// What a crash costs at the mean rate.
    fn replayed(&self, distance: Distance) -> String {
        let replayed = match self.wal_bytes_per_day() {
            // From the begin of the last complete checkpoint to the end of the next.
            Some(per_day) => {
                (per_day / DAY_SECONDS * distance.timeout_s * 2.0).min(distance.wal_bytes)
            }
            None => distance.wal_bytes,
        };
        let takes = self.limits.replay_bytes_per_second;
        let takes = takes.map_or(String::new(), |rate| {
            format!(" in {}", spoken(replayed / rate))
        });
        format!("about {}{takes}", bytes(replayed))
    }

    fn add_archive_timeout(&self, plan: &mut Plan, program: Option<&Program>) {
        let today = self.number("archive_timeout").filter(|today| *today > 0.0);
        let is_set = |seconds: f64| format!("archive_timeout = {seconds:.0} s");
        let (seconds, said) = match (self.timeout(), today) {
            (Timeout::Set(seconds), _) => {
                plan.sql.push(format!(
                    "ALTER SYSTEM SET archive_timeout = '{seconds:.0}s';"
                ));
                (seconds, is_set(seconds))
            }
            (Timeout::Keep(today), _) | (Timeout::NotNeeded, Some(today)) => (today, is_set(today)),
            (Timeout::NotNeeded, None) => return,
            (Timeout::AsMayBeLost, today) => {
                let seconds = today.unwrap_or(ADVISED_SECONDS);
                let said = format!(
                    "archive_timeout is to be what may be lost, which only you know; at {seconds:.0} s"
                );
                (seconds, said)
            }
        };
        let cost = self.quiet_day(program, seconds);
        plan.reasons.push(format!("{said}: {cost}"));
    }

    /// What segments cost that `archive_timeout` ends before anything is in them.
    fn quiet_day(&self, program: Option<&Program>, timeout_s: f64) -> String {
        let segment = match program {
            None => Some(self.wal.segment_size_bytes),
            Some(program) => program.empty_segment_bytes,
        };
        match segment {
            Some(segment) => format!(
                "a day on which hardly anything is written costs at most {} in the archive",
                bytes(segment as f64 * DAY_SECONDS / timeout_s)
            ),
            None => "what a day on which hardly anything is written costs in the archive was not \
                 measured"
                .to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;
    use crate::advise::{CheckpointStatistics, Rate, Stretch};

    /// A thousand bytes a second.
    fn slow() -> Advice {
        let mut example = example();
        example.programs[2].empty_segment_bytes = Some(1000);
        example.rate = Some(Rate::given(86_400e3));
        example
    }

    fn set(example: &mut Advice, name: &str, value: &str) {
        let server = example.server.as_mut().unwrap();
        server.settings.insert(name.to_owned(), value.to_owned());
    }

    /// The lines and the reasons of the first plan.
    fn said(example: &Advice) -> String {
        let plan = &example.plan()[0];
        [plan.sql.join("\n"), plan.reasons.join("\n")].join("\n")
    }

    #[test]
    fn what_replay_takes_is_said_where_its_rate_is_known() {
        let mut example = slow();
        assert!(said(&example).contains("is not known (--replay-rate)"));
        example.limits.replay_bytes_per_second = Some(1e4);
        let said = said(&example);
        let day = spoken(8640.0);
        assert!(
            said.contains(&format!("replaying it takes the server {day}")),
            "{said}"
        );
        assert!(said.contains("about 600.0 KB in 60 s"), "{said}");
    }

    #[test]
    fn what_a_crash_and_an_idle_day_cost_is_said() {
        let said = said(&slow());
        // A thousand bytes a second, twice 300 s.
        assert!(
            said.contains("replays about 600.0 KB at the mean rate; more after a burst, and"),
            "{said}"
        );
        // 1440 segments of 1000 bytes.
        assert!(
            said.contains("costs at most 1.4 MB in the archive"),
            "{said}"
        );
        assert!(said.contains("SET archive_timeout = '60s'"), "{said}");
    }

    #[test]
    fn archive_timeout_is_set_as_recommended() {
        let mut example = slow();
        let unset = |said: &str| !said.contains("SET archive_timeout");
        for (today, recommended, is_unset) in [
            ("0", "60 s", false),
            ("3600", "60 s", false),
            ("120", "leave it as it is (120 s)", true),
        ] {
            set(&mut example, "archive_timeout", today);
            let recommendation = example.archive_timeout();
            assert!(recommendation.advice.starts_with(recommended), "{today}");
            assert_eq!(unset(&said(&example)), is_unset, "{today}");
        }
        example.rate = None;
        set(&mut example, "archive_timeout", "0");
        let said = said(&example);
        assert!(
            unset(&said) && said.contains("which only you know"),
            "{said}"
        );
    }

    #[test]
    fn where_nothing_is_archived_nothing_is_said_of_the_archive() {
        let mut example = slow();
        example.now = None;
        let staying = |example: &Advice| {
            let plan = example.plan().pop().unwrap();
            [plan.sql.join("\n"), plan.reasons.join("\n")].join("\n")
        };
        let said = staying(&example);
        assert!(said.contains("archive_mode is off"), "{said}");
        assert!(
            !said.contains("archive_timeout") && !said.contains("in the archive"),
            "{said}"
        );
        set(&mut example, "archive_mode", "on");
        let said = staying(&example);
        assert!(said.contains("SET archive_timeout = '60s'"), "{said}");
    }

    #[test]
    fn checkpoints_are_set_as_recommended() {
        let mut example = slow();
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
        let farther = said(&example);
        assert!(
            farther.contains("SET checkpoint_timeout = '10min'")
                && farther.contains("SET max_wal_size = '2GB'"),
            "{farther}"
        );
        let advice = example.checkpoints().advice;
        assert!(
            advice.contains("checkpoint_timeout = 10min, max_wal_size = 2GB"),
            "{advice}"
        );
        let server = example.server.as_mut().unwrap();
        server.checkpoints = Some(CheckpointStatistics {
            timed: 10,
            requested: 90,
            seconds: None,
        });
        let more = said(&example);
        assert!(
            more.contains("SET max_wal_size = '2GB'") && !more.contains("SET checkpoint_timeout"),
            "{more}"
        );
    }
}
