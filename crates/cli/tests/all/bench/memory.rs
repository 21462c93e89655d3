//! The peak of memory that `bench wal` tells is the program's own, not that of the harness.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::sandbox::{Sandbox, segment};

/// Copies its last argument. A `cat` says what the kernel thinks of its own peak.
const SMALL: &str = "for last; do :; done\n\
    /bin/cat /proc/self/status >STATUS\n\
    /bin/cat \"$last\"";
/// The same, with a buffer of 32 MiB that is filled in between.
const LARGE: &str = "for last; do :; done\n\
    /bin/dd if=/dev/zero of=/dev/null bs=32M count=1 2>/dev/null\n\
    /bin/cat \"$last\"";
const MIB: u64 = 1 << 20;

fn program(sandbox: &Sandbox, name: &str, script: &str) {
    let status = sandbox.path("status");
    let script = script.replace("STATUS", status.to_str().expect("UTF-8"));
    let path = sandbox.write(
        &format!("bin/{name}"),
        format!("#!/bin/sh\n{script}\n").as_bytes(),
    );
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("a program");
}

/// The peak of this `cat`, by the kernel's account of its memory.
fn high_water_mark(sandbox: &Sandbox) -> u64 {
    let status = String::from_utf8(sandbox.read("status")).expect("UTF-8");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.expect("a mark").trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().expect("a number") * 1024
}

#[test]
fn the_peak_of_a_small_program_is_its_own_and_not_that_of_what_started_it() {
    let sandbox = Sandbox::new();
    sandbox.write("wal/000000010000000000000001", &segment(1));
    program(&sandbox, "zstd", SMALL);
    program(&sandbox, "gzip", LARGE);
    let mut command = sandbox.command();
    command.env("PATH", sandbox.path("bin")).args([
        "bench",
        "wal",
        "--quick",
        "--contender",
        "gzip:1",
        "--json",
        "r.json",
        "wal",
    ]);
    let output = command.output().expect("walzip starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let results: Value = serde_json::from_slice(&sandbox.read("r.json")).expect("JSON");
    let peak = |contender: &str| {
        let rows = results["rows"].as_array().expect("rows");
        let row = rows.iter().position(|row| row["contender"] == contender);
        let mut measured = results["measurements"].as_array().expect("a list").iter();
        let measured = measured.find(|one| one["row"] == row.expect("a row"));
        measured.expect("a measurement")["compress"]["peak_memory_bytes"]
            .as_u64()
            .expect("a number")
    };
    // The launcher starts nothing else, so what the kernel counts is the program's.
    let counts = &results["measurements"][0]["compress"]["counts"];
    assert!(counts["minor_faults"].as_u64() > Some(0), "{counts}");
    assert!(counts["voluntary_switches"].is_u64(), "{counts}");
    let (small, large) = (peak("zstd"), peak("gzip"));
    // The shell is no larger than cat by more than a mebibyte; the harness is, by several.
    let cat = high_water_mark(&sandbox);
    assert!(
        small > cat / 2 && small < cat + MIB,
        "{small}, cat has {cat}"
    );
    assert!(
        large > 32 * MIB && large < 32 * MIB + cat + MIB,
        "{large}, a buffer of 32 MiB"
    );
}

/// What a program says, how it ends and that it cannot be started is the harness's to know,
/// although another process starts it.
#[test]
fn how_a_program_ends_is_told_through_what_starts_it() {
    let sandbox = Sandbox::new();
    sandbox.write("wal/000000010000000000000001", &segment(1));
    program(&sandbox, "zstd", "for last; do :; done\n/bin/cat \"$last\"");
    program(&sandbox, "gzip", "kill -9 $$");
    program(&sandbox, "lz4", "echo 'out of luck' >&2; exit 3");
    let absent = sandbox.path("bin/bzip2");
    fs::write(&absent, "#!/absent/interpreter\n").expect("a file");
    fs::set_permissions(&absent, Permissions::from_mode(0o755)).expect("a program");
    let mut command = sandbox.command();
    command
        .env("PATH", sandbox.path("bin"))
        .args(["bench", "wal", "--quick", "--json", "r.json", "wal"]);
    for contender in ["gzip:1", "lz4:1", "bzip2:1"] {
        command.args(["--contender", contender]);
    }
    let output = command.output().expect("walzip starts");
    assert_eq!(output.status.code(), Some(104));
    let results: Value = serde_json::from_slice(&sandbox.read("r.json")).expect("JSON");
    let failed = results["failed"].as_array().expect("a list");
    let reasons: Vec<&str> = failed
        .iter()
        .map(|failed| failed["reason"].as_str().expect("a reason"))
        .collect();
    for reason in [
        "gzip: signal: 9",
        "lz4: exit status: 3: out of luck",
        "cannot start ",
    ] {
        assert!(
            reasons.iter().any(|said| said.starts_with(reason)),
            "{reason}: {reasons:?}"
        );
    }
}
