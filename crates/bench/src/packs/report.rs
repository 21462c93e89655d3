//! The results as a page for a colleague.

use super::results::{Kept, Results};
use crate::report::{Bars, Cell, Section, Table, ending, page};
use crate::text::{counted, megabytes};

impl Results {
    /// A page that shows everything, complete in itself.
    pub(super) fn page(&self) -> String {
        let sections = [
            self.introduction(),
            self.stored_section(),
            Section::new("What it takes")
                .paragraph(
                    "Processor time for each segment. That of packs comes on top of that of the \
                     segments by themselves, later and at a time of one's own choice. A call gets one \
                     segment, and begins with nothing.",
                )
                .table(self.table()),
            self.commands_section(),
        ];
        let answer = self.answer();
        page(
            "What do packs of WAL save?",
            answer
                .as_deref()
                .unwrap_or("There is no answer: what was measured does not suffice for one."),
            &sections,
            &self.provenance,
        )
    }

    fn introduction(&self) -> Section {
        let section = Section::new("What was done").paragraph(format!(
            "{} of {} MB of PostgreSQL {} are archived one by one, and packed in packs of each length, \
             walzip -{}; measured once. All segments are decoded again, and {} of them got by a call \
             each and compared with the original.",
            counted(self.wal.segments, "consecutive segment"),
            self.wal.segment_bytes >> 20,
            self.wal.major,
            self.settings.level,
            self.settings.got
        ));
        ending(section, self.failures(), &self.stopped)
    }

    fn stored_section(&self) -> Section {
        let mut bars = Bars::new("MB", 2);
        for (row, of_row) in self.rows.iter().enumerate() {
            let value = self.figures(row);
            let value = value.map(|figures| megabytes(figures.stored_bytes));
            match of_row.kept {
                Kept::Zstd => bars.bar(&*of_row.label, value, None),
                Kept::Single | Kept::Packs(_) => bars.ours(&*of_row.label, value),
            }
        }
        Section::new("What is stored").bars(bars).note(format!(
            "The segments have {:.1} MB.",
            megabytes(self.wal.bytes)
        ))
    }

    fn commands_section(&self) -> Section {
        let mut table = Table::new(["kept as", "command", "program"]);
        for row in &self.rows {
            let cells = [&row.label, &row.command, &row.version];
            table.row(cells.map(|text| Cell::from(&**text).left()));
        }
        Section::new("The commands").table(table)
    }
}
