//! The advice as a page for a colleague.

use super::{Advice, Plan, WhatIf};
use crate::report::{Bars, Cell, Panels, Section, Table, page};
use crate::text::bytes;
use crate::verdict::Time;

/// Record types beyond these are left to the JSON.
const RECORD_TYPES_MAX: usize = 12;

fn plan_section(plan: &Plan) -> Section {
    let mut section = Section::new(plan.title.as_str());
    let parts = [
        (&plan.shell, "In a shell, first:"),
        (&plan.sql, "In psql:"),
        (
            &plan.shell_then,
            "In a shell, when the server was reloaded or restarted:",
        ),
    ];
    for (lines, of) in parts {
        if !lines.is_empty() {
            section = section.paragraph(of).code(lines);
        }
    }
    if plan.sql.is_empty() && plan.shell.is_empty() {
        section = section.paragraph("Nothing has to be changed.");
    }
    let reasons = plan.reasons.iter().cloned();
    reasons.fold(section, Section::note)
}

impl Advice {
    /// A page that shows everything, complete in itself.
    pub(super) fn page(&self) -> String {
        let mut sections = vec![self.summary()];
        sections.extend(self.plans.iter().map(plan_section));
        sections.extend(self.reasons());
        sections.push(self.programs_section());
        sections.extend(self.what_if_section());
        sections.push(self.wal_section());
        sections.push(self.doubts());
        page(
            "What to choose for archiving WAL",
            &self.answer(),
            &sections,
            &self.provenance,
        )
    }

    /// The first advice, and how sure it is.
    fn answer(&self) -> String {
        let sure = self.confidence.level.word();
        match self.recommendations.first() {
            Some(first) => format!("{} (how sure: {sure}).", first.advice),
            None => "There is nothing to recommend.".to_owned(),
        }
    }

    fn summary(&self) -> Section {
        let mut table = Table::new(["about", "do", "saves a day", "worth a month"])
            .empty("saves a day", "nothing, or it is not known")
            .empty("worth a month", "no price was given, or nothing is saved");
        for recommendation in &self.recommendations {
            let saved = recommendation
                .saves_bytes_per_day
                .filter(|saved| *saved >= 1.0);
            table.row([
                Cell::from(recommendation.subject),
                Cell::from(recommendation.advice.as_str()).left(),
                saved.map_or_else(Cell::none, |saved| Cell::said(saved, bytes(saved))),
                Cell::number_or_none(recommendation.saves_per_month, 2),
            ]);
        }
        let section = Section::new("What to do").table(table).paragraph(format!(
            "How sure: {}. {}.",
            self.confidence.level.word(),
            self.confidence.reasons.join("; ")
        ));
        let lines = self.sample_lines();
        lines.into_iter().fold(section, Section::note)
    }

    fn reasons(&self) -> impl Iterator<Item = Section> {
        self.recommendations.iter().map(|recommendation| {
            let title = format!("Why: {}", recommendation.subject);
            let section = Section::new(title).paragraph(format!("{}.", recommendation.advice));
            let saves = recommendation.saves().into_iter();
            saves
                .chain(recommendation.reasons.iter().cloned())
                .fold(section, Section::note)
        })
    }

    fn programs_section(&self) -> Section {
        let mut sizes = Bars::new("%", 1);
        let mut seconds = Bars::new("s", 3);
        for program in &self.programs {
            for (bars, value) in [
                (&mut sizes, program.ratio * 100.0),
                (&mut seconds, program.judged_s),
            ] {
                match program.is_walzip() {
                    true => bars.ours(&program.label, Some(value)),
                    false => bars.bar(&program.label, Some(value), None),
                }
            }
        }
        let of_time = match self.judged_by {
            Time::Wall => "Time for a segment",
            Time::Processor => "Processor time for a segment",
        };
        let panels = Panels::default()
            .panel("Of the size", sizes)
            .panel(of_time, seconds);
        let section = Section::new("Programs, on these segments")
            .panels(panels)
            .table(self.programs_table())
            .note(
                "> is recommended, = is today\u{2019}s; * marks the best: nothing is both smaller \
                 and faster.",
            );
        let exceeding = self.programs.iter().filter_map(|program| {
            let reason = program.exceeds.as_ref()?;
            Some(format!("{}: {reason}", program.label))
        });
        let judged = self.judged_line();
        judged
            .into_iter()
            .chain(exceeding)
            .fold(section, Section::note)
    }

    /// The same WAL under each wal_compression; none where nothing could be rewritten.
    fn what_if_section(&self) -> Option<Section> {
        let first = self.what_if.first()?;
        let mut heads = vec!["wal_compression", "WAL MB", "cpu s"];
        heads.extend(first.archived.iter().map(|archived| &*archived.label));
        let mut table = Table::new(heads);
        let megabytes_of = |setting: &WhatIf, label: &str| {
            let archived = setting.archived_by(label);
            archived.map(|archived| archived.bytes as f64 / 1e6)
        };
        for setting in &self.what_if {
            let mut cells = vec![
                Cell::from(setting.name()),
                Cell::number(setting.wal_bytes as f64 / 1e6, 2),
                Cell::number(setting.compress_cpu_s, 3),
            ];
            let archived = first.archived.iter();
            cells.extend(
                archived.map(|archived| {
                    Cell::number_or_none(megabytes_of(setting, &archived.label), 2)
                }),
            );
            table.row(cells);
        }
        let chart = |value: &dyn Fn(&WhatIf) -> Option<f64>, ours: bool| {
            let mut bars = Bars::new("MB", 2);
            for setting in &self.what_if {
                match ours {
                    true => bars.ours(setting.name(), value(setting)),
                    false => bars.bar(setting.name(), value(setting), None),
                }
            }
            bars
        };
        let wal = chart(&|setting| Some(setting.wal_bytes as f64 / 1e6), false);
        let mut panels = Panels::default().panel("WAL", wal);
        for archived in &first.archived {
            let label = archived.label.as_str();
            let ours = label.starts_with("walzip");
            panels = panels.panel(label, chart(&|setting| megabytes_of(setting, label), ours));
        }
        let section = Section::new("The same WAL under each wal_compression");
        Some(section.panels(panels).table(table).note(
            "Some of the segments, rewritten: their page images are compressed as each setting \
             would, and programs are measured on the result, in MB.",
        ))
    }

    fn wal_section(&self) -> Section {
        let share = |part: u64| Some(part as f64 * 100.0 / (self.wal.bytes as f64).max(1.0));
        let bars = |parts: Vec<(String, u64)>| {
            let mut bars = Bars::parts_of(100.0, "%", 1);
            for (name, part) in parts.into_iter().take(RECORD_TYPES_MAX) {
                bars.bar(name, share(part), None);
            }
            bars
        };
        Section::new("In the WAL")
            .paragraph("Its bytes:")
            .bars(bars(self.parts()))
            .paragraph("By record type:")
            .bars(bars(self.record_types()))
    }

    fn doubts(&self) -> Section {
        let section = Section::new("Not tested");
        self.not_tested.iter().fold(section, Section::paragraph)
    }
}

#[cfg(test)]
mod tests {
    use crate::advise::text::fixture::advice;

    #[test]
    fn the_page_shows_the_recommended_program_and_what_was_not_tested() {
        let mut advice = advice(|limits| {
            limits.price_per_gb_month = Some(0.02);
            limits.retention_days = Some(30.0);
        });
        advice.not_tested = vec!["the <network>".to_owned()];
        let page = advice.page();
        assert!(page.contains("&gt; walzip -3") && page.contains("cost a month"));
        assert!(page.contains("the &lt;network&gt;"));
        assert!(page.contains("WAL: 10.00 GB a day"));
    }
}
