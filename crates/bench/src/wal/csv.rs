//! Each measurement as a line of comma-separated values.
//!
//! Provenance comes first, in lines that begin with `#`. Among them is the dominance table, as
//! comma-separated values of its own: what follows `# dominance,`.

use std::io::{self, Write};

use super::Results;
use super::dominance::{Answer, Level};
use crate::ending::write_csv_ending;
use crate::text::quoted;
use crate::usage::Counts;
use crate::usage::Usage;

const DOMINANCE_HEADER: &str = "program,threads,\
    runs,spread,beaten_by,bytes,compress_time,decompress_time,not_on_folders,folders,\
    beaten_by_unverified,unverified_bytes,unverified_compress_time,unverified_decompress_time,\
    published_s,published_mb,undecided_on_folders";

const HEADER: &str = "program,level,threads,folder,segment,original_bytes,run,status,output_bytes,\
    compress_wall_s,compress_user_s,compress_system_s,compress_peak_bytes,\
    compress_major_faults,compress_minor_faults,compress_voluntary_switches,\
    compress_involuntary_switches,\
    decompress_wall_s,decompress_user_s,decompress_system_s,decompress_peak_bytes";

impl Results {
    /// Writes each measurement, after lines of provenance.
    pub(super) fn csv(&self, to: &mut dyn Write) -> io::Result<()> {
        self.write_provenance(to)?;
        writeln!(to, "{HEADER}")?;
        for measurement in &self.measurements {
            self.write_key(to, measurement.row, measurement.input)?;
            write!(to, "{},ok,{}", measurement.run, measurement.output_bytes)?;
            write_usage(to, &measurement.compress)?;
            let counts = measurement.compress.counts.map(Counts::values);
            let counts = counts.map_or([const { String::new() }; 4], |counts| {
                counts.map(|count| count.to_string())
            });
            write!(to, ",{}", counts.join(","))?;
            write_usage(to, &measurement.decompress)?;
            writeln!(to)?;
        }
        for failed in &self.failed {
            self.write_key(to, failed.row, failed.input)?;
            writeln!(
                to,
                "{},{},,,,,,,,,,,,,",
                failed.run,
                quoted(&format!("failed: {}", failed.reason))
            )?;
        }
        Ok(())
    }

    fn write_provenance(&self, to: &mut dyn Write) -> io::Result<()> {
        self.provenance.write_csv(to, self.experiment)?;
        writeln!(
            to,
            "# runs: {}, quick: {}",
            self.settings.runs, self.settings.quick
        )?;
        if let Some(sampled) = self.settings.sampled {
            writeln!(to, "# {}", sampled.words())?;
        }
        for row in &self.rows {
            let version = &row.program.version;
            writeln!(
                to,
                "# {}: {}; {} ({version})",
                row.label, row.compress, row.decompress
            )?;
        }
        for missing in &self.missing {
            writeln!(to, "# {missing}")?;
        }
        for input in &self.inputs {
            writeln!(
                to,
                "# input {}/{}: BLAKE3 {}",
                input.folder, input.name, input.blake3
            )?;
        }
        self.write_dominance_lines(to)?;
        write_csv_ending(to, &self.resumed, &[], &self.stopped)
    }

    fn write_dominance_lines(&self, to: &mut dyn Write) -> io::Result<()> {
        let question = self.dominance.question(self.complete_runs());
        writeln!(to, "# {}", question.replace('\n', " "))?;
        writeln!(to, "# dominance,{DOMINANCE_HEADER}")?;
        for verdict in &self.dominance.verdicts {
            let label = quoted(&self.rows[verdict.row].label);
            let spread = verdict
                .spread
                .map_or(String::new(), |of| format!("{of:.4}"));
            write!(
                to,
                "# dominance,{label},{},{},{spread},",
                verdict.threads, verdict.runs
            )?;
            write!(to, "{},", self.winner(verdict.verified))?;
            let not_on = quoted(&verdict.not_on.join(" "));
            write!(to, "{not_on},{},", verdict.folders)?;
            write!(to, "{},", self.winner(verdict.unverified))?;
            let published = self.dominance.published.pairs.iter();
            let pair = published
                .filter(|pair| pair.row == Some(verdict.row))
                .map(|pair| &pair.published)
                .next();
            let (time, size) = pair.map_or((String::new(), String::new()), |pair| {
                (pair.compress_s.to_string(), pair.output_mb.to_string())
            });
            let undecided = quoted(&verdict.undecided_on.join(" "));
            writeln!(to, "{time},{size},{undecided}")?;
        }
        Ok(())
    }

    /// Four values: `none` where nothing beats it, nothing where there is no answer. The numbers are
    /// of the level that it was compared with.
    fn winner(&self, answer: Answer) -> String {
        match answer {
            Answer::Beaten(winner) => ratios(&quoted(&self.rows[winner.row].label), winner),
            Answer::NotDistinguishable(near) => ratios("not distinguishable", near),
            Answer::TooFewRuns(smaller) => ratios("too few runs", smaller),
            Answer::Unbeaten {
                nearest: Some(nearest),
            } => ratios("none", nearest),
            Answer::Unbeaten { nearest: None } => "none,,,".to_owned(),
            Answer::Unknown => ",,,".to_owned(),
        }
    }

    fn write_key(&self, to: &mut dyn Write, row: usize, input: usize) -> io::Result<()> {
        let (row, input) = (&self.rows[row], &self.inputs[input]);
        let threads = self.threads(row);
        let (folder, name) = (quoted(&input.folder), quoted(&input.name));
        write!(
            to,
            "{},{},{threads},{folder},{name},{},",
            row.contender, row.level, input.bytes
        )
    }
}

/// A level's bytes and times beside a row's.
fn ratios(answer: &str, level: Level) -> String {
    let times = [level.compress_time, level.decompress_time];
    let [compress, decompress] =
        times.map(|time| time.map_or(String::new(), |time| format!("{time:.4}")));
    format!("{answer},{:.4},{compress},{decompress}", level.bytes)
}

fn write_usage(to: &mut dyn Write, usage: &Usage) -> io::Result<()> {
    write!(to, ",{},{}", usage.csv_seconds(), usage.peak_memory_bytes)
}
