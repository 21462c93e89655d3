//! `bench archive`: archivers that are installed, that are not, and that damage what they keep.
//!
//! The programs of others are scripts that keep files as they are: what is tested is that they are
//! called as their documentation says, and that what they give back is compared.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::clusters::pgbackrest;
use crate::sandbox::{Sandbox, segment};

const WAL_G: &str = r#"#!/bin/sh
set -e
[ "$WALG_COMPRESSION_METHOD" = zstd ]
case $1 in
--version) echo wal-g 3.0.5 ;;
wal-push) cp "$2" "$WALG_FILE_PREFIX/" ;;
wal-fetch) cp "$WALG_FILE_PREFIX/$2" "$3" ;;
*) exit 2 ;;
esac
"#;

const BARMAN: &str = r#"#!/bin/sh
set -e
[ "$1" = --version ] && { echo Barman 3.12; exit; }
[ "$1 $2" = "-q -c" ]
home=$(sed -n 's/^barman_home = //p' "$3")
[ "$5" = bench ]
case $4 in
archive-wal) mkdir -p "$home/bench/wals"; mv "$home"/bench/incoming/* "$home/bench/wals/" ;;
get-wal) [ "$7" = -o ]; cp "$home/bench/wals/$6" "$8/" ;;
*) exit 2 ;;
esac
"#;

/// Gives back a file with another first byte.
const DAMAGES: &str = r#"#!/bin/sh
set -e
case $1 in
wal-push) cp "$2" "$WALG_FILE_PREFIX/" ;;
wal-fetch) { printf x; tail -c +2 "$WALG_FILE_PREFIX/$2"; } >"$3" ;;
esac
"#;

/// Five segments, and a PATH with the programs that scripts need.
fn sandbox(programs: &[(&str, &str)]) -> Sandbox {
    let sandbox = Sandbox::new();
    for number in 1..=5 {
        sandbox.write(
            &format!("wal/00000001000000000000000{number}"),
            &segment(number),
        );
    }
    fs::create_dir(sandbox.path("tmp")).expect("a directory");
    for (name, script) in programs {
        let path = sandbox.write(&format!("bin/{name}"), script.as_bytes());
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("a program");
    }
    sandbox
}

/// Runs it; returns its exit code, what it printed and said, and its JSON.
fn bench(sandbox: &Sandbox, arguments: &[&str]) -> (Option<i32>, String, Value) {
    let mut command = sandbox.command();
    let path = format!("{}:/usr/bin:/bin", sandbox.path("bin").display());
    command.env("PATH", path).env("TMPDIR", sandbox.path("tmp"));
    command.args(["bench", "archive", "wal", "--replay-ms", "1", "--runs", "2"]);
    command.args(["--csv", "r.csv", "--json", "r.json", "--report", "r.html"]);
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
fn archivers_take_turns_and_what_is_missing_says_how_to_install_it() {
    let sandbox = sandbox(&[("wal-g", WAL_G), ("barman", BARMAN)]);
    let only = ["wal-g", "barman", "walzip"].map(|name| ["--archiver", name]);
    let (code, said, json) = bench(
        &sandbox,
        &[&only.concat()[..], &["--segments", "3"]].concat(),
    );
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(json["wal"]["segments"], 3);
    let names = json["rows"].as_array().expect("rows").iter();
    let names: Vec<_> = names
        .map(|row| row["archiver"].as_str().expect("a name"))
        .collect();
    let expected = [
        "WAL-G zstd",
        "Barman gzip",
        "walzip -1",
        "walzip -1, background",
        "walzip -3",
        "walzip -3, background",
    ];
    assert_eq!(names, expected);
    // Each in two runs: pushed, got, and got for a replay.
    assert_eq!(
        json["measurements"].as_array().map(Vec::len),
        Some(6 * 2 * 3)
    );
    for figures in json["summary"].as_array().expect("figures") {
        let stored = figures["stored_bytes"].as_u64().expect("a number");
        let is_kept_as_it_is = figures["row"].as_u64().expect("a number") < 2;
        match is_kept_as_it_is {
            true => assert_eq!(stored, 3 << 20, "{figures}"),
            false => assert!((1..1 << 20).contains(&stored), "{figures}"),
        }
    }
    for part in [
        "Push: a call for each segment",
        "Get for a replay: 1 ms",
        "smaller by",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let csv = text(&sandbox, "r.csv");
    assert!(
        csv.contains("\nwalzip -3,false,replay,3,3145728,2,ok,"),
        "{csv}"
    );
    assert!(text(&sandbox, "r.html").contains("What does archiving take?"));
    // Nothing is measured twice, and what is added is.
    let more = ["--archiver", "pgbackrest", "--segments", "3", "--resume"];
    let path = sandbox.path("bin/pgbackrest");
    if !path.exists() && !std::path::Path::new("/usr/bin/pgbackrest").exists() {
        let (code, said, _) = bench(&sandbox, &[&only.concat()[..], &more].concat());
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("36 measurements are taken over"), "{said}");
        assert!(!said.contains("[1/"), "{said}");
        let hint = "not installed: apt install pgbackrest";
        assert!(
            said.contains(&format!("pgBackRest zst 3: {hint}")),
            "{said}"
        );
        assert!(text(&sandbox, "r.html").contains(hint));
        let row = said
            .lines()
            .find(|line| line.starts_with("pgBackRest zst 3, background "));
        assert!(row.is_some_and(|row| row.contains(hint)), "{said}");
    }
}

#[test]
fn what_comes_back_changed_is_a_failure() {
    let sandbox = sandbox(&[("wal-g", DAMAGES)]);
    let (code, said, json) = bench(&sandbox, &["--archiver", "wal-g"]);
    assert_eq!(code, Some(104), "{said}");
    assert!(said.contains("did not come back as it was"), "{said}");
    assert_eq!(json["failed"][0]["action"], "get");
    assert_eq!(json["measurements"].as_array().map(Vec::len), Some(0));
    assert!(text(&sandbox, "r.csv").contains("WAL-G zstd,true,get,5,5242880,,"));
}

#[test]
fn segments_of_two_clusters_are_not_measured() {
    let sandbox = sandbox(&[]);
    let other = crate::sandbox::segment_of(1, 6);
    sandbox.write("wal/000000010000000000000006", &other);
    let (code, said, _) = bench(&sandbox, &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("another cluster wrote it"), "{said}");
}

/// The real one, where it is.
#[test]
fn pgbackrest_takes_part_where_it_is_installed() {
    let Some(program) = pgbackrest::program() else {
        return;
    };
    let script = format!("#!/bin/sh\nexec {} \"$@\"\n", program.display());
    let sandbox = sandbox(&[("pgbackrest", &script)]);
    let (code, said, json) = bench(&sandbox, &["--archiver", "pgbackrest"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(
        json["measurements"].as_array().map(Vec::len),
        Some(2 * 2 * 3)
    );
    assert!(said.contains("pgBackRest zst 3, background"), "{said}");
}
