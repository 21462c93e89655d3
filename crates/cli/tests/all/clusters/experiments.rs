//! The experiments that start servers of their own: what they write, and that nothing is left
//! of them, whatever ends them.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use walzip_testing::not_run;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, is_root, said};

/// A site whose temporary directory is looked into.
struct Laboratory {
    site: Site,
    temp_dir: PathBuf,
    results: PathBuf,
}

impl Laboratory {
    fn new() -> Option<Laboratory> {
        Laboratory::of(15)
    }

    fn of(major: u32) -> Option<Laboratory> {
        let site = Site::new(major)?;
        let temp_dir = site.create_directory("tmp");
        let results = site.create_directory("results");
        Some(Laboratory {
            site,
            temp_dir,
            results,
        })
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.site.walzip(&["bench"]);
        let programs = self.site.program("postgres");
        command
            .args(arguments)
            .arg("--pg-bin")
            .arg(programs.parent().expect("a directory"))
            .env("TMPDIR", &self.temp_dir)
            .current_dir(&self.results);
        command
    }

    /// Runs to the end, which has to be success, and returns what it printed.
    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("walzip starts");
        assert!(output.status.success(), "{}", said(&output));
        self.assert_nothing_is_left();
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Starts it and waits until it says that it begins with this step.
    fn start_until(&self, arguments: &[&str], step: &str) -> Child {
        let mut command = self.command(arguments);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("walzip starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut all = String::new();
        while !all.contains(step) {
            let read = stderr.read_line(&mut all).expect("readable");
            assert!(read > 0, "it ended before {step}:\n{all}");
        }
        // What else it says must not fill the pipe.
        std::thread::spawn(move || stderr.read_to_string(&mut String::new()));
        child
    }

    fn json(&self, name: &str) -> Value {
        let text = fs::read_to_string(self.results.join(name)).expect(name);
        serde_json::from_str(&text).expect("JSON")
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.results.join(name)).expect(name)
    }

    /// No file, and no server whose directory was here.
    #[track_caller]
    fn assert_nothing_is_left(&self) {
        assert_eq!(names(&self.temp_dir), Vec::<String>::new());
        let running = running_in(&self.temp_dir);
        assert!(running.is_empty(), "still running: {running:?}");
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.expect("an entry").file_name();
        name.into_string().expect("UTF-8")
    };
    entries.map(name).collect()
}

/// The command lines of processes that name a directory.
fn running_in(directory: &Path) -> Vec<String> {
    let directory = directory.to_str().expect("UTF-8");
    let processes = fs::read_dir("/proc")
        .expect("the proc file system")
        .flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(directory)).collect()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it still runs");
}

#[test]
fn wal_compression_is_measured_from_the_server_to_the_archive() {
    let Some(laboratory) = Laboratory::new() else {
        return;
    };
    let mut arguments = vec!["wal-compression", "--quick", "--transactions", "1800"];
    arguments.extend(["--checkpoints", "2", "--contender", "walzip:1"]);
    arguments.extend(["--csv", "r.csv", "--json", "r.json", "--report", "r.html"]);
    let text = laboratory.run(&arguments);
    assert!(
        text.contains("2 checkpoints during the transactions, evenly spaced"),
        "{text}"
    );
    assert!(text.contains("beyond that with pglz"), "{text}");
    let json = laboratory.json("r.json");
    let methods: Vec<&str> = json["methods"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(Value::as_str)
        .collect();
    assert_eq!(methods, ["off", "pglz", "lz4", "zstd"]);
    let measurements = json["measurements"].as_array().unwrap();
    // Filling, transactions, inserts and updates.
    assert_eq!(measurements.len(), 4 * methods.len());
    let wal = |method: &str, stage: &str, field: &str| {
        let found = measurements
            .iter()
            .find(|run| run["method"] == method && run["stage"] == stage);
        found.unwrap()["wal"][field].as_u64().unwrap()
    };
    for method in methods {
        assert_eq!(wal(method, "transactions", "checkpoints"), 2, "{method}");
        // The same images, and fewer bytes of them.
        assert!(wal(method, "transactions", "images") > 500, "{method}");
        if method != "off" {
            let [with, without] =
                [method, "off"].map(|method| wal(method, "transactions", "bytes"));
            assert!(with < without / 2, "{method}: {with} {without}");
        }
        let archived = json["archived"].as_array().unwrap();
        let ours = |line: &&Value| line["method"] == method && line["program"] == "walzip -1";
        assert_eq!(archived.iter().filter(ours).count(), 4, "{method}");
    }
    assert!(laboratory.text("r.csv").contains("\nzstd,1,transactions,"));
    assert!(
        laboratory
            .text("r.csv")
            .contains("\n# archived,lz4,transactions,walzip -1,0.")
    );
    assert!(
        laboratory
            .text("r.html")
            .contains("What does wal_compression do?")
    );
}

#[test]
fn the_insert_benchmark_is_measured_with_and_without_enough_memory() {
    let Some(laboratory) = Laboratory::new() else {
        return;
    };
    let mut arguments = vec!["insert", "--quick", "--rows", "10000"];
    arguments.extend(["--method", "pglz", "--method", "lz4"]);
    arguments.extend(["--csv", "r.csv", "--json", "r.json", "--report", "r.html"]);
    let text = laboratory.run(&arguments);
    assert!(text.contains("l.x: lz4 than pglz"), "{text}");
    let json = laboratory.json("r.json");
    let measurements = json["measurements"].as_array().unwrap();
    assert_eq!(measurements.len(), 2 * 2 * 3);
    for run in measurements {
        let operations = match run["step"].as_str().unwrap() {
            "l.i0" => 10_000,
            "l.x" => 30_000,
            _ => 2_000,
        };
        assert_eq!(run["operations"], operations);
        assert!(run["wal"]["bytes"].as_u64().unwrap() > 100_000, "{run}");
        assert!(run["server_cpu_s"].as_f64().is_some(), "{run}");
    }
    assert_eq!(laboratory.text("r.csv").matches("\nexceeds,").count(), 6);
    assert!(
        laboratory
            .text("r.html")
            .contains("What does wal_compression cost an insert?")
    );
}

#[test]
fn an_interrupt_keeps_what_was_measured_and_the_rest_can_be_measured_later() {
    let Some(laboratory) = Laboratory::new() else {
        return;
    };
    let arguments = [
        "insert", "--quick", "--rows", "2000", "--method", "off", "--method", "pglz", "--json",
        "r.json",
    ];
    let child = laboratory.start_until(&arguments, "[5/12");
    signal(&child, Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(104));
    laboratory.assert_nothing_is_left();
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("Incomplete: interrupted."), "{text}");
    let first = laboratory.json("r.json");
    assert_eq!(first["stopped"], "interrupted");
    let kept = first["measurements"].as_array().unwrap();
    assert!((4..12).contains(&kept.len()), "{}", kept.len());

    let mut arguments = arguments.to_vec();
    arguments.push("--resume");
    laboratory.run(&arguments);
    let second = laboratory.json("r.json");
    assert_eq!(second["measurements"].as_array().unwrap().len(), 12);
    assert_eq!(second["measurements"][0], kept[0]);
    assert_eq!(second["resumed"]["date"], first["provenance"]["date"]);

    arguments.extend(["--seed", "2"]);
    let refused = laboratory
        .command(&arguments)
        .output()
        .expect("walzip starts");
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("was measured with other options"));
}

#[test]
fn a_killed_experiment_leaves_no_server_and_no_file() {
    let Some(laboratory) = Laboratory::new() else {
        return;
    };
    let arguments = [
        "generate",
        "--workload",
        "shop",
        "--scale",
        "1",
        "--segments",
        "2000",
        "--wal-segsize",
        "1",
        "--output",
        "out",
    ];
    let mut child = laboratory.start_until(&arguments, "[1/2000");
    assert!(!running_in(&laboratory.temp_dir).is_empty());
    signal(&child, Signal::KILL);
    child.wait().expect("it ends");
    let begin = Instant::now();
    while !names(&laboratory.temp_dir).is_empty() || !running_in(&laboratory.temp_dir).is_empty() {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "left behind: {:?} {:?}",
            names(&laboratory.temp_dir),
            running_in(&laboratory.temp_dir)
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_server_without_lz4_and_zstd_is_measured_without_them() {
    // As PostgreSQL 16 comes to the tests.
    let Some(laboratory) = Laboratory::of(16) else {
        return;
    };
    let mut arguments = vec!["wal-compression", "--quick", "--transactions", "200"];
    arguments.extend(["--contender", "walzip:1", "--json", "r.json"]);
    let text = laboratory.run(&arguments);
    let left_out = ["lz4", "zstd"].map(|method| {
        let reason = format!("{method} is left out: the server was built without it");
        assert!(text.contains(&reason), "{text}");
        reason
    });
    let json = laboratory.json("r.json");
    assert_eq!(json["methods"], serde_json::json!(["off", "pglz"]));
    assert_eq!(json["left_out"], serde_json::json!(left_out));

    let arguments = [
        "basebackup",
        "--quick",
        "--data",
        "pgbench",
        "--json",
        "b.json",
    ];
    let text = laboratory.run(&arguments);
    assert!(
        text.contains(&left_out[0]) && text.contains(&left_out[1]),
        "{text}"
    );
    let json = laboratory.json("b.json");
    // gzip and walzip are left.
    assert_eq!(
        json["ranks"]["average"].as_array().unwrap().len(),
        2,
        "{text}"
    );
}

#[test]
fn a_running_server_is_backed_up_and_asked_for_nothing_else() {
    let Some(laboratory) = Laboratory::new() else {
        return;
    };
    let server = Server::create(&laboratory.site, "running", 16);
    server.configure(
        "wal_level = replica\nmax_wal_senders = 4\nlog_statement = all\n\
        log_replication_commands = on",
    );
    server.start(&[]);
    server.sql("CREATE TABLE t AS SELECT i, md5(i::text) FROM generate_series(1, 20000) AS i");
    let before = server.log().len();
    let address = format!("host={} user=tester", server.socket().display());
    let mut arguments = vec!["basebackup", "--quick", "--server", &address];
    arguments.extend(["--json", "r.json", "--csv", "r.csv", "--report", "r.html"]);
    let text = laboratory.run(&arguments);
    assert!(text.contains("walzip backup is left out"), "{text}");
    let json = laboratory.json("r.json");
    assert_eq!(json["measurements"].as_array().unwrap().len(), 4, "{text}");
    for measured in json["measurements"].as_array().unwrap() {
        assert!(
            measured["bytes"].as_u64().unwrap() > 1_000_000,
            "{measured}"
        );
    }
    for file in ["r.json", "r.csv", "r.html"] {
        let socket = server.socket();
        assert!(
            !laboratory.text(file).contains(socket.to_str().unwrap()),
            "{file}"
        );
    }
    let log = server.log();
    let asked = log[before..]
        .lines()
        .filter(|line| line.contains("statement: "));
    assert_eq!(asked.collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(log[before..].contains("received replication command: BASE_BACKUP"));
    server.stop();
}

#[test]
fn an_ordinary_user_has_an_ssh_server_and_warm_caches() {
    let Some(laboratory) = Laboratory::new() else {
        return;
    };
    let mut arguments = vec!["segments", "--quick", "--size", "1", "--total", "2"];
    arguments.extend([
        "--content",
        "zeros",
        "--way",
        "cp",
        "--way",
        "scp",
        "--way",
        "rsync",
    ]);
    arguments.extend(["--json", "r.json", "--report", "r.html"]);
    let text = laboratory.run(&arguments);
    let json = laboratory.json("r.json");
    for reason in json["left_out"].as_array().unwrap() {
        not_run(reason.as_str().unwrap());
    }
    let rows = json["rows"].as_array().unwrap().len();
    assert_eq!(
        json["measurements"].as_array().unwrap().len(),
        rows,
        "{text}"
    );
    assert!(
        laboratory
            .text("r.html")
            .contains("Does the segment size matter")
    );
    // A site runs everything as an ordinary user when root runs the tests.
    if is_root() {
        let reason = "warm: files may be in memory (only root can make the kernel forget them)";
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn what_cannot_be_measured_is_said_at_once() {
    let Some(laboratory) = Laboratory::new() else {
        return;
    };
    let refusal = |arguments: &[&str]| {
        let output = laboratory
            .command(arguments)
            .output()
            .expect("walzip starts");
        assert!(!output.status.success(), "{}", said(&output));
        laboratory.assert_nothing_is_left();
        said(&output)
    };
    let text = refusal(&["wal-compression", "--quick", "--method", "brotli"]);
    assert!(
        text.contains("has no wal_compression brotli: it has off, pglz"),
        "{text}"
    );
    let text = refusal(&["insert", "--quick", "--set", "shared_bufers=1GB"]);
    assert!(
        text.contains("unrecognized configuration parameter"),
        "{text}"
    );
    let text = refusal(&["insert", "--rows", "9000000000"]);
    assert!(
        text.contains("choose fewer rows") || text.contains("too little space"),
        "{text}"
    );
    let text = refusal(&["generate", "--workload", "tpcc", "--output", "out"]);
    assert!(
        text.contains("there are pgbench, shop, insert, copy, time-series, documents"),
        "{text}"
    );
}
