//! The results as a page for a colleague.

use super::methods::Taker;
use super::results::Results;
use super::text::EXPLANATION;
use crate::report::{Bars, Cell, Section, Table, ending, page};
use crate::text::{counted, megabytes};

impl Results {
    /// A page that shows everything, complete in itself.
    pub(super) fn page(&self) -> String {
        let mut sections = vec![self.introduction(), self.ranking()];
        sections.extend((0..self.data_sets.len()).map(|place| self.data_set(place)));
        sections.push(self.calls());
        page(
            "Which compression is best for base backups?",
            &sections,
            &self.provenance,
        )
    }

    fn introduction(&self) -> Section {
        let section = Section::new("What was done").paragraph(format!(
            "{}: {} backed up with each method and level in turn; {} after {} to warm up, which is \
             unpacked or verified. {}",
            self.server.version,
            counted(self.data_sets.len(), "data set"),
            counted(self.settings.loops as usize, "loop"),
            counted(self.settings.warm_ups as usize, "loop"),
            self.settings.servers,
        ));
        let reasons = self.failures().chain(self.left_out.iter().cloned());
        let section = EXPLANATION
            .iter()
            .fold(section, |section, text| section.note(*text));
        ending(section, reasons, &self.stopped)
    }

    fn ranking(&self) -> Section {
        let mut bars = Bars::new("average rank", 1);
        for average in &self.ranks.average {
            let row = &self.rows[average.row];
            match row.taker {
                Taker::Walzip => bars.ours(&row.label, Some(average.rank)),
                Taker::PgBasebackup { .. } => {
                    bars.bar(&row.label, Some(average.rank), row.published_rank);
                }
            }
        }
        Section::new("Average ranks over the data sets")
            .paragraph("The shorter the better: 1 is the best on every data set.")
            .bars(bars)
            .table(self.ranks_table())
            .note(format!("Published: {}.", self.published_source))
    }

    fn data_set(&self, place: usize) -> Section {
        let data_set = &self.data_sets[place];
        let mut seconds = Bars::new("s", 2);
        let mut sizes = Bars::new("MB", 1);
        for score in self.ranks.of_data_set(place) {
            let row = &self.rows[score.row];
            for (bars, value) in [
                (&mut seconds, score.seconds),
                (&mut sizes, score.bytes / 1e6),
            ] {
                match row.taker {
                    Taker::Walzip => bars.ours(&row.label, Some(value)),
                    Taker::PgBasebackup { .. } => bars.bar(&row.label, Some(value), None),
                }
            }
        }
        let size = data_set.bytes.map_or(String::new(), |bytes| {
            format!("; {:.0} MB in its databases", megabytes(bytes))
        });
        Section::new(data_set.name.as_str())
            .note(format!("{}{size}", data_set.origin))
            .paragraph("Wall time, the best score first:")
            .bars(seconds)
            .paragraph("Size of the backup:")
            .bars(sizes)
            .table(self.scores_table(place))
    }

    fn calls(&self) -> Section {
        let mut table = Table::new(["backup", "command", "program"]);
        for row in &self.rows {
            let cells = [&row.label, &row.command, &row.program.version];
            table.row(cells.map(|text| Cell::from(text.as_str()).left()));
        }
        Section::new("The calls").table(table)
    }
}
