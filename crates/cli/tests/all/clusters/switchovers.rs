//! Production goes from server to server, and back. Each server has the segment in which a timeline was left, and archives
//! its own when it is promoted.

use std::fs;

use crate::clusters::branches::restored_rows;
use crate::clusters::forks::write;
use crate::clusters::server::Server;
use crate::clusters::set_aside::restore;
use crate::clusters::site::{Site, succeed};

/// It replays what the other one has, from now on.
fn follow(site: &Site, server: &Server, primary: &Server, is_restarted: bool) {
    let signal = server.data().join("standby.signal");
    fs::write(&signal, "").expect("written");
    site.hand_over(&signal);
    server.configure(&format!(
        "primary_conninfo = 'host={} port=5432 user=tester'\n\
         restore_command = '{} archive-get --repo {} %f %p'",
        primary.socket().display(),
        site.program_under_test().display(),
        site.repository().display(),
    ));
    match is_restarted {
        true => server.start(&[]),
        false => _ = server.sql("SELECT pg_reload_conf()"),
    }
}

fn promote(server: &Server) {
    server.sql("SELECT pg_promote()");
    server.wait_until("SELECT NOT pg_is_in_recovery()");
}

fn wait_for_rows(server: &Server, rows: usize) {
    server.wait_until(&format!("SELECT count(*) = {rows} FROM note"));
}

fn set_max_wal_size(servers: &[&Server], size: &str) {
    for server in servers {
        server.sql(&format!("ALTER SYSTEM SET max_wal_size = '{size}'"));
        server.sql("SELECT pg_reload_conf()");
    }
}

/// Fills files of WAL, and uses them again, so that what follows is written into files that had other WAL.
fn recycle(primary: &Server, standbys: &[&Server]) {
    let fill = "SELECT count(pg_logical_emit_message(false, 'x', repeat('o', 100))) FROM generate_series(1, 2000)";
    for round in 1..8 {
        primary.sql(fill);
        primary.sql("SELECT pg_switch_wal()");
        if round % 3 == 0 {
            primary.sql("CHECKPOINT");
            for standby in standbys {
                standby.wait_until(&format!(
                    "SELECT pg_last_wal_replay_lsn() >= '{}'",
                    primary.sql("SELECT pg_current_wal_flush_lsn()")
                ));
                standby.sql("CHECKPOINT");
            }
        }
    }
}

#[test]
fn remains_of_a_file_do_not_stop_the_archiving_of_who_is_promoted() {
    let Some(site) = Site::new(17) else { return };
    let first = Server::create(&site, "first", 1);
    first.archive_with_walzip();
    first.configure("min_wal_size = 4MB");
    first.start(&[]);
    first.sql("CREATE TABLE note (body text)");
    succeed(&mut first.walzip(&["backup"]));
    write(&first, "1-first");
    first.archive_everything();
    let standby = |name| {
        let server = restore(&site, name, &["--standby", "--archive-mode", "preserve"]);
        follow(&site, &server, &first, true);
        wait_for_rows(&server, 1);
        server
    };
    let (second, third) = (standby("second"), standby("third"));
    let all = [&first, &second, &third];
    set_max_wal_size(&all, "4MB");
    recycle(&first, &[&second, &third]);
    set_max_wal_size(&all, "1GB");
    write(&first, "2-first");
    for server in [&second, &third] {
        wait_for_rows(server, 2);
    }

    first.stop();
    promote(&second);
    write(&second, "3-second");
    third.stop();
    follow(&site, &third, &second, true);
    follow(&site, &first, &second, true);
    for server in [&first, &third] {
        wait_for_rows(server, 3);
    }
    second.stop();
    promote(&third);
    follow(&site, &second, &third, true);
    follow(&site, &first, &third, false);
    write(&third, "4-third");
    third.archive_everything();
    write(&third, "5-third");
    for server in [&first, &second] {
        wait_for_rows(server, 5);
    }
    third.stop();
    promote(&first);
    write(&first, "6-first");
    first.archive_everything();
    let log = first.log();
    assert!(log.contains("with the same records"), "{log}");
    let rows = "1-first 2-first 3-second 4-third 5-third 6-first";
    assert_eq!(restored_rows(&site, &[]), rows);
    succeed(&mut site.walzip(&["verify"]));
}
