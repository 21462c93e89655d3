//! The results as a person reads them on a terminal.

use std::fmt;

use super::results::SOURCE;
use super::{Measurement, Memory, Results, Step};
use crate::text::{counted, write_table};

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        for (memory, megabytes) in self.memories() {
            for step in Step::ALL {
                writeln!(
                    f,
                    "\n{} ({}), database {} shared_buffers of {megabytes} MB:",
                    step.name(),
                    step.about(),
                    memory.name()
                )?;
                self.write_step(f, memory, step)?;
            }
        }
        self.write_published(f)?;
        if let Some(load) = self.provenance.load_of_others() {
            writeln!(
                f,
                "\nThe machine was busy before this began (load {load:.1} on {} processors): \
                 trust the bytes and the cpu times, not the rates.",
                self.provenance.cpus
            )?;
        }
        match &self.stopped {
            Some(reason) => writeln!(f, "\nIncomplete: {reason}. What is missing shows \"-\"."),
            None => Ok(()),
        }
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
            if work.quick {
                "; quick: too small to conclude from"
            } else {
                ""
            },
        )?;
        writeln!(f, "{}", self.provenance.machine())?;
        writeln!(f, "  {}: {}", self.server.version, self.settings.line())
    }

    fn write_step(&self, f: &mut fmt::Formatter<'_>, memory: Memory, step: Step) -> fmt::Result {
        let heads = [
            "wal_compression",
            "rows/s",
            "spread",
            "cpu us/row",
            "KB written/row",
            "KB WAL/row",
            "images %",
            "checkpoints",
        ];
        let mut table = vec![heads.map(str::to_owned).to_vec()];
        for method in &self.methods {
            let shown = |value: fn(&Measurement) -> Option<f64>, decimals: usize| {
                let median = self.median((memory, method, step), value);
                median.map_or("-".to_owned(), |median| {
                    format!("{:.decimals$}", median.median)
                })
            };
            let spread = self.median((memory, method, step), |run| Some(run.per_second()));
            let spread = spread.and_then(|spread| spread.half_range);
            table.push(vec![
                method.clone(),
                shown(|run| Some(run.per_second()), 0),
                spread.map_or("-".to_owned(), |spread| format!("{:.0}%", spread * 100.0)),
                shown(Measurement::cpu_micros, 2),
                shown(Measurement::written_kilobytes, 3),
                shown(|run| Some(run.wal_kilobytes()), 3),
                shown(|run| Some(run.phase.wal.image_share() * 100.0), 0),
                shown(|run| Some(run.phase.wal.checkpoints as f64), 0),
            ]);
        }
        write_table(f, &table)
    }

    fn write_published(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nHow many times faster, as published and here:")?;
        let mut head = vec![String::new(), "published".to_owned()];
        head.extend(self.memories().map(|(memory, _)| memory.name().to_owned()));
        let mut table = vec![head];
        for published in self.published {
            let mut line = vec![
                format!(
                    "{}: {} than {}",
                    published.step.name(),
                    published.faster,
                    published.slower
                ),
                format!("{:.1}", published.times),
            ];
            line.extend(self.memories().map(|(memory, _)| {
                let here = self.times_faster(memory, published);
                here.map_or("-".to_owned(), |times| format!("{times:.2}"))
            }));
            table.push(line);
        }
        write_table(f, &table)?;
        writeln!(
            f,
            "Published: {SOURCE}; another machine, 15 before its release."
        )
    }
}
