//! The results as a person reads them on a terminal.

use std::fmt;

use super::results::{Caches, Results};
use super::sets::Content;
use crate::text::{counted, megabytes, write_table};

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
        match &self.settings.caches {
            Caches::Cold => writeln!(f, "cold: the kernel forgot all files before each figure")?,
            Caches::Warm(reason) => writeln!(f, "warm: files may be in memory ({reason})")?,
        }
        for row in &self.rows {
            writeln!(
                f,
                "  {}: {} ({})",
                row.way, row.command, row.program.version
            )?;
        }
        Ok(())
    }

    fn sets_of(&self, content: Content) -> Vec<usize> {
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
        let with_published = content == Content::Zeros
            && sets
                .iter()
                .map(|set| self.sets[*set].segment_bytes >> 20)
                .eq(PUBLISHED_MEGABYTES);
        let mut table = vec![self.heads(&sets, with_published)];
        for row in 0..self.rows.len() {
            table.push(self.line(row, &sets, with_published));
        }
        write_table(f, &table)?;
        for set in sets {
            let set = &self.sets[set];
            writeln!(
                f,
                "{} MB: {}, {}",
                set.segment_bytes >> 20,
                counted(set.files, "file"),
                set.origin
            )?;
        }
        if with_published {
            writeln!(f, "published: {}.", self.published_source)?;
        }
        Ok(())
    }

    fn heads(&self, sets: &[usize], with_published: bool) -> Vec<String> {
        let mut heads = vec!["way".to_owned(), "on disk".to_owned()];
        for set in sets {
            heads.push(format!("{} MB", self.sets[*set].segment_bytes >> 20));
            heads.extend(["spread", "cpu s", "MB/s"].map(str::to_owned));
        }
        if sets.len() > 1 {
            heads.push("small/large".to_owned());
        }
        heads.push("stored MB".to_owned());
        if with_published {
            heads.extend(["published 16", "64 MB", "small/large"].map(str::to_owned));
        }
        heads
    }

    fn line(&self, row: usize, sets: &[usize], with_published: bool) -> Vec<String> {
        let of_row = &self.rows[row];
        let none = || "-".to_owned();
        let mut line = vec![
            of_row.way.to_owned(),
            match of_row.durable {
                true => "yes".to_owned(),
                false => "later".to_owned(),
            },
        ];
        for set in sets {
            match self.figures(row, *set) {
                Some(figures) => line.extend([
                    format!("{:.2}", figures.seconds),
                    figures
                        .spread
                        .map_or_else(none, |spread| format!("{:.0}%", spread * 100.0)),
                    format!("{:.2}", figures.cpu_seconds),
                    format!(
                        "{:.0}",
                        megabytes(self.sets[*set].bytes) / figures.seconds.max(1e-9)
                    ),
                ]),
                None => line.extend([none(), none(), none(), none()]),
            }
        }
        let first = sets.first().and_then(|set| self.figures(row, *set));
        let last = sets.last().and_then(|set| self.figures(row, *set));
        if sets.len() > 1 {
            line.push(first.zip(last).map_or_else(none, |(first, last)| {
                format!("{:.2}", first.seconds / last.seconds.max(1e-9))
            }));
        }
        line.push(last.map_or_else(none, |last| format!("{:.1}", megabytes(last.stored_bytes))));
        if with_published {
            let published = self.published.iter().find(|pair| pair.way == of_row.way);
            line.extend(published.map_or_else(
                || [none(), none(), none()],
                |pair| {
                    [
                        format!("{:.1}", pair.seconds_16),
                        format!("{:.1}", pair.seconds_64),
                        format!("{:.2}", pair.seconds_16 / pair.seconds_64),
                    ]
                },
            ));
        }
        line
    }

    fn write_remarks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nA process for each segment, wall time of all of them; \"on disk: later\": success is \
             reported before the segment is on the disk."
        )?;
        for failed in &self.failed {
            let (row, set) = (&self.rows[failed.row], &self.sets[failed.set]);
            let what = match failed.refused {
                true => "refuses",
                false => "FAILED on",
            };
            writeln!(
                f,
                "\n{} {what} {} of {} MB: {}",
                row.way,
                set.content.name(),
                set.segment_bytes >> 20,
                failed.reason
            )?;
        }
        for reason in &self.left_out {
            writeln!(f, "\n{reason}")?;
        }
        for resumed in &self.resumed {
            let taken = counted(resumed.measurements, "measurement");
            writeln!(
                f,
                "\n{taken} of an earlier run were taken over ({}).",
                resumed.date
            )?;
        }
        if let Some(load) = self.provenance.load_of_others() {
            let cpus = self.provenance.cpus;
            writeln!(
                f,
                "\nThe machine was busy before this began (load {load:.1} on {cpus} processors): \
                 do not trust the wall times."
            )?;
        }
        match &self.stopped {
            Some(reason) => writeln!(f, "\nIncomplete: {reason}."),
            None => Ok(()),
        }
    }
}
