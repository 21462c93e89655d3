//! Where a repository must not be, and what says so when things are not in their places.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::sandbox::{SYSTEM_ID, Sandbox, control_file, segment};

const FIRST: &str = "000000010000000000000001";

/// A data directory with two segments, and a repository for it that has the first.
fn archived() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID));
    for number in [1, 2] {
        sandbox.write(&in_pg_wal(number), &segment(number));
    }
    let made = sandbox.run(&["init", "--repo", "repo", "--pgdata", "data"]);
    assert!(made.status.success());
    sandbox.ok(&["archive-push", "--repo", "repo", &in_pg_wal(1)]);
    sandbox
}

fn in_pg_wal(number: u64) -> String {
    format!("data/pg_wal/00000001000000000000000{number}")
}

fn get<'a>(name: &'a str, destination: &'a str) -> [&'a str; 5] {
    ["archive-get", "--repo", "repo", name, destination]
}

fn make_fifo(sandbox: &Sandbox, name: &str) {
    let made = Command::new("mkfifo").arg(sandbox.path(name)).status();
    assert!(made.expect("mkfifo starts").success());
}

#[test]
fn init_refuses_a_place_among_the_clusters_files() {
    let sandbox = Sandbox::new();
    sandbox.write("cluster/data/global/pg_control", &control_file(SYSTEM_ID));
    for directory in ["cluster/data/pg_tblspc", "fast", "beside"] {
        std::fs::create_dir(sandbox.path(directory)).expect("made");
    }
    symlink(
        sandbox.path("fast"),
        sandbox.path("cluster/data/pg_tblspc/16400"),
    )
    .expect("linked");
    symlink(sandbox.path("cluster/data"), sandbox.path("link")).expect("linked");
    let init = |repo| ["init", "--repo", repo, "-D", "cluster/data"];
    insta::assert_snapshot!(sandbox.fails(31, &init("cluster/data/repo")));
    insta::assert_snapshot!(sandbox.fails(31, &init("fast/repo")));
    insta::assert_snapshot!(sandbox.fails(31, &init("link/base/repo")));
    insta::assert_snapshot!(sandbox.fails(31, &init("cluster")));
    for untouched in [
        "cluster/data/repo",
        "cluster/data/base",
        "cluster/wal",
        "fast/repo",
    ] {
        assert!(!sandbox.path(untouched).exists(), "{untouched}");
    }
    assert!(sandbox.run(&init("beside/repo")).status.success());
}

/// Its archiver would hang, and PostgreSQL with it at its shutdown.
#[test]
fn pushes_no_fifo_and_no_device() {
    let sandbox = archived();
    std::fs::remove_file(sandbox.path(&in_pg_wal(2))).expect("removed");
    let push = ["archive-push", "--repo", "repo", &in_pg_wal(2)];
    make_fifo(&sandbox, &in_pg_wal(2));
    insta::assert_snapshot!(sandbox.fails(28, &push));
    std::fs::remove_file(sandbox.path(&in_pg_wal(2))).expect("removed");
    symlink("/dev/zero", sandbox.path(&in_pg_wal(2))).expect("linked");
    sandbox.fails(28, &push);
}

#[test]
fn gets_into_files_only() {
    let sandbox = archived();
    for strange in ["got", ".got.walzip.tmp"] {
        make_fifo(&sandbox, strange);
        let complaint = sandbox.fails(64, &get(FIRST, "got"));
        assert!(
            complaint.contains(&format!("{strange}: it is not a file")),
            "{complaint}"
        );
        std::fs::remove_file(sandbox.path(strange)).expect("still there");
        sandbox.write("precious", b"precious");
        symlink(sandbox.path("precious"), sandbox.path(strange)).expect("linked");
        sandbox.fails(64, &get(FIRST, "got"));
        std::fs::remove_file(sandbox.path(strange)).expect("still there");
        assert_eq!(sandbox.read("precious"), b"precious");
        std::fs::create_dir(sandbox.path(strange)).expect("made");
        sandbox.fails(64, &get(FIRST, "got"));
        std::fs::remove_dir(sandbox.path(strange)).expect("still there");
    }
    sandbox.ok(&get(FIRST, "got"));
}

/// A control file that is none must not hold up what asks for it.
#[test]
fn a_control_file_that_is_a_fifo_is_an_error() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("data/global")).expect("made");
    make_fifo(&sandbox, "data/global/pg_control");
    sandbox.fails(42, &["init", "--repo", "repo", "-D", "data"]);
}

/// 1 would end a recovery: what was archived after this would be missing without a word.
#[test]
fn an_archive_that_is_gone_is_told_from_a_file_that_is_not_in_it() {
    let sandbox = archived();
    assert_eq!(sandbox.fails(1, &get("00000002.history", "got")), "");
    let (wal, aside) = (sandbox.path("repo/wal"), sandbox.path("aside"));
    std::fs::rename(&wal, &aside).expect("moved");
    insta::assert_snapshot!(sandbox.fails(103, &get(FIRST, "got")));
    sandbox.fails(103, &["archive-push", "--repo", "repo", &in_pg_wal(2)]);
    for command in ["info", "verify"] {
        sandbox.fails(103, &[command, "--repo", "repo"]);
    }
    sandbox.fails(103, &["init", "--repo", "repo", "-D", "data"]);
    assert!(!wal.exists());
    for target in ["/not/mounted", "../aside"] {
        symlink(target, &wal).expect("linked");
        let complaint = sandbox.fails(103, &get(FIRST, "got"));
        assert!(
            complaint.contains("repo/wal is not as walzip made it: it is a link"),
            "{complaint}"
        );
        sandbox.fails(103, &["info", "--repo", "repo"]);
        std::fs::remove_file(&wal).expect("removed");
    }
    std::fs::rename(&aside, &wal).expect("moved back");
    sandbox.ok(&get(FIRST, "got"));
}

#[test]
fn verify_finds_a_damaged_mark() {
    let sandbox = archived();
    sandbox.write(&format!("repo/wal/15-{SYSTEM_ID}/cluster.json"), b"{");
    let output = sandbox.run(&["verify", "--repo", "repo"]);
    assert_eq!(output.status.code(), Some(104));
    let found = String::from_utf8(output.stdout).expect("UTF-8");
    let expected = format!("WAL damaged: wal/15-{SYSTEM_ID}/cluster.json: ");
    assert!(found.starts_with(&expected), "{found}");
    assert_eq!(sandbox.fails(1, &get("00000002.history", "got")), "");
}

#[test]
fn a_fifo_is_compressed_on_a_clear_request_only() {
    let sandbox = Sandbox::new();
    make_fifo(&sandbox, "fifo");
    make_fifo(&sandbox, "fifo.wz");
    insta::assert_snapshot!(sandbox.fails(28, &["compress", "fifo"]));
    sandbox.fails(28, &["compress", "-k", "fifo"]);
    sandbox.fails(28, &["decompress", "fifo.wz"]);
    sandbox.fails(28, &["decompress", "-t", "fifo.wz"]);
    let fifo = sandbox.path("fifo");
    let compressed = std::thread::scope(|scope| {
        scope.spawn(|| std::fs::write(fifo, b"content").expect("somebody reads"));
        sandbox.ok(&["compress", "-c", "fifo"])
    });
    sandbox.write("a.wz", &compressed);
    assert_eq!(sandbox.ok(&["decompress", "-c", "a.wz"]), b"content");
}
