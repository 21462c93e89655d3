//! Each measurement as a line of comma-separated values, after provenance in lines with `#`.

use std::io::{self, Write};

use super::results::{Caches, Results};
use crate::ending::write_csv_ending;
use crate::text::quoted;

const HEADER: &str = "way,content,segment_bytes,segments,bytes,run,status,wall_s,user_s,system_s,\
    peak_memory_bytes,stored_bytes";

impl Results {
    /// Writes each measurement, after lines of provenance.
    pub(super) fn csv(&self, to: &mut dyn Write) -> io::Result<()> {
        self.write_provenance(to)?;
        writeln!(to, "{HEADER}")?;
        for measured in &self.measurements {
            self.write_key(to, measured.row, measured.set)?;
            let usage = measured.usage;
            let seconds = usage.csv_seconds();
            writeln!(
                to,
                "{},ok,{seconds},{},{}",
                measured.run, usage.peak_memory_bytes, measured.stored_bytes
            )?;
        }
        for failed in &self.failed {
            self.write_key(to, failed.row, failed.set)?;
            let what = match failed.refused {
                true => "refused",
                false => "failed",
            };
            writeln!(
                to,
                ",{},,,,,",
                quoted(&format!("{what}: {}", failed.reason))
            )?;
        }
        Ok(())
    }

    fn write_provenance(&self, to: &mut dyn Write) -> io::Result<()> {
        self.provenance.write_csv(to, self.experiment)?;
        let caches = match &self.settings.caches {
            Caches::Cold => "cold".to_owned(),
            Caches::Warm(reason) => format!("warm ({reason})"),
        };
        writeln!(
            to,
            "# runs: {}, quick: {}, caches: {caches}",
            self.settings.runs, self.settings.quick
        )?;
        if let Some(said) = self.settings.target() {
            writeln!(to, "# {said}")?;
        }
        for row in &self.rows {
            writeln!(
                to,
                "# {}: {} ({})",
                row.method, row.command, row.program.version
            )?;
        }
        for set in &self.sets {
            writeln!(
                to,
                "# {} of {} MB: {}; BLAKE3 of the files' hashes {}",
                set.content.name(),
                set.segment_bytes >> 20,
                set.origin,
                set.blake3
            )?;
        }
        write_csv_ending(to, &self.resumed, &self.left_out, &self.stopped)
    }

    /// The values that say what a line is about.
    fn write_key(&self, to: &mut dyn Write, row: usize, set: usize) -> io::Result<()> {
        let set = &self.sets[set];
        write!(
            to,
            "{},{},{},{},{},",
            self.rows[row].method,
            set.content.name(),
            set.segment_bytes,
            set.files,
            set.bytes
        )
    }
}
