//! The advice as a person reads it on a terminal.

use std::fmt::{self, Write};

use super::rate::line;
use super::recommend::{Recommendation, Saves, percent};
use super::{Advice, Plan};
use crate::report::{Cell, Table};
use crate::text::bytes;
use crate::text::counted;

/// Record types beyond these are left to `--json`.
const RECORD_TYPES_MAX: usize = 5;
/// Text is broken before it is wider.
const WIDTH: usize = 96;

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_sample(f)?;
        self.write_wal(f)?;
        self.write_programs(f)?;
        writeln!(f, "\nRecommendations")?;
        for recommendation in &self.recommendations {
            self.write_recommendation(f, recommendation)?;
        }
        for plan in &self.plans {
            write_plan(f, plan)?;
        }
        writeln!(f, "\nHow sure: {}", self.confidence.level.word())?;
        for reason in &self.confidence.reasons {
            item(f, 2, reason)?;
        }
        writeln!(f, "\nNot tested")?;
        for what in &self.not_tested {
            item(f, 2, what)?;
        }
        Ok(())
    }
}

impl Advice {
    fn write_sample(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.sample_lines() {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "{}", self.provenance.machine())
    }

    /// What the advice is drawn from.
    pub(super) fn sample_lines(&self) -> Vec<String> {
        let sources = self.sources.iter().map(|source| {
            let available = counted(source.available, "segment");
            let (name, measured, looked_at) = (&source.name, source.measured, source.looked_at);
            format!("{name}: {available}, {measured} measured on, {looked_at} looked at")
        });
        let mut lines: Vec<String> = sources.collect();
        let majors: Vec<String> = self.wal.majors.iter().map(ToString::to_string).collect();
        lines.push(format!(
            "PostgreSQL {}, segments of {:.0} MB",
            majors.join(", "),
            self.wal.segment_size_bytes as f64 / (1u64 << 20) as f64
        ));
        if self.wal.not_segments > 0 {
            let files = counted(self.wal.not_segments, "file");
            lines.push(format!("{files} that are no WAL segments"));
        }
        lines.push(line(self.rate.as_ref()));
        lines
    }

    fn write_wal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(name, part): (String, u64)| {
            let share = percent(part as f64 / (self.wal.bytes as f64).max(1.0));
            format!("{name} {share}")
        };
        let parts: Vec<String> = self.parts().into_iter().map(shown).collect();
        writeln!(f, "\nIn the WAL")?;
        item(f, 2, &parts.join(", "))?;
        let types = self.record_types().into_iter().take(RECORD_TYPES_MAX);
        let types: Vec<String> = types.map(shown).collect();
        item(f, 2, &format!("most of it: {}", types.join(", ")))
    }

    /// The bytes of the WAL by what they are.
    pub(super) fn parts(&self) -> Vec<(String, u64)> {
        let before = &self.wal.contents.before;
        let parts = [
            ("page images", before.image_bytes),
            ("record data", before.record_data_bytes),
            ("record headers", before.record_header_bytes),
            ("zeros behind the last record", before.zero_bytes),
            (
                "page headers, padding, fragments",
                before.page_header_bytes + before.padding_bytes + before.fragment_bytes,
            ),
            ("other", before.other_bytes),
        ];
        let parts = parts.into_iter().filter(|(_, part)| *part > 0);
        parts.map(|(name, part)| (name.to_owned(), part)).collect()
    }

    /// The bytes of each record type, the most first.
    pub(super) fn record_types(&self) -> Vec<(String, u64)> {
        let types = self.wal.contents.record_types.iter();
        let mut types: Vec<_> = types
            .map(|(kind, counts)| {
                let name = format!("{}/{}", kind.resource_manager, kind.record_type);
                (name, counts.bytes())
            })
            .collect();
        types.sort_by_key(|(name, bytes)| (std::cmp::Reverse(*bytes), name.clone()));
        types
    }

    fn write_programs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nMeasured, a segment each (>: recommended, =: today's, *: best, nothing is both smaller and faster)"
        )?;
        write!(f, "{}", self.programs_table())?;
        if let Some(judged) = self.judged_line() {
            writeln!(f, "{judged}")?;
        }
        for program in &self.programs {
            if let Some(reason) = &program.exceeds {
                writeln!(f, "{}: {reason}", program.label)?;
            }
        }
        Ok(())
    }

    /// By which time programs are judged, where that is not what a clock says.
    pub(super) fn judged_line(&self) -> Option<String> {
        let busy = self.busy.as_ref()?;
        Some(format!(
            "The machine was busy ({busy}): programs are judged by \"cpu s\", their processor time, \
             and \"seconds\" are too long."
        ))
    }

    /// What was measured, with marks at what is recommended, today's and the best.
    pub(super) fn programs_table(&self) -> Table {
        let programs = &self.programs;
        let priced = programs
            .iter()
            .any(|program| program.cost_per_month.is_some());
        let mut heads = vec![
            "  program",
            "of the size",
            "a day",
            "seconds",
            "cpu s",
            "unpack s",
        ];
        heads.extend(priced.then_some("cost a month"));
        let mut table = Table::new(heads)
            .wall(["seconds", "unpack s"])
            .empty("a day", "the WAL rate is not known")
            .empty("cost a month", "the WAL rate is not known");
        for (index, program) in programs.iter().enumerate() {
            let mark = match () {
                () if self.chosen == Some(index) => '>',
                () if self.now == Some(index) => '=',
                () if program.best => '*',
                () => ' ',
            };
            let day = program.bytes_per_day;
            let size = format!("{:.1}%", program.ratio * 100.0);
            let mut cells = vec![
                Cell::from(format!("{mark} {}", program.label)),
                Cell::said(program.ratio, size),
                day.map_or_else(Cell::none, |day| Cell::said(day, bytes(day))),
                Cell::number(program.compress_s, 3),
                Cell::number(program.compress_cpu_s, 3),
                Cell::number(program.decompress_s, 3),
            ];
            cells.extend(priced.then(|| Cell::number_or_none(program.cost_per_month, 2)));
            table.row_of(program.is_walzip(), cells);
        }
        table
    }

    fn write_recommendation(
        &self,
        f: &mut fmt::Formatter<'_>,
        recommendation: &Recommendation,
    ) -> fmt::Result {
        let Recommendation {
            subject, advice, ..
        } = recommendation;
        writeln!(f)?;
        wrapped(f, "  ", &format!("{subject}: {advice}"))?;
        if let Some(saved) = recommendation.saves() {
            item(f, 4, &saved)?;
        }
        for reason in &recommendation.reasons {
            item(f, 4, reason)?;
        }
        Ok(())
    }
}

impl Recommendation {
    /// What it saves, in words.
    pub(super) fn saves(&self) -> Option<String> {
        let saved = self.saves_bytes_per_day.filter(|saved| *saved >= 1.0)?;
        let of = match self.saves_of {
            Saves::Archived => "in the archive",
            Saves::Written => "of WAL written and sent",
        };
        let worth = match self.saves_per_month {
            Some(worth) => format!(", worth {worth:.2} a month"),
            None => String::new(),
        };
        Some(format!("saves {} a day {of}{worth}", bytes(saved)))
    }
}

/// Lines to paste are never broken.
fn write_plan(f: &mut fmt::Formatter<'_>, plan: &Plan) -> fmt::Result {
    writeln!(f, "\n{}", plan.title)?;
    for line in plan.shell.iter().chain(&plan.sql).chain(&plan.shell_then) {
        writeln!(f, "  {line}")?;
    }
    if plan.sql.is_empty() && plan.shell.is_empty() {
        writeln!(f, "  Nothing has to be changed.")?;
    }
    for reason in &plan.reasons {
        item(f, 4, reason)?;
    }
    Ok(())
}

/// A line of a list.
fn item(f: &mut fmt::Formatter<'_>, indent: usize, text: &str) -> fmt::Result {
    wrapped(f, &format!("{:indent$}- ", ""), text)
}

/// Text behind a beginning, broken where it is too wide.
fn wrapped(f: &mut fmt::Formatter<'_>, beginning: &str, text: &str) -> fmt::Result {
    let mut line = beginning.to_owned();
    let mut words = 0;
    for word in text.split(' ') {
        if words > 0 && line.len() + 1 + word.len() > WIDTH {
            writeln!(f, "{line}")?;
            line = format!("{:1$}", "", beginning.len());
            words = 0;
        }
        let space = if words > 0 { " " } else { "" };
        write!(line, "{space}{word}")?;
        words += 1;
    }
    writeln!(f, "{line}")
}

#[cfg(test)]
pub(super) mod fixture {
    //! Advice out of given figures.

    use crate::advise::program::{choose, programs};
    use crate::advise::{Advice, Confidence, Limits, Rate, WalSurvey};
    use crate::provenance::Provenance;
    use crate::verdict::Time;
    use crate::wal::fixture::fixture;

    /// Three programs on segments of 16 MB, 10 GB a day.
    pub(in crate::advise) fn advice(limit: impl FnOnce(&mut Limits)) -> Advice {
        advice_of(limit, Rate::given(10e9), Time::Wall)
    }

    /// The same with a rate and a machine. A busy one lets programs wait: they take ten times as
    /// long.
    pub(in crate::advise) fn advice_of(
        limit: impl FnOnce(&mut Limits),
        rate: Rate,
        judged_by: Time,
    ) -> Advice {
        let mut limits = Limits::default();
        limit(&mut limits);
        let mut results = fixture(&[
            ("lz4", 1, &[(300, 0.1), (320, 0.1)]),
            ("zstd", 1, &[(200, 0.2), (210, 0.2)]),
            ("walzip", 3, &[(90, 0.5), (100, 0.5)]),
        ]);
        // What the fixture leaves out: processor time, and segments of a real size.
        for summary in &mut results.summary {
            if let Some(figures) = &mut summary.all {
                figures.compress_cpu_s = figures.compress_s;
                figures.original_bytes = 2 * (16 << 20);
                figures.output_bytes = figures.output_bytes * (16 << 20) / 1000;
                figures.decompress_s = figures.compress_s / 5.0;
                figures.decompress_cpu_s = figures.decompress_s;
                if judged_by == Time::Processor {
                    figures.compress_s *= 10.0;
                    figures.decompress_s *= 10.0;
                }
            }
        }
        let programs = programs(&results, &limits, Some(&rate), judged_by);
        Advice {
            format: 1,
            provenance: Provenance::gather(None),
            sources: Vec::new(),
            measured_segments: 2,
            runs: 1,
            limits,
            rate: Some(rate),
            judged_by,
            busy: (judged_by == Time::Processor).then(|| "load 4.0 on 2 processors".to_owned()),
            wal: WalSurvey {
                segments: 2,
                segment_size_bytes: 16 << 20,
                ..WalSurvey::default()
            },
            server: None,
            chosen: choose(&programs, &limits),
            now: None,
            programs,
            what_if: Vec::new(),
            packing: None,
            recommendations: Vec::new(),
            plans: Vec::new(),
            confidence: Confidence::default(),
            not_tested: Vec::new(),
            csv: String::new(),
        }
    }
}
