//! The results as a page for a colleague.

use super::{Content, Results};
use crate::report::{Bars, Cell, Pairs, Panels, Section, Table, ending, page};
use crate::spread::widest_in_words;
use crate::text::counted;
use crate::verdict::{Comparison, Told, too_few};

impl Results {
    /// A page that shows everything, complete in itself.
    pub(super) fn page(&self) -> String {
        let mut sections = vec![self.introduction()];
        for content in [Content::Zeros, Content::Wal] {
            if !self.sets_of(content).is_empty() {
                sections.push(self.section(content));
            }
        }
        sections.push(self.methods_section());
        page(
            "Does the segment size matter for archiving?",
            &self.answer(),
            &sections,
            &self.provenance,
        )
    }

    /// How many times as long small segments take, way by way.
    fn answer(&self) -> String {
        let contents = [Content::Wal, Content::Zeros];
        let mut compared = contents
            .map(|content| (content, self.sets_of(content)))
            .into_iter();
        let Some((content, sets)) = compared.find(|(_, sets)| sets.len() > 1) else {
            return "One size was measured: that compares nothing.".to_owned();
        };
        let (small, large) = (sets[0], sets[sets.len() - 1]);
        let compared = self.rows.iter().enumerate().filter_map(|(row, of_row)| {
            self.figures(row, small).and(self.figures(row, large))?;
            Some((of_row.method, self.compare(row, small, large)?))
        });
        let compared: Vec<(&str, Comparison)> = compared.collect();
        if compared.is_empty() {
            return "No way was measured with small and with large segments.".to_owned();
        }
        let ways: Vec<String> = compared
            .iter()
            .map(|(method, of)| match of.told {
                Told::NotDistinguishable => format!("{method} {:.2}, within the spread", of.ratio),
                Told::Less | Told::More | Told::TooFewRuns => format!("{method} {:.2}", of.ratio),
            })
            .collect();
        let spread = widest_in_words(compared.iter().filter_map(|(_, of)| of.spread));
        let [small, large] = [small, large].map(|set| self.sets[set].segment_bytes >> 20);
        format!(
            "In segments of {small} MB the same bytes take this many times the {} that they take in \
             segments of {large} MB: {} ({}; {}{spread}{}).",
            self.provenance.judged_by().name(),
            ways.join("; "),
            content.name(),
            counted(self.settings.runs as usize, "run"),
            match too_few(self.settings.runs) {
                Some(_) => ", too few to prove it",
                None => "",
            },
        )
    }

    fn introduction(&self) -> Section {
        let section = Section::new("What was done").paragraph(format!(
            "The same {} MB are archived as segments of each size, by a process for each segment, \
             as archive_command starts it: {}, interleaved; figures are medians. Every file is \
             compared with what it was made from.",
            self.settings.total_bytes >> 20,
            counted(self.settings.runs as usize, "run"),
        ));
        let section = section.note(format!("Caches are {}.", self.settings.caches));
        let section = self
            .settings
            .target()
            .into_iter()
            .fold(section, Section::note);
        let doubts = self.doubts().into_iter();
        let reasons = doubts
            .chain(self.failures())
            .chain(self.left_out.iter().cloned());
        ending(section, reasons, &self.stopped)
    }

    fn section(&self, content: Content) -> Section {
        let sets = self.sets_of(content);
        let section = Section::new(format!("Archiving {}", content.name()));
        let section = match sets.as_slice() {
            [small, large] => self.pairs_of(section, [*small, *large]),
            sets => section
                .paragraph("Wall time of the same bytes in segments of each size:")
                .panels(self.panels_of(sets)),
        };
        let mut section = section.table(self.table(content));
        for set in sets {
            section = section.note(self.sets[set].to_string());
        }
        if let Some(table) = self.timed_table(content) {
            section = section
                .paragraph("As time printed it in the article, and here:")
                .table(table);
        }
        match self.published_note(content) {
            Some(note) => section.note(note),
            None => section,
        }
    }

    /// What each way takes for the smallest segments and for the largest.
    fn pairs_of(&self, section: Section, [small, large]: [usize; 2]) -> Section {
        let of = [small, large].map(|set| {
            let megabytes = self.sets[set].segment_bytes >> 20;
            format!("segments of {megabytes} MB")
        });
        let mut pairs = Pairs::new("s", 2, of).wall();
        for (row, of_row) in self.rows.iter().enumerate() {
            let seconds = [small, large].map(|set| self.seconds(row, set));
            pairs.pair(of_row.method, seconds, of_row.is_walzip());
        }
        section
            .paragraph("Wall time of the same bytes in small and in large segments:")
            .pairs(pairs)
    }

    /// What each way takes for each size of segments.
    fn panels_of(&self, sets: &[usize]) -> Panels {
        let mut panels = Panels::default();
        for (row, of_row) in self.rows.iter().enumerate() {
            let mut bars = Bars::new("s", 2).wall();
            for set in sets {
                let size = format!("{} MB", self.sets[*set].segment_bytes >> 20);
                bars.of_runs(size, self.seconds(row, *set), (of_row.is_walzip(), None));
            }
            panels = panels.panel(of_row.method, bars);
        }
        panels
    }

    fn methods_section(&self) -> Section {
        let mut table = Table::new(["way", "command", "program"]);
        for row in &self.rows {
            let cells = [row.method, &row.command, &row.program.version];
            table.row(cells.map(|text| Cell::from(text).left()));
        }
        Section::new("The ways").table(table).note(
            "On disk \u{201c}later\u{201d}: the program reports success before the segment is on \
             the disk.",
        )
    }
}
