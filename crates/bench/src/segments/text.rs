//! The results as a person reads them on a terminal.

use std::fmt;

use super::results::{Caches, Results};
use super::{Content, Published, Set};
use crate::report::{Cell, Table};
use crate::text::{counted, megabytes, write_ending};

/// The sizes of the published figures.
const PUBLISHED_MEGABYTES: [u64; 2] = [16, 64];

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        for content in [Content::Zeros, Content::Wal] {
            self.write_content(f, content)?;
        }
        self.write_remarks(f)
    }
}

impl Results {
    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}, {} of {} MB each, {}, interleaved{}",
            counted(self.rows.len(), "way"),
            counted(self.sets.len(), "set"),
            self.settings.total_bytes >> 20,
            counted(self.settings.runs as usize, "run"),
            match self.settings.quick {
                true => "; quick: little data",
                false => "",
            }
        )?;
        writeln!(f, "{}", self.provenance.machine())?;
        writeln!(f, "{}", self.settings.caches)?;
        for row in &self.rows {
            writeln!(
                f,
                "  {}: {} ({})",
                row.way, row.command, row.program.version
            )?;
        }
        Ok(())
    }

    pub(super) fn sets_of(&self, content: Content) -> Vec<usize> {
        let sets = self.sets.iter().enumerate();
        sets.filter(|(_, set)| set.content == content)
            .map(|(place, _)| place)
            .collect()
    }

    fn write_content(&self, f: &mut fmt::Formatter<'_>, content: Content) -> fmt::Result {
        let sets = self.sets_of(content);
        if sets.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nSeconds to archive {}:", content.name())?;
        write!(f, "{}", self.table(content))?;
        for set in sets {
            writeln!(f, "{}", self.sets[set])?;
        }
        if self.is_as_published(content) {
            writeln!(f, "published: {}.", self.published_source)?;
        }
        Ok(())
    }

    /// Whether these are the contents and the sizes of the published figures.
    pub(super) fn is_as_published(&self, content: Content) -> bool {
        let sets = self.sets_of(content).into_iter();
        content == Content::Zeros
            && sets
                .map(|set| self.sets[set].segment_bytes >> 20)
                .eq(PUBLISHED_MEGABYTES)
    }

    /// What each way takes for some contents.
    pub(super) fn table(&self, content: Content) -> Table {
        let sets = self.sets_of(content);
        let mut heads = vec!["way".to_owned(), "on disk".to_owned()];
        for set in &sets {
            heads.push(format!("{} MB", self.sets[*set].segment_bytes >> 20));
            heads.extend(["spread", "cpu s", "MB/s"].map(str::to_owned));
        }
        if sets.len() > 1 {
            heads.push("small/large".to_owned());
        }
        heads.push("stored MB".to_owned());
        if self.is_as_published(content) {
            heads.extend(["published 16", "64 MB", "small/large"].map(str::to_owned));
        }
        let mut table = Table::new(heads);
        for (row, of_row) in self.rows.iter().enumerate() {
            let mut cells = vec![
                Cell::from(of_row.way),
                Cell::from(if of_row.durable { "yes" } else { "later" }),
            ];
            cells.extend(sets.iter().flat_map(|set| self.cells(row, *set)));
            cells.extend(self.comparison(row, &sets));
            if self.is_as_published(content) {
                let pair = self.published_pair(row);
                let small = pair.map(|pair| pair.seconds_16);
                let large = pair.and_then(|pair| pair.seconds_64);
                let ratio = small.zip(large).map(|(small, large)| small / large);
                cells.push(Cell::number_or_none(small, 1));
                cells.push(Cell::number_or_none(large, 1));
                cells.push(Cell::number_or_none(ratio, 2));
            }
            table.row_of(of_row.is_walzip(), cells);
        }
        table
    }

    pub(super) fn published_pair(&self, row: usize) -> Option<&Published> {
        let way = self.rows[row].way;
        self.published.iter().find(|pair| pair.way == way)
    }

    /// A way on a set.
    fn cells(&self, row: usize, set: usize) -> [Cell; 4] {
        let Some(figures) = self.figures(row, set) else {
            return [0; 4].map(|_| Cell::none());
        };
        let rate = megabytes(self.sets[set].bytes) / figures.seconds.max(1e-9);
        [
            Cell::number(figures.seconds, 2),
            Cell::percent(figures.spread),
            Cell::number(figures.cpu_seconds, 2),
            Cell::number(rate, 0),
        ]
    }

    /// The smallest segments against the largest.
    fn comparison(&self, row: usize, sets: &[usize]) -> Vec<Cell> {
        let first = sets.first().and_then(|set| self.figures(row, *set));
        let last = sets.last().and_then(|set| self.figures(row, *set));
        let mut cells = Vec::new();
        if sets.len() > 1 {
            let ratio = first
                .zip(last)
                .map(|(first, last)| first.seconds / last.seconds.max(1e-9));
            cells.push(Cell::number_or_none(ratio, 2));
        }
        let stored = last.map(|last| megabytes(last.stored_bytes));
        cells.push(Cell::number_or_none(stored, 1));
        cells
    }

    fn write_remarks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nA process for each segment, wall time of all of them; \"on disk: later\": success is \
             reported before the segment is on the disk."
        )?;
        for failure in self.failures() {
            writeln!(f, "\n{failure}")?;
        }
        write_ending(
            f,
            &self.left_out,
            &self.resumed,
            &self.provenance,
            &self.stopped,
        )
    }

    /// What was not archived, in words.
    pub(super) fn failures(&self) -> impl Iterator<Item = String> {
        self.failed.iter().map(|failed| {
            let what = match failed.refused {
                true => "refuses",
                false => "FAILED on",
            };
            let set = &self.sets[failed.set];
            format!(
                "{} {what} {} of {} MB: {}",
                self.rows[failed.row].way,
                set.content.name(),
                set.segment_bytes >> 20,
                failed.reason
            )
        })
    }
}

impl fmt::Display for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caches::Cold => f.write_str("cold: the kernel forgot all files before each figure"),
            Caches::Warm(reason) => write!(f, "warm: files may be in memory ({reason})"),
        }
    }
}

/// What it is made of.
impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} MB: {}, {}",
            self.segment_bytes >> 20,
            counted(self.files, "file"),
            self.origin
        )
    }
}
