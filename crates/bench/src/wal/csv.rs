//! Each measurement as a line of comma-separated values.
//!
//! Provenance comes first, in lines that begin with `#`.

use std::io::{self, Write};

use super::Results;
use crate::Usage;

const HEADER: &str = "program,level,threads,folder,segment,original_bytes,run,status,output_bytes,\
    compress_wall_s,compress_user_s,compress_system_s,compress_peak_bytes,\
    decompress_wall_s,decompress_user_s,decompress_system_s,decompress_peak_bytes";

impl Results {
    /// Writes each measurement, after lines of provenance.
    pub fn write_csv(&self, to: &mut dyn Write) -> io::Result<()> {
        self.write_provenance(to)?;
        writeln!(to, "{HEADER}")?;
        for measurement in &self.measurements {
            self.write_key(to, measurement.row, measurement.input)?;
            write!(to, "{},ok,{}", measurement.run, measurement.output_bytes)?;
            write_usage(to, &measurement.compress)?;
            write_usage(to, &measurement.decompress)?;
            writeln!(to)?;
        }
        for failed in &self.failed {
            self.write_key(to, failed.row, failed.input)?;
            writeln!(
                to,
                "{},{},,,,,,,,,",
                failed.run,
                quoted(&format!("failed: {}", failed.reason))
            )?;
        }
        Ok(())
    }

    fn write_provenance(&self, to: &mut dyn Write) -> io::Result<()> {
        let provenance = &self.provenance;
        writeln!(
            to,
            "# walzip bench wal, {}, {}",
            provenance.harness, provenance.date
        )?;
        writeln!(to, "# machine: {}", provenance.machine())?;
        writeln!(
            to,
            "# runs: {}, quick: {}",
            self.settings.runs, self.settings.quick
        )?;
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
        match &self.stopped {
            Some(reason) => writeln!(to, "# incomplete: {}", reason.replace('\n', " ")),
            None => Ok(()),
        }
    }

    fn write_key(&self, to: &mut dyn Write, row: usize, input: usize) -> io::Result<()> {
        let (row, input) = (&self.rows[row], &self.inputs[input]);
        let threads = match row.threads {
            crate::contender::Threads::One => 1,
            crate::contender::Threads::All => self.provenance.cpus,
        };
        let (folder, name) = (quoted(&input.folder), quoted(&input.name));
        write!(
            to,
            "{},{},{threads},{folder},{name},{},",
            row.contender, row.level, input.bytes
        )
    }
}

fn write_usage(to: &mut dyn Write, usage: &Usage) -> io::Result<()> {
    let Usage {
        wall,
        user,
        system,
        peak_memory_bytes,
    } = usage;
    let [wall, user, system] = [wall, user, system].map(|time| time.as_secs_f64());
    write!(to, ",{wall:.6},{user:.6},{system:.6},{peak_memory_bytes}")
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_a_comma_or_a_quote_is_quoted() {
        assert_eq!(quoted("oltp-mixed"), "oltp-mixed");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"no\""), "\"say \"\"no\"\"\"");
    }
}
