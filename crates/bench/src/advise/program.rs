//! Which program at which level, by what the user can afford.

use serde::Serialize;

use super::Limits;
use super::rate::Rate;
use crate::contender::Threads;
use crate::verdict::Time;
use crate::wal::Results;

/// Of programs whose files are hardly larger than the smallest, the cheapest is taken.
const AS_SMALL: f64 = 1.03;
/// How much of the time between two segments a program may take: WAL comes in bursts.
const BUSY_MAX: f64 = 0.5;
const DAYS_PER_MONTH: f64 = 30.4375;

/// A program at a level, measured, and what that means for this server.
#[derive(Clone, Debug, Serialize)]
pub struct Program {
    /// The program and its level.
    pub label: String,
    /// The contender's name.
    pub contender: &'static str,
    /// Its level.
    pub level: u8,
    /// Threads that it works with.
    pub threads: Threads,
    /// Bytes of a compressed segment for each byte of the original.
    pub ratio: f64,
    /// The standard error of that, relative to it: how much the segments differ.
    pub ratio_error: Option<f64>,
    /// Wall seconds for a segment.
    pub compress_s: f64,
    /// Processor seconds for a segment.
    pub compress_cpu_s: f64,
    /// Wall seconds for unpacking a segment.
    pub decompress_s: f64,
    /// Processor seconds for unpacking a segment.
    pub decompress_cpu_s: f64,
    /// Those of the two times of compressing by which it is judged.
    pub judged_s: f64,
    /// The same of unpacking.
    pub judged_unpack_s: f64,
    /// Bytes to store for each day of WAL.
    pub bytes_per_day: Option<f64>,
    /// Processor seconds for each day of WAL.
    pub cpu_s_per_day: Option<f64>,
    /// What it costs in a month, for what was priced.
    pub cost_per_month: Option<f64>,
    /// Why it cannot be used; none when it can.
    pub exceeds: Option<String>,
    /// Nothing that was measured is both smaller and faster.
    pub best: bool,
    /// What it makes of a segment with nothing in it.
    pub empty_segment_bytes: Option<u64>,
    /// How long that takes: what each file costs, however little is in it.
    pub empty_segment_s: Option<f64>,
    /// The command that compresses INPUT to OUTPUT.
    #[serde(skip)]
    pub(super) compress: String,
    /// The command that restores it.
    #[serde(skip)]
    pub(super) decompress: String,
}

impl Program {
    /// Whether it is this project's own.
    pub fn is_walzip(&self) -> bool {
        self.contender.starts_with(crate::contender::WALZIP)
    }
}

/// Every row that was measured on each segment.
pub(super) fn programs(
    results: &Results,
    limits: &Limits,
    rate: Option<&Rate>,
    time: Time,
) -> Vec<Program> {
    let mut programs: Vec<Program> = Vec::new();
    for summary in &results.summary {
        let Some(figures) = summary.all else { continue };
        let row = &results.rows[summary.row];
        let segment_bytes = figures.original_bytes / figures.segments.max(1) as u64;
        let ratio = figures.output_bytes as f64 / figures.original_bytes as f64;
        let bytes_per_day = rate.and_then(|rate| Some(rate.bytes_per_day? * ratio));
        let cpu_s_per_day = rate
            .and_then(|rate| Some(rate.segments_per_day(segment_bytes)? * figures.compress_cpu_s));
        let interval = rate.and_then(|rate| rate.segment_seconds(segment_bytes));
        let compress = (figures.compress_s, figures.compress_cpu_s);
        let decompress = (figures.decompress_s, figures.decompress_cpu_s);
        programs.push(Program {
            label: row.label.clone(),
            contender: row.contender,
            level: row.level,
            threads: row.threads,
            ratio,
            ratio_error: ratio_error(results, summary.row),
            compress_s: figures.compress_s,
            compress_cpu_s: figures.compress_cpu_s,
            decompress_s: figures.decompress_s,
            decompress_cpu_s: figures.decompress_cpu_s,
            judged_s: time.of(compress),
            judged_unpack_s: time.of(decompress),
            bytes_per_day,
            cpu_s_per_day,
            cost_per_month: limits.cost_per_month(bytes_per_day, cpu_s_per_day),
            exceeds: limits.exceeded(compress, decompress, interval, time),
            best: false,
            empty_segment_bytes: None,
            empty_segment_s: None,
            compress: row.compress.clone(),
            decompress: row.decompress.clone(),
        });
    }
    mark_best(&mut programs);
    programs
}

fn mark_best(programs: &mut [Program]) {
    let points: Vec<(f64, f64)> = programs
        .iter()
        .map(|program| (program.ratio, program.judged_s))
        .collect();
    for program in programs {
        program.best = !points
            .iter()
            .any(|(ratio, seconds)| *ratio < program.ratio && *seconds < program.judged_s);
    }
}

/// Half of what 19 of 20 samples of this size would differ by, roughly: from the segments'
/// differences.
fn ratio_error(results: &Results, row: usize) -> Option<f64> {
    let mut of_input: Vec<Option<f64>> = vec![None; results.inputs.len()];
    for measurement in results
        .measurements
        .iter()
        .filter(|measured| measured.row == row)
    {
        let original = results.inputs[measurement.input].bytes as f64;
        of_input[measurement.input] = Some(measurement.output_bytes as f64 / original);
    }
    let ratios: Vec<f64> = of_input.into_iter().flatten().collect();
    let count = ratios.len() as f64;
    if ratios.len() < 2 {
        return None;
    }
    let mean = ratios.iter().sum::<f64>() / count;
    let variance = ratios
        .iter()
        .map(|ratio| (ratio - mean).powi(2))
        .sum::<f64>()
        / (count - 1.0);
    (mean > 0.0).then(|| (variance / count).sqrt() / mean)
}

/// The program to take: the cheapest where prices say so, else the smallest that is affordable,
/// and of those that are as small the one with the least processor time.
pub(super) fn choose(programs: &[Program], limits: &Limits) -> Option<usize> {
    let affordable = || {
        programs
            .iter()
            .enumerate()
            .filter(|(_, program)| program.exceeds.is_none())
    };
    let chosen = if is_decided_by_cost(programs, limits) {
        affordable().min_by(|(_, a), (_, b)| {
            let cost = |program: &Program| program.cost_per_month.unwrap_or(f64::INFINITY);
            cost(a).total_cmp(&cost(b))
        })
    } else {
        let smallest = affordable()
            .map(|(_, program)| program.ratio)
            .fold(f64::INFINITY, f64::min);
        affordable()
            .filter(|(_, program)| program.ratio <= smallest * AS_SMALL)
            .min_by(|(_, a), (_, b)| a.compress_cpu_s.total_cmp(&b.compress_cpu_s))
    };
    chosen.map(|(index, _)| index)
}

/// Whether the sum of both costs decides: it needs prices, and the WAL in a day.
pub(super) fn is_decided_by_cost(programs: &[Program], limits: &Limits) -> bool {
    let mut costs = programs.iter().map(|program| program.cost_per_month);
    limits.is_priced_wholly() && costs.any(|cost| cost.is_some())
}

impl Limits {
    /// Whether both storage and processor time have a price: then the sum decides.
    pub(super) fn is_priced_wholly(&self) -> bool {
        self.storage_per_byte_day().is_some() && self.price_per_cpu_hour.is_some()
    }

    /// What each byte a day costs in a month, once as many days are kept as should be.
    fn storage_per_byte_day(&self) -> Option<f64> {
        Some(self.price_per_gb_month? * self.retention_days? / 1e9)
    }

    /// The price of bytes that are archived each day, in a month.
    pub(super) fn storage_per_month(&self, bytes_per_day: f64) -> Option<f64> {
        Some(self.storage_per_byte_day()? * bytes_per_day)
    }

    fn cost_per_month(&self, bytes: Option<f64>, cpu_seconds: Option<f64>) -> Option<f64> {
        let storage = self.storage_per_month(bytes?)?;
        let hour = self.price_per_cpu_hour.unwrap_or_default();
        Some(storage + cpu_seconds? / 3600.0 * hour * DAYS_PER_MONTH)
    }

    /// The limit that a program breaks. Wall time on a busy machine is too long, and breaks none
    /// where the processor time does not.
    fn exceeded(
        &self,
        compress: (f64, f64),
        decompress: (f64, f64),
        interval: Option<f64>,
        time: Time,
    ) -> Option<String> {
        let (seconds, unpack_seconds) = (time.for_limits(compress), time.for_limits(decompress));
        let of_what = time.of_what();
        if let Some(most) = self.seconds_per_segment.filter(|most| seconds > *most) {
            return Some(format!(
                "takes {seconds:.3} s{of_what}, more than {most} s (--max-seconds-per-segment)"
            ));
        }
        if let Some(most) = self.restore_seconds_per_segment
            && unpack_seconds > most
        {
            return Some(format!(
                "unpacks in {unpack_seconds:.3} s{of_what}, more than {most} s \
                 (--max-restore-seconds-per-segment)"
            ));
        }
        let interval = interval.filter(|interval| seconds > interval * BUSY_MAX)?;
        Some(format!(
            "would be busy {:.0}% of the time: a segment fills every {interval:.2} s",
            seconds / interval * 100.0
        ))
    }
}
