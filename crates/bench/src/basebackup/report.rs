//! The results as a page for a colleague.

use super::measurement::Measurement;
use super::ranks::Score;
use super::results::Results;
use super::text::{Best, EXPLANATION};
use crate::report::{Bars, Cell, Panels, Scatter, Section, Table, ending, page};
use crate::spread::{Spread, spread, widest_in_words};
use crate::text::{counted, megabytes};

impl Results {
    /// A page that shows everything, complete in itself.
    pub(super) fn page(&self) -> String {
        let mut sections = vec![self.introduction(), self.ranking()];
        sections.extend(Best::ALL.map(|by| self.best(by)));
        sections.extend((0..self.data_sets.len()).map(|index| self.data_set(index)));
        sections.push(self.calls());
        page(
            "Which compression is best for base backups?",
            &self.answer(),
            &sections,
            &self.provenance,
        )
    }

    /// What stands first, and where walzip stands.
    fn answer(&self) -> String {
        let ranks = &self.ranks;
        let mut ranked = ranks.average.iter().filter(|row| row.rank.is_some());
        let (Some(first), Some(_)) = (ranked.next(), ranks.judged_by) else {
            return "Nothing can be ranked: see below.".to_owned();
        };
        let first_label = &self.rows[first.row].label;
        let spread = widest_in_words(ranks.scores.iter().filter_map(|score| score.spread));
        let walzips = ranks.average.iter();
        let walzips = walzips.filter(|average| self.rows[average.row].taker.is_walzip());
        let walzip = walzips.map(|row| {
            let label = &self.rows[row.row].label;
            format!("{:.1} have a better score than {label}", row.better)
        });
        let walzip: Vec<String> = walzip.collect();
        let walzip = match walzip.is_empty() {
            true => String::new(),
            false => format!("; on average {}", walzip.join(", and ")),
        };
        format!(
            "By time and size alike {first_label} is the best of {}, with an average rank of {} \
             over {}{walzip} ({}{spread}; what the loops do not tell apart is said below).",
            ranks.ranked,
            first.standing(),
            counted(self.data_sets.len(), "data set"),
            counted(self.settings.loops as usize, "loop")
        )
    }

    fn introduction(&self) -> Section {
        let section = Section::new("What was done").paragraph(format!(
            "{}: {} backed up with each method and level in turn; {} after {} to warm up, which is \
             restored. {}",
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
        let ranks = &self.ranks;
        let title = "Average ranks over the data sets";
        let section = self
            .how_ranked()
            .into_iter()
            .fold(Section::new(title), Section::warning);
        if ranks.judged_by.is_none() {
            return section.table(self.ranks_table());
        }
        let mut bars = Bars::new(format!("of {}", ranks.ranked), 1);
        for average in &ranks.average {
            let row = &self.rows[average.row];
            let published = row.published_rank.filter(|_| ranks.are_as_published());
            if average.rank.is_some() {
                bars.bar(&row.label, average.rank, published);
            }
        }
        section
            .paragraph(
                "Average ranks of the rows of pg_basebackup among each other; the shorter the better: \
                 1 is the best on every data set.",
            )
            .bars(bars)
            .paragraph(self.standings())
            .table(self.ranks_table())
            .note(self.published_note())
    }

    fn best(&self, by: Best) -> Section {
        let mut panels = Panels::default();
        for (index, data_set) in self.data_sets.iter().enumerate() {
            let mut bars = match by {
                Best::Fastest => Bars::new("s", 2).wall(),
                Best::Smallest => Bars::new("MB", 1),
            };
            let scores = self.ranks.of_data_set(index);
            let others = || scores.iter().filter(|score| score.rank.is_some());
            let best = others().min_by(|a, b| by.of(a).total_cmp(&by.of(b)));
            for score in &scores {
                let row = &self.rows[score.row];
                // What is best here, what was in the article, and walzip.
                let was_best = matches!(row.label.as_str(), "lz4:1" | "zstd:1" | "zstd:13");
                let is_best = best.is_some_and(|best| best.row == score.row);
                let is_ours = row.taker.is_walzip();
                if !row.taker.is_ranked() || was_best || is_best {
                    bars.of_runs(&row.label, self.over_loops(score, by), (is_ours, None));
                }
            }
            panels = panels.panel(data_set.name.as_str(), bars);
        }
        Section::new(format!("The {} of each data set", by.name()))
            .panels(panels)
            .table(self.best_table(by))
            .paragraph("As published, of other data; sizes are in units of 1024:")
            .table(Results::published_best_table(by))
            .note("Averages are over the methods and levels of pg_basebackup.")
    }

    /// The mean over the loops, as published, and from where to where they are: seconds or MB.
    fn over_loops(&self, score: &Score, by: Best) -> Option<Spread> {
        let of_score = |of: &&Measurement| (of.row, of.data_set) == (score.row, score.data_set);
        let measured = self.measurements.iter().filter(of_score);
        let (mean, loops) = match by {
            Best::Fastest => (
                score.seconds,
                spread(measured.map(|of| of.usage.wall.as_secs_f64())),
            ),
            Best::Smallest => (
                score.bytes / 1e6,
                spread(measured.map(|of| megabytes(of.bytes))),
            ),
        };
        loops.map(|loops| Spread {
            median: mean,
            ..loops
        })
    }

    /// Between which ranks walzip stands on each data set, at each of its levels.
    fn standings(&self) -> String {
        let rows = (0..self.rows.len()).filter(|&row| self.rows[row].taker.is_walzip());
        let standings: Vec<String> = rows.filter_map(|row| self.standing(row)).collect();
        match standings.is_empty() {
            true => "walzip backup was not measured.".to_owned(),
            false => standings.join(" "),
        }
    }

    fn standing(&self, row: usize) -> Option<String> {
        let scores = self.ranks.scores.iter().filter(|score| score.row == row);
        let of_data_sets: Vec<String> = scores
            .map(|score| {
                let of_data_set = self.ranks.of_data_set(score.data_set);
                let others = of_data_set.iter().filter(|score| score.rank.is_some());
                let standing = score.standing(others.count());
                format!("{standing} on {}", self.data_sets[score.data_set].name)
            })
            .collect();
        let label = &self.rows[row].label;
        (!of_data_sets.is_empty())
            .then(|| format!("{label} would stand {}.", of_data_sets.join(", ")))
    }

    fn data_set(&self, index: usize) -> Section {
        let data_set = &self.data_sets[index];
        let mut seconds = Bars::new("s", 2).wall();
        let mut sizes = Bars::new("MB", 1);
        for score in self.ranks.of_data_set(index) {
            let row = &self.rows[score.row];
            let is_ours = (row.taker.is_walzip(), None);
            seconds.of_runs(&row.label, self.over_loops(score, Best::Fastest), is_ours);
            sizes.of_runs(&row.label, self.over_loops(score, Best::Smallest), is_ours);
        }
        let mut both = Scatter::new("seconds", "MB").wall();
        for score in self.ranks.of_data_set(index) {
            let row = &self.rows[score.row];
            let place = (score.seconds, score.bytes / 1e6);
            both.point(&row.label, place, row.taker.is_walzip());
        }
        let size = data_set.bytes.map_or(String::new(), |bytes| {
            format!("; {:.0} MB in its databases", megabytes(bytes))
        });
        let section = Section::new(data_set.name.as_str())
            .note(format!("{}{size}", data_set.origin))
            .paragraph(
                "Size against wall time; the dashed line joins what no other is left of and below:",
            )
            .scatter(both)
            .paragraph("The best score first (what a rank is by is said above), means over loops:")
            .panels(
                Panels::default()
                    .panel("Wall time", seconds)
                    .panel("Size of the backup", sizes),
            )
            .table(self.scores_table(index));
        match self.restore_table(index) {
            Some(table) => section
                .paragraph("Wall time of making a data directory again, without recovery:")
                .bars(self.restore_bars(index))
                .table(table),
            None => section,
        }
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
