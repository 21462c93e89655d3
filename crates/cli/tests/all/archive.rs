//! `init`, `archive-push` and `archive-get`, as PostgreSQL calls them.

use crate::sandbox::{SYSTEM_ID, Sandbox, control_file, segment, segment_of};

const FIRST: &str = "000000010000000000000001";

/// A data directory with one segment, and a repository for it.
fn initialised() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID));
    sandbox.write(&format!("data/pg_wal/{FIRST}"), &segment(1));
    let output = sandbox.run(&["init", "--repo", "repo", "--pgdata", "data"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    sandbox
}

fn push(path: &str) -> [&str; 4] {
    ["archive-push", "--repo", "repo", path]
}

fn path(name: &str) -> String {
    format!("data/pg_wal/{name}")
}

#[test]
fn init_says_whose_repository_it_made_and_may_be_repeated() {
    let sandbox = initialised();
    let again = sandbox.ok(&["init", "--repo", "repo", "--pgdata", "data"]);
    let again = String::from_utf8(again).expect("UTF-8");
    assert!(again.contains(&format!("PostgreSQL 15 with system identifier {SYSTEM_ID}")));
    assert!(again.ends_with("exists already\n"), "{again}");
    sandbox.write("other/global/pg_control", &control_file(SYSTEM_ID + 1));
    insta::assert_snapshot!(sandbox.fails(44, &["init", "--repo", "repo", "-D", "other"]));
    sandbox.write("damaged/global/pg_control", &control_file(1)[1..]);
    sandbox.fails(28, &["init", "--repo", "r2", "-D", "damaged"]);
    insta::assert_snapshot!(sandbox.fails(55, &["init", "--repo", "r2", "-D", "absent"]));
    assert!(!sandbox.path("r2").exists());
}

#[test]
fn pushes_in_silence_and_gets_the_same_bytes() {
    let sandbox = initialised();
    assert!(sandbox.ok(&push(&path(FIRST))).is_empty());
    assert!(sandbox.ok(&["archive-get", "--repo", "repo", FIRST, "got"]).is_empty());
    assert!(sandbox.read("got") == segment(1));
}

#[test]
fn pushes_an_identical_segment_twice_and_succeeds() {
    let sandbox = initialised();
    sandbox.ok(&push(&path(FIRST)));
    let output = sandbox.run(&["-v", "archive-push", "--repo", "repo", &path(FIRST)]);
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(said.contains("was archived before, and is identical"), "{said}");
}

#[test]
fn refuses_different_content_under_the_same_name() {
    let sandbox = initialised();
    sandbox.ok(&push(&path(FIRST)));
    let mut different = segment(1);
    different[9000] = 1;
    sandbox.write(&path(FIRST), &different);
    insta::assert_snapshot!(sandbox.fails(45, &push(&path(FIRST))));
    sandbox.ok(&["archive-get", "--repo", "repo", FIRST, "got"]);
    assert!(sandbox.read("got") == segment(1));
}

#[test]
fn refuses_what_is_not_the_clusters_or_not_wal() {
    let sandbox = initialised();
    let second = path("000000010000000000000002");
    sandbox.write(&second, &segment_of(SYSTEM_ID + 1, 2));
    insta::assert_snapshot!(sandbox.fails(44, &push(&second)));
    sandbox.write(&second, &segment(3));
    sandbox.fails(28, &push(&second));
    sandbox.write(&second, b"short");
    sandbox.fails(28, &push(&second));
    sandbox.write(&path("notes.txt"), b"x");
    insta::assert_snapshot!(sandbox.fails(96, &push(&path("notes.txt"))));
    sandbox.fails(55, &push(&path("000000010000000000000009")));
    assert!(!sandbox.path("repo/wal").exists(), "nothing was archived");
}

#[test]
fn a_file_that_the_archive_does_not_have_is_exit_code_1_without_a_word() {
    let sandbox = initialised();
    let absent = ["archive-get", "--repo", "repo", "00000002.history", "got"];
    assert_eq!(sandbox.fails(1, &absent), "");
    assert!(!sandbox.path("got").exists());
}

#[test]
fn a_damaged_object_is_not_got() {
    let sandbox = initialised();
    sandbox.ok(&push(&path(FIRST)));
    let object = find(&sandbox.path("repo/wal"));
    let mut bytes = std::fs::read(&object).expect("readable");
    let last = bytes.len() - 1;
    bytes[last] ^= 0x40;
    // Objects are written once, and are not writable afterwards.
    std::fs::remove_file(&object).expect("removable");
    std::fs::write(&object, &bytes).expect("writable");
    sandbox.write("got", b"an earlier attempt");
    insta::assert_snapshot!(sandbox.fails(26, &["archive-get", "--repo", "repo", FIRST, "got"]));
    assert_eq!(sandbox.read("got"), b"an earlier attempt");
}

#[test]
fn the_level_comes_from_the_file_unless_a_flag_says_otherwise() {
    let sandbox = initialised();
    sandbox.write("walzip.toml", b"repo = \"repo\"\nlevel = 11\n");
    let file = ["archive-push", "--config", "walzip.toml"];
    sandbox.fails(27, &[&file[..], &[&path(FIRST)]].concat());
    sandbox.ok(&[&file[..], &["-2", &path(FIRST)]].concat());
}

/// The only file below a directory.
fn find(directory: &std::path::Path) -> std::path::PathBuf {
    let mut entries = std::fs::read_dir(directory).expect("readable");
    let path = entries.next().expect("not empty").expect("readable").path();
    if path.is_dir() { find(&path) } else { path }
}
