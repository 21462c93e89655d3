//! Results are somebody's work: no experiment replaces a file that it does not go on from.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Output;

use serde_json::Value;

use crate::sandbox::{Sandbox, segment};

const COPIES: &str = "#!/bin/sh\nfor last; do :; done\n/bin/cat \"$last\"\n";

/// Two segments, `one/` and `other/`, and programs that copy.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    for (number, folder) in (1..).zip(["one", "other"]) {
        let name = format!("{folder}/00000001000000000000000{number}");
        sandbox.write(&name, &segment(number));
    }
    for program in ["zstd", "gzip"] {
        let path = sandbox.write(&format!("bin/{program}"), COPIES.as_bytes());
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("a program");
    }
    sandbox
}

fn bench(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let mut command = sandbox.command();
    command.env("PATH", sandbox.path("bin")).args(arguments);
    command.output().expect("walzip starts")
}

const WAL: [&str; 5] = ["bench", "wal", "--quick", "--contender", "gzip:1"];

#[track_caller]
fn measures(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = bench(sandbox, &[&WAL[..], arguments].concat());
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{said}");
    said
}

/// Nothing is measured, and nothing changed.
#[track_caller]
fn refuses(sandbox: &Sandbox, arguments: &[&str], code: i32, reason: &str) {
    let contents = || -> Vec<_> {
        let names = ["r.json", "r.csv", "r.html", "mine"];
        names.map(|name| fs::read(sandbox.path(name)).ok()).into()
    };
    let before = contents();
    let output = bench(sandbox, &[&WAL[..], arguments].concat());
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(reason), "{arguments:?}: {said}");
    assert!(!said.contains("[1/"), "{arguments:?} measured: {said}");
    assert!(contents() == before, "{arguments:?} changed a file");
}

#[test]
fn a_file_that_exists_is_replaced_by_no_experiment_unless_that_is_asked_for() {
    let sandbox = sandbox();
    sandbox.write("mine", b"precious");
    for option in ["--csv", "--json", "--report"] {
        refuses(&sandbox, &[option, "mine", "one"], 93, "mine exists");
        for experiment in ["wal-compression", "insert", "segments", "basebackup"] {
            let output = bench(&sandbox, &["bench", experiment, "--quick", option, "mine"]);
            let said = String::from_utf8(output.stderr).expect("UTF-8");
            assert_eq!(output.status.code(), Some(93), "{experiment}: {said}");
            assert!(said.contains("hint: Nothing was measured."), "{said}");
            assert_eq!(sandbox.read("mine"), b"precious");
        }
    }
    let advise = ["advise", "--contender", "gzip:1", "--report", "mine", "one"];
    assert_eq!(bench(&sandbox, &advise).status.code(), Some(93));
    // Before anything is fetched, even.
    let fetch = ["advise", "--report", "mine", "--repo", "absent"];
    assert_eq!(bench(&sandbox, &fetch).status.code(), Some(93));
    refuses(&sandbox, &["--csv", "mine", "--repo", "absent"], 93, "mine");
    assert_eq!(sandbox.read("mine"), b"precious");
    let forced = [&advise[..], &["--force"]].concat();
    assert_eq!(bench(&sandbox, &forced).status.code(), Some(0));
    assert!(sandbox.read("mine").starts_with(b"<!DOCTYPE html>"));
    measures(&sandbox, &["-f", "--json", "mine", "one"]);
    assert!(sandbox.read("mine").starts_with(b"{"));
}

#[test]
fn going_on_loses_no_measurement_of_the_file_that_is_gone_on_from() {
    let sandbox = sandbox();
    let all = ["--json", "r.json", "--csv", "r.csv", "--report", "r.html"];
    let files = |more: &[&'static str]| [&all[..], more].concat();
    measures(&sandbox, &files(&["one"]));
    let resume = files(&["--resume", "other"]);
    let lost = "r.json has 2 measurements that this run would not take over";
    refuses(&sandbox, &resume, 93, lost);
    // By another name it is the same file.
    symlink("r.json", sandbox.path("link.json")).expect("a link");
    let link = ["--json", "link.json", "--resume"];
    refuses(&sandbox, &[&link[..], &["other"]].concat(), 93, "2 measur");
    let said = measures(&sandbox, &[&link[..], &["one", "other"]].concat());
    assert!(said.contains("2 measurements are taken over"), "{said}");
    let results: Value = serde_json::from_slice(&sandbox.read("r.json")).expect("JSON");
    assert_eq!(results["measurements"].as_array().map(Vec::len), Some(4));
    // What the earlier run wrote goes with it; what it did not write does not.
    sandbox.write("mine", b"precious");
    let mine = ["--json", "r.json", "--csv", "mine", "--resume"];
    refuses(
        &sandbox,
        &[&mine[..], &["one", "other"]].concat(),
        93,
        "mine exists",
    );
    measures(&sandbox, &files(&["--resume", "one", "other"]));
    measures(&sandbox, &files(&["--resume", "--force", "other"]));
    let results: Value = serde_json::from_slice(&sandbox.read("r.json")).expect("JSON");
    assert_eq!(results["measurements"].as_array().map(Vec::len), Some(2));
}

#[test]
fn one_file_is_not_written_twice_and_a_device_is_not_replaced() {
    let sandbox = sandbox();
    let twice = ["--csv", "r.csv", "--json", "./r.csv", "one"];
    refuses(&sandbox, &twice, 2, "--csv and --json name the same file");
    for path in ["/dev/null", "one"] {
        refuses(
            &sandbox,
            &["-f", "--report", path, "one"],
            64,
            "is not a regular file",
        );
    }
}

#[test]
fn generate_writes_into_no_directory_that_has_something() {
    let sandbox = sandbox();
    sandbox.write("segments/000000010000000000000005", b"precious");
    sandbox.write("other/generated.json", b"{}");
    for (directory, kept) in [
        ("segments", "segments/000000010000000000000005"),
        ("other", "other/generated.json"),
    ] {
        let before = sandbox.read(kept);
        let generate = ["bench", "generate", "--workload", "shop", "--output"];
        let output = bench(&sandbox, &[&generate[..], &[directory]].concat());
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(93), "{directory}: {said}");
        let reason = format!("{directory} is not empty");
        assert!(said.contains(&reason), "{said}");
        assert!(said.contains("Name a new directory"), "{said}");
        assert_eq!(sandbox.read(kept), before);
    }
}

#[test]
fn a_refusal_names_the_ways_out_that_there_are() {
    let sandbox = sandbox();
    sandbox.write("mine", b"precious");
    let hint = |arguments: &[&str]| {
        let said = bench(&sandbox, arguments).stderr;
        String::from_utf8(said).expect("UTF-8")
    };
    let of_json = hint(&["bench", "wal", "--json", "mine", "one"]);
    for way in ["Name another file", "remove this one", "-f", "--resume"] {
        assert!(of_json.contains(way), "{way}: {of_json}");
    }
    let of_advise = hint(&["advise", "--report", "mine", "one"]);
    assert!(of_advise.contains("remove this one"), "{of_advise}");
    assert!(!of_advise.contains("--resume"), "{of_advise}");
}

#[test]
fn a_file_that_appears_while_measuring_is_kept_and_so_are_the_measurements() {
    let sandbox = sandbox();
    let theirs = sandbox.path("r.json");
    let script = format!(
        "#!/bin/sh\necho precious >{}\n{}",
        theirs.display(),
        &COPIES[10..]
    );
    sandbox.write("bin/gzip", script.as_bytes());
    let files = ["--json", "r.json", "--csv", "r.csv", "one"];
    let output = bench(&sandbox, &[&WAL[..], &files].concat());
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(93), "{said}");
    assert!(said.contains("r.json appeared meanwhile"), "{said}");
    assert_eq!(sandbox.read("r.json"), b"precious\n");
    let results: Value = serde_json::from_slice(&sandbox.read("r.json.1")).expect("JSON");
    assert_eq!(results["measurements"].as_array().map(Vec::len), Some(2));
    assert!(!sandbox.read("r.csv").is_empty());
}
