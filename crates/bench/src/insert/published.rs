//! What was published about inserts: one article, each statement with its section.
//!
//! Mark Callaghan, "The benefit of lz4 and zstd for Postgres WAL compression", Small Datum,
//! 26 May 2022. The statements are of the section "Results for IO-bound", where the database is
//! much larger than memory; "Results for cached" says that its results are similar. The article
//! has no table: it gives two numbers, each with "~", and says the rest in words.

use serde::Serialize;

use super::Step;
use crate::report::Cell;

/// Where the published statements come from.
pub const SOURCE: &str = "Mark Callaghan, \"The benefit of lz4 and zstd for Postgres WAL \
    compression\", Small Datum, May 2022";

/// How many times as much processor time for each row pglz takes as lz4 when indexes are created:
/// "with pglz the CPU overhead is almost 2X larger than with lz4 (see cpupq column)".
pub const PROCESSOR_TIME_OF_PGLZ: f64 = 2.0;

/// How one method stands to another in a step, as it was published.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Published {
    /// In which step.
    pub step: Step,
    /// The method that is spoken of.
    pub faster: &'static str,
    /// The method that it is compared with.
    pub slower: &'static str,
    /// How they compare.
    #[serde(flatten)]
    pub relation: Relation,
}

/// How the rates of two methods compare. What was published without a number has none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "relation", content = "times", rename_all = "snake_case")]
pub enum Relation {
    /// Faster, about so many times.
    AboutTimes(f64),
    /// Faster; how much was not said.
    Faster,
    /// As fast.
    Same,
    /// About as fast.
    Similar,
}

/// Every published statement on how fast a method is.
#[rustfmt::skip]
pub static PUBLISHED: &[Published] = &[
    // First point: l.i0 has "similar performance regardless of the wal_compression setting".
    published(Step::Load, "lz4", "off", Relation::Similar),
    published(Step::Load, "zstd", "off", Relation::Similar),
    published(Step::Load, "lz4", "pglz", Relation::Similar),
    // Second point: l.x, "~1.7X faster", and lz4 "the same as with =off".
    published(Step::Index, "lz4", "pglz", Relation::AboutTimes(1.7)),
    published(Step::Index, "lz4", "off", Relation::Same),
    // Third point: l.i1, lz4 or zstd "faster [...] than with =off or =pglz", lz4 "~1.4X faster
    // than =pglz".
    published(Step::Insert, "lz4", "pglz", Relation::AboutTimes(1.4)),
    published(Step::Insert, "zstd", "pglz", Relation::Faster),
    published(Step::Insert, "lz4", "off", Relation::Faster),
    published(Step::Insert, "zstd", "off", Relation::Faster),
];

const fn published(
    step: Step,
    faster: &'static str,
    slower: &'static str,
    relation: Relation,
) -> Published {
    Published {
        step,
        faster,
        slower,
        relation,
    }
}

impl Published {
    /// As a sentence.
    pub fn sentence(&self) -> String {
        let Published {
            step,
            faster,
            slower,
            ..
        } = self;
        let compared = match self.relation {
            Relation::AboutTimes(times) => format!("is about {times} times faster than"),
            Relation::Faster => "is faster than".to_owned(),
            Relation::Same => "is as fast as".to_owned(),
            Relation::Similar => "is about as fast as".to_owned(),
        };
        let unsaid = match self.relation {
            Relation::Faster => ", by how much was not published",
            _ => "",
        };
        format!("{}: {faster} {compared} {slower}{unsaid}", step.name())
    }

    /// In a table of how many times faster.
    pub(super) fn cell(&self) -> Cell {
        match self.relation {
            Relation::AboutTimes(times) => Cell::said(times, format!("about {times}")),
            Relation::Faster => Cell::from("faster, no number"),
            Relation::Same => Cell::from("the same"),
            Relation::Similar => Cell::from("similar"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Results, Work};
    use super::*;
    use crate::output::Record;
    use crate::provenance::Program;
    use crate::provenance::Provenance;
    use crate::server::Settings;

    fn results() -> Results {
        Results {
            experiment: "insert",
            provenance: Provenance::gather(None),
            server: Program {
                name: "postgres".to_owned(),
                package: String::new(),
                version: "PostgreSQL".to_owned(),
                blake3: String::new(),
            },
            settings: Settings::volatile(),
            work: Work {
                rows: 1,
                further_rows: 1,
                rows_per_transaction: 1,
                clients: 1,
                seed: 1,
                shared_buffers_megabytes: Vec::new(),
                memory_limit_megabytes: None,
                runs: 1,
                quick: true,
            },
            methods: Vec::new(),
            left_out: Vec::new(),
            measurements: Vec::new(),
            resumed: None,
            published: PUBLISHED,
            stopped: None,
        }
    }

    /// What the line of a comparison says, with single spaces.
    fn line(text: &str, beginning: &str) -> String {
        let mut lines = text.lines().filter(|line| line.starts_with(beginning));
        let found: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
        assert_eq!(lines.next(), None, "{beginning} twice");
        found.join(" ")
    }

    #[test]
    fn a_relation_without_a_published_number_is_printed_in_words() {
        let text = results().to_string();
        for (of, said) in [
            ("l.i0: lz4 than off", "similar"),
            ("l.x: lz4 than pglz", "about 1.7"),
            ("l.x: lz4 than off", "the same"),
            ("l.i1: lz4 than pglz", "about 1.4"),
            ("l.i1: zstd than pglz", "faster, no number"),
            ("l.i1: lz4 than off", "faster, no number"),
            ("l.i1: zstd than off", "faster, no number"),
        ] {
            assert_eq!(line(&text, of), format!("{of} {said}"));
        }
    }

    #[test]
    fn comma_separated_values_and_json_have_no_number_that_was_not_published() {
        let mut csv = Vec::new();
        results().write_csv(&mut csv).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        let of = |beginning| line(&csv, &format!("# published: {beginning}"));
        assert!(of("l.x: lz4 is about 1.7 times faster than pglz").contains(SOURCE));
        of("l.i1: lz4 is faster than off, by how much was not published");
        of("l.x: lz4 is as fast as off");
        let json = serde_json::to_value(PUBLISHED).unwrap();
        let times = json.as_array().unwrap().iter().map(|one| &one["times"]);
        let numbers: Vec<f64> = times.filter_map(serde_json::Value::as_f64).collect();
        assert_eq!(numbers, [1.7, 1.4]);
    }
}
