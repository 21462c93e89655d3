//! `walzip bench wal --repo`, `segments` and `basebackup`, with real programs and servers.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use walzip_testing::not_run;

use crate::clusters::pgbackrest;
use crate::sandbox::{SYSTEM_ID, Sandbox, control_file, segment};

/// A sandbox with a directory for temporary files, which has to be empty in the end. Started by
/// root, servers run as another user, who has to get there.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(sandbox.path("."), mode).expect("open the directory");
    fs::create_dir(sandbox.path("tmp")).expect("a directory");
    sandbox
}

/// An archive without a segment. Root is warned that it is its own.
fn make_repository(sandbox: &Sandbox) {
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID));
    let made = sandbox.run(&["init", "--repo", "repo", "-D", "data"]);
    assert!(made.status.success(), "{made:?}");
}

/// Runs an experiment that has to succeed; returns its output, its messages and its JSON.
fn bench(sandbox: &Sandbox, arguments: &[&str]) -> (String, String, Value) {
    let mut command = sandbox.command();
    command.env("TMPDIR", sandbox.path("tmp")).arg("bench");
    command.env("PATH", path_with_pgbackrest());
    let output = command
        .args(arguments)
        .args(["--json", "results.json"])
        .output()
        .expect("walzip starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    let left: Vec<_> = fs::read_dir(sandbox.path("tmp"))
        .expect("readable")
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    assert_nothing_runs(&sandbox.path("tmp"));
    let json = serde_json::from_slice(&sandbox.read("results.json")).expect("JSON");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    (text, said, json)
}

/// The tester's, with the pgBackRest that was fetched, if any, behind the rest.
fn path_with_pgbackrest() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let program = pgbackrest::program();
    directories.extend(program.and_then(|program| program.parent().map(Path::to_owned)));
    std::env::join_paths(directories).expect("a path")
}

/// A server, and everything that helped, has the directory in its command line.
fn assert_nothing_runs(directory: &Path) {
    let directory = directory.to_str().expect("UTF-8");
    for process in fs::read_dir("/proc").expect("readable").flatten() {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        assert!(!command.contains(directory), "still runs: {command}");
    }
}

/// How many entries an array of the results has.
fn count(json: &Value, name: &str) -> usize {
    json[name].as_array().map_or(0, Vec::len)
}

#[test]
fn bench_wal_takes_segments_from_an_archive_and_goes_on_with_a_resumed_run() {
    let sandbox = sandbox();
    make_repository(&sandbox);
    for number in 1..=5 {
        let name = format!("00000001{number:016X}");
        sandbox.write(&format!("wal/{name}"), &segment(number));
        sandbox.ok(&["archive-push", "--repo", "repo", &format!("wal/{name}")]);
    }
    let wal = [
        "wal",
        "--repo",
        "repo",
        "--segments",
        "3",
        "--spread",
        "--runs",
        "1",
    ];
    let only = ["--contender", "walzip:1"];
    let (text, said, json) = bench(&sandbox, &[&wal[..], &only].concat());
    assert!(
        said.contains("fetching 3 of 5 segments, spread over the archive"),
        "{said}"
    );
    assert!(text.contains("walzip -1"), "{text}");
    let inputs: Vec<_> = json["inputs"]
        .as_array()
        .expect("inputs")
        .iter()
        .map(|input| format!("{}/{}", input["folder"], input["name"]).replace('"', ""))
        .collect();
    let expected = [1, 3, 5].map(|number| format!("archive/00000001000000000000000{number}"));
    assert_eq!(inputs, expected);
    let measured = count(&json, "measurements");
    // The second time, another level is all that is left to measure.
    let more = ["--contender", "walzip:2", "--resume"];
    let (_, said, json) = bench(&sandbox, &[&wal[..], &only, &more].concat());
    let taken = format!("{measured} measurements are taken over");
    assert!(said.contains(&taken), "{said}");
    assert_eq!(
        said.lines().filter(|line| line.starts_with('[')).count(),
        3,
        "{said}"
    );
    assert_eq!(count(&json, "measurements"), measured + 3);
}

#[test]
fn an_empty_archive_has_nothing_to_measure_on() {
    let sandbox = sandbox();
    make_repository(&sandbox);
    let said = sandbox.fails(55, &["bench", "wal", "--repo", "repo"]);
    assert!(said.contains("has no segment yet"), "{said}");
}

#[test]
fn bench_segments_archives_real_wal_of_each_size_in_every_way() {
    let sandbox = sandbox();
    let sizes = [
        "segments", "--quick", "--size", "1", "--size", "4", "--total", "4", "--warm",
    ];
    let (text, _, json) = bench(&sandbox, &sizes);
    for reason in json["left_out"].as_array().expect("a list") {
        not_run(reason.as_str().expect("text"));
    }
    let sets = count(&json, "sets");
    // Zeros are refused by archive-push, and by nothing else.
    assert_eq!(count(&json, "failed"), 2, "{text}");
    assert!(
        json["failed"][0]["refused"].as_bool().expect("a flag"),
        "{text}"
    );
    let rows = count(&json, "rows");
    assert_eq!(count(&json, "measurements"), rows * sets - 2, "{text}");
    assert!(
        text.contains("warm: files may be in memory (as asked for)"),
        "{text}"
    );
    let genuine = json["sets"].as_array().expect("sets").iter();
    assert_eq!(
        genuine.filter(|set| set["genuine"] == true).count(),
        sets - 2
    );
}

#[test]
fn caches_are_cold_where_that_is_permitted() {
    let sandbox = sandbox();
    let mut once = vec!["segments", "--quick", "--size", "1", "--total", "1"];
    once.extend(["--content", "zeros", "--way", "cp"]);
    let (text, said, json) = bench(&sandbox, &once);
    let permitted = OpenOptions::new()
        .write(true)
        .open("/proc/sys/vm/drop_caches")
        .is_ok();
    let state = &json["settings"]["caches"]["state"];
    if permitted {
        assert_eq!(state, "cold", "{said}");
        assert!(text.contains("cold: the kernel forgot all files"), "{text}");
    } else {
        assert_eq!(state, "warm", "{said}");
        assert!(
            said.contains("only root can make the kernel forget"),
            "{said}"
        );
    }
    assert_eq!(count(&json, "measurements"), 1);
}

/// A program that hangs, and its child, write their numbers here.
const HANGS: &str = "#!/bin/sh\n\
    [ \"$1\" = --version ] && exit 0\n\
    /bin/sleep 600 &\n\
    echo $$ $! >>PIDS\n\
    wait\n";

#[test]
fn a_killed_comparison_leaves_no_program_and_no_file() {
    let sandbox = sandbox();
    let pids = sandbox.path("pids");
    let program = HANGS.replace("PIDS", pids.to_str().expect("UTF-8"));
    sandbox.write("bin/zstd", program.as_bytes());
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(sandbox.path("bin/zstd"), executable).expect("a program");
    sandbox.write("wal/000000010000000000000001", &segment(1));
    fs::create_dir(sandbox.path("results")).expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_walzip"));
    command
        .env_clear()
        .current_dir(sandbox.path("."))
        .env("TMPDIR", sandbox.path("tmp"))
        .env("PATH", sandbox.path("bin"))
        .args([
            "bench",
            "wal",
            "--contender",
            "zstd:1",
            "--json",
            "results/r.json",
        ])
        .args([
            "--csv",
            "results/r.csv",
            "--report",
            "results/r.html",
            "wal",
        ])
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("walzip starts");
    until("the program hangs", || {
        fs::read_to_string(&pids).is_ok_and(|text| text.ends_with('\n'))
    });
    child.kill().expect("it still runs");
    child.wait().expect("it ends");
    let empty = |name| {
        fs::read_dir(sandbox.path(name))
            .expect("readable")
            .next()
            .is_none()
    };
    until("nothing is left", || empty("tmp"));
    assert!(
        empty("results"),
        "a temporary file is left beside the results"
    );
    let pids = fs::read_to_string(&pids).expect("two numbers");
    for pid in pids.split_whitespace() {
        // A killed process that nobody reaps has no command line any more.
        let line = Path::new("/proc").join(pid).join("cmdline");
        until("it ends", || fs::read(&line).unwrap_or_default().is_empty());
    }
}

#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "not in time: {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn bench_basebackup_ranks_every_method_and_walzip() {
    let sandbox = sandbox();
    let data_set = "[[data_set]]\nname = \"towns\"\nsql = [\"towns.sql\"]\n\
        csv = [{ file = \"towns.csv\", table = \"towns\", options = \"HEADER\" }]\n";
    sandbox.write("manifest.toml", data_set.as_bytes());
    sandbox.write("towns.sql", b"CREATE TABLE towns (name text, people int);");
    sandbox.write("towns.csv", b"name,people\nA,1\nB,2\n");
    let both = [
        "basebackup",
        "--quick",
        "--data",
        "pgbench",
        "--manifest",
        "manifest.toml",
    ];
    let (text, _, json) = bench(&sandbox, &both);
    for reason in json["left_out"].as_array().expect("a list") {
        not_run(reason.as_str().expect("text"));
    }
    let rows = count(&json, "rows");
    let names: Vec<_> = json["data_sets"]
        .as_array()
        .expect("data sets")
        .iter()
        .collect();
    assert_eq!(
        (&names[0]["name"], &names[1]["name"]),
        (&"pgbench".into(), &"towns".into())
    );
    let failed = json["failed"].as_array().expect("a list");
    assert!(
        failed.iter().all(|failed| failed["unsupported"] == true),
        "{text}"
    );
    assert_eq!(
        count(&json, "measurements") + failed.len(),
        rows * 2,
        "{text}"
    );
    let averages = json["ranks"]["average"].as_array().expect("ranks");
    assert_eq!(averages.len() * 2, count(&json, "measurements"), "{text}");
    assert!(text.contains("walzip backup"), "{text}");
    for measured in json["measurements"].as_array().expect("measurements") {
        assert!(
            measured["bytes"].as_u64().expect("a number") > 100_000,
            "{measured}"
        );
    }
}

#[test]
fn a_server_that_does_not_answer_is_said_at_once_and_without_its_address() {
    let sandbox = sandbox();
    let mut command = sandbox.command();
    command.env("TMPDIR", sandbox.path("tmp"));
    let address = format!("host={} user=nobody", sandbox.path("absent").display());
    let arguments = [
        "bench",
        "basebackup",
        "--quick",
        "--csv",
        "results.csv",
        "--server",
        &address,
    ];
    let output = command.args(arguments).output().expect("walzip starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("is not installed") {
        return not_run(&said);
    }
    assert_eq!(output.status.code(), Some(56), "{said}");
    assert!(said.contains("cannot connect to server 1"), "{said}");
    assert!(!said.contains(&address), "{said}");
    // Nothing was measured before.
    assert!(!sandbox.path("results.csv").exists());
}
