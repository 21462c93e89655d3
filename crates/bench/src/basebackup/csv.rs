//! Each backup as a line of comma-separated values, after provenance in lines with `#`.

use std::io::{self, Write};

use super::results::Results;
use crate::ending::write_csv_ending;
use crate::text::quoted;

const HEADER: &str = "backup,data_set,data_set_bytes,run,status,bytes,wall_s,user_s,system_s,\
    server_cpu_s,peak_memory_bytes";

impl Results {
    /// Writes each backup, after lines of provenance.
    pub(super) fn csv(&self, to: &mut dyn Write) -> io::Result<()> {
        self.write_provenance(to)?;
        writeln!(to, "{HEADER}")?;
        for measured in &self.measurements {
            self.write_key(to, measured.row, measured.data_set)?;
            let usage = measured.usage;
            let seconds = usage.csv_seconds();
            let server = measured
                .server_cpu_s
                .map_or(String::new(), |cpu| cpu.to_string());
            writeln!(
                to,
                "{},ok,{},{seconds},{server},{}",
                measured.run, measured.bytes, usage.peak_memory_bytes
            )?;
        }
        for failed in &self.failed {
            self.write_key(to, failed.row, failed.data_set)?;
            let status = format!("failed: {}", failed.reason);
            writeln!(to, ",{},,,,,,", quoted(&status))?;
        }
        Ok(())
    }

    fn write_provenance(&self, to: &mut dyn Write) -> io::Result<()> {
        self.provenance.write_csv(to, self.experiment)?;
        writeln!(
            to,
            "# server: {}; {}",
            self.server.version, self.settings.servers
        )?;
        writeln!(
            to,
            "# loops: {}, before them to warm up: {}, quick: {}",
            self.settings.loops, self.settings.warm_ups, self.settings.quick
        )?;
        for row in &self.rows {
            writeln!(
                to,
                "# {}: {} ({})",
                row.label, row.command, row.program.version
            )?;
        }
        for data_set in &self.data_sets {
            writeln!(to, "# data set {}: {}", data_set.name, data_set.origin)?;
        }
        for average in &self.ranks.average {
            let row = &self.rows[average.row];
            let rank = average.standing();
            let ranked = self.ranks.ranked;
            writeln!(to, "# average rank of {ranked},{},{rank}", row.label)?;
        }
        writeln!(to, "# restored,backup,data_set,run,wall_s,user_s,system_s")?;
        for restored in &self.restored {
            let (row, data_set) = (&self.rows[restored.row], &self.data_sets[restored.data_set]);
            let seconds = restored.usage.csv_seconds();
            let name = quoted(&data_set.name);
            writeln!(
                to,
                "# restored,{},{name},{},{seconds}",
                row.label, restored.run
            )?;
        }
        write_csv_ending(to, &self.resumed, &self.left_out, &self.stopped)
    }

    fn write_key(&self, to: &mut dyn Write, row: usize, data_set: usize) -> io::Result<()> {
        let data_set = &self.data_sets[data_set];
        write!(
            to,
            "{},{},{},",
            self.rows[row].label,
            quoted(&data_set.name),
            data_set
                .bytes
                .map_or(String::new(), |bytes| bytes.to_string())
        )
    }
}
