//! The results as a person reads them on a terminal.

use std::fmt;

use super::published::{PROCESSOR_TIME_OF_PGLZ, SOURCE};
use super::{Measurement, Memory, Results, Step};
use crate::ending::{quick_look, write_gaps};
use crate::report::{Cell, Table};
use crate::text::counted;

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        for (memory, megabytes) in self.memories() {
            for step in Step::ALL {
                writeln!(
                    f,
                    "\n{} ({}), {}:",
                    step.name(),
                    step.about(),
                    self.database_and_buffers((memory, megabytes), Some(step))
                )?;
                write!(f, "{}", self.step_table(memory, step))?;
            }
        }
        self.write_published(f)?;
        for reason in &self.left_out {
            writeln!(f, "\n{reason}")?;
        }
        for doubt in self.doubts() {
            writeln!(f, "\n{doubt}")?;
        }
        write_gaps(f, &self.stopped)
    }
}

impl Results {
    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let work = &self.work;
        writeln!(
            f,
            "Insert benchmark: {} rows, then {}, {} a transaction, {}; {}, each with a new server{}",
            work.rows,
            work.further_rows,
            work.rows_per_transaction,
            counted(work.clients as usize, "client"),
            counted(work.runs as usize, "run"),
            quick_look(work.quick),
        )?;
        writeln!(f, "{}", self.provenance.machine())?;
        writeln!(f, "  {}: {}", self.server.version, self.settings.line())
    }

    /// What each method takes in a step.
    pub(super) fn step_table(&self, memory: Memory, step: Step) -> Table {
        let mut table = Table::new([
            "wal_compression",
            "rows/s",
            "spread",
            "cpu us/row",
            "KB written/row",
            "KB read/row",
            "KB WAL/row",
            "images %",
            "checkpoints",
        ])
        .wall(["rows/s", "spread"]);
        for method in &self.methods {
            let median = |value: fn(&Measurement) -> Option<f64>, decimals| {
                let median = self.median((memory, method, step), value);
                Cell::number_or_none(median.map(|median| median.median), decimals)
            };
            let rate = self.median((memory, method, step), |run| Some(run.per_second()));
            table.row([
                Cell::from(method.as_str()),
                median(|run| Some(run.per_second()), 0),
                Cell::percent(rate.and_then(|rate| rate.half_range)),
                median(Measurement::cpu_micros, 2),
                median(Measurement::written_kilobytes, 3),
                median(Measurement::read_kilobytes, 3),
                median(|run| Some(run.wal_kilobytes()), 3),
                median(|run| Some(run.phase.wal.image_share() * 100.0), 0),
                median(|run| Some(run.phase.wal.checkpoints as f64), 0),
            ]);
        }
        table
    }

    /// How many times faster one method is than another, as published and here.
    pub(super) fn published_table(&self) -> Table {
        let mut heads = vec!["times faster".to_owned(), "published".to_owned()];
        let about = |(memory, _): (Memory, _)| memory.about().to_owned();
        heads.extend(self.memories().map(about));
        let mut table = Table::new(heads);
        for published in self.published {
            let (step, faster, slower) = (published.step, published.faster, published.slower);
            let what = format!("{}: {faster} than {slower}", step.name());
            let mut cells = vec![Cell::from(what).left(), published.cell()];
            cells.extend(
                self.memories()
                    .map(|(memory, _)| self.times_faster(memory, published)),
            );
            table.row(cells);
        }
        let what = "l.x: processor time of pglz for each of lz4's";
        let said = format!("almost {PROCESSOR_TIME_OF_PGLZ}");
        let mut cells = vec![
            Cell::from(what).left(),
            Cell::said(PROCESSOR_TIME_OF_PGLZ, said),
        ];
        cells.extend(self.memories().map(|(memory, _)| {
            let cpu = |method| self.median((memory, method, Step::Index), Measurement::cpu_micros);
            let ratio = cpu("pglz").zip(cpu("lz4"));
            Cell::number_or_none(ratio.map(|(pglz, lz4)| pglz.median / lz4.median), 2)
        }));
        table.row(cells);
        table
    }

    fn write_published(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\nAs published and here:\n{}", self.published_table())?;
        writeln!(f, "{}", self.volumes())?;
        writeln!(
            f,
            "Published: {SOURCE}; another machine, 15 before its release."
        )
    }
}
