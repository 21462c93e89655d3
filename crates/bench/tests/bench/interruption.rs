//! Stopped by the user, by a full disk: what was measured is kept, nothing is left behind.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use walzip_bench::wal::{Measurement, run};
use walzip_bench::{Cancel, Progress, Step};

use crate::support::{Bench, is_empty};

const SEGMENT: &str = "000000010000000000000001";

/// Requests a stop as soon as a file appears.
struct StopsWhen<'a> {
    cancel: Cancel,
    appears: &'a Path,
}

impl Progress for StopsWhen<'_> {
    fn note(&mut self, _text: &str) {}

    fn step(&mut self, step: &Step) {
        if !step.label.starts_with("walzip") {
            return;
        }
        let (cancel, appears) = (self.cancel.clone(), self.appears.to_owned());
        std::thread::spawn(move || {
            while !fs::read_to_string(&appears).is_ok_and(|text| text.ends_with('\n')) {
                std::thread::sleep(Duration::from_millis(5));
            }
            cancel.request();
        });
    }
}

#[test]
fn an_interrupt_kills_the_program_and_its_children_and_keeps_what_was_measured() {
    let mut bench = Bench::new();
    let pids = bench.path("pids");
    bench.program(
        "walzip",
        &format!(
            "[ $1 = compress ] || exit 0\n/bin/sleep 60 &\necho $$ $! >{}\nwait",
            pids.display()
        ),
    );
    bench.segment("oltp", SEGMENT, b"123456789");
    bench.segment("other", SEGMENT, b"123456789");
    bench.options.files.csv = Some(bench.path("results.csv"));
    let mut progress = StopsWhen {
        cancel: bench.options.cancel.clone(),
        appears: &pids,
    };
    let start = Instant::now();
    let results = run(&bench.options, &mut progress).unwrap();
    assert!(start.elapsed() < Duration::from_secs(50));
    assert_eq!(results.stopped.as_deref(), Some("interrupted"));
    assert!(results.measurements.len() < 4);
    assert!(results.to_string().contains("Incomplete: interrupted."));
    assert!(
        fs::read_to_string(bench.path("results.csv"))
            .unwrap()
            .contains("# incomplete: interrupted")
    );
    assert!(is_empty(&bench.path("tmp")));
    for pid in fs::read_to_string(&pids).unwrap().split_whitespace() {
        assert!(ends_soon(pid), "process {pid} still runs");
    }
}

/// A killed process may wait a moment to be reaped by whoever inherited it.
fn ends_soon(pid: &str) -> bool {
    for _ in 0..200 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .trim_start()
            .chars()
            .next();
        if matches!(state, None | Some('Z' | 'X')) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn an_interrupted_run_goes_on_where_it_stopped() {
    let mut bench = Bench::new();
    bench.segment("oltp", SEGMENT, b"123456789");
    bench.segment("other", SEGMENT, b"another segment");
    bench.options.runs = Some(2);
    bench.options.files.json = Some(bench.path("results.json"));
    bench.options.files.resume = true;
    // The first time, walzip is killed in the middle of its second call.
    let count = bench.path("count");
    let killed = format!(
        "[ -e {0} ] && kill -9 $$\n: >{0}\n{1}",
        count.display(),
        crate::support::COPIES
    );
    bench.program("lz4", &killed);
    bench.options.contenders = vec!["lz4:1".parse().unwrap()];
    let first = bench.run().unwrap();
    assert_eq!(first.measurements.len(), 2 * 2);
    assert!(
        first
            .failed
            .iter()
            .all(|failed| failed.reason.contains("signal: 9"))
    );
    bench.progress.steps.clear();
    // Only what is new or failed is measured: the second program was replaced.
    bench.program("lz4", crate::support::COPIES);
    let second = bench.run().unwrap();
    assert_eq!(bench.progress.steps.len(), 2 * 2);
    assert_eq!(second.measurements.len(), 2 * 2 * 2);
    // They are known as the earlier run's.
    let taken = second.measurements[..4].iter().map(|measured| Measurement {
        start: 0,
        ..*measured
    });
    assert!(
        second.measurements[..4]
            .iter()
            .all(|measured| measured.start == 1)
    );
    assert_eq!(taken.collect::<Vec<_>>(), first.measurements);
    assert_eq!(second.resumed[0].measurements, 4);
    assert!(
        second
            .to_string()
            .contains("4 measurements of an earlier run were taken over")
    );
    assert!(second.failed.is_empty());
    // More runs than before: only the new ones.
    bench.progress.steps.clear();
    bench.options.runs = Some(3);
    assert_eq!(bench.run().unwrap().measurements.len(), 2 * 2 * 3);
    assert_eq!(bench.progress.steps.len(), 2 * 2);
}

#[test]
fn going_on_needs_the_json_of_this_experiment() {
    let mut bench = Bench::new();
    bench.segment("oltp", SEGMENT, b"123456789");
    bench.options.files.resume = true;
    let error = bench.run().unwrap_err().to_string();
    assert!(error.contains("name the JSON file"), "{error}");
    let json = bench.path("results.json");
    fs::write(&json, "{\"date\": 1}").unwrap();
    bench.options.files.json = Some(json.clone());
    let error = bench.run().unwrap_err().to_string();
    assert!(
        error.contains("is not the JSON of an earlier run"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(json).unwrap(), "{\"date\": 1}");
}

#[test]
fn a_request_before_the_beginning_measures_nothing() {
    let mut bench = Bench::new();
    bench.segment("oltp", SEGMENT, b"123456789");
    bench.options.cancel.request();
    let error = bench.run().unwrap_err().to_string();
    assert_eq!(error, "interrupted before anything was measured");
}

#[test]
fn a_full_disk_stops_the_experiment_and_keeps_what_was_measured() {
    let mut bench = Bench::new();
    bench.program(
        "zstd",
        "for last; do :; done\necho \"zstd: $last: No space left on device\" >&2; exit 70",
    );
    bench.segment("oltp", SEGMENT, b"123456789");
    bench.options.runs = Some(5);
    let results = bench.run().unwrap();
    let reason = results.stopped.as_deref().unwrap();
    let said = format!("zstd: {SEGMENT}: No space left on device");
    assert!(
        reason.contains(&said),
        "a published file names no directory: {reason}"
    );
    assert!(results.measurements.len() <= 1 && results.failed.is_empty());
    assert!(bench.progress.notes.iter().any(|note| note == reason));
}
