//! What was published in 2017, all of it: programs and levels, samples, going on, time left.

use std::time::Duration;

use walzip_bench::{Cancel, Progress, Sample, Step};

use crate::support::Bench;

const SEGMENT: &str = "000000010000000000000001";

/// Copies its last argument into the file behind `-o`, or of 7za's two last arguments the last
/// into the other.
const COPIES_INTO: &str = "out=\nprevious=\nfor last; do\n\
    [ \"$previous\" = -o ] && out=$last\n\
    before=$previous\nprevious=$last\ndone\n\
    case $1 in a) exec /bin/cp \"$last\" \"$before\" ;; e) exec /bin/cat \"$last\" ;; esac\n\
    exec /bin/cp \"$last\" \"$out\"";

/// A machine on which every program of the article is installed.
fn bench() -> Bench {
    let mut bench = Bench::new();
    for name in ["gzip", "pigz", "bzip2", "lbzip2", "xz"] {
        bench.program(name, crate::support::COPIES);
    }
    for name in ["7za", "lrzip"] {
        bench.program(name, COPIES_INTO);
    }
    bench.options.contenders.clear();
    bench.options.published = true;
    bench.segment("oltp", SEGMENT, b"123456789");
    bench
}

/// Stops after some steps, and remembers what was left at each.
struct Stops {
    cancel: Cancel,
    after: usize,
    left: Vec<Option<Duration>>,
}

impl Progress for Stops {
    fn note(&mut self, _text: &str) {}

    fn step(&mut self, step: &Step) {
        self.left.push(step.remaining);
        if self.left.len() > self.after {
            self.cancel.request();
        }
    }
}

#[test]
fn all_81_pairs_are_measured_and_an_interrupted_night_goes_on() {
    let mut bench = bench();
    bench.segment("oltp", "000000010000000000000002", b"another");
    let json = bench.path("results.json");
    bench.options.files.json = Some(json.clone());
    let rows = 81 + 1 + 9;
    let mut stops = Stops {
        cancel: bench.options.cancel.clone(),
        after: rows + 40,
        left: Vec::new(),
    };
    let first = walzip_bench::wal::run(&bench.options, &mut stops).unwrap();
    assert_eq!(first.stopped.as_deref(), Some("interrupted"));
    assert_eq!(first.measurements.len(), rows + 40);
    let told = stops.left.iter().filter(|left| left.is_some()).count();
    assert_eq!(
        told,
        rows + 40,
        "the time left is told from the second step on"
    );
    // It shows what it has: the segment that every row was measured on.
    assert!(first.summary.iter().all(|of| of.all.is_some()));
    let said = "Figures are of 1 of 2 segments, which every row was measured on.";
    assert!(first.to_string().contains(said), "{first}");

    bench.options.cancel = Cancel::default();
    bench.options.files.resume = true;
    let second = bench.run().unwrap();
    assert_eq!(second.stopped, None);
    // What was begun of the other segment is made again, so that its rows are interleaved.
    assert_eq!(second.resumed[0].measurements, rows);
    assert_eq!(second.rows.len(), rows);
    assert_eq!(second.measurements.len(), 2 * rows, "{:?}", second.failed);
    let published = &second.dominance.published.pairs;
    assert!(published.iter().all(|pair| pair.row.is_some()));
    let text = second.to_string();
    for label in ["7za -mx=8", "pxz -9", "lrzip -z -L4"] {
        assert!(text.contains(label), "{label}");
    }
}

#[test]
fn a_sample_is_some_of_the_segments_and_is_called_one_everywhere() {
    let mut bench = bench();
    bench.options.published = false;
    bench.options.contenders = vec!["walzip:1".parse().unwrap()];
    for number in 2..=9 {
        let name = format!("00000001000000000000000{number}");
        bench.segment("oltp", &name, format!("{number}").as_bytes());
    }
    bench.options.inputs = vec![bench.path("samples")];
    bench.options.sample = Some(Sample {
        segments: 3,
        seed: 7,
    });
    bench.options.files.csv = Some(bench.path("r.csv"));
    let results = bench.run().unwrap();
    assert_eq!(results.inputs.len(), 3);
    let said = "a random sample of 9 segments, seed 7";
    assert!(results.to_string().contains(said));
    let csv = std::fs::read_to_string(bench.path("r.csv")).unwrap();
    assert!(csv.contains(&format!("# {said}\n")), "{csv}");
    let names = |results: &walzip_bench::wal::Results| -> Vec<String> {
        results
            .inputs
            .iter()
            .map(|input| input.name.clone())
            .collect()
    };
    bench.options.files.csv = None;
    assert_eq!(names(&results), names(&bench.run().unwrap()));
    bench.options.sample = Some(Sample {
        segments: 3,
        seed: 8,
    });
    assert_ne!(names(&results), names(&bench.run().unwrap()));
}

#[test]
fn each_verdict_has_the_runs_and_the_spread_that_it_rests_on() {
    let mut bench = bench();
    bench.options.published = false;
    bench.options.contenders = vec!["gzip:1".parse().unwrap(), "walzip:1".parse().unwrap()];
    bench.options.runs = Some(3);
    let results = bench.run().unwrap();
    assert_eq!(results.dominance.verdicts.len(), 2);
    for verdict in &results.dominance.verdicts {
        assert_eq!(verdict.runs, 3);
        assert!(verdict.spread.is_some_and(|spread| spread >= 0.0));
    }
}
