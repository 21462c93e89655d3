//! Each measurement as a line of comma-separated values, after provenance in lines with `#`.

use std::io::{self, Write};

use super::published::SOURCE;
use super::results::Results;
use crate::ending::{write_csv_ending, write_csv_server};
use crate::server::Phase;

impl Results {
    /// Writes each measurement, after lines of provenance.
    pub(super) fn csv(&self, to: &mut dyn Write) -> io::Result<()> {
        let work = &self.work;
        self.provenance.write_csv(to, self.experiment)?;
        write_csv_server(to, &self.server, &self.settings)?;
        for (memory, megabytes) in self.memories() {
            writeln!(
                to,
                "# {}: {}",
                memory.name(),
                self.database_and_buffers((memory, megabytes), None)
            )?;
        }
        writeln!(
            to,
            "# {} rows, then {}, in transactions of {}, {} clients, seed {}, quick: {}",
            work.rows,
            work.further_rows,
            work.rows_per_transaction,
            work.clients,
            work.seed,
            work.quick
        )?;
        for published in self.published {
            writeln!(to, "# published: {} ({SOURCE})", published.sentence())?;
        }
        write_csv_ending(to, &[], &self.left_out, &self.stopped)?;
        writeln!(
            to,
            "database,wal_compression,run,step,operations,per_second,{}",
            Phase::CSV_HEADER
        )?;
        for run in &self.measurements {
            writeln!(
                to,
                "{},{},{},{},{},{:.3},{}",
                run.memory.name(),
                run.method,
                run.run,
                run.step.name(),
                run.operations,
                run.per_second(),
                run.phase.csv()
            )?;
        }
        Ok(())
    }
}
