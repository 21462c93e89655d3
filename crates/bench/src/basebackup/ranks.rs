//! From times and sizes to ranks, as it was published.
//!
//! Within a data set, the mean time is divided by the shortest, the size by the smallest, and
//! the two are added: 2 is perfect. The rows are ranked by that score; what counts is the mean of
//! the ranks. Published were twelve rows; ours is a thirteenth, so ranks are also given without
//! it, to be compared with the published ones.

use serde::Serialize;

use super::methods::Taker;
use super::results::{Measurement, Results};
use crate::spread::spread;

/// What it comes to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ranks {
    /// Each row on each data set.
    pub scores: Vec<Score>,
    /// Each row over all data sets, the best first.
    pub average: Vec<Average>,
}

/// A row on a data set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    /// The place of its row in the results.
    pub row: usize,
    /// The place of its data set in the results.
    pub data_set: usize,
    /// Wall time: the mean over the loops, as published.
    pub seconds: f64,
    /// Half the range of the wall times relative to their median; none with a single loop.
    pub spread: Option<f64>,
    /// Processor time of client and server together: the mean over the loops.
    pub cpu_seconds: Option<f64>,
    /// The size of the backup: the mean over the loops.
    pub bytes: f64,
    /// Time relative to the shortest plus size relative to the smallest.
    pub score: f64,
    /// Its place by that score.
    pub rank: usize,
    /// Its place when walzip does not take part; none for walzip.
    pub rank_without_walzip: Option<usize>,
}

/// A row over all data sets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Average {
    /// The place of its row in the results.
    pub row: usize,
    /// The mean of its ranks.
    pub rank: f64,
    /// The mean of its ranks when walzip does not take part; none for walzip.
    pub rank_without_walzip: Option<f64>,
    /// The mean of its scores.
    pub score: f64,
}

/// A row's mean time and size on a data set, and whether it is walzip's.
#[derive(Clone, Copy)]
struct Point {
    row: usize,
    seconds: f64,
    bytes: f64,
    is_walzip: bool,
}

impl Ranks {
    /// The rows on a data set, the best first.
    pub(super) fn of_data_set(&self, data_set: usize) -> Vec<&Score> {
        let scores = self.scores.iter();
        let mut scores: Vec<_> = scores.filter(|score| score.data_set == data_set).collect();
        scores.sort_by_key(|score| score.rank);
        scores
    }

    /// Ranks what was measured. An average is of a row that was measured on every data set.
    pub(super) fn of(results: &Results) -> Ranks {
        let mut scores = Vec::new();
        let mut data_sets = 0;
        for data_set in 0..results.data_sets.len() {
            let of_data_set = score(results, data_set);
            data_sets += usize::from(!of_data_set.is_empty());
            scores.extend(of_data_set);
        }
        let mut average = Vec::new();
        for row in 0..results.rows.len() {
            let of_row: Vec<&Score> = scores.iter().filter(|score| score.row == row).collect();
            if of_row.is_empty() || of_row.len() < data_sets {
                continue;
            }
            let mean = |value: &dyn Fn(&Score) -> f64| {
                of_row.iter().map(|score| value(score)).sum::<f64>() / of_row.len() as f64
            };
            let without = |score: &Score| score.rank_without_walzip.map(|rank| rank as f64);
            average.push(Average {
                row,
                rank: mean(&|score| score.rank as f64),
                rank_without_walzip: without(of_row[0])
                    .map(|_| mean(&|score| without(score).unwrap_or_default())),
                score: mean(&|score| score.score),
            });
        }
        average.sort_by(|a, b| a.rank.total_cmp(&b.rank).then(a.score.total_cmp(&b.score)));
        Ranks { scores, average }
    }
}

fn score(results: &Results, data_set: usize) -> Vec<Score> {
    let mut points = Vec::new();
    for (row, of_row) in results.rows.iter().enumerate() {
        let measured = measured(results, row, data_set);
        if !measured.is_empty() {
            points.push(Point {
                row,
                seconds: mean(measured.iter().map(|m| m.usage.wall.as_secs_f64())),
                bytes: mean(measured.iter().map(|m| m.bytes as f64)),
                is_walzip: of_row.taker == Taker::Walzip,
            });
        }
    }
    let others: Vec<Point> = points
        .iter()
        .copied()
        .filter(|point| !point.is_walzip)
        .collect();
    let (all, without) = (ranked(&points), ranked(&others));
    let place = |ranked: &[(usize, f64)], row| ranked.iter().position(|(other, _)| *other == row);
    let complete = |point: &Point| {
        let measured = measured(results, point.row, data_set);
        let rank = place(&all, point.row)?;
        let walls = measured.iter().map(|m| m.usage.wall.as_secs_f64());
        let with_server = measured
            .iter()
            .filter_map(|m| Some(m.usage.cpu().as_secs_f64() + m.server_cpu_s?));
        let known = with_server.clone().count() == measured.len();
        Some(Score {
            row: point.row,
            data_set,
            seconds: point.seconds,
            spread: spread(walls)?.half_range,
            cpu_seconds: known.then(|| mean(with_server)),
            bytes: point.bytes,
            score: all[rank].1,
            rank: rank + 1,
            rank_without_walzip: place(&without, point.row).map(|rank| rank + 1),
        })
    };
    points.iter().filter_map(complete).collect()
}

/// Rows with their scores, the best first.
fn ranked(points: &[Point]) -> Vec<(usize, f64)> {
    let least =
        |value: &dyn Fn(&Point) -> f64| points.iter().map(value).fold(f64::INFINITY, f64::min);
    let (seconds, bytes) = (least(&|point| point.seconds), least(&|point| point.bytes));
    let score = |point: &Point| {
        point.seconds / seconds.max(f64::MIN_POSITIVE) + point.bytes / bytes.max(f64::MIN_POSITIVE)
    };
    let mut scores: Vec<(usize, f64)> = points
        .iter()
        .map(|point| (point.row, score(point)))
        .collect();
    scores.sort_by(|a, b| a.1.total_cmp(&b.1));
    scores
}

fn measured(results: &Results, row: usize, data_set: usize) -> Vec<&Measurement> {
    let all = results.measurements.iter();
    all.filter(|measured| (measured.row, measured.data_set) == (row, data_set))
        .collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0, 0.0), |(count, sum), value| (count + 1, sum + value));
    sum / f64::from(count.max(1))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::results::{DataSet, Row, Settings};
    use super::*;
    use crate::{Program, Provenance, Usage};

    /// The seconds and bytes of each loop, for each data set.
    type Loops<'a> = &'a [&'a [(f64, u64)]];

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
            Provenance::gather(None),
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
    const GZIP: Taker = Taker::PgBasebackup {
        method: "gzip",
        level: 1,
    };

    #[test]
    fn scores_are_sums_of_relative_times_and_sizes_and_ranks_their_order() {
        let results = results(&[
            (LZ4, &[&[(1.0, 400), (3.0, 400)], &[(1.0, 200)]]),
            (GZIP, &[&[(4.0, 200), (4.0, 200)], &[(4.0, 150)]]),
            (Taker::Walzip, &[&[(4.0, 100), (4.0, 100)], &[(1.5, 100)]]),
        ]);
        let ranks = Ranks::of(&results);
        let of = |row, data_set| {
            let mut scores = ranks.scores.iter();
            *scores
                .find(|score| (score.row, score.data_set) == (row, data_set))
                .unwrap()
        };
        let lz4 = of(0, 0);
        assert_eq!(
            (lz4.seconds, lz4.spread, lz4.score),
            (2.0, Some(0.5), 1.0 + 4.0)
        );
        assert_eq!((of(2, 0).score, of(2, 0).rank), (2.0 + 1.0, 1));
        assert_eq!((of(1, 0).rank, lz4.rank), (2, 3));
        // Without walzip, lz4 has 1 + 2 and gzip 2 + 1: a tie keeps the order of the table.
        assert_eq!(lz4.rank_without_walzip, Some(1));
        assert_eq!(of(2, 0).rank_without_walzip, None);
        assert_eq!(lz4.cpu_seconds, Some(1.0));
        let order: Vec<usize> = ranks.average.iter().map(|average| average.row).collect();
        assert_eq!(order, [2, 0, 1]);
        assert_eq!(ranks.average[1].rank, 2.5);
        assert_eq!(ranks.average[0].rank_without_walzip, None);
        assert_eq!(ranks.average[1].rank_without_walzip, Some(1.0));
    }

    #[test]
    fn a_row_that_misses_a_data_set_has_no_average() {
        let results = results(&[
            (LZ4, &[&[(1.0, 400)], &[(1.0, 200)]]),
            (GZIP, &[&[(4.0, 200)]]),
        ]);
        let ranks = Ranks::of(&results);
        assert_eq!(ranks.scores.len(), 3);
        assert_eq!(ranks.average.len(), 1);
    }
}
