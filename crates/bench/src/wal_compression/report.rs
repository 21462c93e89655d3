//! The results as a page for a colleague.

use std::io::{self, Write};

use super::published::{LOAD, TRANSACTIONS};
use super::{Results, Stage};
use crate::report::{Bars, Cell, Section, Table, page};

impl Results {
    /// Writes a page that shows everything, complete in itself.
    pub fn write_report(&self, to: &mut dyn Write) -> io::Result<()> {
        let mut sections = vec![self.introduction()];
        for stage in Stage::ALL {
            sections.push(self.stage_section(stage));
            sections.extend(self.archive_section(stage));
        }
        sections.push(self.published_section());
        let html = page("What does wal_compression do?", &sections, &self.provenance);
        to.write_all(html.as_bytes())
    }

    fn introduction(&self) -> Section {
        let work = &self.work;
        let section = Section::new("What was done").paragraph(format!(
            "{}: a new server for each method loads {} at scale {} and runs {} transactions of {} \
             clients; {} runs. {}",
            self.server.version,
            work.workload,
            work.scale,
            work.transactions,
            work.clients,
            work.runs,
            self.settings.line(),
        ));
        let section = match work.checkpoints {
            Some(checkpoints) => section.paragraph(format!(
                "{checkpoints} checkpoints during the transactions, evenly spaced: every method \
                 has the same images to compress."
            )),
            None => section.note(
                "The server makes a checkpoint when it has written enough WAL, so less WAL means \
                 fewer checkpoints and then fewer images.",
            ),
        };
        match &self.stopped {
            Some(reason) => section.warning(format!("Incomplete: {reason}.")),
            None => section,
        }
    }

    fn stage_section(&self, stage: Stage) -> Section {
        let (title, published) = match stage {
            Stage::Load => ("Loading the data", LOAD),
            Stage::Transactions => ("Transactions", TRANSACTIONS),
        };
        let mut bars = Bars::new("MB", 1);
        for method in &self.methods {
            let bytes = self.wal_bytes(method, stage);
            bars.bar(method, bytes.map(|bytes| bytes / 1e6), None);
        }
        let heads = [
            "wal_compression",
            "WAL MB",
            "off: more %",
            "images %",
            "tps",
            "server cpu s",
            "checkpoints",
        ];
        let mut table = Table::new(heads);
        for method in &self.methods {
            let median = |value: fn(&crate::server::Phase) -> Option<f64>, decimals| {
                let median = self.median(method, stage, value);
                Cell::number_or_none(median.map(|median| median.median), decimals)
            };
            table.row([
                Cell::from(method.as_str()),
                median(|phase| Some(phase.wal.bytes as f64 / 1e6), 1),
                Cell::number_or_none(self.off_is_more(method, stage), 0),
                median(|phase| Some(phase.wal.image_share() * 100.0), 0),
                median(|phase| phase.tps, 0),
                median(|phase| phase.server_cpu_s, 2),
                median(|phase| Some(phase.wal.checkpoints as f64), 0),
            ]);
        }
        Section::new(title)
            .paragraph("WAL that the server wrote, by its positions before and after:")
            .bars(bars)
            .table(table)
            .note(format!(
                "Published: with pglz, off is {} % more ({}).",
                published.value, published.source
            ))
    }

    fn archive_section(&self, stage: Stage) -> Option<Section> {
        if !self.archived.iter().any(|archived| archived.stage == stage) {
            return None;
        }
        let mut heads = vec!["program".to_owned()];
        heads.extend(self.methods.iter().map(|method| format!("{method} MB")));
        let others: Vec<&String> = self
            .methods
            .iter()
            .filter(|method| *method != "off")
            .collect();
        heads.extend(others.iter().map(|method| format!("{method} / off")));
        let mut table = Table::new(heads);
        for program in self.programs() {
            let bytes = |method: &str| self.archived(method, stage, program);
            let mut cells = vec![Cell::from(program)];
            cells.extend(
                self.methods
                    .iter()
                    .map(|method| Cell::number_or_none(bytes(method).map(|bytes| bytes / 1e6), 2)),
            );
            cells.extend(others.iter().map(|method| {
                let penalty = bytes(method)
                    .zip(bytes("off"))
                    .map(|(with, off)| with / off);
                Cell::number_or_none(penalty, 2)
            }));
            if program.starts_with("walzip") {
                cells = cells.into_iter().map(Cell::ours).collect();
            }
            table.row(cells);
        }
        let title = format!("In the archive: the WAL of the {}", stage.name());
        Some(Section::new(title).table(table).note(
            "X / off: the archive with wal_compression = X relative to that with off. Above 1, \
             compression by the server costs space in the archive.",
        ))
    }

    fn published_section(&self) -> Section {
        let mut table = Table::new(["", "published", "here"]);
        for [what, published, here] in self.published_lines() {
            table.row([
                Cell::from(what).left(),
                Cell::from(published),
                Cell::from(here),
            ]);
        }
        Section::new("Published, and here").table(table).note(
            "Published figures come from other machines and older servers: they are shown, \
             never compared with.",
        )
    }
}
