//! gzip's habits with files.

use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};

use crate::sandbox::{Sandbox, text};

#[test]
fn compress_replaces_the_file_and_decompress_brings_it_back() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &text(100_000));
    sandbox.ok(&["compress", "a"]);
    assert_eq!(sandbox.names(), ["a.wz"]);
    assert!(sandbox.read("a.wz").len() < 60_000);
    sandbox.ok(&["decompress", "a.wz"]);
    assert_eq!(sandbox.names(), ["a"]);
    assert_eq!(sandbox.read("a"), text(100_000));
}

#[test]
fn every_level_round_trips_and_the_last_flag_wins() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &text(50_000));
    for level in 1..=9 {
        sandbox.ok(&["compress", "-k", "-f", &format!("-{level}"), "a"]);
        assert_eq!(
            sandbox.ok(&["decompress", "-c", "a.wz"]),
            text(50_000),
            "level {level}"
        );
    }
    let nine = sandbox.ok(&["compress", "-c", "-9", "a"]);
    assert_eq!(sandbox.ok(&["compress", "-c", "-1", "-9", "a"]), nine);
    assert_eq!(sandbox.ok(&["compress", "-c", "--best", "a"]), nine);
    assert_eq!(sandbox.ok(&["compress", "-c", "--level", "9", "a"]), nine);
    let one = sandbox.ok(&["compress", "-c", "-1", "a"]);
    assert_ne!(one, nine);
    for flags in [
        ["-9", "--level=1"],
        ["--level=9", "-1"],
        ["--level=9", "--level=1"],
    ] {
        let last = sandbox.ok(&[&["compress", "-c", "a"], &flags[..]].concat());
        assert!(last == one, "{flags:?}");
    }
    let variable = |args: &[&str]| {
        let output = sandbox
            .command()
            .env("WALZIP_LEVEL", "9")
            .args(args)
            .output();
        output.expect("walzip starts").stdout
    };
    assert_eq!(variable(&["compress", "-c", "a"]), nine);
    assert_eq!(
        variable(&["compress", "-c", "-1", "a"]),
        one,
        "a flag is stronger"
    );
}

#[test]
fn standard_input_goes_to_standard_output() {
    let sandbox = Sandbox::new();
    for name in [&["compress"][..], &["compress", "-"], &["compress", "-c"]] {
        let output = sandbox
            .command()
            .args(name)
            .write_stdin(text(5000))
            .output();
        let compressed = output.expect("walzip starts").stdout;
        let output = sandbox
            .command()
            .args(["decompress", "-"])
            .write_stdin(compressed)
            .output();
        assert_eq!(output.expect("walzip starts").stdout, text(5000));
    }
    assert!(sandbox.names().is_empty());
}

#[test]
fn output_names_a_file_and_keeps_the_input() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &text(5000));
    sandbox.ok(&["compress", "-o", "b", "a"]);
    sandbox.ok(&["decompress", "-o", "c", "b"]);
    assert_eq!(sandbox.names(), ["a", "b", "c"]);
    assert_eq!(sandbox.read("c"), text(5000));
    let stdin = sandbox
        .command()
        .args(["compress", "-o", "d"])
        .write_stdin(text(10))
        .output();
    assert!(stdin.expect("walzip starts").status.success());
    assert_eq!(sandbox.ok(&["decompress", "-c", "d"]), text(10));
    assert_eq!(sandbox.ok(&["decompress", "-o", "-", "b"]), text(5000));
    insta::assert_snapshot!(sandbox.fails(2, &["compress", "-o", "x", "a", "b"]));
}

/// `archive_command = 'walzip compress -o FILE %p'` is run again when PostgreSQL died before it
/// had noted the success.
#[test]
fn output_onto_the_same_bytes_is_a_success() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &text(5000));
    sandbox.ok(&["compress", "-9", "-o", "a.wz", "a"]);
    let first = sandbox.read("a.wz");
    sandbox.ok(&["compress", "-1", "-o", "a.wz", "a"]);
    assert!(sandbox.read("a.wz") == first, "left as it is");
    for different in [text(4999), text(5001), [&text(4999), &b"?"[..]].concat()] {
        sandbox.write("b", &different);
        sandbox.fails(93, &["compress", "-o", "a.wz", "b"]);
    }
    sandbox.write("a.wz", &first[..first.len() - 1]);
    sandbox.fails(93, &["compress", "-o", "a.wz", "a"]);
    sandbox.ok(&["compress", "-f", "-o", "a.wz", "a"]);
    assert_eq!(sandbox.names(), ["a", "a.wz", "b"]);
}

#[test]
fn output_to_a_device_leaves_the_device_alone() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &text(5000));
    sandbox.ok(&["compress", "-f", "-o", "/dev/null", "a"]);
    let mode = std::fs::metadata("/dev/null").expect("exists").mode();
    assert_eq!(mode & 0o170_000, 0o020_000, "still a character device");
}

#[test]
fn stdout_of_several_files_is_their_concatenation() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &text(5000));
    sandbox.write("b", b"second");
    let both = sandbox.ok(&["compress", "-c", "a", "b"]);
    sandbox.write("both.wz", &both);
    assert_eq!(
        sandbox.ok(&["decompress", "-c", "both.wz"]),
        [&text(5000), &b"second"[..]].concat()
    );
    assert_eq!(sandbox.names(), ["a", "b", "both.wz"]);
}

#[test]
fn nothing_is_overwritten_without_force() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &text(5000));
    sandbox.write("a.wz", b"precious");
    insta::assert_snapshot!(sandbox.fails(93, &["compress", "a"]));
    assert_eq!(sandbox.read("a.wz"), b"precious");
    assert_eq!(sandbox.read("a"), text(5000));
    sandbox.ok(&["compress", "-f", "a"]);
    assert_eq!(sandbox.names(), ["a.wz"]);
    sandbox.write("a", b"precious");
    sandbox.fails(93, &["decompress", "a.wz"]);
    assert_eq!(sandbox.read("a"), b"precious");
    sandbox.ok(&["decompress", "-f", "a.wz"]);
    assert_eq!(sandbox.read("a"), text(5000));
}

#[test]
fn mode_and_time_are_kept() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("a", &text(5000));
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_600_000_000, 123_456_789);
    let file = std::fs::File::options()
        .write(true)
        .open(&path)
        .expect("writable");
    file.set_modified(time).expect("settable");
    file.set_permissions(std::fs::Permissions::from_mode(0o640))
        .expect("settable");
    for args in [["compress", "a"], ["decompress", "a.wz"]] {
        sandbox.ok(&args);
        let name = &sandbox.names()[0];
        let metadata = std::fs::metadata(sandbox.path(name)).expect("exists");
        assert_eq!(metadata.mode() & 0o7777, 0o640, "{name}");
        assert_eq!(metadata.modified().expect("known"), time, "{name}");
    }
}

#[test]
fn unsuitable_names_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("a.wz", &text(10));
    sandbox.write("b.gz", &text(10));
    std::fs::create_dir(sandbox.path("folder")).expect("mkdir");
    insta::assert_snapshot!(sandbox.fails(28, &["compress", "a.wz"]));
    insta::assert_snapshot!(sandbox.fails(28, &["decompress", "b.gz"]));
    insta::assert_snapshot!(sandbox.fails(28, &["compress", "folder"]));
    insta::assert_snapshot!(sandbox.fails(55, &["compress", "absent"]));
    assert_eq!(sandbox.names(), ["a.wz", "b.gz", "folder"]);
}

#[test]
fn links_are_not_replaced_by_their_content() {
    let sandbox = Sandbox::new();
    let original = sandbox.write("a", &text(5000));
    symlink("a", sandbox.path("soft")).expect("symlink");
    std::fs::hard_link(original, sandbox.path("hard")).expect("link");
    insta::assert_snapshot!(sandbox.fails(28, &["compress", "soft"]));
    insta::assert_snapshot!(sandbox.fails(28, &["compress", "hard"]));
    sandbox.ok(&["compress", "-k", "soft", "hard"]);
    assert_eq!(sandbox.names(), ["a", "hard", "hard.wz", "soft", "soft.wz"]);
    sandbox.ok(&["compress", "-f", "soft"]);
    assert_eq!(sandbox.names(), ["a", "hard", "hard.wz", "soft.wz"]);
}

#[test]
fn a_failing_file_does_not_stop_the_others() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &text(10));
    sandbox.write("b", &text(10));
    let complaint = sandbox.fails(55, &["compress", "a", "absent", "b"]);
    assert_eq!(complaint.matches("error:").count(), 1, "{complaint}");
    assert_eq!(sandbox.names(), ["a.wz", "b.wz"]);
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &text(10));
    insta::assert_snapshot!(sandbox.fails(64, &["compress", "-o", "absent/b", "a"]));
    insta::assert_snapshot!(sandbox.fails(64, &["compress", "-o", ".", "a"]));
}

#[test]
fn a_full_device_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &text(10));
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("Linux has it");
    let status = std::process::Command::new(assert_cmd::cargo::cargo_bin!("walzip"))
        .args(["compress", "-c"])
        .arg(sandbox.path("a"))
        .stdout(full)
        .stderr(std::process::Stdio::null())
        .status();
    assert_eq!(status.expect("walzip starts").code(), Some(64));
}

#[test]
fn decompress_finds_the_file_by_its_original_name() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &text(5000));
    sandbox.ok(&["compress", "a"]);
    sandbox.ok(&["decompress", "a"]);
    assert_eq!(sandbox.names(), ["a"]);
    sandbox.fails(28, &["decompress", "a"]);
}

#[test]
fn test_checks_and_writes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &text(5000));
    sandbox.ok(&["compress", "a"]);
    assert!(sandbox.ok(&["decompress", "-t", "a.wz"]).is_empty());
    let mut damaged = sandbox.read("a.wz");
    *damaged.last_mut().expect("not empty") ^= 1;
    sandbox.write("b.wz", &damaged);
    sandbox.fails(26, &["decompress", "--test", "a.wz", "b.wz"]);
    assert_eq!(sandbox.names(), ["a.wz", "b.wz"]);
    sandbox.fails(2, &["decompress", "-t", "-c", "a.wz"]);
}

/// A terminal, as its two sides: where what is written can be read, and where programs write.
fn pseudo_terminal() -> (OwnedFd, OwnedFd) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
    unlockpt(&terminal).expect("unlocked");
    let name = ptsname(&terminal, Vec::new()).expect("a name");
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    let end = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).expect("the other side");
    (terminal, end)
}

#[test]
fn nothing_binary_is_written_to_a_terminal() {
    let sandbox = Sandbox::new();
    sandbox.write("a", &text(500));
    sandbox.ok(&["compress", "-k", "a"]);
    for command in [["compress", "a"], ["decompress", "a.wz"]] {
        let run = |force: &[&str]| {
            let (terminal, end) = pseudo_terminal();
            std::process::Command::new(assert_cmd::cargo::cargo_bin!("walzip"))
                .args([command[0], "-c"])
                .args(force)
                .arg(sandbox.path(command[1]))
                .stdout(end)
                .output()
                .map(|output| (output, terminal))
                .expect("walzip starts")
        };
        let (refused, _) = run(&[]);
        assert_eq!(refused.status.code(), Some(2));
        let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            complaint.contains("standard output is a terminal"),
            "{complaint}"
        );
        let mut reader = std::fs::File::from(run(&["-f"]).1);
        let mut written = [0; 16];
        let read = std::io::Read::read(&mut reader, &mut written).expect("something was written");
        assert!(read > 0);
    }
}
