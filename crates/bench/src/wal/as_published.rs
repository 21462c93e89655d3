//! The published pairs of time and size, beside the same programs here.
//!
//! Seconds stand beside seconds only where both are of a segment of the published size, in the
//! mean over whole folders. Otherwise only ratios to gzip -1 are shown, each within its own
//! measurements.

use std::time::Duration;

use serde::Serialize;

use super::Results;
use super::published::{PUBLISHED, Published, SEGMENT_BYTES, SOURCE, TIMED_EXAMPLE, VOLUME};
use crate::text::{counted, megabytes};
use crate::usage::Usage;
use crate::verdict::Time;

/// The published pairs, beside what was measured here.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AsPublished {
    /// Where the published pairs come from.
    pub published_source: &'static str,
    /// How much was measured for them, and here.
    pub volumes: String,
    /// Whether seconds and MB are of segments of the same size; otherwise only ratios compare.
    pub same_volume: bool,
    /// The published pairs.
    #[serde(rename = "published")]
    pub pairs: Vec<PublishedHere>,
    /// What the program of the published example took here, where it was measured: the same values
    /// as those of the example, in the mean over the segments.
    pub timed_example: Option<[Option<f64>; 8]>,
}

/// A published pair, and the row that is the same program at the same level here.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PublishedHere {
    /// What was published.
    #[serde(flatten)]
    pub published: Published,
    /// The index of the row in the results, when it was measured.
    pub row: Option<usize>,
    /// Time and size relative to gzip -1's, as published.
    pub relative_published: [f64; 2],
    /// Time and size relative to gzip -1's here.
    pub relative_here: Option<[f64; 2]>,
}

pub(super) fn compare(results: &Results, judged_by: Time) -> AsPublished {
    let place_of = |pair: &Published| {
        let mut rows = results.rows.iter();
        rows.position(|row| (row.contender, row.level) == (pair.contender, pair.level))
    };
    let measured = |row: usize| {
        let of = results.summary[row].all?;
        let seconds = match judged_by {
            Time::Wall => of.compress_s,
            Time::Processor => of.compress_cpu_s,
        };
        Some([seconds, of.output_bytes as f64])
    };
    let relative = |[time, size]: [f64; 2], [base_time, base_size]: [f64; 2]| {
        [time / base_time, size / base_size]
    };
    let base = &PUBLISHED[0];
    let base_here = place_of(base).and_then(measured);
    let pair = |published: &Published| {
        let row = place_of(published);
        let here = row.and_then(measured).zip(base_here);
        PublishedHere {
            published: *published,
            row,
            relative_published: relative(
                [published.compress_s, published.output_mb],
                [base.compress_s, base.output_mb],
            ),
            relative_here: here.map(|(here, base)| relative(here, base)),
        }
    };
    AsPublished {
        published_source: SOURCE,
        volumes: volumes(results),
        same_volume: is_same_volume(results),
        pairs: PUBLISHED.iter().map(pair).collect(),
        timed_example: timed_example(results),
    }
}

/// The published example's values here: only segments of its size compare.
fn timed_example(results: &Results) -> Option<[Option<f64>; 8]> {
    if !results
        .inputs
        .iter()
        .all(|input| input.bytes == SEGMENT_BYTES)
    {
        return None;
    }
    let mut rows = results.rows.iter();
    let example = (TIMED_EXAMPLE.contender, TIMED_EXAMPLE.level);
    let row = rows.position(|row| (row.contender, row.level) == example)?;
    let all = results.summary[row].all?;
    let of_row = || {
        results
            .measurements
            .iter()
            .filter(move |measured| measured.row == row)
    };
    let mean = |time: fn(&Usage) -> Duration| {
        let seconds: f64 = of_row()
            .map(|measured| time(&measured.compress).as_secs_f64())
            .sum();
        Some(seconds / of_row().count().max(1) as f64)
    };
    let counts = all.compress_counts;
    let [major, minor, voluntary, involuntary] = [0, 1, 2, 3].map(|at| counts.map(|of| of[at]));
    Some([
        mean(|usage| usage.wall),
        mean(|usage| usage.user),
        mean(|usage| usage.system),
        Some(megabytes(all.compress_peak_bytes)),
        major,
        minor,
        voluntary,
        involuntary,
    ])
}

fn is_same_volume(results: &Results) -> bool {
    let mut inputs = results.inputs.iter();
    !results.settings.quick && inputs.all(|input| input.bytes == SEGMENT_BYTES)
}

fn volumes(results: &Results) -> String {
    let bytes = results.inputs.iter().map(|input| input.bytes).sum();
    format!(
        "Published: {VOLUME}. Here: {}, {:.0} MB, {}{}",
        counted(results.inputs.len(), "segment"),
        megabytes(bytes),
        counted(results.settings.runs as usize, "run"),
        match (results.settings.sampled, results.settings.quick) {
            (Some(sampled), _) => format!(" ({})", sampled.words()),
            (None, true) => " (quick: the first segment of each folder)".to_owned(),
            (None, false) => String::new(),
        }
    )
}

#[cfg(test)]
mod tests {
    use crate::wal::fixture::fixture;

    fn line(text: &str, start: &str) -> String {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut lines = text.lines().map(words);
        lines.find(|line| line.starts_with(start)).unwrap()
    }

    #[test]
    fn a_quick_look_stands_beside_published_ratios_and_never_beside_seconds() {
        let mut results = fixture(&[
            ("gzip", 1, &[(5_000_000, 2.0)]),
            ("xz", 2, &[(3_000_000, 3.0)]),
            ("walzip", 1, &[(10, 0.1)]),
        ]);
        let text = results.to_string();
        assert!(line(&text, "xz -2 ").starts_with("xz -2 1"), "{text}");
        assert!(text.contains("  1.186"), "{text}");
        results.settings.quick = true;
        results.dominance = super::super::dominance::compare(&results);
        let text = results.to_string();
        assert!(!text.contains("1.186"), "{text}");
        // 1.186 / 0.271 and 3.066 / 4.927; 3 / 2 and 3 / 5.
        let ratios = "xz -2 4.38 0.62 xz -2 1 1.50 0.60";
        let found = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        assert!(
            found.into_iter().any(|line| line.starts_with(ratios)),
            "{text}"
        );
        assert!(text.contains("100 segments of 16 MB") && text.contains("Here: 1 segment"));
        let page = results.page().unwrap();
        assert!(page.contains("\"same_volume\":false"));
    }

    #[test]
    fn what_time_printed_stands_beside_the_same_counts_here() {
        let mut results = fixture(&[
            ("bzip2", 4, &[(3_592_000, 1.5)]),
            ("walzip", 1, &[(10, 0.1)]),
        ]);
        let heading = "What bzip2 -4 took, as published for one segment, and here in the mean:";
        assert!(results.to_string().contains(heading));
        for measured in &mut results.measurements {
            measured.compress.counts = Some([0, 900, 2, 40].into());
        }
        results.summary = super::super::summary::summarise(&results);
        results.dominance = super::super::dominance::compare(&results);
        let text = results.to_string();
        assert!(
            line(&text, "published 1.660").ends_with("1.650 0.010 3.7 0 938 1 13"),
            "{text}"
        );
        assert!(line(&text, "here ").ends_with(" 0 900 2 40"), "{text}");
        assert!(line(&text, "bzip2 -4 ").contains(" 900 42 "), "{text}");
        results.inputs[0].bytes *= 4;
        results.dominance = super::super::dominance::compare(&results);
        assert!(!results.to_string().contains(heading));
    }

    #[test]
    fn segments_of_another_size_are_another_volume() {
        let mut results = fixture(&[("gzip", 1, &[(5_000_000, 2.0)])]);
        assert!(results.dominance.published.same_volume);
        results.inputs[0].bytes *= 4;
        assert!(!super::is_same_volume(&results));
    }
}
