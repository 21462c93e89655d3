//! Backups of clusters that do not keep still: while the files are copied, tablespaces and
//! databases come and go, and relations are built, truncated, rewritten, and grow and shrink.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::clusters::server::{Fingerprint, Server};
use crate::clusters::site::{Site, said, succeed};

/// Places in which the load makes tablespaces.
const PLACES: u64 = 3;

/// Slow enough for the load to do everything meanwhile.
const RATE: &str = "6M";

/// How often the load and the backup are repeated, each time with another seed.
fn rounds() -> u64 {
    match std::env::var("WALZIP_MOVING_BACKUPS") {
        Ok(rounds) => rounds.parse().expect("a number of rounds"),
        Err(_) => 1,
    }
}

#[test]
fn a_backup_of_13_survives_what_happens_meanwhile() {
    survives_what_happens_meanwhile(13, ["full", "files"]);
}

#[test]
fn a_backup_of_15_survives_what_happens_meanwhile() {
    survives_what_happens_meanwhile(15, ["full", "server"]);
}

#[test]
fn a_backup_of_18_survives_what_happens_meanwhile() {
    survives_what_happens_meanwhile(18, ["full", "files"]);
}

#[test]
fn an_incremental_backup_of_13_survives_what_happens_meanwhile() {
    survives_what_happens_meanwhile(13, ["incr", "server"]);
}

#[test]
fn an_incremental_backup_of_18_survives_what_happens_meanwhile() {
    survives_what_happens_meanwhile(18, ["incr", "files"]);
}

fn survives_what_happens_meanwhile(major: u32, way: [&str; 2]) {
    let Some(site) = Site::new(major) else { return };
    let primary = primary(&site);
    if way[0] != "full" {
        succeed(&mut primary.walzip(&["backup"]));
    }
    for seed in 1..=rounds() {
        println!("PostgreSQL {major}, seed {seed}");
        back_up_and_restore(&site, &primary, seed, way);
    }
    succeed(&mut site.walzip(&["verify"]));
}

fn primary(site: &Site) -> Server<'_> {
    let primary = Server::create(site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(&[]);
    for place in 0..PLACES {
        site.create_directory(&format!("place{place}"));
    }
    site.create_directory("fixed");
    primary.pgbench(&["-i", "-q", "-s", "2"]);
    primary.sql(&format!(
        "CREATE TABLESPACE fixed LOCATION '{}';
         CREATE TABLE in_fixed TABLESPACE fixed AS SELECT i, md5(i::text) FROM generate_series(1, 5000) i;
         CREATE TABLE growing AS SELECT i, md5(i::text) AS b FROM generate_series(1, 20000) i;
         CREATE TABLE refilled AS SELECT i FROM generate_series(1, 5000) i;
         CREATE TABLE rewritten AS SELECT i, md5(i::text) AS b FROM generate_series(1, 10000) i;
         CREATE DATABASE source;
         \\c source
         CREATE TABLE copied AS SELECT i, md5(i::text) FROM generate_series(1, 3000) i;
         VACUUM (FREEZE, ANALYZE);",
        site.path("fixed").display()
    ));
    primary
}

fn back_up_and_restore(site: &Site, primary: &Server, seed: u64, way: [&str; 2]) {
    let place = site.create_directory("meanwhile");
    back_up_under_load(site, primary, seed, way, &place);
    let description = description_of_newest_backup(site);
    assert_eq!(description["type"], way[0]);
    let known = &description["new_tablespaces"];
    let is_known = |tablespace: &serde_json::Value| {
        tablespace["name"] == "meanwhile"
            && tablespace["location"] == place.to_str().expect("UTF-8")
    };
    let known = known.as_array().expect("tablespaces that came meanwhile");
    assert!(known.iter().any(is_known), "{description:#}");

    primary.sql("INSERT INTO in_meanwhile SELECT generate_series(1, 500)");
    primary.archive_everything();
    let expected = contents(primary);
    primary.stop();
    let set_aside = set_tablespaces_aside(site);

    let restored = Server::on(site, "restored");
    let told = succeed(restored.walzip(&["restore", "-D"]).arg(restored.data()));
    assert!(told.contains("tablespace meanwhile ("), "{told}");
    assert!(told.contains("by the replay"), "{told}");
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(contents(&restored), expected, "seed {seed}");
    restored.check_structures();
    restored.stop();

    fs::remove_dir_all(restored.data()).expect("remove the restored cluster");
    for (place, aside) in set_aside {
        fs::remove_dir_all(&place).expect("remove what was restored");
        fs::rename(aside, place).expect("put back");
    }
    primary.start(&[]);
    primary.sql("DROP TABLE in_meanwhile; DROP TABLESPACE meanwhile;");
    fs::remove_dir(&place).expect("an empty directory");
}

/// A backup while a load runs, and a tablespace that certainly was created during the copy.
fn back_up_under_load(site: &Site, primary: &Server, seed: u64, way: [&str; 2], place: &Path) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut load = Load {
                site,
                primary,
                random: Random::of(seed),
                done: 0,
            };
            while !is_over.load(Ordering::Relaxed) {
                load.step();
            }
            load.done
        });
        let backup = start_backup(primary, way);
        primary.wait_until(match way[1] {
            "files" => {
                "SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'walzip'
                 AND state = 'idle' AND query ~ 'pg_tablespace_location'"
            }
            _ => {
                "SELECT count(*) = 1 FROM pg_stat_progress_basebackup
                 WHERE phase = 'streaming database files'"
            }
        });
        primary.sql(&format!(
            "CREATE TABLESPACE meanwhile LOCATION '{}';
             CREATE TABLE in_meanwhile TABLESPACE meanwhile AS SELECT generate_series(1, 2000) i;",
            place.display()
        ));
        let output = backup.wait_with_output().expect("the backup ends");
        is_over.store(true, Ordering::Relaxed);
        let steps = load.join().expect("the load ends");
        assert!(output.status.success(), "seed {seed}: {}", said(&output));
        assert!(steps > 0, "the load did nothing");
    });
}

fn start_backup(primary: &Server, way: [&str; 2]) -> Child {
    let [kind, method] = way;
    let arguments = [
        "backup",
        "--type",
        kind,
        "--max-rate",
        RATE,
        "--copy-method",
        method,
    ];
    let mut backup = primary.walzip(&arguments);
    backup.stdout(Stdio::piped()).stderr(Stdio::piped());
    backup.spawn().expect("walzip starts")
}

fn description_of_newest_backup(site: &Site) -> serde_json::Value {
    let labels = fs::read_dir(site.repository().join("backup")).expect("backups");
    let mut labels: Vec<PathBuf> = labels.map(|label| label.expect("a label").path()).collect();
    labels.sort();
    let description = labels.last().expect("a backup").join("backup.json");
    let description = fs::read(description).expect("the description of a finished backup");
    serde_json::from_slice(&description).expect("JSON")
}

/// Everything that can be compared: the tables of two kinds of databases, and where they are.
fn contents(server: &Server) -> (Fingerprint, String, Vec<String>) {
    let places = server.sql(
        "SELECT spcname, pg_tablespace_location(oid) FROM pg_tablespace ORDER BY 1;
         SELECT relname, coalesce(spcname, '') FROM pg_class c LEFT JOIN pg_tablespace s
             ON s.oid = c.reltablespace WHERE relnamespace = 'public'::regnamespace ORDER BY 1;",
    );
    let databases = server.sql(
        "SELECT datname FROM pg_database WHERE datname LIKE 'copy%' OR datname = 'source' ORDER BY 1",
    );
    let copies = databases.lines().map(|database| {
        let rows = server.sql(&format!(
            "\\c {database}\nSELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM copied t"
        ));
        format!("{database}: {rows}")
    });
    (server.fingerprint(), places, copies.collect())
}

/// As on another machine: the directories of the load's tablespaces are there and empty, those of
/// the others are not there. Returns what was where, for the way back.
fn set_tablespaces_aside(site: &Site) -> Vec<(PathBuf, PathBuf)> {
    let mut names: Vec<String> = (0..PLACES).map(|place| format!("place{place}")).collect();
    names.extend(["fixed".to_owned(), "meanwhile".to_owned()]);
    let moved = names.iter().map(|name| {
        let aside = site.path(&format!("{name}.aside"));
        fs::rename(site.path(name), &aside).expect("set aside");
        if name.starts_with("place") {
            site.create_directory(name);
        }
        (site.path(name), aside)
    });
    moved.collect()
}

/// What users and administrators do all day, in an order that the seed decides.
struct Load<'a> {
    site: &'a Site,
    primary: &'a Server<'a>,
    random: Random,
    done: u32,
}

impl Load<'_> {
    fn step(&mut self) {
        let k = self.random.below(PLACES);
        let other = self.random.below(PLACES);
        let name = self.random.below(1_000_000_000);
        let rows = 100 + self.random.below(4000);
        let place = self.site.path(&format!("place{k}"));
        let strategy = match self.random.below(2) {
            _ if self.site.major < 15 => "",
            0 => "STRATEGY wal_log",
            _ => "STRATEGY file_copy",
        };
        let sql = match self.random.below(10) {
            0..=2 => format!(
                "DROP DATABASE IF EXISTS copy{k};
                 DROP TABLE IF EXISTS in_place{k};
                 DROP TABLESPACE IF EXISTS place{k};
                 CREATE TABLESPACE place{k} LOCATION '{}';
                 CREATE TABLE in_place{k} TABLESPACE place{k} AS SELECT generate_series(1, {rows}) i;
                 CREATE DATABASE copy{k} TEMPLATE source TABLESPACE place{k} {strategy};",
                place.display()
            ),
            3 => format!("DROP DATABASE IF EXISTS copy{k}; CREATE DATABASE copy{k} TEMPLATE source {strategy};"),
            4 => format!("ALTER TABLE in_place{k} SET TABLESPACE place{other};"),
            5 => format!(
                "TRUNCATE refilled; INSERT INTO refilled SELECT generate_series(1, {rows});
                 DROP INDEX IF EXISTS refilled_by_i; CREATE INDEX refilled_by_i ON refilled (i); CREATE INDEX CONCURRENTLY x{name} ON growing (b); DROP INDEX x{name};"
            ),
            6 => "VACUUM FULL rewritten; UPDATE rewritten SET b = md5(b) WHERE i % 3 = 0; VACUUM FULL pg_class;".to_owned(),
            7 => format!("INSERT INTO growing SELECT i, md5(i::text) FROM generate_series(1, {rows}) i;"),
            8 => format!("DELETE FROM growing WHERE ctid >= '({rows},1)'; VACUUM growing; CHECKPOINT;"),
            _ => format!(
                "CREATE UNLOGGED TABLE u{name} AS SELECT generate_series(1, {rows}) i; CREATE INDEX ON u{name} (i);
                 CREATE TEMPORARY TABLE t AS SELECT * FROM u{name}; INSERT INTO t SELECT * FROM t; DROP TABLE u{name};"
            ),
        };
        let mut psql: Command = self.primary.client("psql");
        psql.args(["-X", "-q", "-d", "postgres"]);
        // One command each: some of these cannot be in a transaction. Some fail, as when a
        // tablespace is not empty; that is part of the load.
        let commands = sql
            .split(';')
            .map(str::trim)
            .filter(|command| !command.is_empty());
        for command in commands {
            psql.args(["-c", command]);
        }
        let output = psql.output().expect("psql");
        self.done += u32::from(output.status.success());
    }
}

/// xorshift: the same seed, the same numbers.
struct Random(u64);

impl Random {
    fn of(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
