//! The results as a person reads them on a terminal.

use std::fmt;

use super::methods::Taker;
use super::results::Results;
use crate::report::{Cell, Table};
use crate::text::{counted, megabytes, write_ending};

/// What the columns mean, and what is not alike.
pub(super) const EXPLANATION: [&str; 2] = [
    "score: time relative to the shortest plus size relative to the smallest, so 2 is the best \
     there is.\ncpu s: client and server together.",
    "pg_basebackup compresses in the server and leaves the WAL out;\nwalzip compresses in the \
     client, syncs what it stores, and waits until the WAL of the backup is archived.",
];

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        for data_set in 0..self.data_sets.len() {
            self.write_data_set(f, data_set)?;
        }
        self.write_ranks(f)?;
        self.write_remarks(f)
    }
}

impl Results {
    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}, {}; {} after {} to warm up{}",
            counted(self.rows.len(), "row"),
            counted(self.data_sets.len(), "data set"),
            counted(self.settings.loops as usize, "loop"),
            counted(self.settings.warm_ups as usize, "loop"),
            match self.settings.quick {
                true => "; quick: little data, some of the levels",
                false => "",
            }
        )?;
        writeln!(f, "{}", self.provenance.machine())?;
        let mut versions: Vec<&str> = self.rows.iter().map(|row| &*row.program.version).collect();
        versions.push(&self.server.version);
        versions.dedup();
        for version in versions {
            writeln!(f, "  {version}")?;
        }
        writeln!(f, "throw-away servers: {}", self.settings.servers)
    }

    fn write_data_set(&self, f: &mut fmt::Formatter<'_>, place: usize) -> fmt::Result {
        let data_set = &self.data_sets[place];
        let size = data_set.bytes.map_or(String::new(), |bytes| {
            format!(", {:.1} MB in its databases", megabytes(bytes))
        });
        writeln!(f, "\n{} ({}{size}):", data_set.name, data_set.origin)?;
        write!(f, "{}", self.scores_table(place))
    }

    fn write_ranks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nAverage ranks over the data sets:")?;
        write!(f, "{}", self.ranks_table())?;
        writeln!(
            f,
            "\n{}\n{}\npublished: {}.",
            EXPLANATION[0], EXPLANATION[1], self.published_source
        )
    }

    fn write_remarks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

    /// The backups of a data set, the best first.
    pub(super) fn scores_table(&self, data_set: usize) -> Table {
        let mut table = Table::new([
            "backup", "seconds", "spread", "cpu s", "MB", "score", "rank",
        ]);
        for score in self.ranks.of_data_set(data_set) {
            let row = &self.rows[score.row];
            let cells = vec![
                Cell::from(row.label.as_str()),
                Cell::number(score.seconds, 2),
                Cell::percent(score.spread),
                Cell::number_or_none(score.cpu_seconds, 2),
                Cell::number(score.bytes / 1e6, 1),
                Cell::number(score.score, 2),
                Cell::number(score.rank as f64, 0),
            ];
            table.row_of(row.taker == Taker::Walzip, cells);
        }
        table
    }

    /// All backups, the best first, beside what was published.
    pub(super) fn ranks_table(&self) -> Table {
        let mut table = Table::new(["backup", "score", "rank", "without walzip", "published"]);
        for average in &self.ranks.average {
            let row = &self.rows[average.row];
            let cells = vec![
                Cell::from(row.label.as_str()),
                Cell::number(average.score, 2),
                Cell::number(average.rank, 1),
                Cell::number_or_none(average.rank_without_walzip, 1),
                Cell::number_or_none(row.published_rank, 1),
            ];
            table.row_of(row.taker == Taker::Walzip, cells);
        }
        table
    }

    /// What failed, in words; what the server cannot do is said otherwise.
    pub(super) fn failures(&self) -> impl Iterator<Item = String> {
        let failed = self.failed.iter().filter(|failed| !failed.unsupported);
        failed.map(|failed| {
            let (row, data_set) = (&self.rows[failed.row], &self.data_sets[failed.data_set]);
            format!(
                "{} FAILED on {}: {}",
                row.label, data_set.name, failed.reason
            )
        })
    }
}
