//! `init`, `archive-push` and `archive-get`, as PostgreSQL calls them.

use crate::sandbox::{SYSTEM_ID, Sandbox, control_file, segment, segment_of};

const FIRST: &str = "000000010000000000000001";

/// A data directory with one segment, and a repository for it.
fn initialised() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID));
    sandbox.write(&format!("data/pg_wal/{FIRST}"), &segment(1));
    let output = sandbox.run(&["init", "--repo", "repo", "--pgdata", "data"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
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
    assert!(
        sandbox
            .ok(&["archive-get", "--repo", "repo", FIRST, "got"])
            .is_empty()
    );
    assert!(sandbox.read("got") == segment(1));
}

#[test]
fn pushes_an_identical_segment_twice_and_succeeds() {
    let sandbox = initialised();
    sandbox.ok(&push(&path(FIRST)));
    let output = sandbox.run(&["-v", "archive-push", "--repo", "repo", &path(FIRST)]);
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(
        said.contains("was archived before, and is identical"),
        "{said}"
    );
}

/// PostgreSQL's log may lie on a full disk: what is archived is archived all the same.
/// The copy of a cluster archived its own first segment.
#[test]
fn a_segment_that_follows_another_servers_is_refused_unless_its_own_was_pushed_last() {
    let sandbox = initialised();
    let second = "000000010000000000000002";
    sandbox.write(&path(second), &segment(2));
    let push = |spool: &str, path: &str| {
        std::fs::create_dir_all(sandbox.path(spool)).expect("made");
        let args = [
            "archive-push",
            "--repo",
            "repo",
            "--spool-path",
            spool,
            path,
        ];
        sandbox.run(&args)
    };
    assert!(push("spool", &path(FIRST)).status.success());
    let mut other = segment(1);
    other[9000] ^= 1;
    sandbox.write(&format!("other/pg_wal/{FIRST}"), &other);
    let key = format!("wal/15-{SYSTEM_ID}/0000000100000000/{FIRST}.wz");
    sandbox.ok(&["repo", "rm", &key, "--force", "--confirm", "--repo", "repo"]);
    assert!(
        push("spool", &format!("other/pg_wal/{FIRST}"))
            .status
            .success()
    );

    let refused = push("elsewhere", &path(second));
    assert_eq!(refused.status.code(), Some(45));
    insta::assert_snapshot!(String::from_utf8_lossy(&refused.stderr));
    // The note is about the very file that pg_wal has.
    let content = sandbox.read(&path(FIRST));
    std::fs::remove_file(sandbox.path(&path(FIRST))).expect("removed");
    sandbox.write(&path(FIRST), &content);
    assert_eq!(push("spool", &path(second)).status.code(), Some(45));
    // Where that is gone, the records at the border say it. These have none.
    std::fs::remove_file(sandbox.path(&path(FIRST))).expect("removed");
    assert!(push("spool", &path(second)).status.success());
}

#[test]
fn a_log_that_cannot_be_written_fails_nothing() {
    let sandbox = initialised();
    let full = std::fs::File::options().write(true).open("/dev/full");
    let status = std::process::Command::new(assert_cmd::cargo::cargo_bin!("walzip"))
        .args(["-v", "archive-push", "--repo"])
        .arg(sandbox.path("repo"))
        .arg(sandbox.path(&path(FIRST)))
        .env("WALZIP_CONFIG", "/dev/null")
        .stderr(full.expect("Linux has it"))
        .status();
    assert_eq!(status.expect("walzip starts").code(), Some(0));
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
    assert_eq!(
        find(&sandbox.path("repo/wal")),
        None,
        "nothing was archived"
    );
}

/// These say nothing of the cluster that wrote them: its control file does.
#[test]
fn refuses_the_histories_of_another_cluster() {
    let sandbox = initialised();
    sandbox.write("other/global/pg_control", &control_file(SYSTEM_ID + 1));
    let backup = format!("{FIRST}.00000028.backup");
    let files = [
        (
            "00000002.history",
            b"1\t0/5000000\tno recovery target\n".as_slice(),
        ),
        (&backup, b"START WAL LOCATION: 0/500028\n"),
    ];
    for (name, content) in files {
        sandbox.write(&format!("other/pg_wal/{name}"), content);
        let complaint = sandbox.fails(44, &push(&format!("other/pg_wal/{name}")));
        assert!(complaint.contains(&SYSTEM_ID.to_string()), "{complaint}");
        sandbox.write(&path(name), content);
        sandbox.ok(&push(&path(name)));
    }
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
    damage(&sandbox);
    sandbox.write("got", b"an earlier attempt");
    insta::assert_snapshot!(sandbox.fails(26, &["archive-get", "--repo", "repo", FIRST, "got"]));
    assert_eq!(sandbox.read("got"), b"an earlier attempt");
}

/// A recovery takes a failure for the end of the WAL, or stops.
#[test]
fn storage_that_fails_is_tried_again() {
    let sandbox = initialised();
    sandbox.ok(&push(&path(FIRST)));
    let (repo, aside) = (sandbox.path("repo"), sandbox.path("aside"));
    std::fs::rename(&repo, &aside).expect("renamed");
    // A link to itself: neither "there" nor "not there".
    std::os::unix::fs::symlink("repo", &repo).expect("linked");
    let get = ["archive-get", "--repo", "repo", FIRST, "got"];
    let complaint = sandbox.fails(101, &get);
    assert_eq!(
        complaint.matches("; trying again").count(),
        3,
        "{complaint}"
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(500));
            std::fs::remove_file(&repo).expect("removed");
            std::fs::rename(&aside, &repo).expect("renamed");
        });
        assert!(sandbox.run(&get).status.success());
    });
    assert!(sandbox.read("got") == segment(1));
}

#[test]
fn the_level_comes_from_the_file_unless_a_flag_says_otherwise() {
    let sandbox = initialised();
    sandbox.write("walzip.toml", b"repo = \"repo\"\nlevel = 11\n");
    let file = ["archive-push", "--config", "walzip.toml"];
    sandbox.fails(27, &[&file[..], &[&path(FIRST)]].concat());
    sandbox.ok(&[&file[..], &["-2", &path(FIRST)]].concat());
}

#[test]
fn info_shows_ranges_and_gaps() {
    let sandbox = initialised();
    for number in [1, 2, 3, 6] {
        let name = path(&format!("00000001000000000000000{number}"));
        sandbox.write(&name, &segment(number));
        sandbox.ok(&push(&name));
    }
    let shown = String::from_utf8(sandbox.run(&["info", "--repo", "repo"]).stdout).expect("UTF-8");
    let wal = shown.split_once("Timeline").expect("a table of the WAL").1;
    insta::assert_snapshot!(wal);
    let json = sandbox.ok(&["info", "--repo", "repo", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(json["cluster"]["system_identifier"], SYSTEM_ID.to_string());
    assert_eq!(
        json["wal"][0]["gaps"][0]["first"],
        "000000010000000000000004"
    );
}

#[test]
fn verify_lists_what_is_damaged_and_exits_with_104() {
    let sandbox = initialised();
    sandbox.ok(&push(&path(FIRST)));
    let fine = String::from_utf8(sandbox.ok(&["verify", "--repo", "repo"])).expect("UTF-8");
    assert!(
        fine.starts_with("verified: WAL files 1 (1048576 bytes stored in "),
        "{fine}"
    );
    damage(&sandbox);
    let output = sandbox.run(&["verify", "--repo", "repo"]);
    assert_eq!(output.status.code(), Some(104));
    let found = String::from_utf8(output.stdout).expect("UTF-8");
    insta::assert_snapshot!(found.lines().next().expect("a finding"));
    insta::assert_snapshot!(String::from_utf8(output.stderr).expect("UTF-8"));
    let output = sandbox.run(&["verify", "--repo", "repo", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["findings"][0]["kind"], "wal-damaged");
    // Who did not see it run is told too.
    let shown = String::from_utf8(sandbox.run(&["info", "--repo", "repo"]).stdout).expect("UTF-8");
    assert!(shown.contains(": 1 PROBLEM, which"), "{shown}");
    let metrics =
        String::from_utf8(sandbox.run(&["metrics", "--repo", "repo"]).stdout).expect("UTF-8");
    assert!(
        metrics.contains("walzip_verify_findings{repo=\"1\"} 1"),
        "{metrics}"
    );
}

#[test]
fn restore_needs_a_backup_and_refuses_contradictions() {
    let sandbox = initialised();
    let restore = ["restore", "--repo", "repo", "restored"];
    let with = |flags: &[&'static str]| [&restore[..], flags].concat();
    sandbox.fails(2, &["restore", "--repo", "repo"]);
    sandbox.fails(2, &with(&["--target-immediate", "--target-xid", "5"]));
    sandbox.fails(2, &with(&["--target-action", "pause"]));
    sandbox.fails(2, &with(&["--target-lsn", "x"]));
    let absent = "20261121-220130F";
    let get = [
        "backup-get",
        "--repo",
        "repo",
        "--backup",
        absent,
        "PG_VERSION",
        "got",
    ];
    let pin = ["pin", "--repo", "repo", absent];
    for arguments in [&get[..], &pin] {
        let complaint = sandbox.fails(75, arguments);
        assert!(
            complaint.contains("there is no finished backup 20261121-220130F"),
            "{complaint}"
        );
        assert!(
            complaint.contains("expire may have removed it"),
            "{complaint}"
        );
    }
    if rustix::process::geteuid().is_root() {
        // What it says to others, a test of clusters sees (point_in_time).
        insta::assert_snapshot!(sandbox.fails(88, &restore));
        return;
    }
    let complaint = sandbox.fails(75, &restore);
    assert!(complaint.contains("no backup to restore: "), "{complaint}");
    sandbox.fails(31, &with(&["--target-time", "2026-11-21 22:01:30"]));
}

#[test]
fn root_does_not_write_into_another_users_repository() {
    if !rustix::process::geteuid().is_root() {
        return walzip_testing::not_run(
            "another user's repository, because only root can make one",
        );
    }
    let sandbox = initialised();
    std::os::unix::fs::chown(sandbox.path("repo"), Some(65534), None).expect("root may");
    let complaint = sandbox.fails(88, &push(&path(FIRST)));
    assert!(
        complaint.contains("SANDBOX/repo belongs to "),
        "{complaint}"
    );
    std::os::unix::fs::chown(sandbox.path("data"), Some(65534), None).expect("root may");
    sandbox.fails(88, &["archive-get", "--repo", "repo", FIRST, "data/got"]);
}

#[test]
fn a_server_that_does_not_answer_is_an_error_with_a_hint() {
    let sandbox = initialised();
    let complaint = sandbox.fails(56, &["backup", "--repo", "repo", "-h", "/nowhere"]);
    insta::assert_snapshot!(complaint);
}

/// Changes one bit of the only object.
fn damage(sandbox: &Sandbox) {
    let object = find(&sandbox.path("repo/wal")).expect("an object");
    let mut bytes = std::fs::read(&object).expect("readable");
    *bytes.last_mut().expect("not empty") ^= 0x40;
    // Objects are written once, and are not writable afterwards.
    std::fs::remove_file(&object).expect("removable");
    std::fs::write(&object, &bytes).expect("writable");
}

/// The only object below a directory.
fn find(directory: &std::path::Path) -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).expect("readable");
    let mut paths = entries.map(|entry| entry.expect("readable").path());
    paths.find_map(|path| match path.is_dir() {
        true => find(&path),
        false => path
            .extension()
            .is_some_and(|suffix| suffix == "wz")
            .then_some(path),
    })
}
