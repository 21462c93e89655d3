//! Each way as a line of comma-separated values, after provenance in lines with `#`.

use std::io::{self, Write};

use super::results::Results;
use crate::ending::write_csv_ending;
use crate::text::quoted;

const HEADER: &str = "kept,segments,bytes,status,stored_bytes,files,make_cpu_s,\
    make_peak_memory_bytes,decode_cpu_s,get_median_s,get_longest_s,get_peak_memory_bytes";

impl Results {
    /// Writes each way, after lines of provenance.
    pub(super) fn csv(&self, to: &mut dyn Write) -> io::Result<()> {
        self.provenance.write_csv(to, self.experiment)?;
        writeln!(
            to,
            "# level: {}, quick: {}, got: {}; BLAKE3 of the segments' hashes {}",
            self.settings.level, self.settings.quick, self.settings.got, self.wal.blake3
        )?;
        for row in &self.rows {
            writeln!(to, "# {}: {} ({})", row.label, row.command, row.version)?;
        }
        write_csv_ending(to, &[], &[], &self.stopped)?;
        writeln!(to, "{HEADER}")?;
        for figures in &self.figures {
            self.write_key(to, figures.row)?;
            writeln!(
                to,
                "ok,{},{},{:.6},{},{:.6},{:.6},{:.6},{}",
                figures.stored_bytes,
                figures.files,
                figures.make_cpu_s,
                figures.make_peak_memory_bytes,
                figures.decode_cpu_s,
                figures.get_median_s().unwrap_or_default(),
                figures.get_longest_s().unwrap_or_default(),
                figures.get_peak_memory_bytes
            )?;
        }
        for failed in &self.failed {
            self.write_key(to, failed.row)?;
            let reason = quoted(&format!("failed: {}", failed.reason));
            writeln!(to, "{reason},,,,,,,,")?;
        }
        Ok(())
    }

    /// The values that say what a line is about.
    fn write_key(&self, to: &mut dyn Write, row: usize) -> io::Result<()> {
        let label = quoted(&self.rows[row].label);
        write!(to, "{label},{},{},", self.wal.segments, self.wal.bytes)
    }
}
