//! Retention on a real archive: what is kept can be restored, to its moment or to any later one, also
//! where an expiry was killed.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};
use crate::clusters::tree::tree;

/// How many expiries are killed.
const KILLS: u32 = 12;

const ROWS: &str = "SELECT string_agg(body, ' ' ORDER BY body) FROM note";

/// Three full backups, each with an incremental one after it, and what the cluster held when.
struct Life<'a> {
    primary: Server<'a>,
    labels: Vec<String>,
}

impl<'a> Life<'a> {
    fn lead(site: &'a Site) -> Life<'a> {
        let primary = Server::create(site, "primary", 1);
        primary.archive_with_walzip();
        primary.start(&[]);
        primary.sql("CREATE TABLE note (body text)");
        let mut labels = Vec::new();
        for round in 1..=3 {
            for kind in ["full", "incr"] {
                primary.sql(&format!("INSERT INTO note VALUES ('{round}-{kind}')"));
                primary
                    .sql("CREATE TABLE bulk AS SELECT generate_series(1, 20000); DROP TABLE bulk");
                labels.push(backup(&primary, kind));
            }
        }
        primary.sql("INSERT INTO note VALUES ('4-named'); SELECT pg_create_restore_point('here')");
        primary.sql("INSERT INTO note VALUES ('5-last')");
        primary.archive_everything();
        Life { primary, labels }
    }
}

fn backup(primary: &Server, kind: &str) -> String {
    let told = succeed(&mut primary.walzip(&["backup", "--type", kind]));
    let label = told.split_whitespace().nth(1).expect("a label");
    label.trim_end_matches(':').to_owned()
}

fn json(site: &Site, arguments: &[&str]) -> Value {
    let told = succeed(site.walzip(arguments).arg("--json"));
    serde_json::from_str(&told).expect("JSON")
}

fn labels(site: &Site) -> Vec<String> {
    let info = json(site, &["info"]);
    let backups = info["backups"].as_array().expect("backups");
    let label = |backup: &Value| backup["label"].as_str().expect("a label").to_owned();
    backups.iter().map(label).collect()
}

/// The segments that are archived, by their names.
fn segments(site: &Site) -> Vec<String> {
    let keys = succeed(&mut site.walzip(&["repo", "ls", "wal", "--recurse"]));
    let names = keys.lines().filter_map(|line| line.rsplit('/').next());
    let names = names.filter_map(|name| name.strip_suffix(".wz"));
    names
        .filter(|name| name.len() == 24)
        .map(str::to_owned)
        .collect()
}

#[track_caller]
fn restored(site: &Site, name: &str, arguments: &[&str]) -> String {
    let server = Server::on(site, name);
    let mut restore = server.walzip(&["restore", "-D"]);
    succeed(restore.arg(server.data()).args(arguments));
    server.start(&[]);
    server.wait_until("SELECT NOT pg_is_in_recovery()");
    let rows = server.sql(ROWS);
    server.stop();
    rows
}

#[track_caller]
fn fails(site: &Site, code: i32, arguments: &[&str]) -> String {
    let output = site.walzip(arguments).output().expect("walzip runs");
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    said(&output)
}

#[test]
fn what_is_not_retained_goes_and_the_rest_is_restored_to_any_moment() {
    let Some(site) = Site::new(15) else { return };
    let life = Life::lead(&site);
    let of = |number: usize| life.labels[number].as_str();
    let before = tree(&site.repository());

    let told = fails(&site, 37, &["expire"]);
    assert!(told.contains("repo-retention-full"), "{told}");
    let told = succeed(&mut site.walzip(&["expire", "--retention-full", "2"]));
    assert!(told.contains("would remove: backups 2, "), "{told}");
    assert!(
        told.contains("nothing was done: --confirm does it"),
        "{told}"
    );
    assert!(tree(&site.repository()) == before, "{told}");

    // Others need it.
    let told = fails(&site, 31, &["expire", "--set", of(0)]);
    assert!(told.contains(of(1)), "{told}");
    // An incremental one alone.
    succeed(&mut site.walzip(&["expire", "--set", of(1), "--confirm"]));
    let expected: Vec<&str> = [0, 2, 3, 4, 5].map(of).to_vec();
    assert_eq!(labels(&site), expected);

    let told = succeed(&mut site.walzip(&["expire", "--retention-full", "1", "--confirm"]));
    assert!(told.contains("removed: backups 3, "), "{told}");
    assert_eq!(labels(&site), [of(4), of(5)]);
    assert!(!site.repository().join("backup").join(of(0)).exists());
    let needed = &json(&site, &["info"])["backups"][0]["first_segment"];
    let oldest = segments(&site)[0].clone();
    let all = before.keys().filter(|key| key.starts_with("wal/")).count();
    assert!(segments(&site).len() < all, "{told}");
    assert!(*needed.as_str().expect("a segment") >= *oldest, "{told}");
    succeed(&mut site.walzip(&["verify"]));
    let again = succeed(&mut site.walzip(&["expire", "--retention-full", "1", "--confirm"]));
    assert!(again.contains("removed: backups 0, "), "{again}");
    life.primary.stop();

    let named = restored(&site, "named", &["--target-name", "here"]);
    assert_eq!(named, "1-full 1-incr 2-full 2-incr 3-full 3-incr 4-named");
    let moment = ["--backup", of(5), "--target-immediate"];
    assert_eq!(
        restored(&site, "incr", &moment),
        "1-full 1-incr 2-full 2-incr 3-full 3-incr"
    );
    let told = fails(&site, 75, &["restore", "-D", "gone", "--backup", of(0)]);
    assert!(told.contains("there is no finished backup"), "{told}");
}

#[test]
fn a_pinned_backup_stays_with_what_it_needs_and_the_wal_of_its_moment() {
    let Some(site) = Site::new(15) else { return };
    let life = Life::lead(&site);
    let of = |number: usize| life.labels[number].as_str();
    succeed(&mut site.walzip(&["pin", of(1), "before the audit"]));
    let told = fails(&site, 31, &["pin", of(1)]);
    assert!(told.contains("walzip unpin"), "{told}");
    let info = succeed(&mut site.walzip(&["info"]));
    assert!(info.contains(": before the audit"), "{info}");
    let told = fails(&site, 31, &["expire", "--set", of(1)]);
    assert!(told.contains("pinned"), "{told}");

    let expire = ["expire", "--retention-full", "1", "--confirm"];
    let told = succeed(&mut site.walzip(&expire));
    assert!(told.contains("pinned"), "{told}");
    assert_eq!(labels(&site), [0, 1, 4, 5].map(of));
    // What is missing after it was expired, and is no problem.
    let gaps = &json(&site, &["info"])["wal"][0]["gaps"];
    assert!(!gaps.as_array().expect("gaps").is_empty(), "{told}");
    succeed(&mut site.walzip(&["verify"]));
    let pinned = succeed(&mut life.primary.walzip(&["backup", "--pin", "by --pin"]));
    let info = succeed(&mut site.walzip(&["info"]));
    assert!(info.contains(": by --pin"), "{info}\n{pinned}");
    life.primary.stop();
    let moment = ["--backup", of(1), "--target-immediate"];
    assert_eq!(restored(&site, "pinned", &moment), "1-full 1-incr");

    succeed(&mut site.walzip(&["unpin", of(1)]));
    succeed(&mut site.walzip(&expire));
    assert_eq!(
        labels(&site).len(),
        1,
        "the full one that was pinned when it was taken"
    );
    succeed(&mut site.walzip(&["verify"]));
}

#[test]
fn a_killed_expiry_leaves_what_is_kept_and_the_next_one_finishes() {
    let Some(site) = Site::new(15) else { return };
    let life = Life::lead(&site);
    life.primary.stop();
    let original = site.path("original");
    copy(&site, &site.repository(), &original);
    let expire = ["expire", "--retention-full", "1", "--confirm"];
    let begin = Instant::now();
    succeed(&mut site.walzip(&expire));
    let usual = begin.elapsed();
    let expected = keys(&site);
    let kept = &life.labels[4..];
    let mut killed = 0;
    // From its beginning to its end, so that each part of it is met.
    for step in 1_u32.. {
        if killed == KILLS || step > 4 * KILLS {
            break;
        }
        copy(&site, &original, &site.repository());
        let mut running = site.walzip(&expire);
        running.stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = running.spawn().expect("walzip starts");
        std::thread::sleep(delay(usual, step));
        if running.try_wait().expect("its state").is_none() {
            running.kill().expect("killed");
            killed += 1;
        }
        running.wait().expect("ended");
        let left = labels(&site);
        assert!(left.ends_with(kept), "{left:?}");
        let verified = site.walzip(&["verify"]).output().expect("walzip runs");
        assert!(
            verified.status.success(),
            "step {step}: {}",
            said(&verified)
        );
        succeed(&mut site.walzip(&expire));
        assert_eq!(keys(&site), expected, "step {step}");
    }
    assert!(killed > 0, "no expiry was slow enough to be killed");
    let rows = restored(&site, "restored", &[]);
    assert_eq!(
        rows,
        "1-full 1-incr 2-full 2-incr 3-full 3-incr 4-named 5-last"
    );
}

/// The objects in the repository. Temporary files of a killed process are removed later, an empty
/// directory that it has left is none, and each verification leaves a note.
fn keys(site: &Site) -> Vec<String> {
    let found = tree(&site.repository()).into_keys();
    let is_counted = |key: &String| {
        let is_object = site.repository().join(key).is_file();
        is_object && !key.starts_with(".incoming") && !key.starts_with("verified")
    };
    found.filter(is_counted).collect()
}

fn delay(usual: Duration, step: u32) -> Duration {
    usual * (step % KILLS + 1) / (KILLS + 1)
}

/// Puts a copy of a directory in place of another one, with its times.
fn copy(site: &Site, from: &Path, to: &Path) {
    if to.exists() {
        fs::remove_dir_all(to).expect("removed");
    }
    succeed(site.command("cp").arg("-a").arg(from).arg(to));
}

#[test]
fn single_objects_are_listed_shown_and_removed_with_care() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(&[]);
    let label = backup(&primary, "full");
    let listed = succeed(&mut site.walzip(&["repo", "ls"]));
    let keys: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    assert_eq!(keys, ["backup/", "repository.json", "wal/"]);
    let json_key = format!("backup/{label}/backup.json");
    let shown = succeed(&mut site.walzip(&["repo", "cat", &json_key]));
    assert_eq!(
        shown,
        fs::read_to_string(site.repository().join(&json_key)).expect("there")
    );
    fails(&site, 55, &["repo", "ls", "nowhere"]);
    fails(&site, 55, &["repo", "cat", "backup/nothing"]);
    fails(&site, 96, &["repo", "cat", "../passwd"]);

    let archived = succeed(&mut site.walzip(&["repo", "ls", "wal", "--recurse"]));
    let segment = archived
        .lines()
        .last()
        .and_then(|line| line.split_whitespace().last());
    let mark = archived
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    let mark = mark.rev().find(|key| key.ends_with("cluster.json"));
    for key in [
        json_key.as_str(),
        "repository.json",
        segment.expect("WAL"),
        mark.expect("a mark"),
    ] {
        fails(&site, 116, &["repo", "rm", key, "--confirm"]);
        assert!(site.repository().join(key).exists());
    }
    let stray = site.repository().join("backup/notes.txt");
    fs::write(&stray, "a note").expect("written");
    site.hand_over(&stray);
    let told = succeed(&mut site.walzip(&["repo", "rm", "backup/notes.txt"]));
    assert!(
        told.contains("nothing was done") && stray.exists(),
        "{told}"
    );
    succeed(&mut site.walzip(&["repo", "rm", "backup/notes.txt", "--confirm"]));
    assert!(!stray.exists());
    succeed(&mut site.walzip(&["repo", "rm", &json_key, "--confirm", "--force"]));
    assert_eq!(labels(&site), Vec::<String>::new());
}
