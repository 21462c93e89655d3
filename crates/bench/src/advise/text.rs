//! The advice as a person reads it on a terminal.

use std::fmt::{self, Write};

use super::rate::spoken;
use super::recommend::{Recommendation, Saves, bytes, percent};
use super::{Advice, Program};
use crate::text::{counted, write_table};

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
        for source in &self.sources {
            writeln!(
                f,
                "{}: {}, {} measured on, {} looked at",
                source.name,
                counted(source.available, "segment"),
                source.measured,
                source.looked_at
            )?;
        }
        let majors: Vec<String> = self.wal.majors.iter().map(ToString::to_string).collect();
        writeln!(
            f,
            "PostgreSQL {}, segments of {:.0} MB",
            majors.join(", "),
            self.wal.segment_size_bytes as f64 / (1u64 << 20) as f64
        )?;
        if self.wal.not_segments > 0 {
            writeln!(
                f,
                "{} that are no WAL segments",
                counted(self.wal.not_segments, "file")
            )?;
        }
        match &self.rate {
            Some(rate) => {
                let over = match rate.seconds {
                    Some(seconds) => format!(", over {}", spoken(seconds)),
                    None => String::new(),
                };
                let day = bytes(rate.bytes_per_day);
                writeln!(f, "WAL: {day} a day ({}{over})", rate.source)?;
            }
            None => writeln!(f, "WAL a day: not known (say it with --wal-per-day)")?,
        }
        writeln!(f, "{}", self.provenance.machine())
    }

    fn write_wal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = &self.wal.contents.before;
        let share = |part: u64| percent(part as f64 / (self.wal.bytes as f64).max(1.0));
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
        let parts: Vec<String> = parts
            .iter()
            .filter(|(_, part)| *part > 0)
            .map(|(name, part)| format!("{name} {}", share(*part)))
            .collect();
        writeln!(f, "\nIn the WAL")?;
        item(f, 2, &parts.join(", "))?;
        let mut types: Vec<_> = self.wal.contents.record_types.iter().collect();
        types.sort_by_key(|(kind, counts)| (std::cmp::Reverse(counts.bytes()), *kind));
        let types: Vec<String> = types
            .iter()
            .take(RECORD_TYPES_MAX)
            .map(|(kind, counts)| {
                let name = format!("{}/{}", kind.resource_manager, kind.record_type);
                format!("{name} {}", share(counts.bytes()))
            })
            .collect();
        item(f, 2, &format!("most of it: {}", types.join(", ")))
    }

    fn write_programs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let priced = self
            .programs
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
        if priced {
            heads.push("cost a month");
        }
        let mut table = vec![heads.iter().map(ToString::to_string).collect::<Vec<_>>()];
        for (place, program) in self.programs.iter().enumerate() {
            let mut line = self.program_line(place, program);
            if priced {
                let cost = program.cost_per_month;
                line.push(cost.map_or("-".to_owned(), |cost| format!("{cost:.2}")));
            }
            table.push(line);
        }
        writeln!(
            f,
            "\nMeasured, a segment each (>: recommended, =: today's, *: best, nothing is both smaller and faster)"
        )?;
        write_table(f, &table)?;
        for program in &self.programs {
            if let Some(reason) = &program.exceeds {
                writeln!(f, "{}: {reason}", program.label)?;
            }
        }
        Ok(())
    }

    fn program_line(&self, place: usize, program: &Program) -> Vec<String> {
        let mark = match () {
            () if self.chosen == Some(place) => '>',
            () if self.now == Some(place) => '=',
            () if program.best => '*',
            () => ' ',
        };
        vec![
            format!("{mark} {}", program.label),
            format!("{:.1}%", program.ratio * 100.0),
            program.bytes_per_day.map_or("-".to_owned(), bytes),
            format!("{:.3}", program.compress_s),
            format!("{:.3}", program.compress_cpu_s),
            format!("{:.3}", program.decompress_s),
        ]
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
        if let Some(saved) = recommendation
            .saves_bytes_per_day
            .filter(|saved| *saved >= 1.0)
        {
            let of = match recommendation.saves_of {
                Saves::Archived => "in the archive",
                Saves::Written => "of WAL written and sent",
            };
            let worth = match recommendation.saves_per_month {
                Some(worth) => format!(", worth {worth:.2} a month"),
                None => String::new(),
            };
            item(f, 4, &format!("saves {} a day {of}{worth}", bytes(saved)))?;
        }
        for reason in &recommendation.reasons {
            item(f, 4, reason)?;
        }
        Ok(())
    }
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

    use crate::Provenance;
    use crate::advise::program::{choose, programs};
    use crate::advise::{Advice, Confidence, Limits, Look, Rate};
    use crate::wal::fixture::fixture;

    /// Three programs on segments of 16 MB, 10 GB a day.
    pub(in crate::advise) fn advice(limit: impl FnOnce(&mut Limits)) -> Advice {
        let mut limits = Limits::default();
        limit(&mut limits);
        let rate = Rate {
            bytes_per_day: 10e9,
            source: "given with --wal-per-day".to_owned(),
            seconds: None,
        };
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
            }
        }
        let programs = programs(&results, &limits, Some(&rate));
        Advice {
            format: 1,
            provenance: Provenance::gather(None),
            sources: Vec::new(),
            measured_segments: 2,
            runs: 1,
            limits,
            rate: Some(rate),
            wal: Look {
                segments: 2,
                segment_size_bytes: 16 << 20,
                ..Look::default()
            },
            server: None,
            chosen: choose(&programs, &limits),
            now: None,
            programs,
            what_if: Vec::new(),
            recommendations: Vec::new(),
            confidence: Confidence::default(),
            not_tested: Vec::new(),
        }
    }
}
