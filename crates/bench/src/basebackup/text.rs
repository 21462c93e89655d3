//! The results as a person reads them on a terminal.

use std::fmt;

use super::published::{PUBLISHED_SETS, PublishedBackup, PublishedSet};
use super::ranks::Score;
use super::results::Results;
use crate::ending::write_ending;
use crate::report::{Cell, Table};
use crate::text::{counted, megabytes};
use crate::verdict::{Time, too_few};

/// What the columns mean, and what is not alike.
pub(super) const EXPLANATION: [&str; 2] = [
    "score: time relative to pg_basebackup's shortest plus size relative to its smallest, so 2 is \
     the best that one of its rows can have.\nrank: among the rows of pg_basebackup; walzip and \
     pgBackRest, which were not among those that were published, stand between two.\nwithin spread: \
     the ranks that the ranges over the loops allow, for those two how many can be before them.\ncpu \
     s: client and server together.",
    "pg_basebackup compresses in the server and leaves the WAL out;\npgBackRest compresses in two \
     processes of its own, syncs what it stores, and is told not to wait for the WAL;\nwalzip \
     compresses in the client, syncs what it stores, and waits until the WAL of the backup is \
     archived.\nrestored from: a data directory made again, by tar and the method's program, or by \
     walzip or pgBackRest, which also sync and check it; recovery is in none.",
];

/// Why there is no rank.
const BUSY: &str = "the machine was busy: wall times are not ranked";

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        for data_set in 0..self.data_sets.len() {
            self.write_data_set(f, data_set)?;
        }
        for by in Best::ALL {
            writeln!(f, "\nThe {} of each data set:", by.name())?;
            write!(f, "{}", self.best_table(by))?;
            writeln!(f, "\nAs published, of other data:")?;
            write!(f, "{}", Results::published_best_table(by))?;
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

    fn write_data_set(&self, f: &mut fmt::Formatter<'_>, data_set_index: usize) -> fmt::Result {
        let data_set = &self.data_sets[data_set_index];
        let size = data_set.bytes.map_or(String::new(), |bytes| {
            format!(", {:.1} MB in its databases", megabytes(bytes))
        });
        writeln!(f, "\n{} ({}{size}):", data_set.name, data_set.origin)?;
        write!(f, "{}", self.scores_table(data_set_index))?;
        match self.restore_table(data_set_index) {
            Some(table) => write!(f, "\n{table}"),
            None => Ok(()),
        }
    }

    fn write_ranks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nAverage ranks over the data sets:")?;
        write!(f, "{}", self.ranks_table())?;
        writeln!(f, "\n{}\n{}", EXPLANATION[0], EXPLANATION[1])?;
        for line in self.how_ranked() {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "{}", self.published_note())
    }

    /// What ranks cannot tell.
    pub(super) fn how_ranked(&self) -> Vec<String> {
        let busy = match self.ranks.judged_by {
            Some(Time::Wall) => None,
            Some(Time::Processor) => Some(
                "The machine was busy: scores and ranks are by processor time, where those that \
                 were published are by wall time.",
            ),
            None => Some(
                "The machine was busy, and the processor time of a server is not known: there are \
                 no ranks.",
            ),
        };
        let busy = busy.map(str::to_owned);
        busy.into_iter()
            .chain(too_few(self.settings.loops))
            .collect()
    }

    /// Where the published ranks come from, and how much was backed up here.
    pub(super) fn published_note(&self) -> String {
        let bytes: u64 = self.data_sets.iter().filter_map(|of| of.bytes).sum();
        let here = format!(
            "Published: {}. Here: {} of {:.0} MB together",
            self.published_source,
            counted(self.data_sets.len(), "data set"),
            megabytes(bytes)
        );
        match self.ranks.are_as_published() {
            true => format!("{here}."),
            false => format!(
                "{here}; the published ranks are among 12 rows, so they do not stand beside these."
            ),
        }
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
        let ranked = self.ranks.of_data_set(data_set);
        let others = ranked.iter().filter(|score| score.rank.is_some()).count();
        let rank = format!("rank of {others}");
        let heads = ["backup", "seconds", "spread", "cpu s", "MB", "score"];
        let heads = heads.into_iter().chain([&*rank, "within spread"]);
        let mut table = Table::new(heads)
            .wall(["seconds", "spread"])
            .empty(&*rank, BUSY)
            .empty(
                "within spread",
                "the machine was busy, or there were too few loops",
            )
            .empty("cpu s", "the server does not tell");
        for score in ranked {
            let row = &self.rows[score.row];
            let [rank, within] = match self.ranks.judged_by {
                Some(_) => [
                    Cell::said(score.order(), score.standing(others)),
                    within_spread(score),
                ],
                None => [Cell::none(), Cell::none()],
            };
            let cells = vec![
                Cell::from(row.label.as_str()),
                Cell::number(score.seconds, 2),
                Cell::percent(score.spread),
                Cell::number_or_none(score.cpu_seconds, 2),
                Cell::number(score.bytes / 1e6, 1),
                Cell::number(score.score, 2),
                rank,
                within,
            ];
            table.row_of(row.taker.is_walzip(), cells);
        }
        table
    }

    /// All backups, the best first, beside what was published of as many.
    pub(super) fn ranks_table(&self) -> Table {
        let rank = format!("rank of {}", self.ranks.ranked);
        let mut heads = vec!["backup", "score", &rank];
        let as_published = self.ranks.are_as_published();
        if as_published {
            heads.push("published (of 12)");
        }
        let mut table = Table::new(heads).empty(&*rank, BUSY);
        for average in &self.ranks.average {
            let row = &self.rows[average.row];
            let rank = match self.ranks.judged_by {
                Some(_) => Cell::said(average.order(), average.standing()),
                None => Cell::none(),
            };
            let mut cells = vec![
                Cell::from(row.label.as_str()),
                Cell::number(average.score, 2),
                rank,
            ];
            if as_published {
                cells.push(Cell::number_or_none(row.published_rank, 1));
            }
            table.row_of(row.taker.is_walzip(), cells);
        }
        table
    }

    /// Of each data set the backup that is best by one measure, beside the averages of all twelve.
    pub(super) fn best_table(&self, by: Best) -> Table {
        let published: Vec<Option<PublishedBackup>> = self
            .data_sets
            .iter()
            .map(|set| Some(by.published(PublishedSet::same_as(&set.name, set.bytes)?)))
            .collect();
        let mut heads = vec![
            "data set",
            by.name(),
            "seconds",
            "average s",
            "MB",
            "average MB",
            "best of walzip",
            "seconds",
            "MB",
        ];
        // Only where the same data were measured.
        let is_published = published.iter().any(Option::is_some);
        heads.extend(
            is_published
                .then_some(["published s", "published size"])
                .into_iter()
                .flatten(),
        );
        let mut table = Table::new(heads).wall(["seconds", "average s"]);
        for (index, data_set) in self.data_sets.iter().enumerate() {
            let scores = self.ranks.of_data_set(index);
            let of = |walzip: bool| {
                let rows = scores.iter().copied();
                let of_kind = move |score: &&Score| {
                    let taker = &self.rows[score.row].taker;
                    if walzip {
                        taker.is_walzip()
                    } else {
                        taker.is_ranked()
                    }
                };
                rows.filter(of_kind)
            };
            let best = |walzip| of(walzip).min_by(|a, b| by.of(a).total_cmp(&by.of(b)));
            let Some(first) = best(false) else {
                continue;
            };
            let count = of(false).count() as f64;
            let mean = |value: fn(&Score) -> f64| of(false).map(value).sum::<f64>() / count;
            let ours = best(true);
            let mut cells = vec![
                Cell::from(data_set.name.as_str()),
                Cell::from(self.rows[first.row].label.as_str()),
                Cell::number(first.seconds, 2),
                Cell::number(mean(|score| score.seconds), 2),
                Cell::number(first.bytes / 1e6, 1),
                Cell::number(mean(|score| score.bytes) / 1e6, 1),
                ours.map_or_else(Cell::none, |ours| {
                    Cell::from(self.rows[ours.row].label.as_str()).ours()
                }),
                Cell::number_or_none(ours.map(|ours| ours.seconds), 2),
                Cell::number_or_none(ours.map(|ours| ours.bytes / 1e6), 1),
            ];
            if is_published {
                let backup = published[index];
                cells.push(Cell::number_or_none(backup.map(|of| of.seconds), 1));
                cells.push(backup.map_or_else(Cell::none, |of| Cell::from(of.size)));
            }
            table.row(cells);
        }
        table
    }

    /// The same as it was published, of other data sets of the same names at most.
    pub(super) fn published_best_table(by: Best) -> Table {
        let mut table = Table::new([
            "published data set",
            by.name(),
            "seconds",
            "average s",
            "size",
            "average size",
        ]);
        for set in PUBLISHED_SETS {
            let backup = by.published(set);
            table.row([
                Cell::from(format!("{} ({} GB)", set.name, set.gigabytes)),
                Cell::from(format!("{}:{}", backup.method, backup.level)),
                Cell::number(backup.seconds, 1),
                Cell::number(set.average_seconds, 1),
                Cell::from(backup.size),
                Cell::from(set.average_size),
            ]);
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

/// By which measure a backup is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Best {
    Fastest,
    Smallest,
}

impl Best {
    pub(super) const ALL: [Best; 2] = [Best::Fastest, Best::Smallest];

    pub(super) fn name(self) -> &'static str {
        match self {
            Best::Fastest => "fastest",
            Best::Smallest => "smallest",
        }
    }

    /// What was published of a data set.
    fn published(self, set: &PublishedSet) -> PublishedBackup {
        match self {
            Best::Fastest => set.fastest,
            Best::Smallest => set.smallest,
        }
    }

    pub(super) fn of(self, score: &Score) -> f64 {
        match self {
            Best::Fastest => score.seconds,
            Best::Smallest => score.bytes,
        }
    }
}

/// Ranks that the loops allow, or how many may be before walzip.
fn within_spread(score: &Score) -> Cell {
    let Some([least, most]) = score.better_within_spread else {
        return Cell::none();
    };
    let of_rank = usize::from(score.rank.is_some());
    let (first, last) = (least + of_rank, most + of_rank);
    let ranks = match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    match score.rank {
        Some(_) => Cell::said(first as f64, ranks),
        None => Cell::said(first as f64, format!("behind {ranks}")),
    }
}
