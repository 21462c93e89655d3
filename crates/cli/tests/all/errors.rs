//! Failures have a message, a hint where one helps, and a stable exit code.

use crate::sandbox::{Sandbox, text};

#[test]
fn a_wrong_command_line_exits_with_2() {
    let sandbox = Sandbox::new();
    sandbox.fails(2, &[]);
    sandbox.fails(2, &["compres"]);
    sandbox.fails(2, &["compress", "--levl", "3"]);
    let complaint = sandbox.fails(2, &["compress", "--level", "10"]);
    assert!(complaint.contains("a number from 1 to 9"), "{complaint}");
}

#[test]
fn a_repository_has_to_be_named_and_to_exist() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.fails(37, &["archive-push", "x"]));
    insta::assert_snapshot!(sandbox.fails(103, &["archive-push", "--repo", "absent", "x"]));
    insta::assert_snapshot!(sandbox.fails(67, &["archive-push", "--repo", "s3://bucket/x", "x"]));
}

#[test]
fn a_reader_that_goes_away_is_no_reason_to_complain() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &text(1 << 20));
    sandbox.ok(&["compress", "a"]);
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("walzip"))
        .args(["decompress", "-c"])
        .arg(sandbox.path("a.wz"))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("walzip starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("walzip ends");
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
