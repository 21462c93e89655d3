//! `walzip repo copy` where the source cannot give everything.

use crate::sandbox::{SYSTEM_ID, Sandbox, control_file, segment};
use crate::several::{initialised, with};

const NAMES: [&str; 2] = ["000000010000000000000001", "000000010000000000000002"];

/// The key of a segment's object.
fn key_of(name: &str) -> String {
    format!("wal/15-{SYSTEM_ID}/{}/{name}.wz", &name[..16])
}

#[test]
fn a_copy_of_damage_is_told_by_its_exit_code_and_completed_later() {
    let sandbox = Sandbox::new();
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID));
    sandbox.ok(&["key", "init", "key"]);
    let encrypted = ["--repo", "one", "--repo-key-file", "key"];
    let with = |arguments: &[&'static str]| [arguments, &encrypted].concat();
    let made = sandbox.run(&with(&["init", "-D", "data"]));
    assert!(made.status.success());
    for (name, number) in NAMES.into_iter().zip(1..) {
        let path = format!("data/pg_wal/{name}");
        sandbox.write(&path, &segment(number));
        sandbox.ok(&[&["archive-push", &path], &encrypted[..]].concat());
    }
    let source = format!("one/{}", key_of(NAMES[0]));
    let whole = sandbox.read(&source);
    let mut damaged = whole.clone();
    *damaged.last_mut().expect("bytes") ^= 1;
    sandbox.write(&source, &damaged);
    let copy = with(&["repo", "copy", "two", "--to-plain"]);
    let output = sandbox.run(&copy);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(104), "{told}");
    assert!(
        told.contains(&format!("damaged: {}: ", key_of(NAMES[0]))),
        "{told}"
    );
    let there = |name: &str| sandbox.path(&format!("two/{}", key_of(name))).exists();
    assert!(!there(NAMES[0]) && there(NAMES[1]));
    // What is there can be used; and what was lacking comes when it is mended.
    sandbox.ok(&["verify", "--repo", "two"]);
    sandbox.write(&source, &whole);
    sandbox.ok(&copy);
    sandbox.ok(&["archive-get", "--repo", "two", NAMES[0], "got"]);
    assert_eq!(sandbox.read("got"), segment(1));
}

/// A copy within the repository would be part of what is copied, and the other way around.
#[test]
fn a_copy_lies_elsewhere() {
    let sandbox = initialised();
    for to in ["one", "one/copy", "./", "two/../one/deeper/copy"] {
        let complaint = sandbox.fails(31, &with(&["repo", "copy", to, "--repo", "1"]));
        assert!(complaint.contains("one lies in the other"), "{complaint}");
    }
    sandbox.ok(&with(&["repo", "copy", "beside", "--repo", "1"]));
}
