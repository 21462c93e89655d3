//! The results as a person reads them on a terminal.

use std::fmt;
use std::time::Duration;

use super::published::TOTAL_BYTES;
use super::results::{Caches, Measurement, Results};
use super::{Content, Published, Set};
use crate::ending::write_ending;
use crate::report::{Cell, Table};
use crate::spread::spread;
use crate::text::{counted, megabytes};
use crate::usage::Usage;
use crate::verdict::{self, Comparison, Time, Told, too_few};

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
        if let Some(said) = self.settings.target() {
            writeln!(f, "{said}")?;
        }
        for row in &self.rows {
            writeln!(
                f,
                "  {}: {} ({})",
                row.method, row.command, row.program.version
            )?;
        }
        Ok(())
    }

    pub(super) fn sets_of(&self, content: Content) -> Vec<usize> {
        let sets = self.sets.iter().enumerate();
        sets.filter(|(_, set)| set.content == content)
            .map(|(index, _)| index)
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
        if let Some(table) = self.timed_table(content) {
            write!(f, "\nAs time printed it, and here:\n{table}")?;
        }
        if let Some(note) = self.published_note(content) {
            writeln!(f, "{note}")?;
        }
        Ok(())
    }

    /// Whether these are the contents and the sizes of the published figures: then their ratios
    /// compare.
    pub(super) fn is_as_published(&self, content: Content) -> bool {
        let sets = self.sets_of(content).into_iter();
        content == Content::Zeros
            && sets
                .map(|set| self.sets[set].segment_bytes >> 20)
                .eq(PUBLISHED_MEGABYTES)
    }

    /// Whether these are as many bytes too: then their seconds compare.
    pub(super) fn is_published_volume(&self, content: Content) -> bool {
        let sets = self.sets_of(content);
        let mut bytes = sets.into_iter().map(|set| self.sets[set].bytes);
        self.is_as_published(content) && bytes.all(|bytes| bytes == TOTAL_BYTES)
    }

    /// Where the published figures come from, and what of them compares.
    pub(super) fn published_note(&self, content: Content) -> Option<String> {
        let source = self.published_source;
        let same = self.is_published_volume(content);
        self.is_as_published(content).then(|| match same {
            true => format!("Published: {source}."),
            false => format!(
                "Published for {} MB, here {} MB: seconds do not compare, ratios do. {source}.",
                TOTAL_BYTES >> 20,
                self.settings.total_bytes >> 20
            ),
        })
    }

    /// What each method takes for some contents.
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
            if self.is_published_volume(content) {
                heads.extend(["published 16", "64 MB"].map(str::to_owned));
            }
            heads.push("published small/large".to_owned());
        }
        let sizes = sets
            .iter()
            .map(|set| format!("{} MB", self.sets[*set].segment_bytes >> 20));
        let mut table = Table::new(heads)
            .wall(sizes)
            .wall(["spread", "MB/s"])
            .empty("published small/large", "not published of both sizes");
        for (row, of_row) in self.rows.iter().enumerate() {
            let mut cells = vec![
                Cell::from(of_row.method),
                Cell::from(if of_row.durable { "yes" } else { "later" }),
            ];
            cells.extend(sets.iter().flat_map(|set| self.cells(row, *set)));
            cells.extend(self.comparison(row, &sets));
            if self.is_as_published(content) {
                let pair = self.published_pair(row);
                let small = pair.map(|pair| pair.of_16_mb.wall_s);
                let large = pair.and_then(|pair| Some(pair.of_64_mb?.wall_s));
                if self.is_published_volume(content) {
                    cells.push(Cell::number_or_none(small, 1));
                    cells.push(Cell::number_or_none(large, 1));
                }
                let ratio = small.zip(large).map(|(small, large)| small / large);
                cells.push(Cell::number_or_none(ratio, 2));
            }
            table.row_of(of_row.is_walzip(), cells);
        }
        table
    }

    pub(super) fn published_pair(&self, row: usize) -> Option<&Published> {
        let method = self.rows[row].method;
        self.published.iter().find(|pair| pair.method == method)
    }

    /// A method on a set.
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
        let last = sets.last().and_then(|set| self.figures(row, *set));
        let mut cells = Vec::new();
        if let [small, .., large] = sets {
            cells.push(self.small_to_large(row, *small, *large));
        }
        let stored = last.map(|last| megabytes(last.stored_bytes));
        cells.push(Cell::number_or_none(stored, 1));
        cells
    }

    /// What `time` printed for the published loops, beside the same here: only of as many bytes.
    pub(super) fn timed_table(&self, content: Content) -> Option<Table> {
        if !self.is_published_volume(content) {
            return None;
        }
        let mut table = Table::new([
            "way",
            "segments",
            "published real s",
            "user s",
            "sys s",
            "here real s",
            "user s",
            "sys s",
        ])
        .wall(["here real s"]);
        for row in 0..self.rows.len() {
            for set in self.sets_of(content) {
                let megabytes = self.sets[set].segment_bytes >> 20;
                let published = self
                    .published_pair(row)
                    .and_then(|pair| pair.timed(megabytes));
                let Some(published) = published else {
                    continue;
                };
                let here = |time: fn(&Usage) -> Duration| {
                    let of_pair =
                        |measured: &&Measurement| (measured.row, measured.set) == (row, set);
                    let measured = self.measurements.iter().filter(of_pair);
                    let seconds = measured.map(|measured| time(&measured.usage).as_secs_f64());
                    Cell::number_or_none(spread(seconds).map(|of| of.median), 2)
                };
                table.row([
                    Cell::from(self.rows[row].method),
                    Cell::said(megabytes as f64, format!("{megabytes} MB")),
                    Cell::number(published.wall_s, 3),
                    Cell::number(published.user_s, 3),
                    Cell::number(published.system_s, 3),
                    here(|usage| usage.wall),
                    here(|usage| usage.user),
                    here(|usage| usage.system),
                ]);
            }
        }
        Some(table)
    }

    /// The time that small segments take beside that of large ones.
    pub(super) fn compare(&self, row: usize, small: usize, large: usize) -> Option<Comparison> {
        let seconds = |set| -> Vec<f64> {
            let of_pair = |measured: &&Measurement| (measured.row, measured.set) == (row, set);
            let measured = self.measurements.iter().filter(of_pair);
            measured
                .map(|measured| match self.provenance.judged_by() {
                    Time::Wall => measured.usage.wall.as_secs_f64(),
                    Time::Processor => measured.usage.cpu().as_secs_f64(),
                })
                .collect()
        };
        verdict::compare(&seconds(small), &seconds(large))
    }

    /// How many times as long small segments take, if the runs tell.
    pub(super) fn small_to_large(&self, row: usize, small: usize, large: usize) -> Cell {
        let Some(compared) = self.compare(row, small, large) else {
            return Cell::none();
        };
        let ratio = compared.ratio;
        match compared.told {
            Told::NotDistinguishable => Cell::said(ratio, format!("{ratio:.2} (within spread)")),
            Told::Less | Told::More | Told::TooFewRuns => Cell::number(ratio, 2),
        }
    }

    /// What the figures cannot tell.
    pub(super) fn doubts(&self) -> Vec<String> {
        let busy = self.provenance.load_of_others().map(|load| {
            format!(
                "The machine was busy before this began (load {load:.1}): small/large is of \
                 processor time, without what an SSH server took."
            )
        });
        busy.into_iter()
            .chain(too_few(self.settings.runs))
            .collect()
    }

    fn write_remarks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nA process for each segment, wall time of all of them; \"on disk: later\": success is \
             reported before the segment is on the disk."
        )?;
        for doubt in self.doubts() {
            writeln!(f, "\n{doubt}")?;
        }
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
                self.rows[failed.row].method,
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

#[cfg(test)]
mod tests {
    use super::super::methods::Method;
    use super::super::results::{Row, Settings};
    use super::*;
    use crate::provenance::Program;
    use crate::provenance::Provenance;

    /// scp of 16 and of 64 MB, so many of all, with the seconds of each run.
    fn results(total_bytes: u64, small: &[f64], large: &[f64]) -> Results {
        results_of("scp", total_bytes, small, large)
    }

    /// The same of any method.
    fn results_of(method: &str, total_bytes: u64, small: &[f64], large: &[f64]) -> Results {
        let set = |segment_bytes: u64| Set {
            content: Content::Zeros,
            segment_bytes,
            files: (total_bytes / segment_bytes) as usize,
            bytes: total_bytes,
            origin: String::new(),
            blake3: String::new(),
            genuine: false,
            sources: Vec::new(),
        };
        let settings = Settings {
            target_file_system: None,
            target_host: None,
            target_store: None,
            total_bytes,
            runs: small.len() as u32,
            quick: true,
            caches: Caches::Cold,
        };
        let program = Program {
            name: method.to_owned(),
            package: String::new(),
            version: "1".to_owned(),
            blake3: String::new(),
        };
        let provenance = Provenance {
            load_average_before: Some(0.0),
            ..Provenance::gather(None)
        };
        let rows = vec![Row::new(Method::named(method).unwrap(), program)];
        let sets = vec![set(16 << 20), set(64 << 20)];
        let mut results = Results::new(provenance, settings, sets, rows, Vec::new());
        for (set, seconds) in [small, large].into_iter().enumerate() {
            for (run, seconds) in (1..).zip(seconds) {
                let wall = Duration::from_secs_f64(*seconds);
                results.measurements.push(Measurement {
                    row: 0,
                    set,
                    run,
                    usage: Usage {
                        wall,
                        ..Usage::default()
                    },
                    stored_bytes: total_bytes,
                });
            }
        }
        results.summarise();
        results
    }

    #[test]
    fn published_seconds_stand_only_beside_seconds_of_the_same_volume() {
        let same = results(1600 << 20, &[2.0], &[1.0]);
        let (text, page) = (same.to_string(), same.page());
        assert!(text.contains("171.7") && page.contains("171.708"), "{text}");
        let squeezed: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let timed = "scp 64 MB 83.326 10.353 30.814 1.00 0.00 0.00";
        assert!(squeezed.iter().any(|line| line == timed), "{text}");
        assert!(page.contains("30.814"), "{page}");
        let less = results(128 << 20, &[2.0], &[1.0]);
        let (text, page) = (less.to_string(), less.page());
        assert!(!text.contains("171.7") && !page.contains("171.7"), "{text}");
        assert!(
            !text.contains("30.814") && !page.contains("30.814"),
            "{text}"
        );
        assert!(text.contains("2.06") && page.contains("2.06"), "{text}");
        let said = "Published for 1600 MB, here 128 MB: seconds do not compare, ratios do.";
        assert!(text.contains(said) && page.contains(said), "{text}");
    }

    #[test]
    fn a_loop_that_copied_other_files_is_no_published_figure() {
        let cp = results_of("cp", 1600 << 20, &[2.0], &[1.0]);
        let (text, page) = (cp.to_string(), cp.page());
        let line = text.lines().find(|line| line.starts_with("cp ")).unwrap();
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert!(cells.ends_with(&["17.4", "-", "-"]), "{line}");
        assert!(
            page.contains("17.444") && !page.contains("5.40 s"),
            "{page}"
        );
        assert!(text.contains("cp of 64 MB has no figure"), "{text}");
    }

    #[test]
    fn a_ratio_within_the_spread_says_so_and_one_run_proves_nothing() {
        let told = |small: &[f64], large: &[f64]| results(128 << 20, small, large).to_string();
        let near = told(&[1.0, 1.2, 1.4], &[0.9, 1.1, 1.3]);
        assert!(near.contains("1.09 (within spread)"), "{near}");
        let far = told(&[2.0, 2.1, 2.2], &[0.9, 1.1, 1.3]);
        assert!(
            far.contains("1.91") && !far.contains("within spread"),
            "{far}"
        );
        assert!(
            told(&[2.0], &[1.0])
                .contains("One run: differences in time below 4 times prove nothing")
        );
    }
}
