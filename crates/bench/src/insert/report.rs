//! The results as a page for a colleague.

use std::io::{self, Write};

use super::results::SOURCE;
use super::{Measurement, Memory, Results, Step};
use crate::report::{Bars, Cell, Section, Table, page};

impl Results {
    /// Writes a page that shows everything, complete in itself.
    pub fn write_report(&self, to: &mut dyn Write) -> io::Result<()> {
        let mut sections = vec![self.introduction()];
        for (memory, megabytes) in self.memories() {
            for step in Step::ALL {
                sections.push(self.step_section(memory, megabytes, step));
            }
        }
        sections.push(self.published_section());
        let html = page(
            "What does wal_compression cost an insert?",
            &sections,
            &self.provenance,
        );
        to.write_all(html.as_bytes())
    }

    fn introduction(&self) -> Section {
        let work = &self.work;
        let section = Section::new("What was done").paragraph(format!(
            "{}: a new server for each method inserts {} rows, creates three indexes and inserts \
             {} further rows, {} a transaction, {} clients, {} runs. {}",
            self.server.version,
            work.rows,
            work.further_rows,
            work.rows_per_transaction,
            work.clients,
            work.runs,
            self.settings.line(),
        ));
        match &self.stopped {
            Some(reason) => section.warning(format!("Incomplete: {reason}.")),
            None => section,
        }
    }

    fn step_section(&self, memory: Memory, megabytes: u64, step: Step) -> Section {
        let mut bars = Bars::new("rows/s", 0);
        let heads = [
            "wal_compression",
            "rows/s",
            "cpu us/row",
            "KB written/row",
            "KB WAL/row",
            "images %",
        ];
        let mut table = Table::new(heads);
        for method in &self.methods {
            let median = |value: fn(&Measurement) -> Option<f64>| {
                let median = self.median((memory, method, step), value);
                median.map(|median| median.median)
            };
            let cell = |value, decimals| Cell::number_or_none(median(value), decimals);
            bars.bar(method, median(|run| Some(run.per_second())), None);
            table.row([
                Cell::from(method.as_str()),
                cell(|run| Some(run.per_second()), 0),
                cell(Measurement::cpu_micros, 2),
                cell(Measurement::written_kilobytes, 3),
                cell(|run| Some(run.wal_kilobytes()), 3),
                cell(|run| Some(run.phase.wal.image_share() * 100.0), 0),
            ]);
        }
        let title = format!("{}, database {} memory", step.name(), memory.name());
        Section::new(title)
            .paragraph(format!(
                "{}; shared_buffers = {megabytes} MB.",
                step.about()
            ))
            .bars(bars)
            .table(table)
    }

    fn published_section(&self) -> Section {
        let mut heads = vec!["times faster".to_owned(), "published".to_owned()];
        heads.extend(self.memories().map(|(memory, _)| memory.name().to_owned()));
        let mut table = Table::new(heads);
        for published in self.published {
            let what = format!(
                "{}: {} than {}",
                published.step.name(),
                published.faster,
                published.slower
            );
            let mut cells = vec![Cell::from(what).left(), Cell::number(published.times, 1)];
            cells.extend(
                self.memories().map(|(memory, _)| {
                    Cell::number_or_none(self.times_faster(memory, published), 2)
                }),
            );
            table.row(cells);
        }
        Section::new("Published, and here")
            .table(table)
            .note(format!("Published: {SOURCE}."))
    }
}
