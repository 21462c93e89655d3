//! The results as a person reads them on a terminal.

use std::fmt;

use super::estimate::Estimate;
use super::published::{
    BY_BOTH, BY_PROGRAM, BY_SERVER, INSERTS, LOAD, PLAIN, READERS_ROWS, TRANSACTIONS, UPDATES,
};
use super::{Results, Stage};
use crate::ending::{quick_look, write_gaps};
use crate::report::{Cell, Table};
use crate::server::{Phase, Replication};
use crate::text::counted;
use crate::verdict::{Comparison, Told, too_few};

/// How the figures of a standby are to be read.
pub(super) const REPLICATION: &str = "received: WAL by its positions, without the protocol's own bytes. lag: the most that was seen, five \
     looks a second.\nThe standby shares the processors with its primary: times of steps are longer than without it.";

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        for stage in Stage::ALL {
            self.write_stage(f, stage)?;
        }
        if self.work.standby {
            writeln!(f, "\nWhat a standby received, and how far behind it was:")?;
            write!(f, "{}", self.replication_table())?;
            writeln!(f, "{REPLICATION}")?;
        }
        self.write_archived(f)?;
        self.write_published(f)?;
        for reason in self.doubts().iter().chain(&self.left_out) {
            writeln!(f, "\n{reason}")?;
        }
        if let Some(load) = self.provenance.load_of_others() {
            writeln!(
                f,
                "\nThe machine was busy before this began (load {load:.1} on {} processors): \
                 trust the bytes and the cpu seconds, not the wall times.",
                self.provenance.cpus
            )?;
        }
        write_gaps(f, &self.stopped)
    }
}

impl Results {
    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let work = &self.work;
        writeln!(
            f,
            "{} at scale {}, {} transactions of {}; {}, each with a new server{}",
            work.workload,
            work.scale,
            work.transactions,
            counted(work.clients as usize, "client"),
            counted(work.runs as usize, "run"),
            quick_look(work.quick),
        )?;
        writeln!(f, "{}", self.provenance.machine())?;
        writeln!(f, "  {}: {}", self.server.version, self.settings.line())?;
        match work.checkpoints {
            Some(checkpoints) => writeln!(
                f,
                "  {} during the transactions, evenly spaced",
                counted(checkpoints as usize, "checkpoint")
            ),
            None => Ok(()),
        }
    }

    fn write_stage(&self, f: &mut fmt::Formatter<'_>, stage: Stage) -> fmt::Result {
        writeln!(f, "\n{}:", stage.title())?;
        write!(f, "{}", self.stage_table(stage))
    }

    /// What each method wrote and took in a step.
    pub(super) fn stage_table(&self, stage: Stage) -> Table {
        let mut table = Table::new([
            "wal_compression",
            "WAL MB",
            "off: more %",
            "records",
            "images",
            "images %",
            "seconds",
            "faster than off",
            "tps",
            "spread",
            "server cpu s",
            "checkpoints",
        ])
        .wall(["seconds", "faster than off", "tps", "spread"]);
        for method in &self.methods {
            let median = |value: fn(&Phase) -> Option<f64>, decimals| {
                let median = self.median(method, stage, value);
                Cell::number_or_none(median.map(|median| median.median), decimals)
            };
            let wall = self.median(method, stage, |phase| Some(phase.wall_s));
            table.row([
                Cell::from(method.as_str()),
                median(|phase| Some(phase.wal.bytes as f64 / 1e6), 1),
                Cell::number_or_none(self.off_is_more(method, stage), 0),
                median(|phase| Some(phase.wal.records as f64), 0),
                median(|phase| Some(phase.wal.images as f64), 0),
                median(|phase| Some(phase.wal.image_share() * 100.0), 0),
                median(|phase| Some(phase.wall_s), 2),
                self.faster(method, stage),
                median(|phase| phase.tps, 0),
                Cell::percent(wall.and_then(|wall| wall.half_range)),
                median(|phase| phase.server_cpu_s, 2),
                median(|phase| Some(phase.wal.checkpoints as f64), 0),
            ]);
        }
        table
    }

    /// By how many percent there is more WAL without compression.
    pub(super) fn off_is_more(&self, method: &str, stage: Stage) -> Option<f64> {
        let off = self.wal_bytes("off", stage)?;
        Some((off / self.wal_bytes(method, stage)? - 1.0) * 100.0)
    }

    /// By how much a method is faster than off, as far as the runs tell.
    fn faster(&self, method: &str, stage: Stage) -> Cell {
        match self.off_against(method, stage).filter(|_| method != "off") {
            None => Cell::none(),
            Some(Comparison { told, ratio, .. }) => {
                let percent = format!("{:+.0}%", (ratio - 1.0) * 100.0);
                let text = match told {
                    Told::NotDistinguishable => format!("{percent} (within spread)"),
                    _ => percent,
                };
                Cell::said(ratio, text)
            }
        }
    }

    /// What a standby had of each step, method by method.
    pub(super) fn replication_table(&self) -> Table {
        let mut table = Table::new([
            "step",
            "wal_compression",
            "received MB",
            "off: more %",
            "lag at most MB",
            "lag at most s",
            "to catch up s",
        ]);
        for stage in Stage::ALL {
            for method in &self.methods {
                let received = |method: &str| {
                    self.replicated((method, stage), |had| had.received_bytes as f64)
                };
                let more = received("off").zip(received(method));
                let more = more.map(|(off, bytes)| (off / bytes.max(1.0) - 1.0) * 100.0);
                let of = |value: fn(&Replication) -> f64, decimals| {
                    Cell::number_or_none(self.replicated((method, stage), value), decimals)
                };
                table.row([
                    Cell::from(stage.name()),
                    Cell::from(method.as_str()),
                    of(|had| had.received_bytes as f64 / 1e6, 1),
                    Cell::number_or_none(more, 0),
                    of(|had| had.lag_bytes_max as f64 / 1e6, 2),
                    of(|had| had.lag_s_max, 2),
                    of(|had| had.catch_up_s, 2),
                ]);
            }
        }
        table
    }

    fn write_archived(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for stage in Stage::ALL {
            let of_stage = |archived: &super::Archived| archived.stage == stage;
            if !self.archived.iter().any(of_stage) {
                continue;
            }
            writeln!(
                f,
                "\nWhat the WAL of this step takes in the archive, MB ({}):",
                stage.name()
            )?;
            write!(f, "{}", self.archive_table(stage))?;
        }
        if !self.archived.is_empty() {
            writeln!(
                f,
                "\nX/off: the archive with wal_compression = X relative to that with off; above 1, \
                 it costs more space than it saves.\n{}",
                self.archived_from()
            )?;
        }
        Ok(())
    }

    /// From what the sizes in the archive are, and how far that can be trusted.
    pub(super) fn archived_from(&self) -> String {
        let rest = "The rest of a step's WAL is taken at that ratio.";
        let is_part = |archived: &super::Archived| archived.segments < archived.of;
        if !self.archived.iter().any(is_part) {
            return format!("From every segment that a step filled. {rest}");
        }
        let most = self.archived.iter().map(|archived| archived.segments).max();
        format!(
            "From at most {} of each step, evenly spread. {rest} \u{b1} is two standard errors, as if \
             they had been taken at random; \u{b1} ? where one of several stands for all.",
            counted(most.unwrap_or_default() as usize, "segment")
        )
    }

    /// What programs make of the WAL of a step.
    pub(super) fn archive_table(&self, stage: Stage) -> Table {
        let others = || self.methods.iter().filter(|method| *method != "off");
        let mut heads = vec!["program".to_owned()];
        heads.extend(self.methods.iter().map(|method| format!("{method} MB")));
        heads.extend(others().map(|method| format!("{method}/off")));
        let mut table = Table::new(heads);
        let programs = self.programs();
        for program in std::iter::once("none").chain(programs.iter().copied()) {
            let bytes = |method: &str| match program {
                "none" => self.wal_bytes(method, stage).map(Estimate::exact),
                program => self.archived(method, stage, program),
            };
            let mut cells = vec![Cell::from(program)];
            cells.extend(
                self.methods
                    .iter()
                    .map(|method| Estimate::cell(bytes(method).map(|bytes| bytes.per(1e6)), 2)),
            );
            cells.extend(others().map(|method| {
                let penalty = bytes(method).zip(bytes("off"));
                Estimate::cell(penalty.map(|(with, off)| with.over(off)), 2)
            }));
            table.row_of(program.starts_with("walzip"), cells);
        }
        table
    }

    /// They come from another machine and server.
    fn published_lines(&self) -> Vec<[String; 3]> {
        let percent =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0} %"));
        let plain = self.wal_bytes("off", Stage::Transactions);
        let of_plain = |bytes: Option<Estimate>| {
            let share = bytes
                .zip(plain)
                .map(|(bytes, plain)| bytes.per(plain / 100.0));
            share.map_or("-".to_owned(), |share| format!("{} %", share.text(1)))
        };
        let published = |value: f64| format!("{:.1} %", value / PLAIN.value * 100.0);
        let archived = |method| self.archived(method, Stage::Transactions, "xz -2");
        let mut lines = vec![
            [
                LOAD.what.to_owned(),
                format!("{} %", LOAD.value),
                percent(self.off_is_more("pglz", Stage::Load)),
            ],
            [
                TRANSACTIONS.what.to_owned(),
                format!("{} %", TRANSACTIONS.value),
                percent(self.off_is_more("pglz", Stage::Transactions)),
            ],
            [
                "WAL with pglz, of that without".to_owned(),
                published(BY_SERVER.value),
                of_plain(
                    self.wal_bytes("pglz", Stage::Transactions)
                        .map(Estimate::exact),
                ),
            ],
            [
                "by xz -2 alone".to_owned(),
                published(BY_PROGRAM.value),
                of_plain(archived("off")),
            ],
            [
                "by both".to_owned(),
                published(BY_BOTH.value),
                of_plain(archived("pglz")),
            ],
        ];
        for (published, stage) in [(INSERTS, Stage::Insert), (UPDATES, Stage::Update)] {
            let here = self.faster("pglz", stage).text().to_owned();
            let value = format!("{} %", published.value);
            lines.push([published.what.to_owned(), value, here]);
        }
        for program in self
            .programs()
            .iter()
            .filter(|program| program.starts_with("walzip"))
        {
            for (method, how) in [("off", "alone"), ("pglz", "and pglz")] {
                lines.push([
                    format!("by {program} {how}"),
                    "-".to_owned(),
                    of_plain(self.archived(method, Stage::Transactions, program)),
                ]);
            }
        }
        lines
    }

    /// The published figures and the same here.
    pub(super) fn published_table(&self) -> Table {
        let mut table = Table::new(["", "published", "here"]);
        for [what, published, here] in self.published_lines() {
            let ours = what.starts_with("by walzip");
            let cells = [Cell::from(what).left(), published.into(), here.into()];
            table.row_of(ours, cells.to_vec());
        }
        table
    }

    /// How much was written, there and here: only shares stand beside each other.
    pub(super) fn volumes(&self) -> String {
        let work = &self.work;
        format!(
            "The first two were published for pgbench at scale 100 with 200000 transactions, the \
             next three for one workload of 208 MB of WAL; here it is {} at scale {} with {} \
             transactions. Where a volume differs, so do the number of checkpoints and with it the \
             share of images: these are shares, and no bytes or seconds. The reader inserted and \
             updated {READERS_ROWS} rows that are not described; here it is {} rows by one \
             statement each.",
            work.workload, work.scale, work.transactions, work.rows
        )
    }

    /// What times cannot tell.
    pub(super) fn doubts(&self) -> Option<String> {
        too_few(self.work.runs)
    }

    fn write_published(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nPublished, from other machines and older servers, and here:"
        )?;
        write!(f, "{}", self.published_table())?;
        writeln!(f, "{}", self.volumes())?;
        writeln!(f, "The first two: {}.", LOAD.source)?;
        writeln!(
            f,
            "The next three, whose workload is not known: {}.",
            PLAIN.source
        )?;
        writeln!(f, "The reader's: {}.", INSERTS.source)
    }
}
