//! What `walzip sync` brings to a repository, and what it has to leave where it is.

use std::fs;

use crate::sandbox::{SYSTEM_ID, Sandbox, segment};
use crate::several::{NAMES, initialised, object, on_timeline, path_of, push, said, with};

/// Long after all WAL of these tests was archived.
const LATER: &str = "2099-01-01T00:00:00Z";
/// Long before.
const EARLIER: &str = "2020-01-01T00:00:00Z";

fn name(timeline: u8, number: u64) -> String {
    format!("{timeline:08X}{:08X}{number:08X}", 0)
}

/// Pushes a segment into some of the repositories.
fn push_segment(sandbox: &Sandbox, repositories: &[&str], timeline: u8, number: u64) {
    let name = name(timeline, number);
    sandbox.write(&path_of(&name), &on_timeline(timeline, number, 0));
    push_into(sandbox, repositories, &name);
}

/// Pushes a timeline's history: it left the first one where this segment begins.
fn push_history(sandbox: &Sandbox, repositories: &[&str], timeline: u8, number: u64) {
    let name = format!("{timeline:08X}.history");
    let history = format!("1\t0/{number:X}00000\tno recovery target specified\n");
    sandbox.write(&path_of(&name), history.as_bytes());
    push_into(sandbox, repositories, &name);
}

fn push_into(sandbox: &Sandbox, repositories: &[&str], name: &str) {
    for repository in repositories {
        sandbox.ok(&["archive-push", "--repo", repository, &path_of(name)]);
    }
}

/// The description of a backup of the first timeline that began in this segment and ended there.
fn describe_backup(sandbox: &Sandbox, repository: &str, label: &str, number: u64, time: &str) {
    let moment = |offset: u64| {
        serde_json::json!({
            "lsn": format!("0/{:X}", (number << 20) + offset), "timeline": 1, "time": time,
        })
    };
    let needed = name(1, number);
    let description = serde_json::json!({
        "format": 1,
        "label": label,
        "system_identifier": SYSTEM_ID.to_string(),
        "major": 15,
        "server_version": "15.13",
        "segment_size_bytes": 1 << 20,
        "from_standby": false,
        "start": moment(0x28),
        "stop": moment(0x100),
        "required_wal": [{ "first_segment": needed, "last_segment": needed }],
        "tablespaces": [],
        "archives": [],
        "manifest": { "original_bytes": 0, "objects": [] },
    });
    let path = format!("{repository}/backup/{label}/backup.json");
    sandbox.write(&path, description.to_string().as_bytes());
}

/// Makes a described backup an incremental one, which needs others.
fn make_incremental(sandbox: &Sandbox, repository: &str, label: &str, references: &[&str]) {
    let path = format!("{repository}/backup/{label}/backup.json");
    let description = sandbox.read(&path);
    let mut description: serde_json::Value =
        serde_json::from_slice(&description).expect("a description");
    let stream = serde_json::json!({ "original_bytes": 0, "objects": [] });
    description["format"] = 3.into();
    description["type"] = "incr".into();
    description["prior"] = references[0].into();
    description["references"] = references.into();
    description["files"] = serde_json::json!({ "original_bytes": 0, "packs": [], "index": stream });
    description["block_hashes"] = serde_json::json!({ "key": "00".repeat(32), "objects": [] });
    sandbox.write(&path, description.to_string().as_bytes());
}

/// Brings the second repository up to date; returns the exit code and what was said.
fn sync(sandbox: &Sandbox, arguments: &[&str]) -> (Option<i32>, String) {
    let arguments = [&["sync", "--repo", "2"], arguments].concat();
    let output = sandbox.run(&with(&arguments));
    (output.status.code(), said(&output.stdout))
}

fn has(sandbox: &Sandbox, repository: &str, name: &str) -> bool {
    let directory = match name.ends_with(".history") {
        true => format!("{repository}/wal/15-{SYSTEM_ID}/{name}.wz"),
        false => object(repository, name),
    };
    sandbox.path(&directory).is_file()
}

/// What the first source has not, or has damaged, comes from the second one; then nothing is missing.
#[test]
fn sync_brings_from_one_what_another_cannot_give() {
    let sandbox = initialised();
    let three = "repo = \"one\"\nrepo2 = \"two\"\nrepo3 = \"three\"\n";
    sandbox.write("walzip.toml", three.as_bytes());
    assert!(sandbox.run(&with(&["init", "-D", "data"])).status.success());
    for number in 1..=6 {
        let all: &[&str] = match number {
            1..=3 => &["two"],
            _ => &["one", "two"],
        };
        push_segment(&sandbox, all, 1, number);
    }
    let path = object("one", &name(1, 5));
    let mut damaged = sandbox.read(&path);
    *damaged.last_mut().expect("bytes") ^= 1;
    sandbox.write(&path, &damaged);
    let sync = with(&["sync", "--repo", "3"]);
    let told = said(&sandbox.ok(&sync));
    assert!(told.contains("from repository 1: WAL files 2, "), "{told}");
    assert!(told.contains("from repository 2: WAL files 4, "), "{told}");
    assert!(!told.contains("not brought"), "{told}");
    assert!((1..=6).all(|number| has(&sandbox, "three", &name(1, number))));

    // Where no other has it, that is said.
    for repository in ["two", "three"] {
        std::fs::remove_file(sandbox.path(&object(repository, &name(1, 5)))).expect("removed");
    }
    let output = sandbox.run(&sync);
    assert_eq!(output.status.code(), Some(104));
    let told = said(&output.stdout);
    let problem = format!("not brought from repository 1: {}: ", name(1, 5));
    assert!(told.contains(&problem), "{told}");
}

/// What was set aside is out of a restore's way, and stays there until somebody puts it back.
#[test]
fn sync_brings_nothing_of_a_timeline_that_was_set_aside() {
    let sandbox = initialised();
    push(&sandbox, NAMES[0]);
    let both = ["one", "two"];
    push_history(&sandbox, &both, 2, 2);
    push_segment(&sandbox, &both, 2, 2);
    let confirm = ["--confirm"];
    let aside = |arguments: &[&str], repository: &str| {
        let moved = ["timeline", arguments[0], arguments[1], "--repo", repository];
        sandbox.ok(&with(&[&moved[..], &confirm].concat()));
    };
    aside(&["set-aside", "2"], "2");
    // The branch has gone on, and another one came from it.
    push_segment(&sandbox, &["one"], 2, 3);
    let third = b"1\t0/200000\tno reason\n2\t0/400000\tno reason\n";
    sandbox.write(&path_of("00000003.history"), third);
    push_into(&sandbox, &["one"], "00000003.history");
    push_segment(&sandbox, &["one"], 3, 4);
    push_segment(&sandbox, &["one"], 1, 2);
    let (code, told) = sync(&sandbox, &[]);
    assert_eq!(code, Some(104), "{told}");
    assert!(
        told.contains("00000002.history: this timeline was set aside"),
        "{told}"
    );
    assert!(
        told.contains("00000003.history: it descends from timeline 2"),
        "{told}"
    );
    assert!(told.contains("WAL files 1,"), "{told}");
    assert!(has(&sandbox, "two", &name(1, 2)));
    for of_branch in [
        "00000002.history",
        &name(2, 2),
        &name(2, 3),
        "00000003.history",
        &name(3, 4),
    ] {
        assert!(!has(&sandbox, "two", of_branch), "{of_branch}");
    }
    // Put back, it gets what it lacks.
    aside(&["put-back", "00000002"], "2");
    let (code, told) = sync(&sandbox, &[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("WAL files 3,"), "{told}");
    for of_branch in [&name(2, 3), &name(3, 4)] {
        assert!(has(&sandbox, "two", of_branch), "{of_branch}");
    }
}

/// Two servers may have left the first timeline at the same point, and then have the same history.
#[test]
fn sync_brings_another_servers_timeline_of_a_number_that_was_set_aside() {
    for left in [2, 3] {
        let sandbox = initialised();
        for number in 1..left {
            push_segment(&sandbox, &["one", "two"], 1, number);
        }
        push_history(&sandbox, &["two"], 2, 2);
        sandbox.write(&path_of(&name(2, 2)), &on_timeline(2, 2, 9));
        push_into(&sandbox, &["two"], &name(2, 2));
        let aside = ["timeline", "set-aside", "2", "--repo", "2", "--confirm"];
        sandbox.ok(&with(&aside));
        fs::remove_file(sandbox.path(&path_of(&name(2, 2)))).expect("removed");
        push_history(&sandbox, &["one"], 2, left);
        for number in left..5 {
            push_segment(&sandbox, &["one"], 2, number);
        }
        let (code, told) = sync(&sandbox, &[]);
        assert_eq!(code, Some(0), "{told}");
        assert!(has(&sandbox, "two", "00000002.history"), "{told}");
        assert!((left..5).all(|number| has(&sandbox, "two", &name(2, number))));
    }
}

/// Of a timeline that lives on, a part was set aside: what a stray server had archived under production's names.
#[test]
fn sync_brings_what_production_has_under_names_that_were_set_aside() {
    let sandbox = initialised();
    let both = ["one", "two"];
    for number in 1..3 {
        push_segment(&sandbox, &both, 1, number);
    }
    let stray = |number: u64, repositories: &[&str]| {
        sandbox.write(&path_of(&name(1, number)), &on_timeline(1, number, 9));
        push_into(&sandbox, repositories, &name(1, number));
    };
    stray(3, &["two"]);
    stray(4, &both);
    let from = name(1, 3);
    let aside = ["timeline", "set-aside", "1", "--from", &from, "--confirm"];
    sandbox.ok(&with(&[&aside[..], &["--repo", "2"]].concat()));
    push_segment(&sandbox, &["one"], 1, 3);
    push_segment(&sandbox, &["one"], 1, 5);
    // The first one has the stray server's fourth segment still.
    let (code, told) = sync(&sandbox, &[]);
    assert_eq!(code, Some(104), "{told}");
    let problem = format!("{}: it was set aside in the repository", name(1, 4));
    assert!(told.contains(&problem), "{told}");
    let brought = [3, 4, 5].map(|number| has(&sandbox, "two", &name(1, number)));
    assert_eq!(brought, [true, false, false]);
    // Put away there too, production goes on.
    let from = name(1, 4);
    let aside = ["timeline", "set-aside", "1", "--from", &from, "--confirm"];
    sandbox.ok(&with(&[&aside[..], &["--repo", "1"]].concat()));
    for number in 4..6 {
        push_segment(&sandbox, &["one"], 1, number);
    }
    let (code, told) = sync(&sandbox, &[]);
    assert_eq!(code, Some(0), "{told}");
    let brought = [3, 4, 5].map(|number| has(&sandbox, "two", &name(1, number)));
    assert_eq!(brought, [true; 3]);
}

/// A dead branch that came back with a new time would be taken for the newest one.
#[test]
fn sync_brings_no_branch_that_expired() {
    let sandbox = initialised();
    let both = ["one", "two"];
    for number in 1..=6 {
        push_segment(&sandbox, &both, 1, number);
    }
    // The second timeline left before the backup, and the third one after it.
    for (timeline, left) in [(2, 3), (3, 6)] {
        push_history(&sandbox, &["one"], timeline, left);
        for number in left..=left + 3 {
            push_segment(&sandbox, &["one"], timeline, number);
        }
    }
    describe_backup(&sandbox, "two", "20990101-000000F", 4, LATER);
    let (code, told) = sync(&sandbox, &[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("not retained: 4"), "{told}");
    for number in 3..=6 {
        assert!(!has(&sandbox, "two", &name(2, number)), "{number}");
    }
    for number in 6..=9 {
        assert!(has(&sandbox, "two", &name(3, number)), "{number}");
    }
    // What was archived after the backup began is of a branch that lives, whichever it is.
    describe_backup(&sandbox, "two", "20990101-000000F", 4, EARLIER);
    let (code, told) = sync(&sandbox, &[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("WAL files 3,") && told.contains("not retained: 1"),
        "{told}"
    );
    assert!(!has(&sandbox, "two", &name(2, 3)));
}

/// A pin keeps a backup when the WAL after it has expired.
#[test]
fn sync_does_not_bring_what_follows_a_backup_that_only_its_pin_keeps() {
    let sandbox = initialised();
    for number in 1..=7 {
        push_segment(&sandbox, &["one"], 1, number);
    }
    for number in [2, 6] {
        push_segment(&sandbox, &["two"], 1, number);
    }
    let pinned = "20260101-000000F";
    describe_backup(&sandbox, "two", pinned, 2, LATER);
    describe_backup(&sandbox, "two", "20260201-000000F", 6, LATER);
    sandbox.ok(&with(&["pin", pinned, "--repo", "2"]));
    let there = |numbers: &[u64]| {
        for number in 1..=7 {
            let is_there = has(&sandbox, "two", &name(1, number));
            assert_eq!(is_there, numbers.contains(&number), "{number}");
        }
    };
    let (code, told) = sync(&sandbox, &[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("WAL files 1,") && told.contains("not retained: 4"),
        "{told}"
    );
    there(&[2, 6, 7]);
    // Where WAL follows it, nothing was removed after it.
    push_segment(&sandbox, &["two"], 1, 3);
    let (code, told) = sync(&sandbox, &[]);
    assert_eq!(code, Some(0), "{told}");
    there(&[2, 3, 4, 5, 6, 7]);
    // Or where it is asked for.
    for number in [3, 4, 5] {
        fs::remove_file(sandbox.path(&object("two", &name(1, number)))).expect("removed");
    }
    assert_eq!(sync(&sandbox, &[]).0, Some(0));
    there(&[2, 6, 7]);
    assert_eq!(sync(&sandbox, &["--pinned"]).0, Some(0));
    there(&[2, 3, 4, 5, 6, 7]);
    // Without the pin, it is a backup like another.
    for number in [3, 4, 5] {
        fs::remove_file(sandbox.path(&object("two", &name(1, number)))).expect("removed");
    }
    sandbox.ok(&with(&["unpin", pinned, "--repo", "2"]));
    assert_eq!(sync(&sandbox, &[]).0, Some(0));
    there(&[2, 3, 4, 5, 6, 7]);
}

/// An expiry keeps a full backup for the moment of a pinned one that needs it, and no WAL after it.
#[test]
fn sync_does_not_bring_what_follows_a_backup_that_only_a_pinned_one_needs() {
    let sandbox = initialised();
    for number in 1..=9 {
        push_segment(&sandbox, &["one"], 1, number);
    }
    for number in [2, 4, 8] {
        push_segment(&sandbox, &["two"], 1, number);
    }
    let (full, pinned) = ("20260101-000000F", "20260102-000000I");
    describe_backup(&sandbox, "two", full, 2, LATER);
    describe_backup(&sandbox, "two", pinned, 4, LATER);
    make_incremental(&sandbox, "two", pinned, &[full]);
    describe_backup(&sandbox, "two", "20260201-000000F", 8, LATER);
    sandbox.ok(&with(&["pin", pinned, "--repo", "2"]));
    let (code, told) = sync(&sandbox, &[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("WAL files 1,") && told.contains("not retained: 5"),
        "{told}"
    );
    // One that is kept for itself needs it as well: then all from there on is kept.
    let other = "20260103-000000I";
    describe_backup(&sandbox, "two", other, 8, LATER);
    make_incremental(&sandbox, "two", other, &[full]);
    let (code, told) = sync(&sandbox, &[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("WAL files 4,") && told.contains("not retained: 1"),
        "{told}"
    );
}

/// One that is away is told, and the others give what they have.
#[test]
fn sync_asks_the_others_when_a_source_is_away() {
    let sandbox = initialised();
    sandbox.write(
        "walzip.toml",
        b"repo = \"one\"\nrepo2 = \"two\"\nrepo3 = \"three\"\n",
    );
    let made = sandbox.run(&with(&["init", "-D", "data"]));
    assert!(made.status.success(), "{}", said(&made.stderr));
    for (number, repositories) in [
        (1, &["one", "two", "three"][..]),
        (2, &["one"]),
        (3, &["three"]),
    ] {
        push_segment(&sandbox, repositories, 1, number);
    }
    fs::rename(sandbox.path("one"), sandbox.path("away")).expect("renamed");
    let (code, told) = sync(&sandbox, &[]);
    assert_eq!(code, Some(104), "{told}");
    assert!(told.contains("from repository 1: nothing: "), "{told}");
    assert!(told.contains("from repository 3: WAL files 1,"), "{told}");
    assert!(has(&sandbox, "two", NAMES[2]) && !has(&sandbox, "two", NAMES[1]));
    // A target that is away is a failure of its own, and is not made anew.
    let refused = sandbox.run(&with(&["sync"]));
    assert_eq!(
        refused.status.code(),
        Some(103),
        "{}",
        said(&refused.stderr)
    );
    assert!(said(&refused.stderr).contains("repository 1: "));
    assert!(!sandbox.path("one").exists());
    fs::rename(sandbox.path("away"), sandbox.path("one")).expect("renamed");
    let (code, told) = sync(&sandbox, &[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(has(&sandbox, "two", NAMES[1]));
    assert_eq!(sandbox.read(&path_of(NAMES[2])), segment(3));
}

/// A clone has put a segment of its own into the second repository, which was away: behind it comes nothing of the
/// server's, though their newest segments are the same.
#[test]
fn sync_brings_nothing_behind_a_segment_of_another_server() {
    let sandbox = initialised();
    for number in [1, 6] {
        push_segment(&sandbox, &["one", "two"], 1, number);
    }
    for number in 2..=5 {
        push_segment(&sandbox, &["one"], 1, number);
    }
    let foreign = name(1, 2);
    sandbox.write(&path_of(&foreign), &on_timeline(1, 2, 7));
    push_into(&sandbox, &["two"], &foreign);
    let (code, told) = sync(&sandbox, &[]);
    assert_eq!(code, Some(104), "{told}");
    let problem = format!("{foreign}: the repositories have different content under this name");
    assert!(told.contains(&problem), "{told}");
    for number in 3..=5 {
        assert!(!has(&sandbox, "two", &name(1, number)), "{number}");
    }
}
