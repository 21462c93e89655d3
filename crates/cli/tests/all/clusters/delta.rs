//! `restore --delta`: over a cluster that went on, was damaged, or was left by a killed restore.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};
use crate::clusters::tree::{assert_same, times};

/// How many restores are killed while they run.
const KILLS: u32 = 12;

#[test]
fn a_cluster_of_13_that_went_on_is_restored_as_into_an_empty_directory() {
    restores_over_a_cluster_that_went_on(13);
}

#[test]
fn a_cluster_of_15_that_went_on_is_restored_as_into_an_empty_directory() {
    restores_over_a_cluster_that_went_on(15);
}

#[test]
fn a_cluster_of_18_that_went_on_is_restored_as_into_an_empty_directory() {
    restores_over_a_cluster_that_went_on(18);
}

/// A stopped primary with a tablespace, a backup of it, and WAL after that.
fn archived_primary(site: &Site) -> Server<'_> {
    let primary = Server::create(site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(&[]);
    site.create_directory("fast");
    primary.sql(&format!(
        "CREATE TABLESPACE fast LOCATION '{}';
         CREATE TABLE in_fast TABLESPACE fast AS SELECT i, md5(i::text) FROM generate_series(1, 20000) i;",
        site.path("fast").display()
    ));
    primary.pgbench(&["-i", "-q", "-s", "3"]);
    succeed(&mut primary.walzip(&["backup"]));
    primary.pgbench(&["-c", "2", "-t", "200"]);
    primary.archive_everything();
    primary
}

/// A restore into the directory of this name, whose tablespace is beside it.
fn restore(site: &Site, name: &str, flags: &[&str]) -> Command {
    let mut command = site.walzip(&["-v", "restore", "-D"]);
    command.arg(site.path(name));
    let tablespace = site.path(&format!("{name}.fast"));
    command
        .arg("-T")
        .arg(format!("fast={}", tablespace.display()));
    command.args(flags);
    command
}

fn run(command: &mut Command) -> Output {
    command.output().expect("walzip runs")
}

#[track_caller]
fn refused(command: &mut Command, code: i32) -> String {
    let output = run(command);
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    said(&output)
}

/// What the files of a cluster that was restored here became.
fn go_on(site: &Site, name: &'static str) {
    let copy = Server::on(site, name);
    copy.start(&["archive_mode=off"]);
    copy.wait_until("SELECT NOT pg_is_in_recovery()");
    site.create_directory("late");
    copy.sql(&format!(
        "CREATE DATABASE another;
         CREATE TABLESPACE late LOCATION '{}';
         CREATE TABLE in_late TABLESPACE late AS SELECT generate_series(1, 1000) i;
         UPDATE in_fast SET md5 = 'x' WHERE i % 100 = 0;
         CREATE TABLE more AS SELECT generate_series(1, 10000) i;
         TRUNCATE pgbench_history;",
        site.path("late").display()
    ));
    copy.pgbench(&["-c", "2", "-t", "300"]);
    let mut stop = site.command(site.program("pg_ctl"));
    succeed(
        stop.args(["stop", "-w", "-s", "-m", "immediate", "-D"])
            .arg(copy.data()),
    );
}

fn restores_over_a_cluster_that_went_on(major: u32) {
    let Some(site) = Site::new(major) else { return };
    let primary = archived_primary(&site);
    let expected = primary.fingerprint();
    primary.stop();
    succeed(&mut restore(&site, "copy", &[]));
    go_on(&site, "copy");

    // Its WAL on the new timeline is nowhere else.
    let before = times(&site.path("copy"));
    let refusal = refused(&mut restore(&site, "copy", &["--delta"]), 113);
    assert!(refusal.contains("pg_wal/0000000200000000"), "{refusal}");
    // Pushed, it would make the copy a rival of what it was taken from.
    assert!(refusal.contains("do not push its WAL"), "{refusal}");
    assert!(times(&site.path("copy")) == before, "nothing was changed");

    vandalise(&site);
    let precious = fs::read(site.path("precious")).expect("readable");
    let told = succeed(&mut restore(&site, "copy", &["--delta", "--force"]));
    println!("{told}");
    succeed(&mut restore(&site, "plain", &[]));
    assert_same(&site.path("copy"), &site.path("plain"));
    assert_same_tablespaces(&site);
    assert_eq!(fs::read(site.path("precious")).expect("there"), precious);
    assert!(
        site.path("precious.second").exists(),
        "the other name of a file"
    );
    let tablespace = fs::read_dir(site.path("late")).expect("readable");
    assert_eq!(tablespace.count(), 0, "of a tablespace that came later");
    let (written, all) = written(&told);
    assert!(0 < written && written < all / 3, "{written} of {all} bytes");

    // A second time, nothing differs but what a restore writes itself.
    let before = times(&site.path("copy"));
    let told = succeed(&mut restore(&site, "copy", &["--delta"]));
    let mut changed = times(&site.path("copy"));
    changed.retain(|name, time| before.get(name) != Some(time));
    let names: Vec<_> = changed.keys().map(String::as_str).collect();
    assert_eq!(names, ["postgresql.auto.conf", "recovery.signal"], "{told}");
    assert!(told.contains(" 1 files differed, "), "{told}");
    assert!(
        told.contains("; removed 0 files and 0 directories that"),
        "{told}"
    );

    let restored = Server::on(&site, "copy");
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(restored.fingerprint(), expected);
    restored.check_structures();
}

fn assert_same_tablespaces(site: &Site) {
    let version = |name: &str| {
        let entries = fs::read_dir(site.path(name)).expect("readable");
        let paths: Vec<_> = entries
            .map(|entry| entry.expect("an entry").path())
            .collect();
        assert_eq!(paths.len(), 1, "{paths:?}");
        let database = fs::read_dir(&paths[0]).expect("readable").next();
        database.expect("a database").expect("an entry").path()
    };
    let trees = ["copy.fast", "plain.fast"].map(|name| crate::clusters::tree::tree(&version(name)));
    assert!(trees[0] == trees[1] && !trees[0].is_empty());
}

/// Puts into the data directory what nothing must be written through, and what does not belong.
fn vandalise(site: &Site) {
    let data = site.path("copy");
    let own = |path: &Path| site.hand_over(path);
    fs::write(site.path("precious"), vec![7; 100_000]).expect("written");
    own(&site.path("precious"));
    let relation = |number: usize| {
        let entries = fs::read_dir(data.join("base/1")).expect("readable");
        let mut paths: Vec<_> = entries
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort();
        paths.retain(|path| fs::metadata(path).expect("there").len() > 0);
        paths[number].clone()
    };
    let (linked, twice) = (relation(0), relation(3));
    fs::remove_file(&linked).expect("removed");
    symlink(site.path("precious"), &linked).expect("a link");
    fs::hard_link(&twice, site.path("precious.second")).expect("a second name");
    let fifo = data.join("base/1/fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).expect("a FIFO");
    symlink(site.path("precious"), data.join("base/link")).expect("a link");
    fs::create_dir_all(data.join("base/99999/deep/er")).expect("a directory");
    fs::write(data.join("base/99999/deep/er/1"), b"x").expect("written");
    for name in ["base/99999", "base/99999/deep", "base/99999/deep/er"] {
        own(&data.join(name));
    }
    // A directory that leads elsewhere.
    fs::create_dir(site.path("elsewhere")).expect("a directory");
    own(&site.path("elsewhere"));
    fs::remove_dir_all(data.join("pg_stat_tmp")).expect("removed");
    symlink(site.path("elsewhere"), data.join("pg_stat_tmp")).expect("a link");
}

/// How many bytes a restore says that it has written, and how many it has restored.
fn written(told: &str) -> (u64, u64) {
    let number_before = |end: &str| {
        let (before, _) = told.split_once(end).expect(end);
        let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next();
        digits.expect("a number").parse().expect("a number")
    };
    (number_before(" bytes written"), number_before(" bytes\n"))
}

#[test]
fn a_killed_restore_starts_nothing_and_is_completed_by_a_repetition() {
    let Some(site) = Site::new(15) else { return };
    let primary = archived_primary(&site);
    primary.stop();
    succeed(&mut restore(&site, "plain", &[]));
    succeed(&mut restore(&site, "copy", &[]));
    let begin = Instant::now();
    succeed(&mut restore(&site, "copy", &["--delta"]));
    let whole = begin.elapsed();
    go_on(&site, "copy");
    let mut killed = 0;
    for kill in 0..KILLS {
        if !site.path("copy/walzip_restore.unfinished").exists() {
            spoil(&site);
        }
        let mut command = restore(&site, "copy", &["--delta", "--force"]);
        let streams = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = streams.spawn().expect("walzip starts");
        match kill {
            // As soon as it has begun to write.
            0 => while_there_is_no(&site.path("copy/walzip_restore.unfinished")),
            _ => std::thread::sleep(whole.mul_f64(f64::from(kill) / f64::from(KILLS))),
        }
        if let Some(status) = running.try_wait().expect("a state") {
            assert!(status.success(), "it failed by itself: {status}");
            continue;
        }
        running.kill().expect("killed");
        running.wait().expect("ended");
        if !site.path("copy/walzip_restore.unfinished").exists() {
            continue;
        }
        killed += 1;
        refused(&mut restore(&site, "copy", &[]), 40);
        if !site.path("copy/global/pg_control").exists() {
            assert!(!Server::on(&site, "copy").try_start(&["archive_mode=off"]));
        }
    }
    assert!(killed > 0, "no restore was there to be killed");
    println!("{killed} restores killed");
    succeed(&mut restore(&site, "copy", &["--delta", "--force"]));
    assert_same(&site.path("copy"), &site.path("plain"));
    assert_same_tablespaces(&site);
    assert!(!site.path("copy/walzip_restore.unfinished").exists());
}

fn while_there_is_no(path: &Path) {
    let begin = Instant::now();
    while !path.exists() {
        assert!(
            begin.elapsed() < Duration::from_secs(120),
            "no {}",
            path.display()
        );
        std::thread::yield_now();
    }
}

/// Changes a page of each relation file of a database.
fn spoil(site: &Site) {
    for entry in fs::read_dir(site.path("copy/base/1")).expect("readable") {
        let path = entry.expect("an entry").path();
        let mut content = fs::read(&path).expect("readable");
        if let Some(byte) = content.first_mut() {
            *byte ^= 1;
            fs::write(&path, content).expect("written");
        }
    }
}

/// An interrupted restore into an empty directory need not begin again.
#[test]
fn a_killed_restore_into_an_empty_directory_is_completed_by_delta() {
    let Some(site) = Site::new(15) else { return };
    let primary = archived_primary(&site);
    primary.stop();
    succeed(&mut restore(&site, "plain", &[]));
    let mut command = restore(&site, "copy", &[]);
    let mut running = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    while_there_is_no(&site.path("copy/base"));
    running.kill().expect("killed");
    running.wait().expect("ended");
    assert!(site.path("copy/walzip_restore.unfinished").exists());
    refused(&mut restore(&site, "copy", &[]), 40);
    succeed(&mut restore(&site, "copy", &["--delta"]));
    assert_same(&site.path("copy"), &site.path("plain"));
    assert_same_tablespaces(&site);
}

/// A file system has a directory of root's where it is mounted. It cannot be cleaned, and that is said
/// before anything is changed.
#[test]
fn a_directory_that_cannot_be_read_is_refused_before_anything_is_changed() {
    let Some(site) = Site::new(15) else { return };
    let primary = archived_primary(&site);
    let expected = primary.fingerprint();
    primary.stop();
    succeed(&mut restore(&site, "copy", &[]));
    let data = site.path("copy");
    let lost = data.join("pg_wal/lost+found");
    let deep = site.path("copy.fast");
    let deep = fs::read_dir(deep).expect("readable").next().expect("one");
    let deep = deep.expect("an entry").path().join("closed");
    let extra = data.join("base/extra");
    fs::write(&extra, "to be removed").expect("written");
    for closed in [&lost, &deep] {
        fs::create_dir(closed).expect("made");
        fs::set_permissions(closed, fs::Permissions::from_mode(0o000)).expect("closed");
        let refusal = refused(&mut restore(&site, "copy", &["--delta"]), 64);
        let name = closed.display().to_string();
        assert!(refusal.contains(&name), "{refusal}");
        assert!(data.join("global/pg_control").is_file() && extra.exists());
        fs::remove_dir(closed).expect("removed");
    }
    succeed(&mut restore(&site, "copy", &["--delta"]));
    assert!(!extra.exists());
    let copy = Server::on(&site, "copy");
    copy.start(&["archive_mode=off"]);
    copy.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(copy.fingerprint(), expected);
}

/// What a server wrote before it crashed is not lost, and is restored when it was pushed.
#[test]
fn wal_that_was_not_archived_is_named_and_can_be_saved() {
    let Some(site) = Site::new(15) else { return };
    let primary = archived_primary(&site);
    let lost = "archive_command = 'false'";
    primary.sql(&format!(
        "ALTER SYSTEM SET {lost}; SELECT pg_reload_conf();"
    ));
    primary.wait_until("SELECT current_setting('archive_command') = 'false'");
    primary.sql("CREATE TABLE last AS SELECT generate_series(1, 30000) i");
    let expected = primary.fingerprint();
    let mut stop = site.command(site.program("pg_ctl"));
    succeed(
        stop.args(["stop", "-w", "-s", "-m", "immediate", "-D"])
            .arg(primary.data()),
    );

    let over = || {
        let mut command = site.walzip(&["restore", "--delta", "-D"]);
        command.arg(site.path("primary"));
        command
    };
    let refusal = refused(&mut over(), 113);
    let (_, named) = refusal.split_once("would be lost: ").expect("names");
    let (named, _) = named.split_once(" [").expect("an end");
    let named: Vec<&str> = named.split(", ").collect();
    assert!(named.len() > 1 && named.len() < 6, "{refusal}");
    for path in named {
        succeed(&mut site.walzip(&["archive-push", path]));
    }
    succeed(&mut over());
    primary.start(&[]);
    primary.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(primary.fingerprint(), expected);
}

#[test]
fn what_is_not_a_stopped_cluster_of_the_repository_is_left_alone() {
    let Some(site) = Site::new(15) else { return };
    let primary = archived_primary(&site);
    let over = |name: &str| {
        let mut command = restore(&site, name, &["--delta", "--force"]);
        command.stdin(Stdio::null());
        command
    };
    let refusal = refused(&mut over("primary"), 38);
    assert!(refusal.contains("by process "), "{refusal}");
    assert_eq!(primary.sql("SELECT 1"), "1");
    primary.stop();

    let other = Server::create(&site, "other", 1);
    for (name, code) in [("other", 44), ("fast", 40), ("repository", 40)] {
        let before = times(&site.path(name));
        refused(&mut over(name), code);
        assert!(
            times(&site.path(name)) == before && !before.is_empty(),
            "{name}"
        );
    }
    drop(other);

    // A tablespace that goes where another cluster has one.
    fs::create_dir_all(site.path("taken/PG_15_202209061/5")).expect("a directory");
    site.hand_over(&site.path("taken"));
    let mut command = site.walzip(&["restore", "--delta", "-D"]);
    let map = format!("fast={}", site.path("taken").display());
    let refusal = refused(command.arg(site.path("primary")).arg("-T").arg(map), 40);
    assert!(refusal.contains("taken"), "{refusal}");

    // A copy whose links lead to the tablespace of the original.
    let mut copy = Command::new("cp");
    succeed(
        copy.arg("-a")
            .arg(site.path("primary"))
            .arg(site.path("cloned")),
    );
    primary.start(&[]);
    let mut command = site.walzip(&["restore", "--delta", "--force", "-D"]);
    let refusal = refused(command.arg(site.path("cloned")), 38);
    assert!(refusal.contains("as a tablespace of "), "{refusal}");
    primary.stop();

    // A repository that came to lie in the data directory.
    let inside = site.path("primary/repository");
    fs::rename(site.repository(), &inside).expect("moved");
    let mut command = site.walzip(&["restore", "--delta", "--force", "-D"]);
    let command = command.arg(site.path("primary")).arg("--repo").arg(&inside);
    refused(command, 31);
    fs::rename(&inside, site.repository()).expect("moved back");

    // Where it was; the cluster itself was shut down, and all of its WAL is archived.
    let told = succeed(
        site.walzip(&["restore", "--delta", "-D"])
            .arg(site.path("primary")),
    );
    let (written, all) = written(&told);
    assert!(written < all / 3, "{told}");
    primary.start(&[]);
    primary.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(primary.sql("SELECT count(*) FROM in_fast"), "20000");
}
