//! Is some walzip level both smaller and faster?
//!
//! Two rows compare by the bytes that they wrote for the same segments and by the time that
//! compressing these took, run by run. A row is beaten when one walzip level needs fewer bytes and
//! less time; of several such levels the one that writes the fewest bytes is named. What counts as
//! less time, and which time is judged, is in `verdict.rs`: with too few runs there is a verdict on
//! size alone. walzip works with one thread: where a program works with more, that is said, and
//! the answer is not a comparison of equals.

use serde::Serialize;

use super::as_published::{self, AsPublished};
use super::paired_runs::Runs;
use super::{Figures, Results};
use crate::contender::{Threads, WALZIP, WALZIP_UNVERIFIED};
use crate::spread::spread;
use crate::verdict::{self, Comparison, Time, Told};

/// The answer for every row that is not walzip's, and the published pairs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Dominance {
    /// Which time the verdicts are on.
    pub judged_by: Time,
    /// The load of others, where the machine was busy before, while or after it was measured.
    pub busy: Option<f64>,
    /// One for each row that is not walzip's.
    pub verdicts: Vec<Verdict>,
    /// The published pairs, beside what was measured here.
    #[serde(flatten)]
    pub published: AsPublished,
}

/// Whether a row is beaten.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The index of the row in the results.
    pub row: usize,
    /// How many threads the row works with.
    pub threads: usize,
    /// In how many runs it was measured on every segment.
    pub runs: usize,
    /// How far apart these runs are, or those of the level that it is compared with where they are
    /// further apart: half the range relative to the median.
    pub spread: Option<f64>,
    /// Whether a walzip level that decodes what it wrote beats it, over all segments.
    pub verified: Answer,
    /// The same for walzip levels that do not decode what they wrote.
    pub unverified: Answer,
    /// The folders on which no walzip level that decodes what it wrote beats it.
    pub not_on: Vec<String>,
    /// The folders on which the runs do not tell.
    pub undecided_on: Vec<String>,
    /// The folders on which that was asked.
    pub folders: usize,
}

/// Whether a row is beaten.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The row or walzip was not measured on every segment.
    Unknown,
    /// No level is both smaller and faster.
    Unbeaten {
        /// Of the levels that are smaller the fastest, or else the smallest.
        #[serde(flatten)]
        nearest: Option<Level>,
    },
    /// One is.
    Beaten(Level),
    /// One is smaller, and the runs do not tell its time from the row's.
    NotDistinguishable(Level),
    /// This is the lowest level that is smaller; there are too few runs to say anything of time.
    TooFewRuns(Level),
}

impl Answer {
    /// The level that beats the row.
    pub fn winner(&self) -> Option<Level> {
        match self {
            Answer::Beaten(winner) => Some(*winner),
            _ => None,
        }
    }

    /// The level that is smaller than the row, whatever is known of its time.
    pub fn smaller(&self) -> Option<Level> {
        self.level().filter(|level| level.bytes < 1.0)
    }

    /// The level that the row was compared with.
    pub fn level(&self) -> Option<Level> {
        match self {
            Answer::Beaten(level)
            | Answer::NotDistinguishable(level)
            | Answer::TooFewRuns(level) => Some(*level),
            Answer::Unbeaten { nearest } => *nearest,
            Answer::Unknown => None,
        }
    }
}

/// A level of walzip beside a row.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Level {
    /// The index of walzip's row in the results.
    pub row: usize,
    /// Its bytes for each of the other's.
    pub bytes: f64,
    /// Its time of compressing for each second of the other's; none where there are too few runs.
    pub compress_time: Option<f64>,
    /// Its time of decompressing for each second of the other's, likewise.
    pub decompress_time: Option<f64>,
    /// In how many interleaved runs both were measured.
    pub runs: usize,
    /// The larger spread of the two over these runs: half the range relative to the median.
    pub spread: Option<f64>,
}

impl Dominance {
    /// The verdict on a row.
    pub fn verdict(&self, row: usize) -> Option<&Verdict> {
        self.verdicts.iter().find(|verdict| verdict.row == row)
    }
}

/// Compares every row with walzip's.
pub(super) fn compare(results: &Results) -> Dominance {
    let busy = busy(results);
    let judged_by = Time::under(busy);
    let runs = Runs::new(results, judged_by);
    let others = results
        .rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.contender != WALZIP && row.contender != WALZIP_UNVERIFIED);
    Dominance {
        judged_by,
        busy,
        verdicts: others
            .map(|(row, _)| verdict(results, &runs, row))
            .collect(),
        published: as_published::compare(results, judged_by),
    }
}

/// The load of others: before, in earlier starts, or beyond what was measured at the end.
fn busy(results: &Results) -> Option<f64> {
    let provenance = &results.provenance;
    let all = results.rows.iter().any(|row| row.threads == Threads::All);
    let own = if all { provenance.cpus.max(1) } else { 1 };
    // A program of one thread may have helpers that read and write.
    let expected = own as f64 + 1.0;
    let after = provenance
        .load_average_after
        .filter(|load| *load > expected);
    provenance
        .load_of_others()
        .or(results.load_of_others_before)
        .or(after)
}

fn verdict(results: &Results, runs: &Runs<'_>, row: usize) -> Verdict {
    let everywhere = Scope {
        results,
        runs,
        inputs: results.covered(),
        folder: None,
    };
    let asked: Vec<(&str, Answer)> = results.summary[row]
        .folders
        .iter()
        .map(|of_folder| {
            let scope = everywhere.within(&of_folder.folder);
            (of_folder.folder.as_str(), scope.answer(row, WALZIP))
        })
        .filter(|(_, answer)| !matches!(answer, Answer::Unknown))
        .collect();
    let where_it_is = |is: fn(&Answer) -> bool| {
        let folders = asked.iter().filter(|(_, answer)| is(answer));
        folders.map(|(folder, _)| (*folder).to_owned()).collect()
    };
    let verified = everywhere.answer(row, WALZIP);
    let own = runs.paired([row, row], &everywhere.inputs).compress[0].clone();
    let own_spread = spread(own.iter().copied()).and_then(|own| own.half_range);
    let compared = verified.smaller().and_then(|smaller| smaller.spread);
    Verdict {
        row,
        threads: results.threads(&results.rows[row]),
        runs: own.len(),
        spread: own_spread.into_iter().chain(compared).reduce(f64::max),
        verified,
        unverified: everywhere.answer(row, WALZIP_UNVERIFIED),
        not_on: where_it_is(|answer| matches!(answer, Answer::Unbeaten { .. })),
        undecided_on: where_it_is(|answer| matches!(answer, Answer::NotDistinguishable(_))),
        folders: asked.len(),
    }
}

/// The segments on which rows are compared: all, or those of a folder.
struct Scope<'a> {
    results: &'a Results,
    runs: &'a Runs<'a>,
    inputs: Vec<usize>,
    folder: Option<&'a str>,
}

impl<'a> Scope<'a> {
    fn within(&self, folder: &'a str) -> Scope<'a> {
        let is_in = |input: &usize| self.results.inputs[*input].folder == folder;
        Scope {
            inputs: self.inputs.iter().copied().filter(is_in).collect(),
            folder: Some(folder),
            ..*self
        }
    }

    fn figures(&self, row: usize) -> Option<Figures> {
        let summary = &self.results.summary[row];
        let Some(folder) = self.folder else {
            return summary.all;
        };
        let mut folders = summary.folders.iter();
        let found = folders.find(|of_folder| of_folder.folder == folder)?;
        Some(found.figures)
    }

    /// Of the levels that are both smaller and faster than a row, the smallest.
    fn answer(&self, other: usize, contender: &str) -> Answer {
        let rows = self.results.rows.iter().enumerate();
        let ours: Vec<(usize, Figures)> = rows
            .filter(|(_, row)| row.contender == contender)
            .filter_map(|(row, _)| Some((row, self.figures(row)?)))
            .collect();
        let Some(theirs) = self.figures(other).filter(|_| !ours.is_empty()) else {
            return Answer::Unknown;
        };
        let mut compared: Vec<(Level, Told)> = ours
            .iter()
            .map(|(row, ours)| self.against(other, *row, ours, &theirs))
            .collect();
        let is_smaller = |(level, _): &&(Level, Told)| level.bytes < 1.0;
        let untold = |(_, told): &&(Level, Told)| *told == Told::TooFewRuns;
        let lowest_untold = compared.iter().filter(is_smaller).find(untold).copied();
        compared.sort_by(|(a, _), (b, _)| a.bytes.total_cmp(&b.bytes));
        let smaller = || compared.iter().filter(is_smaller);
        let smallest = |told: Told| {
            smaller()
                .find(|(_, of)| *of == told)
                .map(|(level, _)| *level)
        };
        if let Some(level) = smallest(Told::Less) {
            return Answer::Beaten(level);
        }
        if let Some(level) = smallest(Told::NotDistinguishable) {
            return Answer::NotDistinguishable(level);
        }
        match lowest_untold {
            Some((level, _)) => Answer::TooFewRuns(level),
            None => {
                let seconds = |level: &Level| level.compress_time.unwrap_or(f64::INFINITY);
                let levels = smaller().map(|(level, _)| *level);
                let fastest = levels.min_by(|a, b| seconds(a).total_cmp(&seconds(b)));
                let nearest = fastest.or(compared.first().map(|(level, _)| *level));
                Answer::Unbeaten { nearest }
            }
        }
    }

    /// A level beside a row, and what its time is told to be.
    fn against(&self, other: usize, row: usize, ours: &Figures, theirs: &Figures) -> (Level, Told) {
        let paired = self.runs.paired([row, other], &self.inputs);
        let compress = verdict::compare(&paired.compress[0], &paired.compress[1]);
        let decompress = verdict::compare(&paired.decompress[0], &paired.decompress[1]);
        let told = compress.map_or(Told::TooFewRuns, |compress| compress.told);
        let ratio = |of: Option<Comparison>| Some(of?.ratio).filter(|_| told != Told::TooFewRuns);
        let level = Level {
            row,
            bytes: ours.output_bytes as f64 / theirs.output_bytes as f64,
            compress_time: ratio(compress),
            decompress_time: ratio(decompress),
            runs: compress.map_or(0, |compress| compress.runs),
            spread: compress.and_then(|compress| compress.spread),
        };
        (level, told)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wal::fixture::{fixture, fixture_of_runs};
    use crate::wal::summary;

    fn names(results: &Results, answer: Answer) -> Option<&str> {
        let winner = answer.winner()?;
        Some(results.rows[winner.row].label.as_str())
    }

    #[test]
    fn of_the_levels_that_are_smaller_and_faster_the_smallest_is_named() {
        let results = fixture(&[
            ("xz", 2, &[(100, 50.0)]),
            ("walzip", 1, &[(90, 1.0)]),
            ("walzip", 3, &[(70, 2.0)]),
            ("walzip", 9, &[(20, 51.0)]),
            ("walzip-unverified", 9, &[(20, 49.0)]),
        ]);
        let verdict = &results.dominance.verdicts[0];
        assert_eq!(results.dominance.verdicts.len(), 1);
        assert_eq!(names(&results, verdict.verified), Some("walzip -3"));
        assert_eq!(
            names(&results, verdict.unverified),
            Some("walzip -9 --no-verify")
        );
        let winner = verdict.verified.winner().unwrap();
        assert_eq!((winner.bytes, winner.compress_time), (0.7, Some(0.04)));
    }

    #[test]
    fn smaller_but_slower_and_faster_but_larger_beat_nothing() {
        let results = fixture(&[
            ("lz4", 1, &[(100, 1.0)]),
            ("walzip", 1, &[(90, 1.1)]),
            ("walzip", 3, &[(100, 0.5)]),
        ]);
        let verdict = &results.dominance.verdicts[0];
        // How near it comes is said: the level that is smaller, and its time.
        let Answer::Unbeaten { nearest } = verdict.verified else {
            panic!("{:?}", verdict.verified);
        };
        let nearest = nearest.unwrap();
        assert_eq!((nearest.row, nearest.bytes), (1, 0.9));
        assert!((nearest.compress_time.unwrap() - 1.1).abs() < 1e-9);
        assert!(matches!(verdict.unverified, Answer::Unknown));
        assert_eq!((verdict.folders, verdict.not_on.len()), (1, 1));
        assert!(
            results
                .to_string()
                .contains("  lz4 -1: no level is both smaller and faster\n")
        );
    }

    #[test]
    fn a_folder_on_which_it_is_otherwise_is_an_exception() {
        let results = fixture(&[
            ("pigz", 1, &[(100, 1.0), (100, 1.0)]),
            ("walzip", 1, &[(10, 0.1), (101, 0.1)]),
        ]);
        let verdict = &results.dominance.verdicts[0];
        assert_eq!(names(&results, verdict.verified), Some("walzip -1"));
        assert_eq!(
            (verdict.not_on.as_slice(), verdict.folders),
            (&["folder-1".to_owned()][..], 2)
        );
        assert_eq!(results.rows[0].threads, Threads::All);
        assert!(
            results
                .to_string()
                .contains("  pigz -1: not on folder-1 (2 threads against one)\n")
        );
    }

    #[test]
    fn without_a_figure_there_is_no_answer() {
        let mut results = fixture(&[("gzip", 1, &[(100, 1.0)]), ("walzip", 1, &[(10, 0.1)])]);
        results.summary[1].all = None;
        results.summary[1].folders.clear();
        let dominance = compare(&results);
        assert!(matches!(dominance.verdicts[0].verified, Answer::Unknown));
        assert_eq!(dominance.verdicts[0].folders, 0);
        results.dominance = dominance;
        let said = "  gzip -1: no answer, it or walzip was not measured on every segment\n";
        assert!(results.to_string().contains(said));
    }

    /// Seconds of each run: a program of 100 bytes, and walzip -1 of 50.
    fn of_seconds(theirs: &[f64], ours: &[f64]) -> Results {
        let mut results = fixture_of_runs(
            theirs.len() as u32,
            &[("gzip", 1, &[(100, 1.0)]), ("walzip", 1, &[(50, 1.0)])],
        );
        for measured in &mut results.measurements {
            let seconds = [theirs, ours][measured.row][measured.run as usize - 1];
            measured.compress.wall = Duration::from_secs_f64(seconds);
        }
        results.summary = summary::summarise(&results);
        results.dominance = compare(&results);
        results
    }

    #[test]
    fn one_run_gives_a_verdict_on_size_and_none_on_time() {
        let results = of_seconds(&[3.0], &[1.0]);
        let verdict = &results.dominance.verdicts[0];
        assert!(matches!(verdict.verified, Answer::TooFewRuns(_)));
        let text = results.to_string();
        assert!(
            text.contains("One run: differences in time below 4 times prove nothing"),
            "{text}"
        );
        let line = text.lines().find(|line| line.contains("too few runs"));
        let words: Vec<_> = line.unwrap().split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "gzip -1 1 1 - too few runs walzip -1 0.50 - -"
        );
        assert!(!text.contains("No exceptions"), "{text}");
        assert!(
            results
                .page()
                .unwrap()
                .contains("\"answer\":\"too_few_runs\"")
        );
    }

    #[test]
    fn a_level_that_is_far_slower_says_nothing_of_one_that_too_few_runs_tell() {
        let results = fixture_of_runs(
            1,
            &[
                ("gzip", 1, &[(100, 1.0)]),
                ("walzip", 1, &[(90, 9.0)]),
                ("walzip", 3, &[(80, 1.5)]),
            ],
        );
        let Answer::TooFewRuns(level) = results.dominance.verdicts[0].verified else {
            panic!("{:?}", results.dominance.verdicts[0].verified);
        };
        assert_eq!(level.row, 2);
    }

    #[test]
    fn runs_that_lie_among_each_other_are_not_distinguishable() {
        let told = |theirs: &[f64], ours: &[f64]| of_seconds(theirs, ours).to_string();
        let near = told(&[1.0, 1.2, 1.4], &[0.9, 1.0, 1.1]);
        let said =
            "gzip -1: walzip -1 is smaller; its time is not distinguishable (3 runs, spread 17 %)";
        assert!(near.contains(said), "{near}");
        // The ratio is shown, and is no verdict.
        let line = near
            .lines()
            .find(|line| line.contains("not distinguishable"));
        let words: Vec<_> = line.unwrap().split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "gzip -1 1 3 17% not distinguishable walzip -1 0.50 0.83 1.00"
        );
        let far = told(&[1.4, 1.5, 1.6], &[0.9, 1.0, 1.1]);
        assert!(
            far.contains("No exceptions") && far.contains("0.67"),
            "{far}"
        );
        let slower = told(&[0.9, 1.0, 1.1], &[1.4, 1.5, 1.6]);
        assert!(
            slower.contains("no level is both smaller and faster"),
            "{slower}"
        );
    }

    #[test]
    fn a_busy_machine_is_judged_by_processor_time_and_says_so() {
        let mut results = of_seconds(&[9.0, 9.0, 9.0], &[1.0, 1.0, 1.0]);
        // Processor times are the same.
        results.provenance.load_average_before = Some(1.9);
        results.dominance = compare(&results);
        let verdict = &results.dominance.verdicts[0];
        assert_eq!(results.dominance.judged_by, Time::Processor);
        assert!(matches!(verdict.verified, Answer::NotDistinguishable(_)));
        let text = results.to_string();
        assert!(text.contains("wall times are not judged"), "{text}");
        // What came in between shows at the end.
        results.provenance.load_average_before = Some(0.0);
        results.provenance.load_average_after = Some(2.0);
        assert_eq!(compare(&results).busy, None);
        results.provenance.load_average_after = Some(5.0);
        assert_eq!(compare(&results).busy, Some(5.0));
    }

    #[test]
    fn published_pairs_stand_beside_the_same_program_here() {
        let results = fixture(&[
            ("xz-T0", 2, &[(3_000_000, 2.0)]),
            ("walzip", 1, &[(10, 0.1)]),
        ]);
        let text = results.to_string();
        let here = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start));
            line.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(
            here("pxz -2").as_deref(),
            Some("pxz -2 0.175 3.095 xz -2 -T0 2 2.000 3.000 walzip -1")
        );
        assert_eq!(here("gzip -1"), None);
    }
}
