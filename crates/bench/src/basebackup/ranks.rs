//! From times and sizes to ranks, as it was published.
//!
//! Within a data set, the mean time is divided by the shortest, the size by the smallest, and
//! the two are added: 2 is perfect. The rows are ranked by that score; what counts is the mean of
//! the ranks. Published were the twelve rows of pg_basebackup, so only these are ranked, among each
//! other. walzip and pgBackRest are scored by their shortest time and their smallest size, and stand
//! between two of them; they take nobody's rank.

use serde::Serialize;

use super::measurement::{Measurement, Row};
use super::published::PUBLISHED;
use crate::provenance::Provenance;
use crate::spread::spread;
use crate::verdict::{RUNS_MIN, Time};

/// What it comes to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ranks {
    /// Which time is ranked. None where the machine was busy and the processor time of a server
    /// is not known: then nothing is.
    pub judged_by: Option<Time>,
    /// How many rows are ranked: those of pg_basebackup.
    pub ranked: usize,
    /// Each row on each data set.
    pub scores: Vec<Score>,
    /// Each row over all data sets, the best first.
    pub average: Vec<Average>,
}

/// A row on a data set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    /// The index of its row in the results.
    pub row: usize,
    /// The index of its data set in the results.
    pub data_set: usize,
    /// Wall time: the mean over the loops, as published.
    pub seconds: f64,
    /// Half the range of the wall times relative to their median; none with a single loop.
    pub spread: Option<f64>,
    /// Processor time of client and server together: the mean over the loops.
    pub cpu_seconds: Option<f64>,
    /// The size of the backup: the mean over the loops.
    pub bytes: f64,
    /// Time relative to pg_basebackup's shortest plus size relative to its smallest.
    pub score: f64,
    /// Its rank by that score among the rows of pg_basebackup; none for others.
    pub rank: Option<usize>,
    /// How many rows of pg_basebackup have a better score.
    pub better: usize,
    /// How many have one at least and at most, if only what the ranges over the loops tell apart
    /// is told apart. None with too few loops.
    pub better_within_spread: Option<[usize; 2]>,
}

/// A row over all data sets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Average {
    /// The index of its row in the results.
    pub row: usize,
    /// The mean of its ranks among the rows of pg_basebackup; none for others.
    pub rank: Option<f64>,
    /// The mean number of rows of pg_basebackup with a better score.
    pub better: f64,
    /// The mean of its scores.
    pub score: f64,
}

impl Score {
    /// What it is sorted by.
    pub(super) fn order(&self) -> f64 {
        let rank = self.rank.map(|rank| rank as f64);
        rank.unwrap_or(self.better as f64 + 0.5)
    }

    /// The rank, or between which two it stands.
    pub(super) fn standing(&self, ranked: usize) -> String {
        match (self.rank, self.better) {
            (Some(rank), _) => rank.to_string(),
            (None, 0) => "before 1".to_owned(),
            (None, better) if better >= ranked => format!("after {ranked}"),
            (None, better) => format!("between {better} and {}", better + 1),
        }
    }
}

impl Average {
    /// The rank, or behind how many it stands.
    pub(super) fn standing(&self) -> String {
        match self.rank {
            Some(rank) => format!("{rank:.1}"),
            None => format!("behind {:.1}", self.better),
        }
    }

    /// What it is sorted by: what has no rank stands behind the rank of as many as are better.
    pub(super) fn order(&self) -> f64 {
        self.rank.unwrap_or(self.better + 0.5)
    }
}

/// What is ranked.
pub(super) struct Measured<'a> {
    pub(super) provenance: &'a Provenance,
    pub(super) rows: &'a [Row],
    /// How many there are.
    pub(super) data_sets: usize,
    pub(super) measurements: &'a [Measurement],
}

/// A row's figures on a data set.
#[derive(Clone)]
struct Point {
    row: usize,
    is_ranked: bool,
    seconds: f64,
    spread: Option<f64>,
    cpu_seconds: Option<f64>,
    bytes: f64,
    /// What is ranked, loop by loop.
    judged: Vec<f64>,
}

impl Ranks {
    /// The rows on a data set, the best first.
    pub(super) fn of_data_set(&self, data_set: usize) -> Vec<&Score> {
        let scores = self.scores.iter();
        let mut scores: Vec<_> = scores.filter(|score| score.data_set == data_set).collect();
        scores.sort_by(|a, b| a.score.total_cmp(&b.score));
        scores
    }

    /// Whether the published ranks are of as many rows as these.
    pub(super) fn are_as_published(&self) -> bool {
        self.judged_by.is_some() && self.ranked == PUBLISHED.len()
    }

    /// Ranks what was measured. An average is of a row that was measured on every data set.
    pub(super) fn of(all: &Measured<'_>) -> Ranks {
        let (judged_by, time) = judged(all);
        let mut scores = Vec::new();
        let mut data_sets = 0;
        for data_set in 0..all.data_sets {
            let of_data_set = score(all, data_set, time);
            data_sets += usize::from(!of_data_set.is_empty());
            scores.extend(of_data_set);
        }
        let mut average: Vec<Average> = (0..all.rows.len())
            .filter_map(|row| average_of(row, &scores, data_sets))
            .collect();
        average.sort_by(|a, b| {
            let order = a.order().total_cmp(&b.order());
            order.then(a.score.total_cmp(&b.score))
        });
        Ranks {
            judged_by,
            ranked: average.iter().filter(|row| row.rank.is_some()).count(),
            scores,
            average,
        }
    }
}

/// Which time can be ranked, and which one orders the tables in any case.
fn judged(all: &Measured<'_>) -> (Option<Time>, Time) {
    let mut measurements = all.measurements.iter();
    let known = measurements.all(|measured| measured.server_cpu_s.is_some());
    match all.provenance.judged_by() {
        Time::Wall => (Some(Time::Wall), Time::Wall),
        Time::Processor if known => (Some(Time::Processor), Time::Processor),
        Time::Processor => (None, Time::Wall),
    }
}

fn average_of(row: usize, scores: &[Score], data_sets: usize) -> Option<Average> {
    let of_row: Vec<&Score> = scores.iter().filter(|score| score.row == row).collect();
    if of_row.is_empty() || of_row.len() < data_sets {
        return None;
    }
    let ranks: Option<Vec<usize>> = of_row.iter().map(|score| score.rank).collect();
    Some(Average {
        row,
        rank: ranks.map(|ranks| mean(ranks.iter().map(|rank| *rank as f64))),
        better: mean(of_row.iter().map(|score| score.better as f64)),
        score: mean(of_row.iter().map(|score| score.score)),
    })
}

fn score(all: &Measured<'_>, data_set: usize, time: Time) -> Vec<Score> {
    let rows = 0..all.rows.len();
    let points: Vec<Point> = rows
        .filter_map(|row| point(all, row, data_set, time))
        .collect();
    let others: Vec<&Point> = points.iter().filter(|point| point.is_ranked).collect();
    // Where there is nothing else, the others are measured by themselves.
    let measure: Vec<&Point> = match others.is_empty() {
        true => points.iter().collect(),
        false => others.clone(),
    };
    let least = |value: fn(&Point) -> f64| {
        let values = measure.iter().map(|point| value(point));
        values.fold(f64::INFINITY, f64::min).max(f64::MIN_POSITIVE)
    };
    let (shortest, smallest) = (least(Point::time), least(|point| point.bytes));
    let score_at = |point: &Point, time: f64| time / shortest + point.bytes / smallest;
    let ranges: Vec<(usize, [f64; 2])> = others
        .iter()
        .map(|point| (point.row, point.range().map(|time| score_at(point, time))))
        .collect();
    let mut scored: Vec<(usize, f64)> = others
        .iter()
        .map(|point| (point.row, score_at(point, point.time())))
        .collect();
    scored.sort_by(|a, b| a.1.total_cmp(&b.1));
    let complete = |point: &Point| {
        let score = score_at(point, point.time());
        let index = scored.iter().position(|(row, _)| *row == point.row);
        let [low, high] = point.range().map(|time| score_at(point, time));
        let of_others = || ranges.iter().filter(|(row, _)| *row != point.row);
        let surely_better = of_others().filter(|(_, range)| range[1] < low).count();
        let surely_worse = of_others().filter(|(_, range)| range[0] > high).count();
        let better = scored.iter().filter(|(_, other)| *other < score).count();
        Score {
            row: point.row,
            data_set,
            seconds: point.seconds,
            spread: point.spread,
            cpu_seconds: point.cpu_seconds,
            bytes: point.bytes,
            score,
            rank: index.map(|index| index + 1),
            better: index.unwrap_or(better),
            better_within_spread: (point.judged.len() >= RUNS_MIN)
                .then(|| [surely_better, of_others().count() - surely_worse]),
        }
    };
    points.iter().map(complete).collect()
}

impl Point {
    fn time(&self) -> f64 {
        mean(self.judged.iter().copied())
    }

    fn range(&self) -> [f64; 2] {
        let times = || self.judged.iter().copied();
        [
            times().fold(f64::INFINITY, f64::min),
            times().fold(0.0, f64::max),
        ]
    }
}

/// What a row took on a data set; none where it was not measured.
fn point(all: &Measured<'_>, row: usize, data_set: usize, time: Time) -> Option<Point> {
    let measurements = all.measurements.iter();
    let measured: Vec<&Measurement> = measurements
        .filter(|measured| (measured.row, measured.data_set) == (row, data_set))
        .collect();
    let walls: Vec<f64> = measured
        .iter()
        .map(|measured| measured.usage.wall.as_secs_f64())
        .collect();
    let with_server =
        |measured: &&Measurement| Some(measured.usage.cpu().as_secs_f64() + measured.server_cpu_s?);
    let cpus: Option<Vec<f64>> = measured.iter().map(with_server).collect();
    Some(Point {
        row,
        is_ranked: all.rows[row].taker.is_ranked(),
        seconds: mean(walls.iter().copied()),
        spread: spread(walls.iter().copied())?.half_range,
        cpu_seconds: cpus.as_ref().map(|cpus| mean(cpus.iter().copied())),
        bytes: mean(measured.iter().map(|measured| measured.bytes as f64)),
        judged: match (time, cpus) {
            (Time::Processor, Some(cpus)) => cpus,
            _ => walls,
        },
    })
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0, 0.0), |(count, sum), value| (count + 1, sum + value));
    sum / f64::from(count.max(1))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::measurement::DataSet;
    use super::super::methods::Taker;
    use super::super::results::{Results, Settings};
    use super::*;
    use crate::provenance::Program;
    use crate::provenance::Provenance;
    use crate::usage::Usage;

    /// The seconds and bytes of each loop, for each data set.
    type Loops<'a> = &'a [&'a [(f64, u64)]];

    fn ranked(rows: &[(Taker, Loops<'_>)]) -> Results {
        let mut results = results(rows);
        results.rank();
        results
    }

    fn results(rows: &[(Taker, Loops<'_>)]) -> Results {
        let program = Program {
            name: "program".to_owned(),
            package: "package".to_owned(),
            version: "1".to_owned(),
            blake3: String::new(),
        };
        let settings = Settings {
            loops: 1,
            warm_ups: 0,
            quick: false,
            servers: String::new(),
        };
        let row = |(taker, _): &(Taker, Loops<'_>)| Row {
            label: taker.label(),
            taker: *taker,
            program: program.clone(),
            command: taker.command_line(),
            published_rank: taker.published_rank(),
        };
        let described = rows.iter().map(row).collect();
        let mut results = Results::new(
            Provenance {
                load_average_before: Some(0.0),
                ..Provenance::gather(None)
            },
            settings,
            program.clone(),
            described,
        );
        for (row, (_, data_sets)) in rows.iter().enumerate() {
            for (data_set, loops) in data_sets.iter().enumerate() {
                if results.data_sets.len() <= data_set {
                    results.data_sets.push(DataSet {
                        name: data_set.to_string(),
                        origin: String::new(),
                        bytes: None,
                    });
                }
                for (run, (seconds, bytes)) in (1..).zip(*loops) {
                    let usage = Usage {
                        wall: Duration::from_secs_f64(*seconds),
                        ..Usage::default()
                    };
                    results.measurements.push(Measurement {
                        row,
                        data_set,
                        run,
                        usage,
                        server_cpu_s: Some(1.0),
                        bytes: *bytes,
                    });
                }
            }
        }
        results
    }

    const LZ4: Taker = Taker::PgBasebackup {
        method: "lz4",
        level: 1,
    };
    const WALZIP: Taker = Taker::Walzip { level: 1 };
    const GZIP: Taker = Taker::PgBasebackup {
        method: "gzip",
        level: 1,
    };

    fn score(ranks: &Ranks, row: usize, data_set: usize) -> Score {
        let mut scores = ranks.scores.iter();
        *scores
            .find(|score| (score.row, score.data_set) == (row, data_set))
            .unwrap()
    }

    #[test]
    fn scores_are_sums_of_relative_times_and_sizes_and_walzip_takes_nobodys_rank() {
        let results = ranked(&[
            (LZ4, &[&[(1.0, 400), (3.0, 400)], &[(1.0, 200)]]),
            (GZIP, &[&[(4.0, 200), (4.0, 200)], &[(4.0, 150)]]),
            (WALZIP, &[&[(2.0, 100), (2.0, 100)], &[(1.5, 180)]]),
        ]);
        let ranks = results.ranks.clone();
        let of = |row, data_set| score(&ranks, row, data_set);
        let lz4 = of(0, 0);
        assert_eq!((lz4.seconds, lz4.spread), (2.0, Some(0.5)));
        // By the shortest and the smallest of the two: a tie keeps the order of the table.
        assert_eq!((lz4.score, of(1, 0).score), (1.0 + 2.0, 2.0 + 1.0));
        assert_eq!((lz4.rank, of(1, 0).rank), (Some(1), Some(2)));
        assert_eq!((of(2, 0).score, of(2, 0).rank), (1.0 + 0.5, None));
        assert_eq!(of(2, 0).standing(ranks.ranked), "before 1");
        assert_eq!(of(2, 1).standing(ranks.ranked), "between 1 and 2");
        assert_eq!(of(0, 1).standing(ranks.ranked), "1");
        assert_eq!(lz4.cpu_seconds, Some(1.0));
        let order: Vec<usize> = ranks.average.iter().map(|average| average.row).collect();
        assert_eq!(order, [2, 0, 1]);
        let standings: Vec<String> = ranks.average.iter().map(Average::standing).collect();
        assert_eq!(standings, ["behind 0.5", "1.0", "2.0"]);
        assert_eq!(ranks.ranked, 2);
    }

    #[test]
    fn only_what_the_loops_tell_apart_is_told_apart() {
        let results = ranked(&[
            (LZ4, &[&[(1.0, 100), (1.1, 100), (3.0, 100)]]),
            (GZIP, &[&[(2.0, 100), (2.1, 100), (2.2, 100)]]),
            (WALZIP, &[&[(9.0, 100), (9.1, 100), (9.2, 100)]]),
        ]);
        let ranks = results.ranks.clone();
        assert_eq!(score(&ranks, 0, 0).better_within_spread, Some([0, 1]));
        assert_eq!(score(&ranks, 2, 0).better_within_spread, Some([2, 2]));
        let text = results.to_string();
        assert!(text.contains("1-2"), "{text}");
    }

    #[test]
    fn the_fastest_and_the_smallest_stand_beside_the_averages_and_what_was_published() {
        let results = ranked(&[
            (LZ4, &[&[(1.0, 400_000_000)]]),
            (GZIP, &[&[(3.0, 200_000_000)]]),
            (WALZIP, &[&[(2.0, 100_000_000)]]),
        ]);
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = results.to_string().lines().map(words).collect();
        let has = |said: &str| lines.iter().any(|line| line.ends_with(said));
        // Best, seconds, their average, MB, their average; then walzip.
        assert!(
            has("lz4:1 1.00 2.00 400.0 300.0 walzip backup -1 2.00 100.0"),
            "{lines:#?}"
        );
        assert!(
            has("gzip:1 3.00 2.00 200.0 300.0 walzip backup -1 2.00 100.0"),
            "{lines:#?}"
        );
        assert!(
            has("pgbench (15 GB) zstd:13 234.5 92.1 569 MB 979 MB"),
            "{lines:#?}"
        );
        assert!(results.page().contains("The fastest of each data set"));
    }

    const ONE: Loops<'static> = &[&[(1.0, 100)]];

    #[test]
    fn published_ranks_stand_only_beside_ranks_of_as_many() {
        let some: Vec<_> = [LZ4, GZIP, WALZIP].map(|taker| (taker, ONE)).to_vec();
        let told = |rows: &[(Taker, Loops<'_>)]| {
            let mut results = results(rows);
            results.rank();
            (results.to_string(), results.page())
        };
        let (text, page) = told(&some);
        assert!(
            text.contains("rank of 2") && !text.contains("published (of 12)"),
            "{text}"
        );
        assert!(!page.contains("published</span>"), "{page}");
        let all: Vec<_> = Taker::all(false, false)
            .into_iter()
            .map(|taker| (taker, ONE))
            .collect();
        let (text, page) = told(&all);
        assert!(
            text.contains("rank of 12") && text.contains("published (of 12)"),
            "{text}"
        );
        assert!(
            !text.contains("13.0") && page.contains(" of 12 published</span>"),
            "{text}"
        );
    }

    #[test]
    fn a_busy_machine_ranks_by_processor_time_or_not_at_all() {
        let mut results = results(&[(LZ4, &[&[(1.0, 100)]]), (GZIP, &[&[(2.0, 100)]])]);
        results.measurements[0].server_cpu_s = Some(9.0);
        results.provenance.load_average_before = Some(99.0);
        results.rank();
        let ranks = results.ranks.clone();
        assert_eq!(ranks.judged_by, Some(Time::Processor));
        assert_eq!(score(&ranks, 0, 0).rank, Some(2));
        results.measurements[0].server_cpu_s = None;
        results.rank();
        assert_eq!(results.ranks.judged_by, None);
        let text = results.to_string();
        assert!(text.contains("no ranks"), "{text}");
    }

    #[test]
    fn a_row_that_misses_a_data_set_has_no_average() {
        let results = ranked(&[
            (LZ4, &[&[(1.0, 400)], &[(1.0, 200)]]),
            (GZIP, &[&[(4.0, 200)]]),
        ]);
        let ranks = results.ranks.clone();
        assert_eq!(ranks.scores.len(), 3);
        assert_eq!(ranks.average.len(), 1);
    }
}
