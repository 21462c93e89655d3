//! The results as a person reads them on a terminal.

use std::fmt;

use super::results::{Kept, Results};
use crate::ending::write_ending;
use crate::report::{Cell, Table};
use crate::text::{counted, megabytes};

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(answer) = self.answer() {
            writeln!(f, "{answer}\n")?;
        }
        writeln!(
            f,
            "{} of {} MB of PostgreSQL {}, walzip -{}, once",
            counted(self.wal.segments, "segment"),
            self.wal.segment_bytes >> 20,
            self.wal.major,
            self.settings.level
        )?;
        writeln!(f, "{}", self.provenance.machine())?;
        for row in &self.rows {
            writeln!(f, "  {}: {} ({})", row.label, row.command, row.version)?;
        }
        writeln!(f)?;
        write!(f, "{}", self.table())?;
        for failure in self.failures() {
            writeln!(f, "\n{failure}")?;
        }
        write_ending(f, &[], &[], &self.provenance, &self.stopped)
    }
}

impl Results {
    /// The experiment in a sentence.
    pub(super) fn answer(&self) -> Option<String> {
        let packs = self.smallest()?;
        let single = self.rows.iter().position(|row| row.kept == Kept::Single)?;
        let single = self.figures(single)?;
        let label = &self.rows[packs.row].label;
        let of_single = packs.stored_bytes as f64 / single.stored_bytes.max(1) as f64;
        Some(format!(
            "Segments take {:.3} of zstd -3 in {label}, and {of_single:.2} of what each takes by \
             itself; one out of a pack is got in {:.2} s in the median, and at most in {:.2} s (measured \
             once).",
            self.of_first(packs)?,
            packs.get_median_s()?,
            packs.get_longest_s()?
        ))
    }

    /// What each way takes.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new([
            "kept as",
            "MB",
            "of zstd -3",
            "files",
            "make cpu ms",
            "make memory MB",
            "decode cpu ms",
            "get ms",
            "longest ms",
            "get memory MB",
        ]);
        let ms = |seconds: Option<f64>| Cell::number_or_none(seconds.map(|s| s * 1e3), 0);
        for (row, of_row) in self.rows.iter().enumerate() {
            let mut cells = vec![Cell::from(&*of_row.label)];
            cells.extend(match self.figures(row) {
                None => vec![Cell::none(); 9],
                Some(figures) => vec![
                    Cell::number(megabytes(figures.stored_bytes), 2),
                    Cell::number_or_none(self.of_first(figures), 3),
                    Cell::number(figures.files as f64, 0),
                    ms(Some(figures.make_cpu_s)),
                    Cell::number(megabytes(figures.make_peak_memory_bytes), 0),
                    ms(Some(figures.decode_cpu_s)),
                    ms(figures.get_median_s()),
                    ms(figures.get_longest_s()),
                    Cell::number(megabytes(figures.get_peak_memory_bytes), 0),
                ],
            });
            table.row_of(of_row.kept != Kept::Zstd, cells);
        }
        table
    }

    /// What went wrong, in words.
    pub(super) fn failures(&self) -> impl Iterator<Item = String> {
        self.failed.iter().map(|failed| {
            let label = &self.rows[failed.row].label;
            format!("{label} FAILED: {}", failed.reason)
        })
    }
}
