//! Each measurement as a line of comma-separated values, after provenance in lines with `#`.

use std::io::{self, Write};

use super::published::Published;
use super::results::{Measurement, Results};
use crate::ending::{write_csv_ending, write_csv_server};
use crate::server::{Phase, Replication};
use crate::text::quoted;

impl Results {
    /// Writes each measurement, after lines of provenance. What programs make of the WAL is
    /// there too: what follows `# archived,`.
    pub(super) fn csv(&self, to: &mut dyn Write) -> io::Result<()> {
        let work = &self.work;
        self.provenance.write_csv(to, self.experiment)?;
        write_csv_server(to, &self.server, &self.settings)?;
        let checkpoints = work
            .checkpoints
            .map_or("as they come".to_owned(), |fixed| fixed.to_string());
        writeln!(
            to,
            "# {} at scale {}, {} transactions, {} clients, seed {}, {} rows, standby: {}, \
             checkpoints: {checkpoints}, quick: {}",
            work.workload,
            work.scale,
            work.transactions,
            work.clients,
            work.seed,
            work.rows,
            work.standby,
            work.quick
        )?;
        for published in self.published {
            let Published {
                what,
                value,
                unit,
                source,
            } = published;
            writeln!(to, "# published: {what}: {value} {unit} ({source})")?;
        }
        writeln!(
            to,
            "# archived,wal_compression,step,program,ratio,bytes,compress_s,segments,of,uncertainty"
        )?;
        for archived in &self.archived {
            writeln!(
                to,
                "# archived,{},{},{},{:.6},{:.0},{:.6},{},{},{}",
                archived.method,
                archived.stage.name(),
                quoted(&archived.program),
                archived.ratio,
                archived.bytes,
                archived.compress_s,
                archived.segments,
                archived.of,
                archived
                    .uncertainty
                    .map_or_else(String::new, |part| format!("{part:.6}"))
            )?;
        }
        write_csv_ending(to, &[], &self.left_out, &self.stopped)?;
        writeln!(
            to,
            "wal_compression,run,step,{},{}",
            Phase::CSV_HEADER,
            Replication::CSV_HEADER
        )?;
        for Measurement {
            method,
            run,
            stage,
            phase,
            replication,
        } in &self.measurements
        {
            writeln!(
                to,
                "{method},{run},{},{},{}",
                stage.name(),
                phase.csv(),
                Replication::csv(replication.as_ref())
            )?;
        }
        Ok(())
    }
}
