//! Several repositories at once: what one lacks or gives wrongly, another one has.

use std::fs;

use crate::sandbox::{SYSTEM_ID, Sandbox, control_file, segment};

pub const NAMES: [&str; 3] = [
    "000000010000000000000001",
    "000000010000000000000002",
    "000000010000000000000003",
];

/// A data directory with segments, and a configuration file with two repositories for it.
pub fn initialised() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID));
    for (name, number) in NAMES.into_iter().zip(1..) {
        sandbox.write(&format!("data/pg_wal/{name}"), &segment(number));
    }
    sandbox.write(
        "walzip.toml",
        b"repo = \"one\"\nrepo2 = \"two\"\nrepo2-level = 9\n",
    );
    let made = sandbox.run(&with(&["init", "-D", "data"]));
    assert!(made.status.success(), "{}", said(&made.stderr));
    let made = said(&made.stdout);
    assert_eq!(made.lines().count(), 2, "{made}");
    sandbox
}

pub fn with<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &["--config", "walzip.toml"]].concat()
}

pub fn said(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

pub fn path_of(name: &str) -> String {
    format!("data/pg_wal/{name}")
}

pub fn push(sandbox: &Sandbox, name: &str) {
    sandbox.ok(&with(&["archive-push", &path_of(name)]));
}

pub fn object(repository: &str, name: &str) -> String {
    let directory = &name[..16];
    format!("{repository}/wal/15-{SYSTEM_ID}/{directory}/{name}.wz")
}

#[test]
fn a_push_is_a_success_when_all_have_it() {
    let sandbox = initialised();
    push(&sandbox, NAMES[0]);
    push(&sandbox, NAMES[0]);
    for repository in ["one", "two"] {
        assert!(sandbox.path(&object(repository, NAMES[0])).is_file());
        let get = ["archive-get", "--repo", repository, NAMES[0], "got"];
        sandbox.ok(&get);
        assert!(sandbox.read("got") == segment(1));
    }
    // One of them is away: the other one gets it, and PostgreSQL keeps it all the same.
    fs::rename(sandbox.path("two"), sandbox.path("away")).expect("renamed");
    let refused = sandbox.fails(103, &with(&["archive-push", &path_of(NAMES[1])]));
    assert!(refused.contains("repository 2: "), "{refused}");
    assert!(sandbox.path(&object("one", NAMES[1])).is_file());
    fs::rename(sandbox.path("away"), sandbox.path("two")).expect("renamed");
    push(&sandbox, NAMES[1]);
    assert!(sandbox.path(&object("two", NAMES[1])).is_file());
}

/// What one keeps, the other would remove, and both would be taken for two copies.
#[test]
fn one_repository_is_not_two() {
    let sandbox = initialised();
    std::os::unix::fs::symlink(sandbox.path("one"), sandbox.path("link")).expect("made");
    for same in ["one", "one/", "./one/.", "two/../one", "link"] {
        let file = format!("repo = \"one\"\nrepo2 = \"two\"\nrepo3 = \"{same}\"\n");
        sandbox.write("walzip.toml", file.as_bytes());
        let push = path_of(NAMES[0]);
        let commands = [
            &["expire", "--retention-full", "1"][..],
            &["verify"],
            &["archive-push", &push],
        ];
        // Links are followed where something is removed: a disk that does not answer keeps nobody waiting.
        let count = if same == "link" { 1 } else { commands.len() };
        for command in commands.into_iter().take(count) {
            let refused = sandbox.fails(27, &with(command));
            assert!(refused.contains("repositories 1 and 3"), "{refused}");
        }
    }
    sandbox.write("walzip.toml", b"repo = \"one\"\nrepo2 = \"one/more\"\n");
    let path = path_of(NAMES[0]);
    sandbox.ok(&with(&["archive-push", "--repo", "1", &path]));
    // A variable in the server's environment, nobody may have meant.
    let mut push = sandbox.command();
    push.env("WALZIP_REPO", "1");
    let pushed = push.args(with(&["archive-push", &path])).output();
    let pushed = pushed.expect("walzip runs");
    assert!(pushed.status.success());
    let told = said(&pushed.stderr);
    assert!(told.contains("one alone"), "{told}");
}

#[test]
fn a_get_takes_the_first_correct_answer() {
    let sandbox = initialised();
    push(&sandbox, NAMES[0]);
    let get = with(&["archive-get", NAMES[0], "got"]);
    let answers = |complaint: &str| {
        let _ = fs::remove_file(sandbox.path("got"));
        let output = sandbox.run(&get);
        let told = said(&output.stderr);
        assert!(output.status.success(), "{told}");
        assert!(told.contains(complaint), "{told}");
        assert!(sandbox.read("got") == segment(1));
    };
    answers("");
    // Damaged in the first one.
    let first = object("one", NAMES[0]);
    let mut damaged = sandbox.read(&first);
    *damaged.last_mut().expect("bytes") ^= 1;
    sandbox.write(&first, &damaged);
    answers("is from");
    // Not there at all.
    fs::remove_file(sandbox.path(&first)).expect("removed");
    answers("");
    fs::rename(sandbox.path("one"), sandbox.path("away")).expect("renamed");
    answers("repository 1: ");
    // Nobody has it: that is an answer only if all have given one.
    let none = with(&["archive-get", NAMES[2], "got"]);
    let refused = sandbox.fails(103, &none);
    assert!(refused.contains("repository 1: "), "{refused}");
    fs::rename(sandbox.path("away"), sandbox.path("one")).expect("renamed");
    assert_eq!(sandbox.fails(1, &none), "");
}

#[test]
fn sync_brings_what_is_lacked_and_nothing_else() {
    let sandbox = initialised();
    for name in NAMES {
        push(&sandbox, name);
    }
    fs::remove_file(sandbox.path(&object("one", NAMES[1]))).expect("removed");
    fs::remove_file(sandbox.path(&object("two", NAMES[2]))).expect("removed");
    let brought = said(&sandbox.ok(&with(&["sync"])));
    let counts: Vec<&str> = brought
        .lines()
        .filter_map(|line| line.split("WAL files ").nth(1)?.split(',').next())
        .collect();
    assert_eq!(counts, ["1", "1"], "{brought}");
    for (repository, name) in [("one", NAMES[1]), ("two", NAMES[2])] {
        assert!(sandbox.path(&object(repository, name)).is_file());
    }
    sandbox.ok(&with(&["verify"]));
    // Where there is no backup nothing has expired, also what is older than all that a repository has.
    fs::remove_file(sandbox.path(&object("two", NAMES[0]))).expect("removed");
    let brought = said(&sandbox.ok(&with(&["sync", "--repo", "2"])));
    assert!(brought.contains("WAL files 1, "), "{brought}");
    assert!(brought.contains("not retained: 0"), "{brought}");
    assert!(sandbox.path(&object("two", NAMES[0])).exists());
}

#[test]
fn sync_takes_over_no_damage_and_no_other_branch() {
    let sandbox = initialised();
    for name in NAMES {
        push(&sandbox, name);
    }
    fs::remove_file(sandbox.path(&object("two", NAMES[1]))).expect("removed");
    let source = object("one", NAMES[1]);
    let whole = sandbox.read(&source);
    let mut damaged = whole.clone();
    *damaged.last_mut().expect("bytes") ^= 1;
    sandbox.write(&source, &damaged);
    let sync = with(&["sync", "--repo", "2"]);
    sandbox.fails(104, &sync);
    assert!(!sandbox.path(&object("two", NAMES[1])).exists());
    // The newest segment that both have is not the same one.
    sandbox.write(&source, &whole);
    let mut other = segment(3);
    *other.last_mut().expect("bytes") = 1;
    sandbox.write("other/000000010000000000000003", &other);
    fs::remove_file(sandbox.path(&object("one", NAMES[2]))).expect("removed");
    let elsewhere = "other/000000010000000000000003";
    sandbox.ok(&["archive-push", "--repo", "one", elsewhere]);
    let output = sandbox.run(&sync);
    assert_eq!(output.status.code(), Some(104));
    let told = said(&output.stdout);
    assert!(told.contains("different content"), "{told}");
    assert!(!sandbox.path(&object("two", NAMES[1])).exists());
}

#[test]
fn a_repository_is_chosen_by_its_number() {
    let sandbox = initialised();
    push(&sandbox, NAMES[0]);
    let shown = said(&sandbox.ok(&with(&["info"])));
    assert!(shown.contains("repository  1, "), "{shown}");
    assert!(shown.contains("\n\nrepository  2, "), "{shown}");
    let chosen = said(&sandbox.ok(&with(&["info", "--repo", "2"])));
    assert!(!chosen.contains("repository  1, "), "{chosen}");
    let json = sandbox.ok(&with(&["verify", "--json"]));
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(json[1]["repo"], 2);
    assert_eq!(json[1]["wal_objects"], 1);
    let refused = sandbox.fails(31, &with(&["info", "--repo", "3"]));
    assert!(refused.contains("It has 1, 2."), "{refused}");
    let refused = sandbox.fails(37, &with(&["unpin", "20261121-220130F"]));
    assert!(refused.contains("--repo N"), "{refused}");
    sandbox.write("single.toml", b"repo = \"one\"\n");
    sandbox.fails(37, &["sync", "--config", "single.toml"]);
    // One that is away is told, and the other one is shown.
    fs::rename(sandbox.path("one"), sandbox.path("away")).expect("renamed");
    let output = sandbox.run(&with(&["info", "--json"]));
    assert_eq!(output.status.code(), Some(103));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(json[0]["error"].is_string(), "{json}");
    assert_eq!(json[1]["repo"], 2);
}

/// A segment of another timeline, with this last byte.
pub fn on_timeline(timeline: u8, number: u64, last: u8) -> Vec<u8> {
    let mut segment = segment(number);
    segment[4] = timeline;
    *segment.last_mut().expect("bytes") = last;
    segment
}

/// Two servers were promoted to timeline 2, and one of them to timeline 3.
#[test]
fn sync_takes_over_no_descendant_of_another_branch() {
    let sandbox = initialised();
    push(&sandbox, NAMES[0]);
    let second = b"1\t0/300000\tno recovery target specified\n";
    let third = [&second[..], b"2\t0/400000\tno recovery target specified\n"].concat();
    sandbox.write("data/pg_wal/00000002.history", second);
    sandbox.write("data/pg_wal/00000003.history", &third);
    push(&sandbox, "00000002.history");
    // The first one's server goes on.
    for (repository, last) in [("two", 2), ("one", 1)] {
        let name = "000000020000000000000003";
        sandbox.write(&path_of(name), &on_timeline(2, 3, last));
        sandbox.ok(&["archive-push", "--repo", repository, &path_of(name)]);
    }
    let newest = "000000030000000000000004";
    sandbox.write(&path_of(newest), &on_timeline(3, 4, 0));
    for name in ["00000003.history", newest] {
        sandbox.ok(&["archive-push", "--repo", "one", &path_of(name)]);
    }
    let sync = with(&["sync", "--repo", "2"]);
    let output = sandbox.run(&sync);
    assert_eq!(output.status.code(), Some(104));
    let told = said(&output.stdout);
    assert!(told.contains("different content"), "{told}");
    assert!(told.contains("descends from timeline 2"), "{told}");
    assert!(told.contains("WAL files 0,"), "{told}");
    assert!(!sandbox.path(&object("two", newest)).exists());
}

#[test]
fn a_place_in_the_file_has_its_own_keys() {
    let sandbox = initialised();
    let one = sandbox.path("one").display().to_string();
    let two = sandbox.path("two").display().to_string();
    let file = format!("repo = \"{one}\"\nrepo-retention-full = 1\nrepo2 = \"{two}\"\nlevel = 5\n");
    sandbox.write("walzip.toml", file.as_bytes());
    sandbox.ok(&with(&["expire", "--repo", &one]));
    // The second repository has no retention, however it is named.
    for name in ["2", &two] {
        let refused = sandbox.fails(37, &with(&["expire", "--repo", name]));
        assert!(refused.contains("no retention is given"), "{refused}");
    }
}

#[test]
fn a_get_does_not_take_another_clusters_file() {
    let sandbox = initialised();
    sandbox.write("other/global/pg_control", &control_file(SYSTEM_ID + 1));
    fs::remove_dir_all(sandbox.path("two")).expect("removed");
    let made = sandbox.run(&["init", "-D", "other", "--repo", "two"]);
    assert!(made.status.success(), "{}", said(&made.stderr));
    let history = b"1\t0/300000\tno recovery target specified\n";
    sandbox.write("other/pg_wal/00000002.history", history);
    let other = "other/pg_wal/00000002.history";
    sandbox.ok(&["archive-push", "--repo", "two", other]);
    let got = sandbox.path("got").display().to_string();
    let get = with(&["archive-get", "00000002.history", &got]);
    let refused = sandbox.fails(44, &get);
    assert!(refused.contains("repository 2, "), "{refused}");
    assert!(!sandbox.path("got").exists());
}

/// What is one repository's must not reach another one.
#[test]
fn settings_of_one_repository_are_refused_for_several() {
    let sandbox = initialised();
    for given in [
        &["expire", "--retention-full", "1", "--confirm"][..],
        &["info", "--repo-s3-endpoint", "http://127.0.0.1:1"],
        &["verify", "--repo-key-file", "key"],
    ] {
        let refused = sandbox.fails(37, &with(given));
        assert!(refused.contains("one repository's"), "{refused}");
    }
    let chosen = ["expire", "--retention-full", "1", "--repo", "2", "--json"];
    let plan = sandbox.ok(&with(&chosen));
    let plan: serde_json::Value = serde_json::from_slice(&plan).expect("JSON");
    assert_eq!(plan["format"], 1);
}

/// A recovery cannot follow a timeline without its history, and takes its number.
#[test]
fn sync_brings_no_timeline_without_its_history() {
    let sandbox = initialised();
    push(&sandbox, NAMES[0]);
    let name = "000000020000000000000003";
    sandbox.write(&path_of(name), &on_timeline(2, 3, 1));
    sandbox.ok(&["archive-push", "--repo", "one", &path_of(name)]);
    let output = sandbox.run(&with(&["sync", "--repo", "2"]));
    assert_eq!(output.status.code(), Some(104));
    let told = said(&output.stdout);
    assert!(told.contains("missing or damaged"), "{told}");
    assert!(!sandbox.path(&object("two", name)).exists());
}
