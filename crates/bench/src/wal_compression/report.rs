//! The results as a page for a colleague.

use super::published::{INSERTS, LOAD, TRANSACTIONS, UPDATES};
use super::text::REPLICATION;
use super::{Results, Stage};
use crate::report::{Bars, Panels, Section, ending, page};
use crate::server::Phase;
use crate::spread::widest_in_words;
use crate::text::counted;

impl Results {
    /// A page that shows everything, complete in itself.
    pub(super) fn page(&self) -> String {
        let mut sections = vec![self.introduction()];
        for stage in Stage::ALL {
            sections.push(self.stage_section(stage));
            sections.extend(self.archive_section(stage));
        }
        if self.work.standby {
            sections.push(self.replication_section());
        }
        sections.push(self.published_section());
        page(
            "What does wal_compression do?",
            &self.answer(),
            &sections,
            &self.provenance,
        )
    }

    /// What is left of the WAL of the transactions.
    fn answer(&self) -> String {
        let off = self.wal_bytes("off", Stage::Transactions);
        let others = self.methods.iter().filter(|method| *method != "off");
        let shares: Vec<String> = others
            .filter_map(|method| {
                let share = self.wal_bytes(method, Stage::Transactions)? / off?;
                Some(format!("{:.0} % with {method}", share * 100.0))
            })
            .collect();
        if off.is_none() {
            return "Without compression nothing was measured, so there is nothing that other methods \
                    are a part of."
                .to_owned();
        }
        if shares.is_empty() {
            return "Not enough was measured yet to compare methods.".to_owned();
        }
        let spread = widest_in_words(self.methods.iter().filter_map(|method| {
            let bytes = |phase: &Phase| Some(phase.wal.bytes as f64);
            self.median(method, Stage::Transactions, bytes)?.half_range
        }));
        format!(
            "Of the WAL that the transactions write without compression there is {} ({}{spread}).",
            shares.join(", "),
            counted(self.work.runs as usize, "run")
        )
    }

    fn introduction(&self) -> Section {
        let work = &self.work;
        let section = Section::new("What was done").paragraph(format!(
            "{}: a new server for each method loads {} at scale {} and runs {} transactions of {} \
             clients; {}. {}",
            self.server.version,
            work.workload,
            work.scale,
            work.transactions,
            work.clients,
            counted(work.runs as usize, "run"),
            self.settings.line(),
        ));
        let section = match work.checkpoints {
            Some(checkpoints) => section.paragraph(format!(
                "{checkpoints} checkpoints during the transactions, evenly spaced: every method \
                 has the same images to compress."
            )),
            None => section.note(
                "The server makes a checkpoint when it has written enough WAL, so less WAL means \
                 fewer checkpoints and then fewer images.",
            ),
        };
        let said = self
            .doubts()
            .into_iter()
            .chain(self.left_out.iter().cloned());
        ending(section, said, &self.stopped)
    }

    fn stage_section(&self, stage: Stage) -> Section {
        let published = match stage {
            Stage::Load => LOAD,
            Stage::Transactions => TRANSACTIONS,
            Stage::Insert => INSERTS,
            Stage::Update => UPDATES,
        };
        let (mut bars, mut times) = (Bars::new("MB", 1), Bars::new("s", 2).wall());
        for method in &self.methods {
            let megabytes = |phase: &Phase| Some(phase.wal.bytes as f64 / 1e6);
            bars.of_runs(method, self.median(method, stage, megabytes), (false, None));
            let seconds = self.median(method, stage, |phase| Some(phase.wall_s));
            times.of_runs(method, seconds, (false, None));
        }
        let panels = Panels::default()
            .panel("WAL that the server wrote, by its positions", bars)
            .panel("Wall time of the step", times);
        Section::new(stage.title())
            .panels(panels)
            .table(self.stage_table(stage))
            .note(format!(
                "Published: {}, {} % ({}).",
                published.what, published.value, published.source
            ))
    }

    fn archive_section(&self, stage: Stage) -> Option<Section> {
        if !self.archived.iter().any(|archived| archived.stage == stage) {
            return None;
        }
        let title = format!("In the archive: the WAL of the {}", stage.name());
        let mut panels = Panels::default();
        for program in self.programs() {
            let mut bars = Bars::new("MB", 2);
            for method in &self.methods {
                let bytes = self.archived(method, stage, program);
                let megabytes = bytes.map(|bytes| bytes.per(1e6));
                bars.estimate(
                    method,
                    megabytes.map(|of| (of.value, of.range())),
                    program.starts_with("walzip"),
                );
            }
            panels = panels.panel(program, bars);
        }
        let section = Section::new(title)
            .paragraph("A program each, on one scale; a bar for each wal_compression:")
            .panels(panels);
        Some(section.table(self.archive_table(stage)).note(format!(
            "X/off: the archive with wal_compression = X relative to that with off. Above 1, \
             compression by the server costs space in the archive. {}",
            self.archived_from()
        )))
    }

    fn replication_section(&self) -> Section {
        let mut panels = Panels::default();
        for stage in Stage::ALL {
            let mut bars = Bars::new("MB", 1);
            for method in &self.methods {
                let received =
                    self.replicated((method, stage), |had| had.received_bytes as f64 / 1e6);
                bars.bar(method, received, None);
            }
            panels = panels.panel(stage.name(), bars);
        }
        Section::new("What a standby received")
            .panels(panels)
            .table(self.replication_table())
            .note(REPLICATION)
    }

    fn published_section(&self) -> Section {
        Section::new("Published, and here")
            .table(self.published_table())
            .note(self.volumes())
            .note(
                "Published figures come from other machines and older servers: they are shown, \
             never compared with.",
            )
    }
}
