//! The results as a person reads them on a terminal.

use std::fmt;

use super::published::{BY_BOTH, BY_PROGRAM, BY_SERVER, LOAD, PLAIN, TRANSACTIONS};
use super::{Results, Stage};
use crate::server::Phase;
use crate::text::{counted, write_table};

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        for stage in Stage::ALL {
            self.write_stage(f, stage)?;
        }
        self.write_archived(f)?;
        self.write_published(f)?;
        if let Some(load) = self.provenance.load_of_others() {
            writeln!(
                f,
                "\nThe machine was busy before this began (load {load:.1} on {} processors): \
                 trust the bytes and the cpu seconds, not the wall times.",
                self.provenance.cpus
            )?;
        }
        match &self.stopped {
            Some(reason) => writeln!(f, "\nIncomplete: {reason}. What is missing shows \"-\"."),
            None => Ok(()),
        }
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
            if work.quick {
                "; quick: too small to conclude from"
            } else {
                ""
            },
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
        let title = match stage {
            Stage::Load => "Loading the data",
            Stage::Transactions => "Transactions",
        };
        writeln!(f, "\n{title}:")?;
        let heads = [
            "wal_compression",
            "WAL MB",
            "off: more",
            "records",
            "images",
            "images %",
            "seconds",
            "tps",
            "spread",
            "server cpu s",
            "checkpoints",
        ];
        let mut table = vec![heads.map(str::to_owned).to_vec()];
        table.extend(self.methods.iter().map(|method| self.line(method, stage)));
        write_table(f, &table)
    }

    fn line(&self, method: &str, stage: Stage) -> Vec<String> {
        let shown = |value: fn(&Phase) -> Option<f64>, decimals: usize| {
            let median = self.median(method, stage, value);
            median.map_or("-".to_owned(), |median| {
                format!("{:.decimals$}", median.median)
            })
        };
        let spread = self.median(method, stage, |phase| Some(phase.wall_s));
        let spread = spread.and_then(|spread| spread.half_range);
        vec![
            method.to_owned(),
            shown(|phase| Some(phase.wal.bytes as f64 / 1e6), 1),
            self.off_is_more(method, stage)
                .map_or("-".to_owned(), |more| format!("{more:.0}%")),
            shown(|phase| Some(phase.wal.records as f64), 0),
            shown(|phase| Some(phase.wal.images as f64), 0),
            shown(|phase| Some(phase.wal.image_share() * 100.0), 0),
            shown(|phase| Some(phase.wall_s), 2),
            shown(|phase| phase.tps, 0),
            spread.map_or("-".to_owned(), |spread| format!("{:.0}%", spread * 100.0)),
            shown(|phase| phase.server_cpu_s, 2),
            shown(|phase| Some(phase.wal.checkpoints as f64), 0),
        ]
    }

    /// By how many percent there is more WAL without compression.
    pub(super) fn off_is_more(&self, method: &str, stage: Stage) -> Option<f64> {
        let off = self.wal_bytes("off", stage)?;
        Some((off / self.wal_bytes(method, stage)? - 1.0) * 100.0)
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
            let mut head = vec!["program".to_owned()];
            head.extend(self.methods.iter().cloned());
            let penalised = self.methods.iter().filter(|method| *method != "off");
            head.extend(penalised.clone().map(|method| format!("{method}/off")));
            let mut table = vec![head];
            let plain = |method: &str| self.wal_bytes(method, stage);
            table.push(self.archived_line("none", plain));
            for program in self.programs() {
                let bytes = |method: &str| self.archived(method, stage, program);
                table.push(self.archived_line(program, bytes));
            }
            write_table(f, &table)?;
        }
        if !self.archived.is_empty() {
            writeln!(
                f,
                "\nX/off: the archive with wal_compression = X relative to that with off; above 1, \
                 it costs more space than it saves.\n\
                 From some segments of each step; the sizes hold for all of its WAL at that ratio."
            )?;
        }
        Ok(())
    }

    fn archived_line(&self, program: &str, bytes: impl Fn(&str) -> Option<f64>) -> Vec<String> {
        let mut line = vec![program.to_owned()];
        let megabytes = |bytes: f64| format!("{:.2}", bytes / 1e6);
        line.extend(
            self.methods
                .iter()
                .map(|method| bytes(method).map_or("-".to_owned(), megabytes)),
        );
        let penalised = self.methods.iter().filter(|method| *method != "off");
        line.extend(penalised.map(|method| {
            let penalty = bytes(method)
                .zip(bytes("off"))
                .map(|(with, off)| with / off);
            penalty.map_or("-".to_owned(), |penalty| format!("{penalty:.2}"))
        }));
        line
    }

    /// The published figures and the same here; they come from another machine and server.
    pub(super) fn published_lines(&self) -> Vec<[String; 3]> {
        let percent =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0} %"));
        let plain = self.wal_bytes("off", Stage::Transactions);
        let of_plain = |bytes: Option<f64>| {
            let share = bytes.zip(plain).map(|(bytes, plain)| bytes / plain * 100.0);
            share.map_or("-".to_owned(), |share| format!("{share:.1} %"))
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
                of_plain(self.wal_bytes("pglz", Stage::Transactions)),
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

    fn write_published(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nPublished, from other machines and older servers, and here:"
        )?;
        let mut table = vec![["", "published", "here"].map(str::to_owned).to_vec()];
        table.extend(self.published_lines().into_iter().map(|line| line.to_vec()));
        write_table(f, &table)?;
        writeln!(f, "The first two: {}.", LOAD.source)?;
        writeln!(
            f,
            "The others, whose workload is not known: {}.",
            PLAIN.source
        )
    }
}
