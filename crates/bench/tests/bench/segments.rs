//! Archiving as small and as large segments, with small programs of the tests' own; and over
//! the real SSH server.

use std::fs;
use std::path::Path;
use std::time::Duration;

use walzip_bench::segments::{Content, Kind, Method, Options, Results, Target, run};
use walzip_bench::{Error, Progress, Step};
use walzip_testing::not_run;

use crate::support::{Bench, Heard, is_empty};

const NAME: &str = "000000010000000000000001";

/// A repository is a directory that says whose it is.
fn make_repository(directory: &Path, system_id: u64, major: u32) -> Result<(), String> {
    let made = fs::create_dir_all(directory)
        .and_then(|()| fs::write(directory.join("cluster"), format!("{system_id} {major}")));
    made.map_err(|error| error.to_string())
}

/// Puts a segment beside the repository's own file, refuses zeros, and gets it back.
const WALZIP: &str = r#"
case $1 in
archive-push)
    [ "$(/usr/bin/head -c 4 "$4" | /usr/bin/tr -d '\0')" ] || { echo 'not WAL' >&2; exit 28; }
    /bin/cp -n "$4" "$3" ;;
archive-get) /bin/cp "$3/$4" "$5" ;;
*) for last; do :; done; /bin/cat "$last" ;;
esac"#;

fn bench(ways: &[&str]) -> (Bench, Options) {
    let bench = Bench::new();
    bench.program("walzip", WALZIP);
    bench.program("cp", "exec /bin/cp \"$@\"");
    let mut options = Options::new(
        bench.path("bin/walzip"),
        make_repository,
        bench.path("bin").into_os_string(),
        bench.path("tmp"),
    );
    options.sizes_megabytes = vec![1, 2];
    options.total_megabytes = Some(4);
    options.runs = Some(2);
    options.warm = true;
    options.methods = ways
        .iter()
        .map(|name| Method::named(name).unwrap())
        .collect();
    (bench, options)
}

/// A segment of 1 MiB as PostgreSQL 15 writes it.
fn segment(bench: &Bench) -> std::path::PathBuf {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&0xD110_u16.to_le_bytes());
    bytes.extend_from_slice(&0x0002_u16.to_le_bytes());
    bytes.extend_from_slice(&1_u32.to_le_bytes());
    bytes.extend_from_slice(&(1_u64 << 20).to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&7_000_000_000_000_000_001_u64.to_le_bytes());
    bytes.extend_from_slice(&(1_u32 << 20).to_le_bytes());
    bytes.extend_from_slice(&8192_u32.to_le_bytes());
    bytes.resize(1 << 20, 7);
    let folder = bench.path("samples/oltp");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(NAME), bytes).unwrap();
    folder
}

fn measure(bench: &Bench, options: &Options) -> Result<Results, Error> {
    let results = run(options, &mut Heard::default());
    assert!(is_empty(&bench.path("tmp")), "something was left behind");
    results
}

fn measured(results: &Results, row: usize, set: usize) -> usize {
    let of_pair = results.measurements.iter();
    of_pair
        .filter(|measured| (measured.row, measured.set) == (row, set))
        .count()
}

#[test]
fn archives_each_set_in_each_way_and_says_what_walzip_refuses() {
    let (bench, mut options) = bench(&["cp", "archive-push", "compress"]);
    options.inputs = vec![segment(&bench)];
    options.files.csv = Some(bench.path("results.csv"));
    options.files.json = Some(bench.path("results.json"));
    let results = measure(&bench, &options).unwrap();
    let shapes: Vec<_> = results
        .sets
        .iter()
        .map(|set| (set.content, set.segment_bytes >> 20, set.files, set.genuine))
        .collect();
    let expected = [
        (Content::Zeros, 1, 4, false),
        (Content::Zeros, 2, 2, false),
        (Content::Wal, 1, 4, true),
        (Content::Wal, 2, 2, false),
    ];
    assert_eq!(shapes, expected);
    for set in 0..4 {
        assert_eq!(measured(&results, 0, set), 2, "cp takes everything");
    }
    // Four times the same segment: each time into a repository of its own.
    assert_eq!(measured(&results, 1, 2), 2);
    assert_eq!(results.figures(1, 2).unwrap().stored_bytes >> 20, 4);
    let refused: Vec<_> = results
        .failed
        .iter()
        .filter(|failed| failed.refused)
        .collect();
    assert_eq!((refused.len(), results.failed.len()), (2, 2));
    assert!(refused[0].reason.contains("not WAL"));
    assert_eq!(measured(&results, 2, 0), 2, "a filter takes zeros");
    assert_eq!(measured(&results, 2, 3), 0, "pieces are no segments");
    let text = results.to_string();
    assert!(
        text.contains("archive-push refuses zeros of 1 MB: "),
        "{text}"
    );
    assert!(
        text.contains("walzip is left out for WAL of 2 MB"),
        "{text}"
    );
    assert!(
        text.contains("given: 1 segments, taken 4.0 times"),
        "{text}"
    );
    let csv = fs::read_to_string(bench.path("results.csv")).unwrap();
    let lines: Vec<_> = csv.lines().filter(|line| !line.starts_with('#')).collect();
    let columns = lines[0].split(',').count();
    assert!(
        lines.iter().all(|line| line.split(',').count() == columns),
        "{csv}"
    );
    assert!(csv.contains("\ncp,WAL,1048576,4,4194304,1,ok,"), "{csv}");
    let json = fs::read_to_string(bench.path("results.json")).unwrap();
    let path = bench.path("");
    for file in [&csv, &json, &text] {
        assert!(
            !file.contains(path.to_str().unwrap()),
            "a path is published: {file}"
        );
    }
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    // That loop copied a quarter of the bytes.
    assert_eq!(json["published"][0]["of_16_mb"]["wall_s"], 17.444);
    assert!(json["published"][0]["of_64_mb"].is_null());
    assert_eq!(json["published"][1]["of_64_mb"]["wall_s"], 83.326);
    let source = json["published_source"].as_str().unwrap();
    assert!(source.contains("cp of 64 MB has no figure"), "{source}");
    assert_eq!(json["settings"]["caches"]["state"], "warm");
    assert_eq!(json["sets"][0]["blake3"].as_str().unwrap().len(), 64);
}

#[test]
fn archives_are_made_where_the_user_says_and_are_gone_afterwards() {
    let (bench, mut options) = bench(&["cp"]);
    let own = bench.path("own");
    fs::create_dir(&own).unwrap();
    options.target = Some(Target::Directory(own.clone()));
    // What is copied passes through that directory and no other.
    bench.program(
        "cp",
        &format!(
            "case $2 in {}/*) exec /bin/cp \"$@\" ;; esac\nexit 1",
            own.display()
        ),
    );
    let results = run(&options, &mut Heard::default()).unwrap();
    assert!(results.failed.is_empty(), "{:?}", results.failed);
    assert!(!results.measurements.is_empty());
    assert!(is_empty(&own), "something was left behind");
    let text = results.to_string();
    assert!(
        text.contains("archives: in a directory of one's own, on "),
        "{text}"
    );
    assert!(!text.contains(own.to_str().unwrap()), "{text}");
    options.target = Some(Target::Directory(bench.path("absent")));
    assert!(run(&options, &mut Heard::default()).is_err());
}

#[test]
fn what_arrives_changed_gets_no_figure() {
    let (bench, mut options) = bench(&["cp"]);
    bench.program("cp", "/bin/cp \"$@\" && echo >>\"$2\"");
    options.contents = vec![Content::Zeros];
    let results = measure(&bench, &options).unwrap();
    assert!(results.measurements.is_empty());
    assert!(
        results.failed[0]
            .reason
            .contains("did not arrive as it was")
    );
    assert!(results.to_string().contains("cp FAILED on zeros of 1 MB"));
}

#[test]
fn missing_programs_are_named_with_their_packages() {
    let (bench, mut options) = bench(&["cp", "scp", "rsync"]);
    bench.program("scp", "exit 0");
    options.contents = vec![Content::Zeros];
    let results = measure(&bench, &options).unwrap();
    let said = results.left_out.join("\n");
    assert!(
        said.contains("rsync is left out: rsync is not installed (package rsync;"),
        "{said}"
    );
    assert!(
        said.contains("scp are left out: ") && said.contains("(package openssh-"),
        "{said}"
    );
    assert_eq!(results.rows.len(), 1);
    options.methods = vec![Method::named("rsync").unwrap()];
    let error = measure(&bench, &options).unwrap_err().to_string();
    assert!(error.starts_with("no way to measure: rsync"), "{error}");
}

/// Requests a stop in the middle of a measurement.
struct Stops(walzip_bench::Cancel);

impl Progress for Stops {
    fn note(&mut self, _text: &str) {}

    fn step(&mut self, step: &Step) {
        if step.done == 2 {
            let cancel = self.0.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                cancel.request();
            });
        }
    }
}

#[test]
fn an_interrupt_keeps_what_was_measured_and_leaves_nothing_behind() {
    let (bench, mut options) = bench(&["cp"]);
    let count = bench.path("count");
    // After its version, four files and two, the program hangs: in the second run.
    let script = format!(
        "echo >>{0}\n[ $(/usr/bin/wc -l <{0}) -gt 7 ] && exec /bin/sleep 60\nexec /bin/cp \"$@\"",
        count.display()
    );
    bench.program("cp", &script);
    options.contents = vec![Content::Zeros];
    options.files.json = Some(bench.path("results.json"));
    let results = run(&options, &mut Stops(options.cancel.clone())).unwrap();
    assert_eq!(results.stopped.as_deref(), Some("interrupted"));
    assert_eq!(results.measurements.len(), 2);
    assert!(is_empty(&bench.path("tmp")));
    let json = fs::read_to_string(bench.path("results.json")).unwrap();
    assert!(json.contains("\"stopped\": \"interrupted\""));
}

#[test]
fn an_earlier_run_is_gone_on_with() {
    let (bench, mut options) = bench(&["cp"]);
    options.contents = vec![Content::Zeros];
    options.files.json = Some(bench.path("results.json"));
    options.files.resume = true;
    options.runs = Some(1);
    assert_eq!(measure(&bench, &options).unwrap().measurements.len(), 2);
    options.runs = Some(2);
    options.methods.push(Method::named("compress").unwrap());
    let mut heard = Heard::default();
    let results = run(&options, &mut heard).unwrap();
    assert_eq!((results.measurements.len(), heard.steps.len()), (8, 6));
    assert_eq!(results.resumed[0].measurements, 2);
    // Another program under the same name is measured anew, once its old figures may go.
    bench.program("cp", "exec /bin/cp \"$1\" \"$2\"");
    let refused = measure(&bench, &options).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::WouldLose {
                measurements: 4,
                ..
            }
        ),
        "{refused}"
    );
    options.files.force = true;
    let mut heard = Heard::default();
    run(&options, &mut heard).unwrap();
    assert_eq!(heard.steps.len(), 4);
    fs::write(bench.path("results.json"), "{\"experiment\": \"wal\"}").unwrap();
    let error = measure(&bench, &options).unwrap_err().to_string();
    assert!(
        error.contains("is not the JSON of an earlier run"),
        "{error}"
    );
}

#[test]
fn a_full_disk_stops_the_experiment() {
    let (bench, mut options) = bench(&["cp"]);
    bench.program(
        "cp",
        "echo 'cp: error writing: No space left on device' >&2; exit 1",
    );
    options.contents = vec![Content::Zeros];
    let results = measure(&bench, &options).unwrap();
    assert!(results.stopped.unwrap().contains("No space left on device"));
}

#[test]
fn scp_and_rsync_go_over_a_server_that_is_gone_afterwards() {
    let (bench, mut options) = bench(&["scp", "rsync"]);
    options.search_path = std::env::var_os("PATH").unwrap();
    options.contents = vec![Content::Zeros];
    options.total_megabytes = Some(2);
    options.runs = Some(1);
    let results = match measure(&bench, &options) {
        Ok(results) => results,
        Err(error) => return not_run(&error.to_string()),
    };
    for reason in &results.left_out {
        not_run(reason);
    }
    assert!(results.failed.is_empty(), "{:?}", results.failed);
    assert_eq!(results.measurements.len(), 2 * results.rows.len());
    assert!(results.rows.iter().all(|row| row.kind == Kind::Ssh));
    // The configuration's path is in the server's command line.
    let directory = bench.path("tmp");
    let directory = directory.to_str().unwrap();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        assert!(!command.contains(directory), "still runs: {command}");
    }
}
