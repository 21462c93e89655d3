//! The results as a person reads them on a terminal.

use std::fmt;

use super::results::{Action, Missing, Results};
use crate::ending::write_ending;
use crate::report::{Cell, Table};
use crate::text::{counted, megabytes};
use crate::verdict::too_few;

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} of {} MB, {}, interleaved{}",
            counted(self.wal.segments, "segment"),
            self.wal.segment_bytes >> 20,
            counted(self.settings.runs as usize, "run"),
            match self.settings.quick {
                true => "; quick: few segments",
                false => "",
            }
        )?;
        writeln!(f, "{}", self.provenance.machine())?;
        for row in &self.rows {
            let version = &row.program.version;
            writeln!(f, "  {}: {} ({version})", row.archiver, row.command)?;
        }
        for action in Action::ALL {
            writeln!(f, "\n{}:", self.title(action))?;
            write!(f, "{}", self.table(action))?;
        }
        for doubt in too_few(self.settings.runs)
            .into_iter()
            .chain(self.failures())
        {
            writeln!(f, "\n{doubt}")?;
        }
        write_ending(f, &[], &self.resumed, &self.provenance, &self.stopped)
    }
}

impl Results {
    /// What a table of an action shows.
    pub(super) fn title(&self, action: Action) -> String {
        match action {
            Action::Push => "Push: a call for each segment".to_owned(),
            Action::Get => "Get: a call for each segment, one after the other".to_owned(),
            Action::Replay => format!(
                "Get for a replay: {} ms between the calls",
                self.settings.replay_ms
            ),
        }
    }

    /// What each archiver takes for an action, and what is not installed.
    pub(super) fn table(&self, action: Action) -> Table {
        let mut heads = vec![
            "archiver",
            "ms/segment",
            "spread",
            "ratio",
            "longest ms",
            "cpu ms",
        ];
        let stores = action == Action::Push;
        if stores {
            heads.extend(["stored MB", "smaller by"]);
        }
        let columns = heads.len();
        let first = (0..self.rows.len()).find_map(|row| self.figures(row, action));
        let first = first.map(|figures| figures.segment_s);
        let mut table = Table::new(heads).wall(["ms/segment", "ratio", "longest ms"]);
        for (row, of_row) in self.rows.iter().enumerate() {
            let mut cells = vec![Cell::from(of_row.archiver)];
            let figures = self.figures(row, action);
            let ms = |seconds: f64| Cell::number(seconds * 1e3, 1);
            cells.extend(match figures {
                None => vec![Cell::none(); 5],
                Some(figures) => vec![
                    ms(figures.segment_s),
                    Cell::percent(figures.spread),
                    Cell::number_or_none(first.map(|first| figures.segment_s / first), 2),
                    ms(figures.longest_s),
                    ms(figures.segment_cpu_s),
                ],
            });
            if stores {
                let stored = figures.map(|figures| figures.stored_bytes);
                let times = stored.map(|stored| self.wal.bytes as f64 / stored.max(1) as f64);
                cells.push(Cell::number_or_none(stored.map(megabytes), 1));
                cells.push(times.map_or_else(Cell::none, |times| {
                    Cell::said(times, format!("{times:.2}x"))
                }));
            }
            table.row_of(of_row.is_walzip(), cells);
        }
        for missing in &self.missing {
            let mut cells = vec![Cell::from(missing.archiver)];
            cells.resize(columns - 1, Cell::none());
            cells.push(Cell::from(&*missing.reason));
            table.row(cells);
        }
        table
    }

    /// What went wrong, in words.
    pub(super) fn failures(&self) -> impl Iterator<Item = String> {
        self.failed.iter().map(|failed| {
            let archiver = self.rows[failed.row].archiver;
            let action = failed.action.name();
            format!("{archiver} FAILED to {action}: {}", failed.reason)
        })
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.archiver, self.reason)
    }
}
