//! The results as a person reads them on a terminal.

use std::fmt;

use super::summary::folders;
use super::{Figures, Results, Summary};
use crate::contender::BASELINE;
use crate::table::write_table;
use crate::text::{counted, megabytes};

/// More columns than this do not fit: the sizes by folder are then left to CSV and JSON.
const COLUMNS_MAX: usize = 16;

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        self.write_figures(f)?;
        self.write_folders(f)?;
        self.write_dominance(f)?;
        self.write_remarks(f)
    }
}

impl Results {
    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: u64 = self.inputs.iter().map(|input| input.bytes).sum();
        let runs = self.settings.runs;
        writeln!(
            f,
            "{}, {} in {}, {:.1} MB; {}, interleaved{}",
            counted(self.rows.len(), "row"),
            counted(self.inputs.len(), "segment"),
            counted(folders(self).len(), "folder"),
            megabytes(bytes),
            counted(runs as usize, "run"),
            match (self.settings.sampled, self.settings.quick) {
                (Some(sampled), _) => format!("; {}", sampled.words()),
                (None, true) => "; quick: the first segment of each folder".to_owned(),
                (None, false) => String::new(),
            },
        )?;
        writeln!(f, "{}", self.provenance.machine())?;
        let mut versions: Vec<String> = self
            .rows
            .iter()
            .map(|row| format!("{}: {}", row.program.name, row.program.version))
            .collect();
        versions.dedup();
        for version in versions {
            writeln!(f, "  {version}")?;
        }
        writeln!(f)
    }

    fn write_figures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with_realistic = self
            .summary
            .iter()
            .any(|summary| summary.realistic.is_some());
        let mut heads = vec!["program", "threads", "size"];
        if with_realistic {
            heads.push("realistic");
        }
        heads.extend([
            "MB", "seconds", "cpu s", "MB/s", "spread", "peak MB", "faults", "switches",
            "unpack s", "cpu s", "MB/s", "peak MB",
        ]);
        let mut table = vec![heads.iter().map(ToString::to_string).collect::<Vec<_>>()];
        for summary in &self.summary {
            table.push(self.figures_line(summary, with_realistic, heads.len()));
        }
        write_table(f, &table)?;
        let all = folders(self).len();
        writeln!(
            f,
            "\nsize: bytes relative to {}'s, geometric mean over {}.",
            baseline(),
            counted(all, "folder")
        )?;
        if with_realistic {
            writeln!(f, "realistic: the same without pgbench-*, idle and seg64.")?;
        }
        writeln!(
            f,
            "MB, seconds: mean of a segment, whole process, median of the runs; spread: half the range."
        )?;
        let mut all = self.summary.iter().filter_map(|summary| summary.all);
        match all.any(|figures| figures.compress_counts.is_some()) {
            true => writeln!(
                f,
                "faults, switches: page faults and context switches of compressing a segment, in the mean."
            ),
            false => Ok(()),
        }
    }

    fn figures_line(&self, summary: &Summary, with_realistic: bool, width: usize) -> Vec<String> {
        let row = &self.rows[summary.row];
        let mut line = vec![row.label.clone(), self.threads(row).to_string()];
        let Some(figures) = &summary.all else {
            line.resize(width, "-".to_owned());
            return line;
        };
        line.push(ratio(figures));
        if with_realistic {
            line.push(summary.realistic.as_ref().map_or("-".to_owned(), ratio));
        }
        let segments = figures.segments as f64;
        let mean_bytes = figures.original_bytes as f64 / segments;
        line.push(format!(
            "{:.3}",
            figures.output_bytes as f64 / segments / 1e6
        ));
        line.push(seconds(figures.compress_s));
        line.push(seconds(figures.compress_cpu_s));
        line.push(speed(mean_bytes, figures.compress_s));
        line.push(
            figures
                .compress_spread
                .map_or("-".to_owned(), |spread| format!("{:.0}%", spread * 100.0)),
        );
        line.push(self.peak(figures.compress_peak_bytes));
        line.extend(count_cells(figures));
        line.push(seconds(figures.decompress_s));
        line.push(seconds(figures.decompress_cpu_s));
        line.push(speed(mean_bytes, figures.decompress_s));
        line.push(self.peak(figures.decompress_peak_bytes));
        line
    }

    /// A peak, or that it is no more than any program takes.
    fn peak(&self, bytes: u64) -> String {
        match self.provenance.memory_floor_bytes {
            Some(floor) if bytes <= floor => format!("<{:.0}", megabytes(floor).ceil()),
            _ if bytes < 10_000_000 => format!("{:.1}", megabytes(bytes)),
            _ => format!("{:.0}", megabytes(bytes)),
        }
    }

    fn write_folders(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if folders(self).len() < 2 {
            return Ok(());
        }
        if self.rows.len() > COLUMNS_MAX {
            return writeln!(
                f,
                "The sizes by folder are too wide for this page: see --csv or --json."
            );
        }
        writeln!(f, "\nSize relative to {}'s, by folder:", baseline())?;
        let labels: Vec<Vec<&str>> = self
            .rows
            .iter()
            .map(|row| row.label.split(' ').collect())
            .collect();
        let deepest = labels.iter().map(Vec::len).max().unwrap_or_default();
        let mut table: Vec<Vec<String>> = Vec::new();
        for depth in 0..deepest {
            let mut line = vec![if depth == 0 {
                "folder".to_owned()
            } else {
                String::new()
            }];
            line.extend(
                labels
                    .iter()
                    .map(|words| words.get(depth).copied().unwrap_or_default().to_owned()),
            );
            table.push(line);
        }
        for folder in folders(self) {
            let mut line = vec![folder.to_owned()];
            line.extend(self.summary.iter().map(|summary| {
                let of_folder = summary
                    .folders
                    .iter()
                    .find(|figures| figures.folder == folder);
                of_folder.map_or("-".to_owned(), |of_folder| ratio(&of_folder.figures))
            }));
            table.push(line);
        }
        write_table(f, &table)
    }

    fn write_remarks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failed in &self.failed {
            let (row, input) = (&self.rows[failed.row], &self.inputs[failed.input]);
            writeln!(
                f,
                "\n{} FAILED on {}/{}: {}",
                row.label, input.folder, input.name, failed.reason
            )?;
        }
        for missing in &self.missing {
            writeln!(f, "\n{missing}")?;
        }
        if !self.rows.iter().any(|row| row.label == baseline()) {
            writeln!(f, "\nNo relative sizes: they need {}.", baseline())?;
        }
        for resumed in &self.resumed {
            let taken = counted(resumed.measurements, "measurement");
            writeln!(
                f,
                "\n{taken} of an earlier run were taken over ({}).",
                resumed.date
            )?;
        }
        if let Some(load) = self.provenance.load_of_others() {
            let cpus = self.provenance.cpus;
            writeln!(
                f,
                "\nThe machine was busy before this began (load {load:.1} on {cpus} processors): \
                 trust the sizes and the cpu seconds, not the wall times."
            )?;
        }
        match &self.stopped {
            Some(reason) => writeln!(
                f,
                "\nIncomplete: {reason}. {}",
                match self.covered_in_words() {
                    None => "Rows that were not finished show \"-\".".to_owned(),
                    Some(covered) =>
                        format!("Figures are of {covered}, which every row was measured on."),
                }
            ),
            None => Ok(()),
        }
    }
}

fn baseline() -> String {
    format!("{} -{}", BASELINE.name, BASELINE.level)
}

fn ratio(figures: &Figures) -> String {
    figures
        .ratio_to_zstd_1
        .map_or("-".to_owned(), |ratio| format!("{ratio:.3}"))
}

pub(super) fn seconds(seconds: f64) -> String {
    format!("{seconds:.3}")
}

/// Page faults and context switches, of either kind together.
fn count_cells(figures: &Figures) -> [String; 2] {
    let together = |[first, second]: [f64; 2]| format!("{:.0}", first + second);
    match figures.compress_counts {
        Some([major, minor, voluntary, involuntary]) => {
            [[major, minor], [voluntary, involuntary]].map(together)
        }
        None => ["-", "-"].map(str::to_owned),
    }
}

fn speed(bytes: f64, seconds: f64) -> String {
    format!("{:.0}", bytes / 1e6 / seconds.max(1e-9))
}
