//! Each measurement as a line of comma-separated values, after provenance in lines with `#`.

use std::io::{self, Write};

use super::results::Results;
use crate::ending::write_csv_ending;
use crate::text::quoted;

const HEADER: &str = "archiver,background,action,segments,bytes,run,status,wall_s,longest_s,cpu_s,\
    stored_bytes";

impl Results {
    /// Writes each measurement, after lines of provenance.
    pub(super) fn csv(&self, to: &mut dyn Write) -> io::Result<()> {
        self.provenance.write_csv(to, self.experiment)?;
        writeln!(
            to,
            "# runs: {}, quick: {}, replay: {} ms; BLAKE3 of the segments' hashes {}",
            self.settings.runs, self.settings.quick, self.settings.replay_ms, self.wal.blake3
        )?;
        for row in &self.rows {
            let version = &row.program.version;
            writeln!(to, "# {}: {} ({version})", row.archiver, row.command)?;
        }
        let missing: Vec<String> = self.missing.iter().map(ToString::to_string).collect();
        write_csv_ending(to, &self.resumed, &missing, &self.stopped)?;
        writeln!(to, "{HEADER}")?;
        for measured in &self.measurements {
            self.write_key(to, measured.row, measured.action.name())?;
            writeln!(
                to,
                "{},ok,{:.6},{:.6},{:.6},{}",
                measured.run,
                measured.wall_s,
                measured.longest_s,
                measured.cpu_s,
                measured.stored_bytes
            )?;
        }
        for failed in &self.failed {
            self.write_key(to, failed.row, failed.action.name())?;
            writeln!(to, ",{},,,,", quoted(&format!("failed: {}", failed.reason)))?;
        }
        Ok(())
    }

    /// The values that say what a line is about.
    fn write_key(&self, to: &mut dyn Write, row: usize, action: &str) -> io::Result<()> {
        let of_row = &self.rows[row];
        write!(
            to,
            "{},{},{action},{},{},",
            quoted(of_row.archiver),
            of_row.background,
            self.wal.segments,
            self.wal.bytes
        )
    }
}
