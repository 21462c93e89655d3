//! pg_upgrade, and the same repository before and after.

use std::fs;
use std::process::Output;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, program_of, said, succeed};

const ROWS: &str = "SELECT string_agg(body, ' ' ORDER BY body) FROM note";

/// The label of the backup that `walzip backup` reports.
fn back_up(server: &Server) -> String {
    let told = succeed(&mut server.walzip(&["backup"]));
    let label = told.split(':').next().expect("backup LABEL:");
    label.trim_start_matches("backup ").to_owned()
}

/// Restores, with what `restore` said.
fn try_restore(server: &Server, arguments: &[&str]) -> Output {
    let mut command = server.walzip(&["restore", "-D"]);
    command.arg(server.data()).args(arguments);
    command.output().expect("walzip starts")
}

/// What a cluster has when it is restored.
fn rows_of_restored(server: &Server, arguments: &[&str]) -> String {
    let output = try_restore(server, arguments);
    assert!(output.status.success(), "{}", said(&output));
    server.start(&[]);
    server.wait_until("SELECT NOT pg_is_in_recovery()");
    let rows = server.sql(ROWS);
    server.stop();
    rows
}

/// Upgrades a stopped cluster into a new one.
fn pg_upgrade(site: &Site, old: &Server, new: &Server) {
    let programs = |server: &Server| {
        let program = program_of(server.major(), "postgres");
        program.parent().expect("a directory").to_owned()
    };
    let mut upgrade = site.command(program_of(new.major(), "pg_upgrade"));
    upgrade
        .arg("-b")
        .arg(programs(old))
        .arg("-d")
        .arg(old.data());
    upgrade
        .arg("-B")
        .arg(programs(new))
        .arg("-D")
        .arg(new.data());
    upgrade.args(["-U", "tester", "-s"]).arg(site.path("."));
    succeed(&mut upgrade);
}

fn refused(output: Output, code: i32, expected: &[&str]) {
    let told = said(&output);
    assert_eq!(output.status.code(), Some(code), "{told}");
    for text in expected {
        assert!(told.contains(text), "no {text:?} in: {told}");
    }
}

fn upgrade(server: &Server, arguments: &[&str]) -> Output {
    let mut command = server.walzip(&["upgrade"]);
    command.args(arguments).output().expect("walzip starts")
}

/// What the old cluster has archived.
struct Archived {
    backup: String,
    /// A position between its last two rows.
    between: String,
}

#[test]
fn a_repository_goes_on_after_pg_upgrade_and_restores_from_before() {
    let Some(site) = Site::of_majors([15, 17]) else {
        return;
    };
    let old = Server::create(&site, "old", 1);
    let archived = archive_the_old(&old);
    let new = Server::create_of(&site, 17, "new");
    new.configure_archiving();
    pg_upgrade(&site, &old, &new);
    new.start(&[]);
    new.sql("INSERT INTO note VALUES ('4-new')");
    is_refused_before(&new);

    let told = said(&upgrade(&new, &[]));
    assert!(told.contains("is registered; take a backup"), "{told}");
    for registered in [&new, &old] {
        let told = said(&upgrade(registered, &[]));
        assert!(told.contains("was registered before"), "{told}");
    }
    new.archive_everything();
    succeed(&mut new.walzip(&["check"]));
    // Before the first backup, nobody gets the old major for the new one.
    let nowhere = Server::on(&site, "nowhere");
    let older = ["for PostgreSQL 17", &archived.backup, "--backup"];
    refused(try_restore(&nowhere, &[]), 75, &older);
    assert!(!nowhere.data().exists());
    let backup = back_up(&new);
    new.sql("INSERT INTO note VALUES ('5-after-backup')");
    new.archive_everything();
    new.stop();

    shows_both(&site, &archived.backup, &backup);
    restores_both(&site, &archived);
    lose_the_record(&site);
    go_back_to_the_old_one(&site, &old, &backup);
}

fn archive_the_old(old: &Server) -> Archived {
    old.archive_with_walzip();
    old.start(&[]);
    old.sql("CREATE TABLE note (body text); INSERT INTO note VALUES ('1-old')");
    let backup = back_up(old);
    old.sql("INSERT INTO note VALUES ('2-after-backup')");
    old.archive_everything();
    let between = old.sql("SELECT pg_create_restore_point('between')");
    old.sql("INSERT INTO note VALUES ('3-last')");
    old.archive_everything();
    old.stop();
    Archived { backup, between }
}

/// Its WAL waits, and everything says what to do.
fn is_refused_before(new: &Server) {
    new.sql("SELECT pg_switch_wal()");
    new.wait_until("SELECT failed_count > 0 FROM pg_stat_archiver");
    let log = new.log();
    assert!(log.contains("[archive-mismatch, exit code 44]"), "{log}");
    assert!(log.contains("walzip upgrade"), "{log}");
    for command in ["check", "backup", "init"] {
        let output = new.walzip(&[command]).output().expect("walzip starts");
        let told = ["PostgreSQL 17", "PostgreSQL 15", "walzip upgrade"];
        refused(output, 44, &told);
    }
}

fn shows_both(site: &Site, old_backup: &str, new_backup: &str) {
    let info = succeed(&mut site.walzip(&["info"]));
    for text in [
        "cluster     PostgreSQL 17",
        "before      PostgreSQL 15",
        old_backup,
        new_backup,
    ] {
        assert!(info.contains(text), "no {text:?} in {info}");
    }
    let json = succeed(&mut site.walzip(&["info", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["cluster"]["major"], 17);
    assert_eq!(json["backups"][0]["label"], new_backup);
    let older = &json["older_clusters"][0];
    assert_eq!(older["cluster"]["major"], 15);
    assert_eq!(older["backups"][0]["label"], old_backup);
    let verified = succeed(&mut site.walzip(&["verify"]));
    assert!(verified.contains("backups 2 "), "{verified}");
}

/// The default is the newest; the old one comes back for its own major, to its own ends.
fn restores_both(site: &Site, archived: &Archived) {
    let restored = Server::on_of(site, 17, "restored");
    assert_eq!(
        rows_of_restored(&restored, &[]),
        "1-old 2-after-backup 3-last 4-new 5-after-backup"
    );
    let to_the_end = Server::on(site, "to-the-end");
    assert_eq!(
        rows_of_restored(&to_the_end, &["--backup", &archived.backup]),
        "1-old 2-after-backup 3-last"
    );
    let to_a_position = Server::on(site, "to-a-position");
    let target = ["--cluster", "15", "--target-lsn", &archived.between];
    assert_eq!(
        rows_of_restored(&to_a_position, &target),
        "1-old 2-after-backup"
    );
}

/// Without the new cluster's record, the old one is not taken for the newest.
fn lose_the_record(site: &Site) {
    let (record, lost) = (site.repository().join("cluster/2.json"), site.path("lost"));
    fs::rename(&record, &lost).expect("renamed");
    let nowhere = Server::on(site, "nowhere");
    refused(
        try_restore(&nowhere, &[]),
        103,
        &["wal/17-", "walzip upgrade"],
    );
    fs::rename(&lost, &record).expect("renamed");
}

/// The old server was left as it was: it goes on archiving, and the newest cluster is not taken for
/// what is to be restored any more.
fn go_back_to_the_old_one(site: &Site, old: &Server, new_backup: &str) {
    old.start(&[]);
    old.sql("INSERT INTO note VALUES ('6-rolled-back')");
    old.archive_everything();
    old.stop();
    let nowhere = Server::on(site, "nowhere");
    let newest = ["PostgreSQL 15", "went on", "--cluster 15-", "--cluster 17-"];
    refused(try_restore(&nowhere, &[]), 75, &newest);
    assert!(!nowhere.data().exists());
    assert_eq!(
        rows_of_restored(&Server::on(site, "rolled-back"), &["--cluster", "15"]),
        "1-old 2-after-backup 3-last 6-rolled-back"
    );
    let told = try_restore(&Server::on(site, "chosen"), &["--backup", new_backup]);
    assert!(told.status.success(), "{}", said(&told));
}

#[test]
fn what_is_no_upgrade_is_refused() {
    let Some(site) = Site::of_majors([15, 17]) else {
        return;
    };
    let owner = Server::create_of(&site, 17, "owner");
    succeed(&mut owner.walzip(&["init"]));
    let older = Server::create(&site, "older", 1);
    refused(
        upgrade(&older, &[]),
        44,
        &["older", "a repository of its own"],
    );
    let stranger = Server::create_of(&site, 17, "stranger");
    refused(
        upgrade(&stranger, &[]),
        44,
        &[
            "same major version",
            "a repository of its own",
            "--same-major",
        ],
    );
    assert!(!site.repository().join("cluster").exists());
    let told = upgrade(&stranger, &["--same-major"]);
    assert!(told.status.success(), "{}", said(&told));
    assert!(site.repository().join("cluster/2.json").exists());
}

/// A standby of the new cluster has its identity, and one of the old cluster the old one's.
#[test]
fn a_standby_stands_for_its_cluster() {
    let Some(site) = Site::of_majors([15, 17]) else {
        return;
    };
    let old = Server::create(&site, "old", 1);
    succeed(&mut old.walzip(&["init"]));
    let new = Server::create_of(&site, 17, "new");
    for (server, expected) in [(&old, "registered before"), (&new, "is registered; ")] {
        let signal = server.data().join("standby.signal");
        fs::write(&signal, "").expect("a writable data directory");
        site.hand_over(&signal);
        server.start(&[]);
        let mut command = server.walzip(&["upgrade"]);
        command.env_remove("WALZIP_PGDATA");
        let told = succeed(&mut command);
        assert!(told.contains(expected), "{told}");
        server.stop();
    }
}
