//! A server with a worker behind its archive_command and its restore_command.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::clusters::object_store::{archived_files, assert_no_gaps};
use crate::clusters::server::Server;
use crate::clusters::site::{Site, succeed};

/// How often a worker is killed while the server writes.
const KILLS: u32 = 12;

/// A configuration file for a cluster's site, with a spool.
pub fn configure(site: &Site, server: &Server) {
    let spool = site.create_directory("spool");
    let config = format!(
        "repo = \"{}\"\narchive-async = true\nspool-path = \"{}\"\nprocess-max = 3\n",
        site.repository().display(),
        spool.display()
    );
    fs::write(site.path("walzip.toml"), config).expect("written");
    server.archive_with_walzip();
    server.configure(&format!(
        "archive_command = '{} archive-push --config {} %p'",
        site.program_under_test().display(),
        site.path("walzip.toml").display(),
    ));
}

/// A walzip command with the site's configuration file.
pub fn walzip(server: &Server, site: &Site, arguments: &[&str]) -> Command {
    let mut command = server.walzip(arguments);
    command
        .env_remove("WALZIP_REPO")
        .env("WALZIP_CONFIG", site.path("walzip.toml"));
    command
}

/// Kills the workers of a program; says how many there were.
fn kill_workers(program: &Path) -> usize {
    let pattern = format!("^walzip archive-(push|get) --worker .*{}", "walzip.toml");
    let found = Command::new("pgrep").args(["-f", &pattern]).output();
    let found = String::from_utf8(found.expect("pgrep runs").stdout).expect("numbers");
    let ours = found.lines().filter(|number| {
        let link = fs::read_link(format!("/proc/{number}/exe"));
        link.is_ok_and(|link| link == program)
    });
    let kill = |number: &str| Command::new("kill").args(["-9", number]).status();
    ours.filter(|number| kill(number).is_ok_and(|status| status.success()))
        .count()
}

#[test]
fn a_server_archives_everything_though_its_workers_are_killed_and_a_recovery_fetches_ahead() {
    let Some(site) = Site::new(15) else { return };
    let server = Server::create(&site, "primary", 1);
    configure(&site, &server);
    server.start(&[]);
    server.pgbench(&["-i", "-q", "-s", "1"]);
    succeed(&mut walzip(&server, &site, &["backup"]));
    let load = server.start_pgbench(&["-c", "2", "-T", "600"]);
    let mut killed = 0;
    for number in 0..KILLS {
        std::thread::sleep(Duration::from_millis(300 + 70 * u64::from(number)));
        killed += kill_workers(&site.program_under_test());
    }
    drop(load);
    assert!(
        killed > 0,
        "no worker was there to be killed:\n{}",
        server.log()
    );
    server.archive_everything();
    let expected = server.fingerprint();
    assert_no_gaps(&archived_files(&site));
    succeed(&mut walzip(&server, &site, &["verify"]));
    server.stop();

    let restored = Server::on(&site, "restored");
    let mut restore = walzip(&restored, &site, &["restore", "-D"]);
    succeed(restore.arg(restored.data()));
    restored.configure("log_min_messages = log");
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(restored.fingerprint(), expected);
    let was_there = fs::read_dir(site.path("spool")).expect("a spool").count();
    assert_eq!(was_there, 2, "the recovery had a spool of its own");
    restored.stop();
}

/// A standby that archives everything that its primary archives, and is promoted.
#[test]
fn a_promoted_standby_that_archives_always_goes_on() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    configure(&site, &primary);
    primary.start(&[]);
    primary.pgbench(&["-i", "-q", "-s", "1"]);
    succeed(&mut walzip(&primary, &site, &["backup"]));
    let standby = Server::on(&site, "standby");
    let mut restore = walzip(
        &standby,
        &site,
        &["restore", "--archive-mode", "preserve", "-D"],
    );
    succeed(restore.arg(standby.data()));
    let signal = standby.data().join("standby.signal");
    fs::write(&signal, "").expect("written");
    site.hand_over(&signal);
    standby.configure(&format!(
        "archive_mode = always\nprimary_conninfo = 'host={} port=5432 user=tester'",
        primary.socket().display()
    ));
    standby.start(&[]);
    primary.pgbench(&["-c", "2", "-T", "3"]);
    primary.archive_everything();
    let position = primary.sql("SELECT pg_current_wal_lsn()");
    standby.wait_until(&format!(
        "SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn"
    ));
    primary.stop();
    standby.sql("SELECT pg_promote()");
    standby.wait_until("SELECT NOT pg_is_in_recovery()");
    standby.pgbench(&["-c", "2", "-T", "2"]);
    standby.archive_everything();
    let expected = standby.fingerprint();
    standby.stop();
    succeed(&mut walzip(&standby, &site, &["verify"]));

    let restored = Server::on(&site, "restored");
    let mut restore = walzip(&restored, &site, &["restore", "-D"]);
    succeed(restore.arg(restored.data()));
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(restored.fingerprint(), expected);
}
