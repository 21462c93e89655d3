//! `restore --database`: the rows of one database, and nothing but names of the others.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};
use crate::clusters::tree::assert_same;

#[test]
fn one_database_of_13_is_restored_without_the_others() {
    restores_one_database(13);
}

#[test]
fn one_database_of_15_is_restored_without_the_others() {
    restores_one_database(15);
}

#[test]
fn one_database_of_18_is_restored_without_the_others() {
    restores_one_database(18);
}

/// SQL in a database.
#[track_caller]
fn in_database(server: &Server, database: &str, sql: &str) -> String {
    let answer = server.sql(&format!("\\connect {database}\n{sql}"));
    answer.lines().last().unwrap_or_default().to_owned()
}

const ROWS: &str = "SELECT count(*) || ' ' || sum(hashtextextended(t::text, 0)::numeric) FROM t";

fn restores_one_database(major: u32) {
    let Some(site) = Site::new(major) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    // A vacuum then marks pages in the WAL without an image of them.
    primary.configure("wal_log_hints = off\nautovacuum = off");
    primary.start(&[]);
    site.create_directory("fast");
    primary.sql(&format!(
        "CREATE TABLESPACE fast LOCATION '{}'",
        site.path("fast").display()
    ));
    primary.sql("CREATE DATABASE wanted");
    primary.sql("CREATE DATABASE \"un\"\"wanted\"");
    for database in ["wanted", "un\"wanted"] {
        let name = format!("\"{}\"", database.replace('"', "\"\""));
        in_database(
            &primary,
            &name,
            "CREATE TABLE t AS SELECT i, md5(i::text) FROM generate_series(1, 50000) i;
             CREATE TABLE frozen AS SELECT i, md5(i::text) FROM generate_series(1, 50000) i;
             CREATE TABLE u TABLESPACE fast AS SELECT i FROM generate_series(1, 50000) i;
             CREATE INDEX ON t (i);",
        );
    }
    succeed(&mut primary.walzip(&["backup"]));
    for database in ["wanted", "\"un\"\"wanted\""] {
        in_database(
            &primary,
            database,
            "UPDATE t SET md5 = 'x' WHERE i % 10 = 0; VACUUM frozen; VACUUM t;
             INSERT INTO u SELECT generate_series(1, 1000);",
        );
    }
    let rows = in_database(&primary, "wanted", ROWS);
    let oid = |name: &str| {
        primary.sql(&format!(
            "SELECT oid FROM pg_database WHERE datname = '{name}'"
        ))
    };
    let (wanted, unwanted) = (oid("wanted"), oid("un\"wanted"));
    primary.archive_everything();
    primary.stop();

    shows_what_is_in_the_backup(&site, [&wanted, &unwanted]);
    refuses_what_is_not_there(&site);
    let mut command = site.walzip(&["restore", "-D"]);
    command.arg(site.path("restored")).arg("-T");
    command.arg(format!("fast={}", site.path("restored.fast").display()));
    let told = succeed(command.args(["--database", "wanted"]));
    println!("{told}");
    let closed =
        format!("\n  UPDATE pg_database SET datallowconn = false WHERE oid IN ({unwanted});\n");
    assert!(told.contains(&closed), "{told}");
    let names = "SELECT format('DROP DATABASE %I', datname) FROM pg_database WHERE oid IN";
    assert!(
        told.contains(&format!("{names} ({unwanted}) \\gexec")),
        "{told}"
    );
    assert!(told.contains("\"un\"wanted\", by their names"), "{told}");
    for (oid, is_empty) in [(&wanted, false), (&unwanted, true)] {
        let files = relation_files(&site, oid);
        assert!(files.len() > 100, "{files:?}");
        for path in files {
            let metadata = fs::metadata(&path).expect("there");
            if metadata.len() > 0 {
                assert_eq!(metadata.blocks() == 0, is_empty, "{}", path.display());
            }
        }
    }
    let restored = Server::on(&site, "restored");
    let mark_of = |oid: &str| restored.data().join(format!("base/{oid}/walzip_left_out"));
    assert!(mark_of(&unwanted).exists() && !mark_of(&wanted).exists());
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(in_database(&restored, "wanted", ROWS), rows);
    assert_eq!(
        in_database(&restored, "wanted", "SELECT count(*) FROM u"),
        "51000"
    );
    assert_eq!(
        in_database(&restored, "wanted", "SELECT count(*) FROM frozen"),
        "50000"
    );
    let drop = restored.sql(&format!("{names} ({unwanted})"));
    assert_eq!(drop, "DROP DATABASE \"un\"\"wanted\"");
    restored.sql(&drop);
    assert!(!mark_of(&unwanted).exists(), "no backup would be made");
    restored.sql("ALTER SYSTEM RESET ignore_invalid_pages");
    restored.sql("CHECKPOINT");
    restored.stop();
    let log = restored.log();
    assert!(!log.contains("PANIC"), "{log}");
    let warnings = log.lines().filter(|line| line.contains("is uninitialized"));
    let warnings: Vec<&str> = warnings.collect();
    // Without checksums, which initdb leaves out up to 17, a vacuum writes no images.
    assert_eq!(warnings.is_empty(), major >= 18, "{log}");
    for warning in warnings {
        assert!(warning.contains(&format!("/{unwanted}/")), "{warning}");
    }
    restored.start(&["archive_mode=off"]);
    assert_eq!(in_database(&restored, "wanted", ROWS), rows);
    restored.stop();
    restores_over_what_was_restored(&site);
}

/// The same once more, and then all databases, over the cluster that went on.
fn restores_over_what_was_restored(site: &Site) {
    for flags in [&["--database", "wanted"][..], &[]] {
        let restore = |name: &str, more: &[&str]| {
            let mut command = site.walzip(&["restore", "-D"]);
            let map = format!("fast={}.fast", site.path(name).display());
            command.arg(site.path(name)).arg("-T").arg(map);
            succeed(command.args(flags).args(more))
        };
        let plain = format!("plain{}", flags.len());
        restore(&plain, &[]);
        restore("restored", &["--delta", "--force"]);
        assert_same(&site.path("restored"), &site.path(&plain));
        assert_same(
            &site.path("restored.fast"),
            &site.path(&format!("{plain}.fast")),
        );
    }
}

/// Chunks that have nothing of the databases that are asked for are not even read.
#[test]
fn damage_to_a_database_that_is_left_out_is_not_met() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(&[]);
    primary.sql("CREATE DATABASE wanted");
    primary.sql("CREATE DATABASE large");
    in_database(
        &primary,
        "large",
        "CREATE TABLE t AS SELECT sha256(i::text::bytea) FROM generate_series(1, 300000) i",
    );
    let unwanted = primary.sql("SELECT oid FROM pg_database WHERE datname = 'large'");
    succeed(&mut primary.walzip(&["backup"]));
    primary.archive_everything();
    primary.stop();

    let backups = fs::read_dir(site.repository().join("backup")).expect("readable");
    let backup = backups.map(|entry| entry.expect("an entry").path()).next();
    let pack = backup.expect("a backup").join("pack.0000");
    let mut content = fs::read(&pack).expect("readable");
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(&pack, content).expect("written");
    let restore = |name: &str, flags: &[&str]| {
        let mut command = site.walzip(&["restore", "-D"]);
        command
            .arg(site.path(name))
            .args(flags)
            .output()
            .expect("runs")
    };
    let whole = restore("whole", &[]);
    assert_eq!(whole.status.code(), Some(26), "{}", said(&whole));
    assert!(
        said(&whole).contains(&format!("base/{unwanted}/")),
        "{}",
        said(&whole)
    );
    let one = restore("one", &["--database", "wanted"]);
    assert!(one.status.success(), "{}", said(&one));
}

/// In a cluster of `SQL_ASCII`, names are bytes.
#[test]
fn a_database_whose_name_is_not_text_is_restored_by_its_oid() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create_of_bytes(&site, "primary");
    primary.archive_with_walzip();
    primary.start(&[]);
    let name = "'caf' || chr(233)";
    primary.sql(&format!(
        "SELECT format('CREATE DATABASE %I', {name}) \\gexec"
    ));
    primary.sql("CREATE DATABASE other");
    let oid = primary.sql(&format!(
        "SELECT oid FROM pg_database WHERE datname = {name}"
    ));
    succeed(&mut primary.walzip(&["backup"]));
    primary.archive_everything();
    primary.stop();
    let mut restore = site.walzip(&["restore", "--database", &oid, "-D"]);
    let told = succeed(restore.arg(site.path("restored")));
    assert!(
        told.contains("They are \"other\", by their names"),
        "{told}"
    );
}

/// Before a restore of one database its name is looked for.
fn shows_what_is_in_the_backup(site: &Site, [wanted, unwanted]: [&str; 2]) {
    let told = succeed(&mut site.walzip(&["info", "--json"]));
    let info: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let backup = &info["backups"][0];
    let databases = backup["databases"].as_array().expect("a list");
    assert!(
        databases
            .iter()
            .any(|database| database["name"] == "wanted")
    );
    let label = backup["label"].as_str().expect("a label");
    let shown = succeed(&mut site.walzip(&["info", "--backup", label]));
    let fast = site.path("fast").display().to_string();
    for row in [
        ["wanted", wanted],
        ["un\\\"wanted", unwanted],
        ["fast", &fast],
        ["backup", label],
    ] {
        let is_row = |line: &str| row.iter().all(|cell| line.contains(cell));
        assert!(shown.lines().any(is_row), "{row:?}: {shown}");
    }
    let other = site
        .walzip(&["info", "--backup", "20200101-000000F"])
        .output();
    let other = other.expect("walzip runs");
    assert_eq!(other.status.code(), Some(75), "{}", said(&other));
}

fn refuses_what_is_not_there(site: &Site) {
    let mut command = site.walzip(&["restore", "--database", "wnted", "-D"]);
    let output = command.arg(site.path("restored")).output().expect("runs");
    assert_eq!(output.status.code(), Some(31), "{}", said(&output));
    let refusal = said(&output);
    assert!(
        refusal.contains("has no database wnted. It has "),
        "{refusal}"
    );
    assert!(
        refusal.contains("un\\\"wanted") && !site.path("restored").exists(),
        "{refusal}"
    );
}

/// The files of a database's relations in the restored cluster and its tablespace.
fn relation_files(site: &Site, oid: &str) -> Vec<PathBuf> {
    let version = fs::read_dir(site.path("restored.fast"))
        .expect("readable")
        .next();
    let version = version.expect("a version").expect("an entry").path();
    let directories = [site.path("restored/base").join(oid), version.join(oid)];
    let entries = directories
        .iter()
        .flat_map(|path| fs::read_dir(path).expect("readable"));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_relation = |path: &PathBuf| {
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        name.starts_with(|first: char| first.is_ascii_digit())
    };
    paths.filter(is_relation).collect()
}
