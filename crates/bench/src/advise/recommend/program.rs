//! The program that compresses archived segments.

use super::super::program::is_decided_by_cost;
use super::super::rate::{spoken, unknown};
use super::{Recommendation, Saves, percent};
use crate::advise::{Advice, Program};

impl Advice {
    pub(super) fn program(&self) -> Recommendation {
        let subject = "program";
        let Some(chosen) = self.chosen_program() else {
            let nearest = self
                .programs
                .iter()
                .min_by(|a, b| a.judged_s.total_cmp(&b.judged_s));
            let said = nearest.map(|program| {
                let reason = program.exceeds.as_deref().unwrap_or_default();
                format!("even {}, the fastest, {reason}", program.label)
            });
            return Recommendation {
                subject,
                advice: "no program that was measured keeps to the limits".to_owned(),
                reasons: said.into_iter().collect(),
                ..Recommendation::default()
            };
        };
        let baseline = self.program_now();
        let before = baseline.map_or(1.0, |now| now.ratio);
        let saves = self
            .wal_bytes_per_day()
            .map(|per_day| per_day * (before - chosen.ratio));
        let mut reasons = vec![self.why(chosen)];
        reasons.push(match baseline {
            Some(now) => format!(
                "{} needs {} of that of {}, which is used today",
                chosen.label,
                percent(chosen.ratio / now.ratio),
                now.label
            ),
            None => format!(
                "a segment becomes {} of its size; savings are against segments that are not \
                 compressed at all (--now names what is used today)",
                percent(chosen.ratio)
            ),
        });
        reasons.push(self.cost(chosen));
        reasons.extend(unknown(self.rate.as_ref()));
        reasons.extend(self.others(chosen));
        Recommendation {
            subject,
            advice: chosen.label.clone(),
            change: baseline.is_none_or(|now| now.label != chosen.label),
            reasons,
            saves_bytes_per_day: saves,
            saves_of: Saves::Archived,
            saves_per_month: self.worth(saves),
        }
    }

    fn why(&self, chosen: &Program) -> String {
        let affordable = self
            .programs
            .iter()
            .filter(|program| program.exceeds.is_none());
        let count = affordable.clone().count();
        if is_decided_by_cost(&self.programs, &self.limits) {
            return format!(
                "storage and processor time together cost least: {:.2} a month, of {count} that \
                 keep to the limits",
                chosen.cost_per_month.unwrap_or_default()
            );
        }
        let smallest = affordable.min_by(|a, b| a.ratio.total_cmp(&b.ratio));
        match smallest {
            Some(smallest) if smallest.label != chosen.label => format!(
                "within 3% of the smallest ({}) for {} of its processor time, of {count} that keep \
                 to the limits",
                smallest.label,
                percent(chosen.compress_cpu_s / smallest.compress_cpu_s)
            ),
            _ => format!("the smallest of {count} that keep to the limits"),
        }
    }

    /// What it costs in time: the price of a small file.
    fn cost(&self, chosen: &Program) -> String {
        let mut said = format!(
            "it costs {:.3} s of processor time a segment ({:.3} s of wall time), and {:.3} s to \
             unpack one",
            chosen.compress_cpu_s, chosen.compress_s, chosen.decompress_s
        );
        if let Some(seconds) = chosen.cpu_s_per_day {
            said.push_str(&format!("; {} of processor time a day", spoken(seconds)));
        }
        if chosen.is_walzip() {
            said.push_str("; that includes the proof by decoding, which no other program gives");
        }
        said
    }

    /// What is faster, for those who have less time than they said.
    fn others(&self, chosen: &Program) -> Vec<String> {
        let best = |other: &&Program| other.best && other.exceeds.is_none();
        let faster = |other: &&Program| other.judged_s < chosen.judged_s;
        let mut others = Vec::new();
        let candidates = self.programs.iter().filter(best).filter(faster);
        if let Some(other) = candidates.min_by(|a, b| a.ratio.total_cmp(&b.ratio)) {
            others.push(format!(
                "where time matters more: {} takes {} of the {} for {} of the bytes",
                other.label,
                percent(other.judged_s / chosen.judged_s),
                self.judged_by.name(),
                percent(other.ratio / chosen.ratio)
            ));
        }
        let unpacks = self
            .programs
            .iter()
            .filter(|program| program.exceeds.is_none());
        let quickest = unpacks.min_by(|a, b| a.judged_unpack_s.total_cmp(&b.judged_unpack_s));
        let quickest =
            quickest.filter(|other| other.judged_unpack_s * 2.0 < chosen.judged_unpack_s);
        if let Some(other) = quickest {
            others.push(format!(
                "where restoring must be fast: {} unpacks in {:.3} s{}, for {:.1} times the bytes \
                 (--max-restore-seconds-per-segment decides by it)",
                other.label,
                other.judged_unpack_s,
                self.judged_by.of_what(),
                other.ratio / chosen.ratio
            ));
        }
        others
    }
}

#[cfg(test)]
mod tests {
    use crate::advise::text::fixture::{advice, advice_of};
    use crate::advise::{Limits, Rate};
    use crate::verdict::Time;

    #[test]
    fn with_no_limit_the_smallest_is_taken_and_its_price_said() {
        let recommended = advice(|_| {}).program();
        assert_eq!(recommended.advice, "walzip -3");
        let said = recommended.reasons.join("\n");
        assert!(said.contains("the smallest of 3"), "{said}");
        assert!(
            said.contains("0.500 s of processor time a segment"),
            "{said}"
        );
        assert!(
            said.contains("zstd -1 takes 40% of the wall time"),
            "{said}"
        );
    }

    #[test]
    fn another_program_is_taken_where_walzip_breaks_a_limit() {
        let limited = advice(|limits| limits.seconds_per_segment = Some(0.3));
        assert_eq!(limited.program().advice, "zstd -1");
        let limited = advice(|limits| limits.restore_seconds_per_segment = Some(0.025));
        assert_eq!(limited.program().advice, "lz4 -1");
    }

    #[test]
    fn prices_of_storage_and_time_decide_together() {
        let dear_time = advice(|limits| {
            limits.price_per_gb_month = Some(0.001);
            limits.retention_days = Some(1.0);
            limits.price_per_cpu_hour = Some(10.0);
        });
        assert_eq!(dear_time.program().advice, "lz4 -1");
        let dear_storage = advice(|limits| {
            limits.price_per_gb_month = Some(1.0);
            limits.retention_days = Some(365.0);
            limits.price_per_cpu_hour = Some(0.01);
        });
        assert_eq!(dear_storage.program().advice, "walzip -3");
        assert!(dear_storage.program().saves_per_month.unwrap() > 0.0);
    }

    /// As much WAL as no program can follow, from so many seconds.
    fn burst(seconds: f64) -> Rate {
        Rate {
            bytes_per_second: 1e9,
            bytes_per_day: (seconds >= 3600.0).then_some(1e9 * 86_400.0),
            source: "constructed".to_owned(),
            seconds: Some(seconds),
        }
    }

    #[test]
    fn a_rate_from_less_than_an_hour_rules_no_program_out() {
        for (seconds, over) in [(3.0, "3 seconds"), (59.0 * 60.0, "59 minutes")] {
            let recommended = advice_of(|_| {}, burst(seconds), Time::Wall).program();
            assert_eq!(recommended.advice, "walzip -3");
            assert_eq!(recommended.saves_bytes_per_day, None);
            let said = recommended.reasons.join("\n");
            assert!(
                said.contains(&format!("{over} of it say nothing of a day")),
                "{said}"
            );
            assert!(
                said.contains("--repo, or a folder with an hour of WAL"),
                "{said}"
            );
            assert!(!said.contains("processor time a day"), "{said}");
        }
        let recommended = advice_of(|_| {}, burst(61.0 * 60.0), Time::Wall).program();
        assert!(recommended.advice.starts_with("no program"));
    }

    #[test]
    fn prices_do_not_decide_by_a_day_that_is_not_known() {
        let dear_time = |limits: &mut Limits| {
            limits.price_per_gb_month = Some(0.001);
            limits.retention_days = Some(1.0);
            limits.price_per_cpu_hour = Some(10.0);
        };
        let recommended = advice_of(dear_time, burst(3.0), Time::Wall).program();
        assert_eq!(recommended.advice, "walzip -3");
        let said = recommended.reasons.join("\n");
        assert!(
            said.contains("the smallest of 3") && !said.contains("a month"),
            "{said}"
        );
    }

    #[test]
    fn a_busy_machine_is_judged_by_processor_time() {
        // Each takes ten times its processor time: 1, 2 and 5 seconds.
        let limit = |limits: &mut Limits| limits.seconds_per_segment = Some(0.3);
        let busy = advice_of(limit, Rate::given(10e9), Time::Processor);
        assert_eq!(busy.program().advice, "zstd -1");
        let exceeds = busy.programs[2].exceeds.as_deref();
        assert_eq!(
            exceeds,
            Some("takes 0.500 s of processor time, more than 0.3 s (--max-seconds-per-segment)")
        );
        let busy = advice_of(|_| {}, Rate::given(10e9), Time::Processor).program();
        let said = busy.reasons.join("\n");
        assert!(
            said.contains("zstd -1 takes 40% of the processor time"),
            "{said}"
        );
    }

    #[test]
    fn when_nothing_is_affordable_that_is_said() {
        let impossible = advice(|limits| limits.seconds_per_segment = Some(0.001)).program();
        assert!(impossible.advice.starts_with("no program"));
        assert!(impossible.reasons[0].contains("even lz4 -1, the fastest, takes 0.100 s"));
    }
}
