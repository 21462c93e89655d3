//! The segment size, which `initdb` and `pg_resetwal --wal-segsize` set.

use super::{Recommendation, Saves, percent};
use crate::advise::Advice;

/// Fewer files than this an hour are nobody's problem.
const PER_HOUR_MAX: f64 = 360.0;
/// A program that spends more of its time on starting and ending would gain from fewer files.
const FIXED_MAX: f64 = 0.2;
const HOURS_PER_DAY: f64 = 24.0;
const MIB: f64 = (1u64 << 20) as f64;
const LARGEST_MIB: f64 = 1024.0;

impl Advice {
    pub(super) fn segment_size(&self) -> Recommendation {
        let size = self.wal.segment_size_bytes as f64;
        let mut reasons = Vec::new();
        let rate = self.rate.as_ref();
        let per_day = rate.and_then(|rate| rate.segments_per_day(self.wal.segment_size_bytes));
        let per_hour = per_day.map(|per_day| per_day / HOURS_PER_DAY);
        match per_hour {
            Some(per_hour) => reasons.push(format!(
                "{per_hour:.1} segments of {:.0} MB an hour, one start of archive_command each",
                size / MIB
            )),
            None => reasons
                .push("how many segments there are in an hour is not known well enough".to_owned()),
        }
        let fixed = self.chosen_program().and_then(|program| {
            Some((
                program,
                program.empty_segment_s?,
                program.empty_segment_s? / program.judged_s,
            ))
        });
        if let Some((program, seconds, share)) = fixed {
            reasons.push(format!(
                "{} takes {seconds:.3} s{} for a segment with nothing in it, {} of its time: larger \
                 segments would save no more than that",
                program.label,
                self.judged_by.of_what(),
                percent(share.min(1.0))
            ));
        }
        let many = per_hour.filter(|per_hour| *per_hour > PER_HOUR_MAX);
        let dear = fixed.is_some_and(|(_, _, share)| share > FIXED_MAX);
        let larger = many.map(|per_hour| {
            let wanted = (per_hour / PER_HOUR_MAX).log2().ceil().exp2() * size / MIB;
            wanted.min(LARGEST_MIB)
        });
        let advice = match larger {
            Some(wanted) if wanted > size / MIB => format!(
                "{wanted:.0} MB (initdb --wal-segsize, or pg_resetwal on a server that is cleanly \
                 stopped, with a new repository and a new backup){}",
                if dear {
                    ""
                } else {
                    "; for the number of files more than for their time"
                }
            ),
            _ => format!("leave it as it is ({:.0} MB)", size / MIB),
        };
        reasons.push(
            "what each file costs on the way to the archive was not measured; walzip bench segments \
             does it"
                .to_owned(),
        );
        Recommendation {
            subject: "segment size",
            change: larger.is_some_and(|wanted| wanted > size / MIB),
            advice,
            reasons,
            saves_bytes_per_day: None,
            saves_of: Saves::Archived,
            saves_per_month: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::advise::text::fixture::advice;

    #[test]
    fn larger_segments_are_for_many_an_hour() {
        let mut example = advice(|_| {});
        assert_eq!(example.segment_size().advice, "leave it as it is (16 MB)");
        if let Some(rate) = &mut example.rate {
            rate.bytes_per_day = Some(1000.0 * 24.0 * (16u64 << 20) as f64);
        }
        let found = example.segment_size();
        assert!(
            found.change && found.advice.starts_with("64 MB"),
            "{found:?}"
        );
    }
}
