//! The results as one HTML file that can be sent to a colleague.
//!
//! The file holds everything that it needs, data, style and script, and its own policy forbids
//! the browser to fetch anything: it opens from a disk, without a network, for years.

use std::io;

use serde::Serialize;

use super::published::TIMED_EXAMPLE;
use super::{Dominance, Failed, Missing, Results, Row, Settings, Summary};
use crate::input::Input;
use crate::provenance::Provenance;
use crate::report;

const PAGE: &str = include_str!("report/page.html");
const SCRIPT: &str = include_str!("report/script.js");
const RANKING: &str = include_str!("report/ranking.js");

/// What the page shows: everything but the single measurements.
#[derive(Serialize)]
struct Shown<'a> {
    provenance: &'a Provenance,
    machine: String,
    busy: Option<f64>,
    settings: Settings,
    /// In how many runs every segment was measured.
    complete_runs: u32,
    inputs: &'a [Input],
    /// Which of them figures are of.
    covered: Vec<usize>,
    missing: &'a [Missing],
    rows: &'a [Row],
    failed: &'a [Failed],
    stopped: &'a Option<String>,
    summary: &'a [Summary],
    dominance: &'a Dominance,
    example: Example,
}

/// The example of the article of which everything that `time` printed is known.
#[derive(Serialize)]
struct Example {
    label: &'static str,
    values: [f64; 8],
}

impl Results {
    /// The report.
    pub(super) fn page(&self) -> io::Result<String> {
        let shown = Shown {
            provenance: &self.provenance,
            machine: self.provenance.machine(),
            busy: self.dominance.busy,
            settings: self.settings,
            complete_runs: self.complete_runs(),
            covered: self.covered(),
            inputs: &self.inputs,
            missing: &self.missing,
            rows: &self.rows,
            failed: &self.failed,
            stopped: &self.stopped,
            summary: &self.summary,
            dominance: &self.dominance,
            example: Example {
                label: TIMED_EXAMPLE.label,
                values: TIMED_EXAMPLE.values(),
            },
        };
        // Within a script element only this character could end it.
        let data = serde_json::to_string(&shown)?.replace('<', "\\u003c");
        let slots = [
            ("STYLE", report::STYLE.to_owned()),
            ("COMMON", report::SCRIPT.to_owned()),
            ("SCRIPT", SCRIPT.to_owned()),
            ("RANKING", format!("{RANKING}drawRankingChoices();\n")),
            ("ANSWER", report::escaped(&self.answer())),
            ("BUSY", report::busy(self.dominance.busy, &self.provenance)),
            ("LOAD", report::load_class(self.dominance.busy).to_owned()),
            ("DATA", data),
        ];
        Ok(report::fill(PAGE, &slots))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::fixture::fixture;

    fn report(results: &Results) -> String {
        results.page().unwrap()
    }

    fn data(page: &str) -> serde_json::Value {
        let start = "<script type=\"application/json\" id=\"data\">";
        let data = page.split(start).nth(1).unwrap();
        serde_json::from_str(data.split("</script>").next().unwrap()).unwrap()
    }

    #[test]
    fn holds_style_script_and_data_and_refers_to_nothing_outside() {
        let results = fixture(&[
            ("zstd", 1, &[(100, 0.1), (50, 0.2)]),
            ("walzip", 3, &[(40, 0.05), (20, 0.1)]),
        ]);
        let page = report(&results);
        assert!(page.contains(report::STYLE) && page.contains(SCRIPT));
        assert!(!page.contains("@@"));
        for outside in [
            "://", "src=", "href=", "url(", "@import", "fetch(", "import(",
        ] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("default-src 'none'"));
        let data = data(&page);
        assert_eq!(data["rows"][1]["label"], "walzip -3");
        assert_eq!(data["summary"][1]["all"]["output_bytes"], 60);
        assert_eq!(data["dominance"]["verdicts"][0]["verified"]["row"], 1);
        assert_eq!(data["dominance"]["published"][73]["label"], "pxz -2");
    }

    #[test]
    fn text_from_outside_cannot_end_the_script() {
        let mut results = fixture(&[("zstd", 1, &[(100, 0.1)])]);
        results.stopped = Some("</script><script>alert(1)</script>@@DATA@@".to_owned());
        let page = report(&results);
        assert!(!page.contains("<script>alert"));
        assert_eq!(data(&page)["stopped"], results.stopped.unwrap());
    }
}
