//! `walzip upgrade` without servers: what is refused, what goes where, and what a lost record does.

use std::fs;

use crate::sandbox::{
    SYSTEM_ID, Sandbox, control_file, control_file_of_16, segment, segment_of, segment_of_16,
};

const SEGMENT: &str = "000000010000000000000001";
const HISTORY: &str = "00000002.history";
const NEW_ID: u64 = SYSTEM_ID + 7;

/// Two data directories, `old` of 15 and `new` of 16, and a repository for the first.
fn before_the_upgrade() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("old/global/pg_control", &control_file(SYSTEM_ID));
    sandbox.write(&format!("old/pg_wal/{SEGMENT}"), &segment(1));
    let control_file = control_file_of_16(control_file(NEW_ID));
    sandbox.write("new/global/pg_control", &control_file);
    let segment = segment_of_16(segment_of(NEW_ID, 1));
    sandbox.write(&format!("new/pg_wal/{SEGMENT}"), &segment);
    sandbox.write(&format!("new/pg_wal/{HISTORY}"), b"1\t0/100000\tx\n");
    sandbox.write(HISTORY, b"1\t0/100000\tx\n");
    sandbox.ok(&["-q", "init", "--repo", "repo", "-D", "old"]);
    sandbox.ok(&push("old", SEGMENT));
    sandbox
}

fn upgraded() -> Sandbox {
    let sandbox = before_the_upgrade();
    sandbox.ok(&UPGRADE);
    sandbox.ok(&push("new", SEGMENT));
    sandbox
}

const UPGRADE: [&str; 5] = ["upgrade", "--repo", "repo", "-D", "new"];
const INFO: [&str; 3] = ["info", "--repo", "repo"];
const VERIFY: [&str; 3] = ["verify", "--repo", "repo"];

fn push(directory: &str, name: &str) -> [&'static str; 4] {
    let path = format!("{directory}/pg_wal/{name}");
    ["archive-push", "--repo", "repo", path.leak()]
}

/// Gets the segment in a directory, as restore_command does.
fn got_in(sandbox: &Sandbox, directory: &str) -> Vec<u8> {
    let repository = sandbox.path("repo");
    let mut get = sandbox.command();
    get.current_dir(sandbox.path(directory));
    get.args(["archive-get", "--repo"]).arg(repository);
    get.args([SEGMENT, "got"]).assert().success();
    sandbox.read(&format!("{directory}/got"))
}

fn text(output: Vec<u8>) -> String {
    String::from_utf8(output).expect("UTF-8")
}

/// What `verify` finds.
fn findings(sandbox: &Sandbox) -> String {
    let output = sandbox.run(&VERIFY);
    let found = text(output.stdout);
    assert_eq!(output.status.code(), Some(104), "{found}");
    found
}

#[test]
fn the_new_cluster_is_refused_until_it_is_registered() {
    let sandbox = before_the_upgrade();
    insta::assert_snapshot!(sandbox.fails(44, &push("new", SEGMENT)));
    sandbox.fails(44, &push("new", HISTORY));
    let told = text(sandbox.ok(&UPGRADE));
    assert!(told.contains("PostgreSQL 16"), "{told}");
    let told = text(sandbox.ok(&UPGRADE));
    assert!(told.contains("was registered before"), "{told}");
    sandbox.ok(&push("new", SEGMENT));
    sandbox.ok(&push("new", HISTORY));
    let old = text(sandbox.ok(&["-q", "init", "--repo", "repo", "-D", "old"]));
    assert!(old.ends_with("exists already\n"), "{old}");
}

#[test]
fn each_cluster_pushes_and_gets_its_own() {
    let sandbox = upgraded();
    let new = segment_of_16(segment_of(NEW_ID, 1));
    assert!(got_in(&sandbox, "old") == segment(1));
    assert!(got_in(&sandbox, "new") == new);
    // By hand, nothing says whose it is but the order of upgrades.
    assert!(got_in(&sandbox, ".") == new);
    sandbox.ok(&push("old", SEGMENT));
    let by_hand = ["archive-push", "--repo", "repo", HISTORY];
    let refused = sandbox.fails(31, &by_hand);
    assert!(refused.contains("several clusters"), "{refused}");
    let json = text(sandbox.ok(&["info", "--repo", "repo", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["cluster"]["major"], 16);
    assert_eq!(json["older_clusters"][0]["cluster"]["major"], 15);
    assert_eq!(json["older_clusters"][0]["wal"][0]["segments"], 1);
    sandbox.ok(&VERIFY);
}

#[test]
fn timelines_are_set_aside_per_cluster() {
    let sandbox = upgraded();
    sandbox.ok(&push("new", HISTORY));
    let set_aside = ["timeline", "set-aside", "2", "--repo", "repo"];
    let of_old = [&set_aside[..], &["--cluster", "15"]].concat();
    sandbox.fails(31, &of_old);
    let wrong = [&set_aside[..], &["--cluster", "14"]].concat();
    let refused = sandbox.fails(31, &wrong);
    assert!(
        refused.contains(&format!("15-{SYSTEM_ID}, 16-{NEW_ID}")),
        "{refused}"
    );
    sandbox.ok(&[&set_aside[..], &["--confirm"]].concat());
    let place = format!("repo/aside/16-{NEW_ID}/00000002/{HISTORY}.wz");
    assert!(sandbox.path(&place).exists());
    let info = text(sandbox.ok(&INFO));
    assert!(
        info.contains(&format!("aside/16-{NEW_ID}/00000002: set aside")),
        "{info}"
    );
}

#[test]
fn a_lost_record_is_told_and_made_anew() {
    let sandbox = upgraded();
    let record = sandbox.path("repo/cluster/2.json");
    let json = fs::read(&record).expect("readable");
    fs::remove_file(&record).expect("removed");
    // What needs no newest cluster goes on.
    sandbox.ok(&push("old", SEGMENT));
    sandbox.fails(44, &push("new", SEGMENT));
    let wal = format!("wal/16-{NEW_ID}");
    for command in [
        &["archive-get", "--repo", "repo", SEGMENT, "got"][..],
        &["timeline", "set-aside", "2", "--repo", "repo"],
    ] {
        let refused = sandbox.fails(103, command);
        assert!(refused.contains(&wal), "{refused}");
    }
    assert!(text(sandbox.ok(&INFO)).contains(&format!("DAMAGED: {wal}")));
    insta::assert_snapshot!(findings(&sandbox));
    sandbox.ok(&UPGRADE);
    assert_eq!(fs::read(&record).expect("readable"), json);
    sandbox.ok(&VERIFY);
}

#[test]
fn a_damaged_or_newer_record_is_told() {
    let sandbox = upgraded();
    for (record, code, detail) in [("{", 26, "EOF"), ("{\"format\": 9}", 29, "format 9")] {
        sandbox.write("repo/cluster/2.json", record.as_bytes());
        for command in [
            &push("new", SEGMENT)[..],
            &["archive-get", "--repo", "repo", SEGMENT, "got"],
            &UPGRADE,
        ] {
            let refused = sandbox.fails(code, command);
            assert!(refused.contains(detail), "{refused}");
        }
        sandbox.ok(&push("old", SEGMENT));
        let found = findings(&sandbox);
        assert!(found.contains("cluster damaged: cluster"), "{found}");
        assert!(found.contains(detail), "{found}");
        assert!(text(sandbox.ok(&INFO)).contains("DAMAGED: "));
    }
}

#[test]
fn an_older_cluster_without_its_wal_does_not_keep_the_newest_back() {
    let sandbox = upgraded();
    fs::remove_dir_all(sandbox.path(&format!("repo/wal/15-{SYSTEM_ID}"))).expect("removed");
    sandbox.ok(&push("new", SEGMENT));
    got_in(&sandbox, "new");
    let info = text(sandbox.ok(&INFO));
    assert!(
        info.contains(&format!("wal/15-{SYSTEM_ID} is not as walzip made it")),
        "{info}"
    );
    assert!(findings(&sandbox).contains("cluster damaged: "));
}

#[test]
fn a_repository_that_lost_its_first_record_is_not_made_for_another_cluster() {
    let sandbox = upgraded();
    fs::remove_file(sandbox.path("repo/repository.json")).expect("removed");
    sandbox.fails(103, &push("new", SEGMENT));
    sandbox.fails(103, &UPGRADE);
    let refused = sandbox.fails(103, &["init", "--repo", "repo", "-D", "new"]);
    assert!(refused.contains("repository.json"), "{refused}");
    sandbox.ok(&["-q", "init", "--repo", "repo", "-D", "old"]);
    sandbox.ok(&VERIFY);
}
