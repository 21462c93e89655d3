//! An index of an unlogged table that is built while a backup runs: what the backup has of it is not to be in the way of
//! the restored server.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use crate::clusters::made_meanwhile::{
    FILES, create_databases, primary, start_backup, wait_until_it_copies,
};
use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

/// Before this, the backup has not begun to read much; after it, it has read the database that it reads first.
const FIRST_DATABASE_IS_READ: Duration = Duration::from_millis(2500);

#[test]
fn an_index_of_an_unlogged_table_that_is_built_meanwhile_lets_the_server_start_13() {
    an_index_of_an_unlogged_table_that_is_built_meanwhile(13);
}

#[test]
fn an_index_of_an_unlogged_table_that_is_built_meanwhile_lets_the_server_start_18() {
    an_index_of_an_unlogged_table_that_is_built_meanwhile(18);
}

fn an_index_of_an_unlogged_table_that_is_built_meanwhile(major: u32) {
    let Some(site) = Site::new(major) else { return };
    let primary = primary(&site, &["autovacuum=off"]);
    // They are read after template1.
    create_databases(&primary, ["one", "other"]);
    let go = site.path("go");
    primary.sql(&format!(
        "\\c template1
         CREATE FUNCTION held(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
           WHILE (pg_stat_file('{}', true)).size IS NULL LOOP PERFORM pg_sleep(0.05); END LOOP;
           RETURN i;
         END $$;
         CREATE UNLOGGED TABLE lost AS SELECT 1 AS i;
         CHECKPOINT;",
        go.display()
    ));
    let mut psql = primary.client("psql");
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "template1"]);
    psql.args(["-c", "CREATE INDEX late ON lost (held(i))"]);
    psql.stdout(Stdio::piped()).stderr(Stdio::piped());
    let index = psql.spawn().expect("psql starts");
    primary.wait_until(
        "SELECT count(*) = 1 FROM pg_stat_activity WHERE query ~ '^CREATE INDEX' AND wait_event = 'PgSleep'",
    );
    let backup = start_backup(&primary, &["--copy-method", FILES, "--max-rate", "6M"]);
    wait_until_it_copies(&primary, FILES);
    std::thread::sleep(FIRST_DATABASE_IS_READ);
    fs::write(&go, "").expect("written");
    let output = index.wait_with_output().expect("ended");
    assert!(output.status.success(), "{}", said(&output));
    let output = backup.wait_with_output().expect("ended");
    assert!(output.status.success(), "{}", said(&output));
    primary.sql("CREATE TABLE later AS SELECT 1 AS i");
    primary.archive_everything();
    primary.stop();

    let restored = Server::on(&site, "restored");
    let mut restore = restored.walzip(&["restore", "-D"]);
    succeed(restore.arg(restored.data()));
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    let count = restored.sql(
        "\\c template1
         INSERT INTO lost VALUES (7);
         SET enable_seqscan = off;
         SELECT count(*) FROM lost WHERE held(i) = 7;",
    );
    assert_eq!(count, "1");
    succeed(&mut restored.walzip(&["verify"]));
}
