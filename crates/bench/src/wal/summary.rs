//! From measurements to figures: medians over runs, sums over a folder, means over folders.
//!
//! A row has a figure for a set of segments only when it was measured on all of them: a mean
//! without the segment on which a program failed would flatter it.

use std::time::Duration;

use super::{Figures, FolderFigures, Measurement, Results, Summary};
use crate::contender::BASELINE;
use crate::input::is_realistic;
use crate::usage::Counts;
use crate::usage::Usage;

/// The figures of every row.
pub(super) fn summarise(results: &Results) -> Vec<Summary> {
    let folders = folders(results);
    let realistic: Vec<_> = folders
        .iter()
        .copied()
        .filter(|folder| is_realistic(folder))
        .collect();
    let cells = Cells {
        results,
        covered: results.covered(),
        baseline: baseline_row(results),
    };
    let figures_of = |row: usize| Summary {
        row,
        all: cells.figures(row, &folders),
        realistic: (!realistic.is_empty() && realistic.len() < folders.len())
            .then(|| cells.figures(row, &realistic))
            .flatten(),
        folders: folders
            .iter()
            .filter_map(|&folder| {
                let figures = cells.figures(row, &[folder])?;
                Some(FolderFigures {
                    folder: folder.to_owned(),
                    figures,
                })
            })
            .collect(),
    };
    (0..results.rows.len()).map(figures_of).collect()
}

/// The folders in the order in which they were given.
pub(super) fn folders(results: &Results) -> Vec<&str> {
    let mut folders: Vec<&str> = Vec::new();
    for input in results.covered() {
        let input = &results.inputs[input];
        if !folders.contains(&input.folder.as_str()) {
            folders.push(&input.folder);
        }
    }
    folders
}

fn baseline_row(results: &Results) -> Option<usize> {
    results
        .rows
        .iter()
        .position(|row| (row.contender, row.level) == (BASELINE.name, BASELINE.level))
}

struct Cells<'a> {
    results: &'a Results,
    /// The segments that figures are of.
    covered: Vec<usize>,
    baseline: Option<usize>,
}

impl Cells<'_> {
    fn figures(&self, row: usize, folders: &[&str]) -> Option<Figures> {
        let mut cells = Vec::new();
        let mut logarithms = Some(0.0);
        for folder in folders {
            let of_folder = self.folder(row, folder)?;
            let size: u64 = of_folder.iter().map(|cell| cell.output_bytes).sum();
            let baseline = self
                .baseline
                .and_then(|baseline| self.folder(baseline, folder));
            let baseline: Option<u64> =
                baseline.map(|cells| cells.iter().map(|cell| cell.output_bytes).sum());
            logarithms = logarithms
                .zip(baseline)
                .map(|(sum, baseline)| sum + (size as f64 / baseline.max(1) as f64).ln());
            cells.extend(of_folder);
        }
        let mean =
            |value: fn(&Cell<'_>) -> f64| cells.iter().map(value).sum::<f64>() / cells.len() as f64;
        Some(Figures {
            folders: folders.len(),
            segments: cells.len(),
            original_bytes: cells.iter().map(|cell| cell.original_bytes).sum(),
            output_bytes: cells.iter().map(|cell| cell.output_bytes).sum(),
            ratio_to_zstd_1: logarithms.map(|sum| (sum / folders.len() as f64).exp()),
            compress_s: mean(|cell| cell.compress.wall),
            compress_cpu_s: mean(|cell| cell.compress.cpu),
            compress_peak_bytes: cells.iter().map(|cell| cell.compress.peak).max()?,
            compress_counts: mean_counts(&cells),
            decompress_s: mean(|cell| cell.decompress.wall),
            decompress_cpu_s: mean(|cell| cell.decompress.cpu),
            decompress_peak_bytes: cells.iter().map(|cell| cell.decompress.peak).max()?,
            compress_spread: median(
                cells
                    .iter()
                    .filter_map(|cell| cell.compress.spread)
                    .collect(),
            ),
            compress_range_s: self.range(&cells, |run| run.compress.wall),
            compress_cpu_range_s: self.range(&cells, |run| run.compress.cpu()),
            decompress_range_s: self.range(&cells, |run| run.decompress.wall),
            decompress_cpu_range_s: self.range(&cells, |run| run.decompress.cpu()),
        })
    }

    /// The least and the largest mean over the segments, of the runs that have all of them.
    fn range(&self, cells: &[Cell<'_>], time: fn(&Measurement) -> Duration) -> Option<[f64; 2]> {
        let of_run = |run: u32| {
            let times = cells.iter().map(|cell| {
                let found = cell.runs.iter().find(|measured| measured.run == run);
                found.map(|measured| time(measured).as_secs_f64())
            });
            let sum: Option<f64> = times.sum();
            sum.map(|sum| sum / cells.len() as f64)
        };
        let means: Vec<f64> = (1..=self.results.settings.runs)
            .filter_map(of_run)
            .collect();
        let low = means.iter().copied().reduce(f64::min)?;
        let high = means.iter().copied().reduce(f64::max)?;
        (means.len() > 1).then_some([low, high])
    }

    /// The row's cells of a folder; none when one of them is missing.
    fn folder(&self, row: usize, folder: &str) -> Option<Vec<Cell<'_>>> {
        let is_in = |input: &usize| self.results.inputs[*input].folder == folder;
        let inputs = self.covered.iter().copied().filter(is_in);
        inputs.map(|input| self.cell(row, input)).collect()
    }

    /// What a row took on one segment; none when a run failed or none was finished.
    fn cell(&self, row: usize, input: usize) -> Option<Cell<'_>> {
        if self
            .results
            .failed
            .iter()
            .any(|failed| (failed.row, failed.input) == (row, input))
        {
            return None;
        }
        let of_cell =
            |measurement: &&Measurement| (measurement.row, measurement.input) == (row, input);
        let runs: Vec<_> = self.results.measurements.iter().filter(of_cell).collect();
        Some(Cell {
            original_bytes: self.results.inputs[input].bytes,
            output_bytes: runs.iter().map(|run| run.output_bytes).max()?,
            compress: Medians::of(runs.iter().map(|run| run.compress))?,
            decompress: Medians::of(runs.iter().map(|run| run.decompress))?,
            runs,
        })
    }
}

/// A row on one segment, over the runs.
struct Cell<'a> {
    runs: Vec<&'a Measurement>,
    original_bytes: u64,
    output_bytes: u64,
    compress: Medians,
    decompress: Medians,
}

/// The mean over segments of each count; none where one is not known.
fn mean_counts(cells: &[Cell<'_>]) -> Option<[f64; 4]> {
    let mut sums = [0.0; 4];
    for cell in cells {
        let counts = cell.compress.counts?;
        sums.iter_mut()
            .zip(counts)
            .for_each(|(sum, count)| *sum += count);
    }
    (!cells.is_empty()).then(|| sums.map(|sum| sum / cells.len() as f64))
}

struct Medians {
    counts: Option<[f64; 4]>,
    wall: f64,
    cpu: f64,
    peak: u64,
    spread: Option<f64>,
}

impl Medians {
    fn of(usages: impl Iterator<Item = Usage>) -> Option<Medians> {
        let usages: Vec<Usage> = usages.collect();
        let seconds = |time: fn(&Usage) -> Duration| -> Vec<f64> {
            usages
                .iter()
                .map(|usage| time(usage).as_secs_f64())
                .collect()
        };
        let walls = seconds(|usage| usage.wall);
        let wall = median(walls.clone())?;
        let (shortest, longest) = walls
            .iter()
            .fold((f64::MAX, 0.0_f64), |(low, high), &wall| {
                (low.min(wall), high.max(wall))
            });
        let counts: Option<Vec<[u64; 4]>> = usages
            .iter()
            .map(|usage| usage.counts.map(Counts::values))
            .collect();
        let counts = counts.and_then(|counts| {
            let of = |at: usize| median(counts.iter().map(|values| values[at] as f64).collect());
            Some([of(0)?, of(1)?, of(2)?, of(3)?])
        });
        Some(Medians {
            counts,
            wall,
            cpu: median(seconds(|usage| usage.user + usage.system))?,
            peak: usages.iter().map(|usage| usage.peak_memory_bytes).max()?,
            spread: (walls.len() > 1).then(|| (longest - shortest) / 2.0 / wall),
        })
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *values.get(values.len() / 2 - 1)?;
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0, 4.0]), Some(3.0));
    }

    #[test]
    fn the_spread_is_half_the_range_relative_to_the_median() {
        let usage = |millis| Usage {
            wall: Duration::from_millis(millis),
            ..Usage::default()
        };
        let medians = Medians::of([usage(90), usage(100), usage(120)].into_iter()).unwrap();
        assert_eq!(medians.wall, 0.1);
        assert!((medians.spread.unwrap() - 0.15).abs() < 1e-9);
        assert_eq!(Medians::of([usage(90)].into_iter()).unwrap().spread, None);
    }
}
