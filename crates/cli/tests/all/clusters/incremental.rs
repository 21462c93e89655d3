//! Differential and incremental backups: each is restored to the bytes that it was taken of, whatever
//! happened to the relations meanwhile, and says what is wrong where a backup that it needs is.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

#[test]
fn a_chain_of_13_is_restored_exactly() {
    a_chain_is_restored_exactly(13);
}

#[test]
fn a_chain_of_15_is_restored_exactly() {
    a_chain_is_restored_exactly(15);
}

#[test]
fn a_chain_of_17_is_restored_exactly() {
    a_chain_is_restored_exactly(17);
}

#[test]
fn a_chain_of_18_is_restored_exactly() {
    a_chain_is_restored_exactly(18);
}

/// The files of relations, by their paths in the data directory.
pub type Files = BTreeMap<String, Vec<u8>>;

fn a_chain_is_restored_exactly(major: u32) {
    let Some(site) = Site::new(major) else { return };
    let primary = primary(&site);
    let steps = [
        ("full", "SELECT 1"),
        ("incr", FIRST_CHANGES),
        ("incr", SECOND_CHANGES),
        ("diff", THIRD_CHANGES),
        ("incr", "SELECT 1"),
    ];
    let mut taken: Vec<(String, Files)> = Vec::new();
    for (kind, changes) in steps {
        primary.sql(changes);
        let files = settled_files(&primary);
        let label = backup(&primary, kind);
        assert_restored(&site, &label, &files);
        taken.push((label, files));
    }
    let labels: Vec<&str> = taken.iter().map(|(label, _)| label.as_str()).collect();
    let [full, first, second, diff, last] = labels[..] else {
        panic!("{labels:?}")
    };
    let told = backups(&site);
    let expected = [
        (full, "full", None, vec![]),
        (first, "incr", Some(full), vec![full]),
        (second, "incr", Some(first), vec![full, first]),
        (diff, "diff", Some(full), vec![full]),
        (last, "incr", Some(diff), vec![full, diff]),
    ];
    for (backup, (label, kind, prior, references)) in told.iter().zip(expected) {
        assert_eq!(backup["label"], label);
        assert_eq!(backup["type"], kind, "{label}");
        assert_eq!(backup["prior"].as_str(), prior, "{label}");
        assert_eq!(backup["references"], Value::from(references), "{label}");
    }
    let stored = |number: usize| told[number]["stored_bytes"].as_u64().expect("bytes");
    assert!(stored(4) < stored(0) / 10, "{told:#?}");
    // Each once more, now that others are there; and one file alone.
    for (label, files) in &taken {
        assert_restored(&site, label, files);
    }
    let (name, content) = second_of(&taken);
    let got = site.path("got");
    let mut get = site.walzip(&["backup-get", "--backup", second, name]);
    succeed(get.arg(&got));
    assert!(fs::read(&got).expect("a file") == *content, "{name}");
    succeed(&mut site.walzip(&["verify"]));
}

/// A relation that the second incremental backup has in pieces.
fn second_of(taken: &[(String, Files)]) -> (&str, &Vec<u8>) {
    let longest = taken[2].1.iter().max_by_key(|(_, content)| content.len());
    let (name, content) = longest.expect("files");
    (name, content)
}

fn primary(site: &Site) -> Server<'_> {
    primary_with(site, "")
}

/// A server with tables of many kinds, and more lines in its configuration.
pub fn primary_with<'s>(site: &'s Site, configuration: &str) -> Server<'s> {
    let primary = Server::create(site, "primary", 1);
    primary.archive_with_walzip();
    primary.configure("autovacuum = off");
    primary.configure(configuration);
    primary.start(&[]);
    site.create_directory("place");
    primary.sql(&format!(
        "CREATE TABLESPACE place LOCATION '{}';
         CREATE TABLE updated (i int PRIMARY KEY, t text, n numeric) WITH (fillfactor = 80);
         INSERT INTO updated SELECT i, md5(i::text), i * 1.5 FROM generate_series(1, 30000) i;
         CREATE INDEX ON updated (t);
         CREATE TABLE growing AS SELECT i, md5(i::text) AS t FROM generate_series(1, 10000) i;
         CREATE TABLE shrinking AS SELECT i, md5(i::text) AS t FROM generate_series(1, 20000) i;
         CREATE TABLE dropped AS SELECT i FROM generate_series(1, 5000) i;
         CREATE TABLE emptied AS SELECT i FROM generate_series(1, 5000) i;
         CREATE TABLE placed TABLESPACE place AS SELECT i, md5(i::text) AS t FROM generate_series(1, 9000) i;
         CREATE TABLE documents (d jsonb, words text[]);
         INSERT INTO documents SELECT jsonb_build_object('i', i, 't', md5(i::text)), ARRAY[md5(i::text)]
             FROM generate_series(1, 3000) i;
         CREATE INDEX ON documents USING gin (d);
         CREATE TABLE long AS SELECT i, string_agg(md5((i * j)::text), '') AS t
             FROM generate_series(1, 200) i, generate_series(1, 200) j GROUP BY i;",
        site.path("place").display()
    ));
    primary
}

pub const FIRST_CHANGES: &str = "
    UPDATE updated SET n = n + 1 WHERE i % 50 = 0;
    INSERT INTO growing SELECT i, md5(i::text) FROM generate_series(1, 9000) i;
    DELETE FROM shrinking WHERE i > 7000;
    VACUUM shrinking;
    DROP TABLE dropped;
    TRUNCATE emptied;
    INSERT INTO emptied SELECT generate_series(1, 700);
    CREATE TABLE created AS SELECT i, md5(i::text) AS t FROM generate_series(1, 4000) i;
    UPDATE placed SET t = md5(t) WHERE i < 1000;
    UPDATE documents SET d = d || '{\"new\": true}' WHERE d ->> 'i' < '15';
    CREATE DATABASE another;
";

pub const SECOND_CHANGES: &str = "
    UPDATE updated SET t = md5(t) WHERE i % 70 = 3;
    DELETE FROM updated WHERE i % 90 = 1;
    VACUUM updated;
    INSERT INTO shrinking SELECT i, md5(i::text) FROM generate_series(1, 15000) i;
    UPDATE created SET t = 'x' WHERE i % 40 = 0;
    DELETE FROM placed WHERE i > 4000;
    VACUUM placed;
    INSERT INTO documents SELECT d, words FROM documents WHERE d ->> 'i' > '7';
    DROP DATABASE another;
";

pub const THIRD_CHANGES: &str = "
    VACUUM FULL growing;
    UPDATE updated SET n = 0 WHERE i BETWEEN 100 AND 300;
    DROP TABLE created;
    CREATE TABLE created AS SELECT i FROM generate_series(1, 100) i;
";

/// The files of all relations of users, of which nothing is left to be written.
pub fn settled_files(server: &Server) -> Files {
    // Bits that a first read sets are there.
    server.sql(
        "SELECT format('SELECT count(*) FROM %s', oid::regclass) FROM pg_class
         WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace \\gexec
         CHECKPOINT;",
    );
    let paths = server.sql(
        "SELECT pg_relation_filepath(c.oid) FROM pg_class c WHERE relkind IN ('r', 'i', 't')
         AND (relnamespace = 'public'::regnamespace
             OR oid IN (SELECT reltoastrelid FROM pg_class WHERE relnamespace = 'public'::regnamespace)
             OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid IN
                 (SELECT reltoastrelid FROM pg_class WHERE relnamespace = 'public'::regnamespace)))",
    );
    let mut files = Files::new();
    for path in paths.lines() {
        for fork in ["", "_fsm", "_vm"] {
            let name = format!("{path}{fork}");
            if let Ok(content) = fs::read(server.data().join(&name)) {
                files.insert(name, content);
            }
        }
    }
    assert!(files.len() > 15, "{:?}", files.keys());
    files
}

/// Takes a backup; returns its label.
fn backup(primary: &Server, kind: &str) -> String {
    let told = succeed(&mut primary.walzip(&["backup", "--type", kind]));
    let label = told.split_whitespace().nth(1).expect("a label");
    label.trim_end_matches(':').to_owned()
}

fn backups(site: &Site) -> Vec<Value> {
    let told = succeed(&mut site.walzip(&["info", "--json"]));
    let told: Value = serde_json::from_str(&told).expect("JSON");
    told["backups"].as_array().expect("backups").clone()
}

#[track_caller]
pub fn assert_restored(site: &Site, label: &str, files: &Files) {
    let (data, place) = (site.path("restored"), site.path("restored-place"));
    let mapping = format!("place={}", place.display());
    let mut restore = site.walzip(&["restore", "--backup", label, "--target-immediate"]);
    restore.arg("-T").arg(mapping).arg("-D").arg(&data);
    succeed(&mut restore);
    for (name, content) in files {
        let restored = fs::read(data.join(name)).expect(name);
        assert!(restored == *content, "{name} of {label} differs");
    }
    for directory in [data, place] {
        fs::remove_dir_all(directory).expect("remove what was restored");
    }
}

#[test]
fn an_incremental_backup_of_13_under_load_is_restored() {
    under_load(13);
}

#[test]
fn an_incremental_backup_of_17_under_load_is_restored() {
    under_load(17);
}

fn under_load(major: u32) {
    let Some(site) = Site::new(major) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(&[]);
    primary.pgbench(&["-i", "-q", "-s", "3"]);
    backup(&primary, "full");
    let load = primary.start_pgbench(&["-c", "2", "-T", "600"]);
    for kind in ["incr", "incr", "diff"] {
        primary.sql("SELECT pg_sleep(0.5); VACUUM pgbench_history, pgbench_tellers;");
        let told = succeed(&mut primary.walzip(&["backup", "--type", kind, "--max-rate", "20M"]));
        assert!(!told.is_empty());
    }
    drop(load);
    primary.archive_everything();
    let expected = primary.fingerprint();
    primary.stop();
    for label in backups(&site) {
        let label = label["label"].as_str().expect("a label");
        let restored = Server::on(&site, "restored");
        let mut restore = restored.walzip(&["restore", "--backup", label, "-D"]);
        succeed(restore.arg(restored.data()));
        restored.start(&["archive_mode=off"]);
        restored.wait_until("SELECT NOT pg_is_in_recovery()");
        assert_eq!(restored.fingerprint(), expected, "{label}");
        restored.check_structures();
        restored.stop();
        fs::remove_dir_all(restored.data()).expect("remove what was restored");
    }
    succeed(&mut site.walzip(&["verify"]));
}

/// The directory of a backup.
fn directory(site: &Site, label: &str) -> PathBuf {
    site.repository().join("backup").join(label)
}

/// What walzip says on standard error, and its exit code.
fn fails(command: &mut std::process::Command) -> (String, i32) {
    let output = command.output().expect("walzip runs");
    assert!(!output.status.success(), "{}", said(&output));
    (said(&output), output.status.code().expect("an exit code"))
}

#[test]
fn a_missing_or_damaged_full_backup_is_named_with_the_one_that_needs_it() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    let full = backup(&primary, "full");
    primary.sql("UPDATE updated SET n = n + 1 WHERE i % 50 = 0");
    let incr = backup(&primary, "incr");
    primary.archive_everything();

    let description = directory(&site, &full).join("backup.json");
    let set_aside = directory(&site, &full).join(".aside");
    fs::rename(&description, &set_aside).expect("set aside");
    assert_refused(&site, &full, &incr);
    assert!(!site.path("restored").exists(), "something was written");
    let (told, code) = fails(&mut site.walzip(&["verify"]));
    assert!(told.contains(&full) && told.contains(&incr), "{told}");
    assert_eq!(code, 104, "{told}");
    // Nothing can be compared with what cannot be restored.
    let mut again = primary.walzip(&["backup", "--type", "incr"]);
    let output = again.output().expect("walzip runs");
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("a full backup is taken") && told.contains(&full),
        "{told}"
    );
    let newest = backups(&site).pop().expect("a backup");
    assert_eq!(newest["type"], "full");
    fs::rename(&set_aside, &description).expect("put back");

    let pack = directory(&site, &full).join("pack.0000");
    let whole = fs::read(&pack).expect("a pack");
    for damage in [flipped(&whole), whole[..whole.len() / 2].to_vec()] {
        fs::write(&pack, damage).expect("written");
        assert_refused(&site, &full, &incr);
        let restored = site.path("restored");
        assert!(
            !restored.join("global/pg_control").exists(),
            "it would start"
        );
        // What is cut short is found before anything is written.
        let is_short = fs::read(&pack).expect("a pack").len() < whole.len();
        assert_eq!(restored.exists(), !is_short);
        if !is_short {
            fs::remove_dir_all(restored).expect("removed");
        }
        let (told, code) = fails(&mut site.walzip(&["verify"]));
        assert!(told.contains(&full) && told.contains(&incr), "{told}");
        assert_eq!(code, 104, "{told}");
    }
    fs::write(&pack, whole).expect("written");
    succeed(&mut site.walzip(&["verify"]));
}

fn flipped(bytes: &[u8]) -> Vec<u8> {
    // Of every chunk: no restore gets past them all.
    let mut bytes = bytes.to_vec();
    for at in (1000..bytes.len()).step_by(5000) {
        bytes[at] ^= 1;
    }
    bytes
}

#[track_caller]
fn assert_refused(site: &Site, full: &str, incr: &str) {
    let data = site.path("restored");
    let mapping = format!("place={}", site.path("restored-place").display());
    let mut restore = site.walzip(&["restore", "--backup", incr, "-T", &mapping, "-D"]);
    let (told, code) = fails(restore.arg(&data));
    let needed = format!("backup {incr}, which needs backup {full},");
    assert!(told.contains(&needed), "{told}");
    assert_eq!(code, 26, "{told}");
    let place = site.path("restored-place");
    if Path::new(&place).exists() {
        fs::remove_dir_all(place).expect("removed");
    }
}

#[test]
fn a_killed_incremental_backup_is_not_there() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    let full = backup(&primary, "full");
    primary.sql(FIRST_CHANGES);
    let method = ["--copy-method", "server", "--max-rate", "1M"];
    let mut killed = primary.walzip(&["backup", "--type", "incr"]);
    killed.args(method);
    let mut child = killed
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("walzip starts");
    primary.wait_until(
        "SELECT count(*) = 1 FROM pg_stat_progress_basebackup
         WHERE phase = 'streaming database files'",
    );
    child.kill().expect("killed");
    child.wait().expect("ended");
    let told = backups(&site);
    assert_eq!(told.len(), 1, "{told:#?}");
    let files = settled_files(&primary);
    let incr = backup(&primary, "incr");
    assert_restored(&site, &incr, &files);
    let told = backups(&site).pop().expect("a backup");
    assert_eq!(told["prior"], full.as_str());
    succeed(&mut site.walzip(&["verify"]));
}

#[test]
fn without_a_backup_to_compare_with_a_full_one_is_taken() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    for kind in ["incr", "diff"] {
        let output = primary.walzip(&["backup", "--type", kind]).output();
        let output = output.expect("walzip runs");
        let told = said(&output);
        assert!(output.status.success(), "{told}");
        let is_first = kind == "incr";
        assert_eq!(told.contains("a full backup is taken"), is_first, "{told}");
    }
    let kinds: Vec<Value> = backups(&site).iter().map(|of| of["type"].clone()).collect();
    assert_eq!(kinds, ["full", "diff"]);
}

#[test]
fn blocks_in_33_backups_are_put_together_and_one_after_that_is_compared_with_the_full_one() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    let full = backup(&primary, "full");
    for number in 0..31 {
        primary.sql(&format!(
            "UPDATE updated SET n = n + 1 WHERE i / 100 % 32 = {number}"
        ));
        backup(&primary, "incr");
    }
    primary.sql("UPDATE updated SET n = n + 1 WHERE i / 100 % 32 = 31");
    let files = settled_files(&primary);
    let most = backup(&primary, "incr");
    assert_restored(&site, &most, &files);
    let mut next = primary.walzip(&["backup", "--type", "incr"]);
    let output = next.output().expect("walzip runs");
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    let told_why = format!("{most} needs 32 others");
    assert!(told.contains(&told_why), "{told}");
    let backups = backups(&site);
    let of = |number: usize| &backups[backups.len() - 1 - number];
    let needed = of(1)["references"].as_array().expect("references");
    assert_eq!(needed.len(), 32, "{needed:?}");
    assert_eq!(of(0)["prior"], full.as_str());
    assert_eq!(of(0)["references"], Value::from(vec![full]));
    assert_restored(&site, of(0)["label"].as_str().expect("a label"), &files);
}
