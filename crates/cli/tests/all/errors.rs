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

/// Whatever is wrong with a command line: one line with the code, and one with a hint.
#[test]
fn a_wrong_command_line_is_told_like_every_other_failure() {
    let sandbox = Sandbox::new();
    let lines: [&[&str]; 12] = [
        &[],
        &["bench"],
        &["compres"],
        &["bench", "wl"],
        &["compress", "--levl", "3"],
        &["compress", "--level", "10"],
        &["restore", "--repo", "r"],
        &["restore", "d", "--target-time", "x", "--target-xid", "3"],
        &["check", "-h"],
        &["-q", "-v", "info"],
        &["info", "--json", "--json"],
        &["verify", "two\nlines \u{1b}[31m"],
    ];
    let mut shown = String::new();
    for line in lines {
        let complaint = sandbox.fails(2, line);
        let told: Vec<&str> = complaint.lines().collect();
        assert_eq!(told.len(), 2, "{line:?}: {complaint}");
        assert!(told[0].starts_with("walzip: error: "), "{complaint}");
        assert!(told[0].ends_with(" [usage, exit code 2]"), "{complaint}");
        assert!(told[1].starts_with("walzip: hint: "), "{complaint}");
        shown.push_str(&format!("{line:?}\n{complaint}"));
    }
    insta::assert_snapshot!(shown);
}

/// Who comes from another archiver knows other words.
#[test]
fn the_words_of_other_programs_are_answered_with_ours() {
    let sandbox = Sandbox::new();
    for (arguments, ours) in [
        (&["stanza-create"][..], "\"walzip init\""),
        (&["wal-push", "x"], "\"walzip archive-push\""),
        (&["backup-fetch"], "\"walzip restore\""),
        (&["delete"], "\"walzip expire\""),
        (&["stop"], "Nothing has to be stopped"),
        (&["start"], "archive_command is set"),
        (
            &["expire", "--repo1-retention-full=2"],
            "\"repo-retention-full\"",
        ),
        (&["archive-push", "--stanza=main", "x"], "no stanzas"),
        (&["restore", "--set", "x"], "--backup names"),
        (&["restore", "--type=time"], "--target-time"),
        (&["restore", "--type=none"], "--target-immediate"),
        (&["restore", "--type=preserve"], "For \"preserve\""),
        (&["restore", "--link-all"], "leave a link in its place"),
        (
            &["restore", "--link-map=pg_wal=/x"],
            "leave a link in its place",
        ),
        (&["restore", "--process-max=4"], "as many threads as"),
        (&["backup", "--no-online"], "start it first"),
        (&["backup", "--backup-standby"], "-h names the server"),
        (&["backup", "--exclude=x"], "keep other files outside"),
        (&["info", "--output=json"], "--json prints JSON"),
    ] {
        let told = sandbox.fails(2, arguments);
        assert!(told.contains(ours), "{told}");
        assert!(
            !told.contains("Did you mean") && !told.contains("as a value"),
            "{told}"
        );
    }
}

#[test]
fn a_repository_has_to_be_named_and_to_exist() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.fails(37, &["archive-push", "x"]));
    insta::assert_snapshot!(sandbox.fails(103, &["archive-push", "--repo", "absent", "x"]));
    insta::assert_snapshot!(sandbox.fails(67, &["archive-push", "--repo", "ftp://host/x", "x"]));
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

#[test]
fn a_signal_ends_the_program_as_a_signal_and_leaves_nothing_behind() {
    use std::os::unix::process::ExitStatusExt;
    let sandbox = Sandbox::new();
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("walzip"))
        .args(["compress", "-o", "out"])
        .current_dir(sandbox.path("."))
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("walzip starts");
    while sandbox.names().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // Waiting would close it, and the end of the input would race with the signal.
    let _stdin = child.stdin.take();
    let id = child.id().to_string();
    let kill = std::process::Command::new("kill")
        .args(["-TERM", &id])
        .status();
    assert!(kill.expect("kill starts").success());
    assert_eq!(child.wait().expect("walzip ends").signal(), Some(15));
    assert!(sandbox.names().is_empty());
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &text(10));
    let program = assert_cmd::cargo::cargo_bin!("walzip").display();
    // The shell sends SIGHUP while walzip waits for its input.
    let script = format!(
        "trap '' HUP; (sleep 0.5; cat a) | {program} compress -o out & \
         while [ -z \"$(ls -A | grep walzip-)\" ]; do sleep 0.05; done; \
         kill -HUP $!; wait $!"
    );
    let status = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(sandbox.path("."))
        .status();
    assert!(status.expect("sh starts").success());
    assert_eq!(sandbox.names(), ["a", "out"]);
}

/// The value of a variable is nowhere on the command line.
#[test]
fn the_variable_of_a_wrong_value_is_named() {
    let sandbox = Sandbox::new();
    let told = |level: &[&str]| {
        let mut pack = sandbox.command();
        pack.args(["pack", "--repo", "r"]).args(level);
        let output = pack.env("WALZIP_LEVEL", "x").output();
        let output = output.expect("walzip starts");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    assert!(told(&[]).contains("The value is from the variable WALZIP_LEVEL."));
    assert!(!told(&["--level", "y"]).contains("WALZIP_LEVEL"));
    assert!(!told(&["--level=y"]).contains("WALZIP_LEVEL"));
}
