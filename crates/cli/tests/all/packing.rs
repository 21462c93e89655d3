//! `pack`: what was archived segment by segment, in packs, as a person and PostgreSQL meet it.

use std::process::{Command, Stdio};
use std::time::Duration;

use walzip_repo::testing::servers;

use crate::sandbox::{SEGMENT_SIZE, SYSTEM_ID, Sandbox, control_file, segment};

/// Segments that are not all the same.
fn content(number: u64) -> Vec<u8> {
    let mut bytes = segment(number);
    for (at, byte) in bytes.iter_mut().enumerate().skip(8192).step_by(509) {
        *byte = (number as usize + at / 509) as u8;
    }
    bytes
}

fn name(number: u64) -> String {
    format!("00000001{:016X}", number)
}

/// A data directory, and an archive of its segments 1 to `count`.
fn archived(count: u64) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID));
    let made = sandbox.run(&["init", "--repo", "repo", "--pgdata", "data"]);
    assert!(made.status.success(), "{made:?}");
    for number in 1..=count {
        let path = format!("data/pg_wal/{}", name(number));
        sandbox.write(&path, &content(number));
        sandbox.ok(&["archive-push", "--repo", "repo", "-1", &path]);
    }
    sandbox
}

fn assert_all_there(sandbox: &Sandbox, count: u64) {
    for number in 1..=count {
        let got = ["archive-get", "--repo", "repo", &name(number), "got"];
        sandbox.ok(&got);
        assert!(sandbox.read("got") == content(number), "segment {number}");
    }
    sandbox.fails(
        1,
        &["archive-get", "--repo", "repo", &name(count + 1), "none"],
    );
}

fn files_below(sandbox: &Sandbox, directory: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![sandbox.path(directory)];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).expect("readable") {
            let path = entry.expect("readable").path();
            match path.is_dir() {
                true => left.push(path),
                false => found.push(path.file_name().expect("a name").to_string_lossy().into()),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn packs_says_so_and_gets_everything() {
    let sandbox = archived(5);
    let plan = sandbox.ok(&["pack", "--repo", "repo"]);
    let plan = String::from_utf8(plan).expect("UTF-8");
    assert!(plan.ends_with("packs 0, segments 0\n"), "{plan}");
    let all = ["pack", "--repo", "repo", "--newest", "1", "--all"];
    let plan = sandbox.ok(&[&all[..], &["--dry-run"]].concat());
    let plan = String::from_utf8(plan).expect("UTF-8");
    let line = format!("would pack: {} to {}, segments 4, ", name(1), name(4));
    assert!(plan.starts_with(&line), "{plan}");
    let packed = sandbox.ok(&[&all[..], &["--json"]].concat());
    let packed: serde_json::Value = serde_json::from_slice(&packed).expect("JSON");
    let pack = &packed["clusters"][0]["packs"][0];
    assert_eq!(
        (&pack["first"], &pack["segments"]),
        (&name(1).into(), &4.into())
    );
    assert!(pack["stored_bytes"].as_u64() > Some(100));
    let files = files_below(&sandbox, "repo/wal");
    assert_eq!(files.len(), 3, "{files:?}");
    assert!(
        files[0].starts_with(&format!("{}-4-", name(1))),
        "{files:?}"
    );
    assert_eq!(
        files[1..],
        [format!("{}.wz", name(5)), "packed.json".to_owned()]
    );
    assert_all_there(&sandbox, 5);
    let pack = format!("repo/wal/15-{SYSTEM_ID}/pack/0000000100000000/{}", files[0]);
    let inspected = sandbox.ok(&["inspect", "--json", &pack]);
    let inspected: serde_json::Value = serde_json::from_slice(&inspected).expect("JSON");
    assert_eq!(inspected["original_bytes"], 4 * SEGMENT_SIZE);
    let starts = inspected["files"][0]["members"]
        .as_array()
        .expect("segments");
    assert_eq!(starts[2]["segment"]["start"], "0/300000");
    let info = sandbox.ok(&["info", "--repo", "repo", "--json"]);
    let info: serde_json::Value = serde_json::from_slice(&info).expect("JSON");
    let wal = &info["wal"][0];
    assert_eq!(
        (&wal["segments"], &wal["gaps"]),
        (&5.into(), &serde_json::json!([]))
    );
    let verified = sandbox.ok(&["verify", "--repo", "repo", "--json"]);
    let verified: serde_json::Value = serde_json::from_slice(&verified).expect("JSON");
    assert_eq!(verified["wal_objects"], 5);
    let path = format!("data/pg_wal/{}", name(2));
    sandbox.ok(&["archive-push", "--repo", "repo", &path]);
    let mut other = content(2);
    other[9000] ^= 1;
    sandbox.write(&path, &other);
    sandbox.fails(45, &["archive-push", "--repo", "repo", &path]);
}

/// What walzip did before it knew of packs: where a segment has no object, it looked for the mark,
/// and refused the repository if the record says that there is one and there is none.
#[test]
fn an_older_walzip_does_not_take_what_is_packed_for_the_end() {
    let sandbox = archived(3);
    sandbox.ok(&["pack", "--repo", "repo", "--newest", "0", "--all"]);
    let cluster = format!("repo/wal/15-{SYSTEM_ID}");
    let object = format!("{cluster}/0000000100000000/{}.wz", name(1));
    assert!(!sandbox.path(&object).exists());
    let record: serde_json::Value =
        serde_json::from_slice(&sandbox.read("repo/repository.json")).expect("JSON");
    assert_eq!(record["wal_marked"], true);
    assert!(!sandbox.path(&format!("{cluster}/cluster.json")).exists());
    // This one says the same where its own mark is gone.
    std::fs::remove_file(sandbox.path(&format!("{cluster}/packed.json"))).expect("removed");
    let said = sandbox.fails(103, &["archive-get", "--repo", "repo", &name(9), "got"]);
    assert!(said.contains("is gone"), "{said}");
}

/// The second call in a row leaves what follows in the pack where the next calls find it.
#[test]
fn a_pack_is_decoded_once_for_consecutive_calls() {
    consecutive_calls(&[], &[4, 5]);
}

/// The first one does so in a recovery that a restore has planned.
#[test]
fn a_pack_is_decoded_once_for_a_recovery() {
    consecutive_calls(&["--expected-end", "0/FF000000"], &[3, 4, 5]);
}

/// Of a recovery that begins with segment 2.
const BACKUP_LABEL: &str = "\
START WAL LOCATION: 0/200028 (file 000000010000000000000002)
CHECKPOINT LOCATION: 0/200060
BACKUP METHOD: streamed
BACKUP FROM: primary
START TIME: 2026-11-29 12:00:00 UTC
LABEL: a backup
START TIMELINE: 1
";

fn consecutive_calls(options: &[&str], fetched_ahead: &[u64]) {
    let sandbox = archived(5);
    sandbox.ok(&["pack", "--repo", "repo", "--newest", "0", "--all"]);
    std::fs::create_dir(sandbox.path("spool")).expect("a directory");
    std::fs::write(sandbox.path("data/backup_label"), BACKUP_LABEL).expect("a label");
    // A recovery asks for the segment with which it ends once more.
    for number in [2, 3, 4, 5, 5, 1] {
        let mut get = sandbox.command();
        get.current_dir(sandbox.path("data"))
            .args([
                "-v",
                "archive-get",
                "--repo",
                "../repo",
                &name(number),
                "pg_wal/got",
            ])
            .args(["--spool-path", "../spool"])
            .args(options);
        let output = get.output().expect("walzip starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert_eq!(
            said.contains("fetched ahead"),
            fetched_ahead.contains(&number),
            "{said}"
        );
        assert!(sandbox.read("data/pg_wal/got") == content(number));
    }
}

/// A recovery with a worker that fetches ahead, over the border of a pack.
#[test]
fn a_worker_fetches_through_packs() {
    let sandbox = archived(20);
    sandbox.ok(&["pack", "--repo", "repo", "--newest", "6", "--all"]);
    std::fs::create_dir(sandbox.path("spool")).expect("a directory");
    for number in 1..=20 {
        let mut get = sandbox.command();
        get.current_dir(sandbox.path("data"))
            .args([
                "archive-get",
                "--repo",
                "../repo",
                &name(number),
                "pg_wal/got",
            ])
            .args(["--archive-async", "--spool-path", "../spool"]);
        let output = get.output().expect("walzip starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(
            sandbox.read("data/pg_wal/got") == content(number),
            "segment {number}"
        );
    }
}

/// `kill -9`: while it encodes and proves, and while it removes.
#[test]
fn a_pack_that_is_killed_loses_nothing() {
    let sandbox = archived(12);
    let mut killed = 0;
    let settled = Duration::from_secs(walzip_repo::layout::PACK_SETTLED_SECONDS);
    let moments = [20, 60, 150, 400].map(Duration::from_millis).into_iter();
    let late = [0, 15, 40].map(|millis| settled + Duration::from_millis(60 + millis));
    for moment in moments.chain(late) {
        let mut pack = Command::new(assert_cmd::cargo::cargo_bin!("walzip"));
        pack.args(["pack", "-1", "--newest", "0", "--all", "--repo"])
            .arg(sandbox.path("repo"))
            .env("WALZIP_CONFIG", "/dev/null")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut pack = pack.spawn().expect("walzip starts");
        std::thread::sleep(moment);
        killed += u32::from(pack.try_wait().expect("a state").is_none());
        pack.kill().expect("killed");
        pack.wait().expect("it ends");
        assert_all_there(&sandbox, 12);
    }
    assert!(killed >= 4, "{killed}");
    sandbox.ok(&["pack", "--repo", "repo", "--newest", "0", "--all"]);
    assert_eq!(files_below(&sandbox, "repo/wal").len(), 2);
    assert_all_there(&sandbox, 12);
    sandbox.ok(&["verify", "--repo", "repo"]);
}

/// A damaged pack is told of by the segments that it costs; what is before the damage is got.
#[test]
fn a_damaged_pack_names_its_segments() {
    let sandbox = archived(3);
    sandbox.ok(&["pack", "--repo", "repo", "--newest", "0", "--all"]);
    let directory = format!("repo/wal/15-{SYSTEM_ID}/pack/0000000100000000");
    let pack = files_below(&sandbox, &directory).remove(0);
    let path = format!("{directory}/{pack}");
    let mut bytes = sandbox.read(&path);
    let members = bytes.len() - 16 - 3 * 120 - 56;
    bytes[16 + members / 2] ^= 1;
    sandbox.write(&path, &bytes);
    let output = sandbox.run(&["verify", "--repo", "repo"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(104), "{told}");
    for (number, is_named) in [(1, false), (2, true), (3, true)] {
        let finding = format!("damaged: {}: ", name(number));
        assert_eq!(told.contains(&finding), is_named, "{told}");
    }
    sandbox.ok(&["archive-get", "--repo", "repo", &name(1), "got"]);
    sandbox.fails(26, &["archive-get", "--repo", "repo", &name(3), "none"]);
    assert!(!sandbox.path("none").exists());
}

#[test]
fn packs_in_a_bucket_that_is_encrypted() {
    servers::moto_bucket("packs");
    let endpoint = format!("http://127.0.0.1:{}", servers::moto().port());
    let sandbox = Sandbox::new();
    sandbox.write("data/global/pg_control", &control_file(SYSTEM_ID));
    sandbox.ok(&["key", "init", "key"]);
    let run = |arguments: &[&str]| {
        let mut command = sandbox.command();
        command
            .args(arguments)
            .env("WALZIP_REPO", "s3://packs/wal")
            .env("WALZIP_REPO_S3_ENDPOINT", &endpoint)
            .env("WALZIP_REPO_KEY_FILE", sandbox.path("key"))
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret");
        let output = command.output().expect("walzip starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
    };
    run(&["init", "--pgdata", "data"]);
    for number in 1..=4 {
        sandbox.write(&name(number), &content(number));
        run(&["archive-push", &name(number)]);
    }
    run(&["pack", "--newest", "0", "--all"]);
    for number in [3, 1, 4] {
        run(&["archive-get", &name(number), "got"]);
        assert!(sandbox.read("got") == content(number));
    }
    run(&["verify"]);
}

/// What is nowhere else does not go with a pack by mistake.
#[test]
fn a_pack_that_has_only_copies_is_not_removed() {
    let sandbox = archived(3);
    sandbox.ok(&["pack", "--repo", "repo", "--all", "--newest", "0"]);
    let listed = sandbox.ok(&["repo", "ls", "wal", "--recurse", "--repo", "repo"]);
    let listed = String::from_utf8(listed).expect("UTF-8");
    let key = listed
        .split_whitespace()
        .find(|word| word.contains("/pack/"))
        .expect("a pack");
    let remove = ["repo", "rm", key, "--repo", "repo", "--force", "--confirm"];
    let said = sandbox.fails(116, &remove);
    let (first, last) = (name(1), name(3));
    let told = format!("content: 3, from {first} to {last}");
    assert!(said.contains(&told), "{said}");
    assert!(said.contains("--with-only-copies"), "{said}");
    assert_all_there(&sandbox, 3);
    let mut remove = remove.to_vec();
    remove.push("--with-only-copies");
    sandbox.ok(&remove);
    sandbox.fails(1, &["archive-get", "--repo", "repo", &first, "got"]);
}
