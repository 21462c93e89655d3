//! Databases whose last commit is in the WAL before the backup begins, and which nobody sees yet: the commit waits for
//! a synchronous standby.

use std::process::Output;

use crate::clusters::around_the_stop::{SWAP, assert_named_by_oids, oid_of, restore_of, start_sql};
use crate::clusters::made_meanwhile::{
    FILES, OPTION_INVALID, create_databases, primary, start_backup, wait_until_it_copies,
};
use crate::clusters::server::Server;
use crate::clusters::site::{Site, said};

const ARGUMENTS: [&str; 4] = ["--copy-method", FILES, "--max-rate", "6M"];

/// Commits wait from now on.
fn let_commits_wait(primary: &Server) {
    primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    primary.sql("SELECT pg_reload_conf()");
    primary.wait_until("SELECT current_setting('synchronous_standby_names') = 'nobody'");
    // The checkpointer tells the others.
    std::thread::sleep(std::time::Duration::from_millis(500));
}

fn let_commits_go(primary: &Server) {
    primary.sql("ALTER SYSTEM RESET synchronous_standby_names");
    primary.sql("SELECT pg_reload_conf()");
    primary.wait_until("SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
}

/// A backup that begins while these commands wait, each in a session, and ends after they have gone on, or before.
fn back_up_beside(primary: &Server, commands: &[&str], ends_after: bool) -> Output {
    let_commits_wait(primary);
    let mut sessions: Vec<_> = commands.iter().map(|sql| start_sql(primary, sql)).collect();
    let waiting = commands.len();
    primary.wait_until(&format!(
        "SELECT count(*) = {waiting} FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    ));
    let backup = start_backup(primary, &ARGUMENTS);
    wait_until_it_copies(primary, FILES);
    if ends_after {
        let_commits_go(primary);
    }
    let output = backup.wait_with_output().expect("ended");
    if !ends_after {
        let_commits_go(primary);
    }
    for session in &mut sessions {
        assert!(session.wait().expect("ended").success());
    }
    primary.archive_everything();
    output
}

#[test]
fn a_database_whose_drop_waited_is_not_restored_alone() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site, &["autovacuum=off"]);
    create_databases(&primary, ["victim"]);
    let output = back_up_beside(&primary, &["DROP DATABASE victim"], true);
    assert!(output.status.success(), "{}", said(&output));
    primary.stop();

    let restored = Server::on(&site, "restored");
    let output = restore_of(&restored, "victim");
    let told = said(&output);
    assert_eq!(output.status.code(), Some(OPTION_INVALID), "{told}");
    assert!(
        told.contains("it was dropped while the backup ran"),
        "{told}"
    );
}

#[test]
fn names_that_were_swapped_by_a_commit_that_waited_are_not_known() {
    names_that_were_swapped_are_not_known(&format!("BEGIN; {SWAP}; COMMIT"), true);
}

/// No list has the new names, and the rows name a subtransaction, which runs no longer.
#[test]
fn names_that_are_swapped_by_a_commit_that_still_waits_are_not_known() {
    let swap = format!("BEGIN; SAVEPOINT names; {SWAP}; RELEASE names; COMMIT");
    names_that_were_swapped_are_not_known(&swap, false);
}

/// The rows name a multixact, of which the number looks like that of an old transaction.
#[test]
fn names_of_locked_rows_that_are_swapped_by_a_commit_that_still_waits_are_not_known() {
    let lock = "SELECT 1 FROM pg_database WHERE datname IN ('shop', 'next') FOR UPDATE";
    let swap = format!("BEGIN; {lock}; SAVEPOINT names; {SWAP}; RELEASE names; COMMIT");
    names_that_were_swapped_are_not_known(&swap, false);
}

fn names_that_were_swapped_are_not_known(swap: &str, ends_after: bool) {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site, &["autovacuum=off"]);
    create_databases(&primary, ["shop", "next", "other"]);
    let oids = ["shop", "next"].map(|name| oid_of(&primary, name));
    let output = back_up_beside(&primary, &[swap], ends_after);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(oid_of(&primary, "next"), oids[0], "swapped");
    primary.stop();

    let restored = Server::on(&site, "restored");
    assert_named_by_oids(&restored, &["shop", "next"], &[&oids[0], &oids[1]]);
    let output = restore_of(&restored, "other");
    assert!(output.status.success(), "{}", said(&output));
    let restored = Server::on(&site, "restored.by.oid");
    let output = restore_of(&restored, &oids[1]);
    assert!(output.status.success(), "{}", said(&output));
}
