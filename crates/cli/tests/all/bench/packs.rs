//! `bench packs`: what is kept in each way, and programs that are missing or damage what they keep.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::sandbox::{Sandbox, segment};

/// Keeps files as they are, and gives them back with another first byte.
const DAMAGES: &str = r#"#!/bin/sh
case $1 in
-3) cat "$4" ;;
-d) printf x; tail -c +2 "$4" ;;
esac
"#;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    for number in 1..=7 {
        let name = format!("wal/00000001000000000000000{number}");
        sandbox.write(&name, &segment(number));
    }
    fs::create_dir(sandbox.path("tmp")).expect("a directory");
    fs::create_dir(sandbox.path("bin")).expect("a directory");
    sandbox
}

/// Runs it; returns its exit code, what it printed and said, and its JSON.
fn bench(sandbox: &Sandbox, path: &str, arguments: &[&str]) -> (Option<i32>, String, Value) {
    let mut command = sandbox.command();
    let path = format!("{}{path}", sandbox.path("bin").display());
    command.env("PATH", path).env("TMPDIR", sandbox.path("tmp"));
    command.args(["bench", "packs", "wal", "--json", "r.json"]);
    command.args(["--csv", "r.csv", "--report", "r.html"]);
    let output = command.args(arguments).output().expect("walzip starts");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).expect("UTF-8");
    let left = fs::read_dir(sandbox.path("tmp")).expect("readable").count();
    assert_eq!(left, 0, "{said}");
    let json = fs::read(sandbox.path("r.json")).unwrap_or_default();
    let json = serde_json::from_slice(&json).unwrap_or_default();
    (output.status.code(), said, json)
}

fn text(sandbox: &Sandbox, name: &str) -> String {
    String::from_utf8(sandbox.read(name)).expect("UTF-8")
}

#[test]
fn each_length_is_packed_decoded_and_got() {
    let sandbox = sandbox();
    let arguments = ["--segments", "6", "--length", "4", "--length", "9"];
    let arguments = [&arguments[..], &["--length", "20"]].concat();
    let (code, said, json) = bench(&sandbox, ":/usr/bin:/bin", &arguments);
    assert_eq!(code, Some(0), "{said}");
    let rows = json["rows"].as_array().expect("rows").iter();
    let labels: Vec<_> = rows
        .map(|row| row["label"].as_str().expect("text"))
        .collect();
    assert_eq!(labels, ["zstd -3", "walzip -3", "packs of 4", "packs of 9"]);
    // The mark of packs is a file too.
    let files: Vec<_> = [6, 7, 3, 2].into_iter().collect();
    for (figures, expected) in json["figures"]
        .as_array()
        .expect("figures")
        .iter()
        .zip(files)
    {
        let files = figures["files"].as_u64().expect("a number");
        assert_eq!(files, expected, "{figures}");
        assert_eq!(figures["get_s"].as_array().map(Vec::len), Some(6));
        let stored = figures["stored_bytes"].as_u64().expect("a number");
        assert!((100..1 << 20).contains(&stored), "{figures}");
    }
    assert!(
        said.contains("of what each takes by itself; one out of a pack is got"),
        "{said}"
    );
    let csv = text(&sandbox, "r.csv");
    assert!(csv.contains("\npacks of 4,6,6291456,ok,"), "{csv}");
    assert!(text(&sandbox, "r.html").contains("What do packs of WAL save?"));
}

#[test]
fn what_comes_back_changed_is_a_failure() {
    let sandbox = sandbox();
    let path = sandbox.write("bin/zstd", DAMAGES.as_bytes());
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("a program");
    let (code, said, json) = bench(&sandbox, ":/usr/bin:/bin", &["--length", "4"]);
    assert_eq!(code, Some(104), "{said}");
    assert!(said.contains("zstd -3 FAILED: "), "{said}");
    assert!(said.contains("did not come back as it was"), "{said}");
    assert_eq!(json["figures"].as_array().map(Vec::len), Some(2));
    assert!(
        text(&sandbox, "r.csv").contains("zstd -3,7,7340032,"),
        "{said}"
    );
}

#[test]
fn without_zstd_it_says_what_to_install() {
    let sandbox = sandbox();
    let (code, said, _) = bench(&sandbox, "", &[]);
    assert_ne!(code, Some(0), "{said}");
    assert!(said.contains("zstd"), "{said}");
    let (code, said, _) = bench(&sandbox, ":/usr/bin:/bin", &["--resume"]);
    assert_eq!(code, Some(2), "{said}");
}
