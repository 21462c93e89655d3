//! The results as a page for a colleague.

use super::results::{Action, Results};
use crate::report::{Bars, Cell, Section, Table, ending, page};
use crate::spread::widest_in_words;
use crate::text::{counted, megabytes};
use crate::verdict::too_few;

impl Results {
    /// A page that shows everything, complete in itself.
    pub(super) fn page(&self) -> String {
        let mut sections = vec![self.introduction()];
        sections.extend(Action::ALL.map(|action| self.section(action)));
        sections.push(self.stored_section());
        sections.push(self.commands_section());
        page(
            "What does archiving take?",
            &self.answer(),
            &sections,
            &self.provenance,
        )
    }

    /// The time of a push, archiver by archiver.
    fn answer(&self) -> String {
        let pushes = self.rows.iter().enumerate().filter_map(|(row, of_row)| {
            let figures = self.figures(row, Action::Push)?;
            Some(format!(
                "{} {:.0} ms",
                of_row.archiver,
                figures.segment_s * 1e3
            ))
        });
        let pushes: Vec<String> = pushes.collect();
        let summary = self.summary.iter();
        let pushed = summary.filter(|of| of.action == Action::Push);
        let spread = widest_in_words(pushed.filter_map(|of| of.spread));
        match pushes.is_empty() {
            true => "Nothing was archived.".to_owned(),
            false => format!(
                "Pushing a segment takes {} (median of {}{spread}).",
                pushes.join(", "),
                counted(self.settings.runs as usize, "run")
            ),
        }
    }

    fn introduction(&self) -> Section {
        let section = Section::new("What was done").paragraph(format!(
            "{} of {} MB of PostgreSQL {} are archived and got back by a call for each, as a server \
             makes them: {}, interleaved; figures are medians. Every file that is got is compared \
             with the original. Processor time includes what works in the background.",
            counted(self.wal.segments, "segment"),
            self.wal.segment_bytes >> 20,
            self.wal.major,
            counted(self.settings.runs as usize, "run"),
        ));
        let missing = self.missing.iter().map(ToString::to_string);
        let doubts = too_few(self.settings.runs).into_iter();
        ending(
            section,
            doubts.chain(self.failures()).chain(missing),
            &self.stopped,
        )
    }

    fn section(&self, action: Action) -> Section {
        let mut bars = Bars::new("ms", 1).wall();
        for (row, of_row) in self.rows.iter().enumerate() {
            let ms = self.spread_of(row, action, |of, segments| of.wall_s * 1e3 / segments);
            bars.of_runs(of_row.archiver, ms, (of_row.is_walzip(), None));
        }
        Section::new(self.title(action))
            .paragraph("Wall time for each segment:")
            .bars(bars)
            .table(self.table(action))
    }

    fn stored_section(&self) -> Section {
        let mut bars = Bars::new("MB", 1);
        for (row, of_row) in self.rows.iter().enumerate() {
            let value = self.figures(row, Action::Push);
            let value = value.map(|figures| megabytes(figures.stored_bytes));
            match of_row.is_walzip() {
                true => bars.ours(of_row.archiver, value),
                false => bars.bar(of_row.archiver, value, None),
            }
        }
        Section::new("What is stored").bars(bars).note(format!(
            "The segments have {:.1} MB.",
            megabytes(self.wal.bytes)
        ))
    }

    fn commands_section(&self) -> Section {
        let mut table = Table::new(["archiver", "command", "program"]);
        for row in &self.rows {
            let cells = [row.archiver, &row.command, &row.program.version];
            table.row(cells.map(|text| Cell::from(text).left()));
        }
        Section::new("The archivers").table(table)
    }
}
