//! `advise`: what it takes, what it says, and that it leaves nothing behind. Tiny segments: what
//! is recommended for them is of no interest.

use std::process::Output;

use serde_json::Value;

use crate::sandbox::{SEGMENT_SIZE, SYSTEM_ID, Sandbox, control_file, segment, text};

/// A sandbox with a directory for temporary files and segments 1 to `count` in `pg_wal`.
fn with_segments(count: u64) -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("tmp")).expect("a directory");
    for number in 1..=count {
        sandbox.write(&format!("data/pg_wal/{}", name(number)), &segment(number));
    }
    sandbox
}

fn name(number: u64) -> String {
    format!("{number:024X}").replacen("00000000", "00000001", 1)
}

/// Runs advise with one quick program, and sees that no temporary file is left.
fn advise(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let mut command = sandbox.command();
    command.env("TMPDIR", sandbox.path("tmp"));
    command
        .args(["advise", "--contender", "walzip:1"])
        .args(arguments);
    let output = command.output().expect("walzip starts");
    let left = std::fs::read_dir(sandbox.path("tmp"))
        .expect("readable")
        .count();
    assert_eq!(left, 0, "temporary files were left behind");
    output
}

#[track_caller]
fn json(output: Output) -> Value {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[track_caller]
fn complaint(output: Output, code: i32) -> String {
    let complaint = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(code), "{complaint}");
    complaint
}

#[test]
fn recommends_each_thing_that_can_be_chosen_with_a_reason() {
    let sandbox = with_segments(5);
    let arguments = [
        "--segments",
        "3",
        "--wal-per-day",
        "10GB",
        "--json",
        "data/pg_wal",
    ];
    let advice = json(advise(&sandbox, &arguments));
    let subjects: Vec<&str> = advice["recommendations"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|recommendation| {
            assert!(
                !recommendation["reasons"]
                    .as_array()
                    .expect("reasons")
                    .is_empty()
            );
            recommendation["subject"].as_str().expect("a subject")
        })
        .collect();
    let expected = [
        "program",
        "wal_compression",
        "checkpoint spacing",
        "archive_timeout",
        "segment size",
    ];
    assert_eq!(subjects, expected);
    let plans = advice["plans"].as_array().expect("plans");
    assert_eq!(plans[0]["title"], "With walzip");
    let sql = plans[0]["sql"].to_string();
    assert!(
        sql.contains("SET archive_command = 'walzip archive-push -"),
        "{sql}"
    );
    let last = plans.last().expect("plans");
    assert_eq!(last["title"], "Staying with what you have");
    assert_eq!(advice["sources"][0]["available"], 5);
    assert_eq!(advice["measured_segments"], 3);
    assert_eq!(advice["wal"]["segments"], 5);
    assert_eq!(advice["rate"]["source"], "given with --wal-per-day");
    let settings = advice["what_if"].as_array().expect("a list");
    assert_eq!(settings.len(), 4, "off, pglz, lz4 and zstd");
    assert!(!advice["not_tested"].as_array().expect("a list").is_empty());
}

#[test]
fn pg_wal_is_read_without_the_segment_that_is_being_written() {
    let sandbox = with_segments(4);
    // A recycled segment: the content is older than its name.
    sandbox.write(&format!("data/pg_wal/{}", name(9)), &segment(2));
    let advice = json(advise(&sandbox, &["--json", "--pg-wal", "data/pg_wal"]));
    assert_eq!(advice["sources"][0]["name"], "pg_wal");
    assert_eq!(advice["sources"][0]["available"], 3);
}

#[test]
fn an_archive_is_sampled_by_its_repository() {
    let sandbox = with_segments(3);
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID));
    sandbox.run(&["init", "--repo", "repo", "--pgdata", "data"]);
    let empty = complaint(advise(&sandbox, &["--repo", "repo"]), 55);
    assert!(empty.contains("has no segment yet"), "{empty}");
    for number in 1..=3 {
        let path = format!("data/pg_wal/{}", name(number));
        sandbox.ok(&["archive-push", "--repo", "repo", &path]);
    }
    let advice = json(advise(
        &sandbox,
        &["--json", "--segments", "2", "--repo", "repo"],
    ));
    assert_eq!(advice["sources"][0]["name"], "the archive");
    assert_eq!(advice["sources"][0]["available"], 3);
    assert_eq!(advice["measured_segments"], 2);
}

#[test]
fn a_limit_that_nothing_keeps_is_said_and_money_needs_a_retention() {
    let sandbox = with_segments(1);
    let arguments = ["--max-seconds-per-segment", "0.000001", "data/pg_wal"];
    let output = advise(&sandbox, &arguments);
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(
        said.contains("program: no program that was measured keeps to the limits"),
        "{said}"
    );
    assert!(
        said.contains("How sure: low") && said.contains("Not tested"),
        "{said}"
    );

    let arguments = ["--report", "advice.html", "data/pg_wal"];
    assert!(advise(&sandbox, &arguments).status.success());
    let page = String::from_utf8(sandbox.read("advice.html")).expect("UTF-8");
    assert!(page.contains("What to choose for archiving WAL"), "{page}");

    let output = advise(&sandbox, &["--price-per-gb-month", "0.02", "data/pg_wal"]);
    assert!(complaint(output, 2).contains("--retention-days"));
    let arguments = [
        "--price-per-gb-month",
        "0.02",
        "--retention-days",
        "30",
        "--wal-per-day",
        "1TB",
        "data/pg_wal",
    ];
    let said = String::from_utf8(advise(&sandbox, &arguments).stdout).expect("UTF-8");
    assert!(
        said.contains("cost a month") && said.contains("worth"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_advised_on_is_a_clear_error() {
    let sandbox = with_segments(0);
    let nothing = complaint(advise(&sandbox, &[]), 2);
    assert!(nothing.contains("nothing to advise on") && nothing.contains("hint: Name segments"));
    complaint(advise(&sandbox, &["absent"]), 55);
    sandbox.write("notes", &text(100_000));
    let no_wal = complaint(advise(&sandbox, &["notes"]), 2);
    assert!(
        no_wal.contains("none of the files is a WAL segment"),
        "{no_wal}"
    );
    let nobody = complaint(advise(&sandbox, &["-h", "absent", "-U", "nobody"]), 56);
    assert!(nobody.contains("cannot connect"), "{nobody}");
}

/// A segment whose only record is a commit, so many seconds after the first of 2026. Layouts:
/// src/include/access/xlogrecord.h and xact.h of PostgreSQL 15.
fn segment_with_commit(number: u64, seconds: u64) -> Vec<u8> {
    const FIRST: u64 = 820_540_800;
    let mut body = vec![0xFF, 8];
    body.extend(((FIRST + seconds) * 1_000_000).to_le_bytes());
    let mut record = Vec::new();
    record.extend((24 + body.len() as u32).to_le_bytes());
    record.extend(700u32.to_le_bytes());
    record.extend((number * SEGMENT_SIZE as u64 - 64).to_le_bytes());
    record.extend([0, 1, 0, 0]);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&body), &record);
    record.extend(crc.to_le_bytes());
    record.extend(body);
    let mut bytes = segment(number);
    bytes[40..40 + record.len()].copy_from_slice(&record);
    bytes
}

/// Advice on 4 GB of WAL, of which the first and the last segment are there, in so many seconds.
#[track_caller]
fn advice_on(seconds: u64, arguments: &[&str]) -> String {
    let sandbox = with_segments(0);
    for (number, at) in [(1, 0), (0xFFF, seconds)] {
        let path = format!("wal/{}", name(number));
        sandbox.write(&path, &segment_with_commit(number, at));
    }
    let output = advise(&sandbox, &[arguments, &["wal"]].concat());
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    // Lines are broken where they are too wide.
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn less_than_an_hour_of_wal_is_no_limit_and_no_headline() {
    for (seconds, headline) in [
        (3, "in the 3 seconds of this WAL: 1.43 GB/s"),
        (59 * 60, "in the 59 minutes of this WAL: 1.2 MB/s"),
    ] {
        let said = advice_on(seconds, &[]);
        assert!(said.contains(headline), "{said}");
        assert!(
            said.contains("WAL a day: not known from less than an hour"),
            "{said}"
        );
        assert!(!said.contains("no program that was measured"), "{said}");
        assert!(
            said.contains("More segments tell it: --repo, or a folder"),
            "{said}"
        );
        assert!(!said.contains("would be busy"), "{said}");
        assert!(!said.contains("saves"), "{said}");
    }
    let said = advice_on(61 * 60, &[]);
    let headline = "WAL: 101.34 GB a day (positions and times of transactions in the WAL, over 61 \
                    minutes)";
    assert!(said.contains(headline), "{said}");
    assert!(said.contains("saves"), "{said}");
    // Who knows better says so.
    let said = advice_on(3, &["--wal-per-day", "10GB"]);
    assert!(
        said.contains("WAL: 10.00 GB a day (given with --wal-per-day)"),
        "{said}"
    );
}
