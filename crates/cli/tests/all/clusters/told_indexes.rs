//! Indexes that a backup tells from the rows of their tables: exact, whatever they are on, and found
//! out where the table is damaged.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

/// `repo-damaged`.
const DAMAGED: i32 = 26;
/// `problems`.
const PROBLEMS: i32 = 104;

#[test]
fn indexes_of_13_come_back() {
    indexes_come_back(13);
}

#[test]
fn indexes_of_15_come_back() {
    indexes_come_back(15);
}

#[test]
fn indexes_of_18_come_back() {
    indexes_come_back(18);
}

/// Tables with indexes of many kinds, changed since those were made.
fn primary(site: &Site) -> Server<'_> {
    let primary = Server::create(site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(&["autovacuum=off"]);
    let place = site.create_directory("aside");
    primary.sql(&format!(
        "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
         CREATE TABLESPACE aside LOCATION '{}';
         CREATE TABLE orders (id uuid, customer int, placed timestamptz, status mood, price numeric,
            note text COLLATE \"C\", name text, weight float8, few int, dropped int, late date);
         INSERT INTO orders SELECT md5(i::text)::uuid, (hashint4(i) % 5000), now() + i * '1 s'::interval,
            (ARRAY['sad', 'ok', 'happy'])[1 + i % 3]::mood, (hashint4(i) % 100000) / 7.0,
            CASE WHEN i % 9 > 0 THEN 'note ' || md5((i % 4000)::text) END, 'name ' || (hashint4(i) % 3000),
            hashint4(i + 1) / 3.0, i % 20, 1, CASE WHEN i % 5 > 0 THEN DATE '2020-01-01' + i % 900 END
            FROM generate_series(1, 40000) i;
         ALTER TABLE orders DROP dropped;
         ALTER TABLE orders ADD added int DEFAULT 7;
         CREATE INDEX by_id ON orders (id);
         CREATE INDEX by_customer ON orders (customer, placed DESC);
         CREATE INDEX by_price ON orders (price DESC NULLS LAST) INCLUDE (note);
         CREATE INDEX by_note ON orders (note NULLS FIRST, weight);
         CREATE INDEX by_name ON orders (name);
         CREATE INDEX by_weight ON orders (weight DESC);
         CREATE INDEX by_status ON orders (status, few, price);
         CREATE INDEX by_few ON orders (few);
         CREATE INDEX by_late ON orders (late, customer);
         CREATE INDEX by_added ON orders (added, id);
         CREATE INDEX of_part ON orders (customer) WHERE few < 15;
         CREATE INDEX by_lower ON orders (lower(note));
         CREATE TABLE moved TABLESPACE aside AS SELECT hashint4(i) h, i FROM generate_series(1, 50000) i;
         CREATE INDEX moved_h ON moved (h) TABLESPACE aside;
         UPDATE orders SET weight = weight + 1 WHERE few = 3;
         UPDATE orders SET added = few WHERE few < 4;
         DELETE FROM orders WHERE few = 8;
         VACUUM orders;
         INSERT INTO orders SELECT * FROM orders WHERE few = 9;
         DELETE FROM orders WHERE few = 10;
         CHECKPOINT;",
        place.display()
    ));
    primary
}

/// The lines of the index of the newest backup.
fn lines_of_index(site: &Site) -> Vec<String> {
    let backups = fs::read_dir(site.repository().join("backup")).expect("backups");
    let newest = backups.map(|backup| backup.expect("a label").path()).max();
    let stored = newest.expect("a backup").join("index.zst.0000");
    let text = zstd::decode_all(fs::read(stored).expect("an index").as_slice()).expect("zstd");
    let text = String::from_utf8(text).expect("UTF-8");
    text.lines().map(str::to_owned).collect()
}

/// Their files come in another order than the table's description has them.
#[test]
fn indexes_in_another_tablespace_than_their_table_come_back() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(&["autovacuum=off"]);
    let place = site.create_directory("aside");
    primary.sql(&format!(
        "CREATE TABLESPACE aside LOCATION '{}'",
        place.display()
    ));
    primary.sql(
        "CREATE TABLE apart TABLESPACE aside AS
            SELECT hashint4(i) h, hashint4(i + 7) g FROM generate_series(1, 60000) i;
         CREATE INDEX apart_h ON apart (h);
         CREATE INDEX apart_g ON apart (g);
         REINDEX INDEX apart_h;
         CHECKPOINT;",
    );
    succeed(&mut primary.walzip(&["backup", "--level", "3", "--copy-method", "files"]));
    let lines = lines_of_index(&site);
    assert!(lines.iter().any(|line| line.contains("\"index\":[")));
    succeed(&mut primary.walzip(&["verify"]));
    let map = format!("aside={}", site.path("place").display());
    let mut restore = primary.walzip(&["restore", "--tablespace-mapping", &map, "-D"]);
    succeed(restore.arg(site.path("restored")));
}

fn indexes_come_back(major: u32) {
    let Some(site) = Site::new(major) else { return };
    let primary = primary(&site);
    succeed(&mut primary.walzip(&["backup", "--level", "3", "--copy-method", "files"]));
    let lines = lines_of_index(&site);
    let tables: Vec<&String> = lines
        .iter()
        .filter(|line| line.starts_with("{\"table\""))
        .collect();
    assert_eq!(tables.len(), 2, "{tables:?}");
    let told = lines.iter().filter(|line| line.contains("\"index\":["));
    assert!(told.count() >= 8, "{lines:?}");

    let restored = site.path("restored");
    let map = format!("aside={}", site.path("place").display());
    succeed(
        primary
            .walzip(&["restore", "--tablespace-mapping", &map, "-D"])
            .arg(&restored),
    );
    let files = [
        "orders",
        "by_id",
        "by_customer",
        "by_price",
        "by_note",
        "by_name",
        "by_weight",
    ];
    let files = files
        .into_iter()
        .chain(["by_status", "by_few", "by_late", "by_added", "of_part"]);
    let files = files.chain(["by_lower", "moved", "moved_h"]);
    let paths: Vec<PathBuf> = files
        .map(|name| {
            primary
                .sql(&format!("SELECT pg_relation_filepath('{name}')"))
                .into()
        })
        .collect();
    for path in &paths {
        let original = fs::read(primary.data().join(path)).expect("a file");
        let copy = fs::read(restored.join(path)).expect("a file");
        assert!(original == copy, "{} is another one", path.display());
    }
    one_index_alone(&site, &primary, &paths[2]);
    over_a_damaged_index(&site, &primary, &paths[3]);

    // Blocks that did not change are referred to.
    primary.sql("UPDATE orders SET weight = 0 WHERE few = 5; CHECKPOINT");
    let incremental = || {
        succeed(&mut primary.walzip(&["backup", "--type", "incr", "--level", "3"]));
        let lines = lines_of_index(&site);
        let told = lines.iter().filter(|line| line.contains("\"index\":["));
        told.count()
    };
    assert_eq!(incremental(), 0);
    // A table that was written anew has new indexes, and so has a new one.
    primary.sql(
        "VACUUM FULL orders;
         CREATE TABLE later AS SELECT hashint4(i) h, md5(i::text) t FROM generate_series(1, 40000) i;
         CREATE INDEX ON later (h);
         CREATE INDEX ON moved (i DESC);
         CHECKPOINT",
    );
    let told = incremental();
    assert!(told >= 5, "{told}");
    primary
        .sql("UPDATE orders SET weight = 1 WHERE few = 6; UPDATE later SET h = 1 WHERE h % 90 = 0");
    assert_eq!(incremental(), 0);
    succeed(&mut primary.walzip(&["verify"]));
    let fingerprint = primary.fingerprint();
    primary.archive_everything();
    primary.stop();
    let map = format!("aside={}", site.path("place-2").display());
    let second = site.path("second");
    succeed(
        site.walzip(&["restore", "--tablespace-mapping", &map, "-D"])
            .arg(&second),
    );
    let copy = Server::on(&site, "second");
    copy.start(&["archive_mode=off"]);
    copy.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(copy.fingerprint(), fingerprint);
    copy.check_structures();
}

/// The table's chunks are read for it.
fn one_index_alone(site: &Site, primary: &Server, path: &std::path::Path) {
    let alone = site.path("alone");
    let mut get = site.walzip(&["backup-get"]);
    succeed(get.arg(path).arg(&alone));
    let original = fs::read(primary.data().join(path)).expect("a file");
    assert!(fs::read(alone).expect("a file") == original);
}

fn over_a_damaged_index(site: &Site, primary: &Server, path: &std::path::Path) {
    let restored = site.path("restored");
    let damaged = restored.join(path);
    let file = fs::OpenOptions::new()
        .write(true)
        .open(&damaged)
        .expect("opened");
    file.write_all_at(b"other bytes", 100_000).expect("written");
    let map = format!("aside={}", site.path("place").display());
    succeed(
        site.walzip(&["restore", "--delta", "--tablespace-mapping", &map, "-D"])
            .arg(&restored),
    );
    let original = fs::read(primary.data().join(path)).expect("a file");
    assert!(fs::read(damaged).expect("a file") == original);
}

#[test]
fn a_damaged_table_is_named_with_its_indexes() {
    let Some(site) = Site::new(15) else { return };
    let primary = primary(&site);
    succeed(&mut primary.walzip(&["backup", "--level", "3"]));
    let lines = lines_of_index(&site);
    let table = lines
        .iter()
        .find(|line| line.starts_with("{\"table\""))
        .expect("a table");
    let table: serde_json::Value = serde_json::from_str(table).expect("JSON");
    let first = table["table"]["first_chunk"].as_u64().expect("a number") as usize;
    let chunk: serde_json::Value = serde_json::from_str(&lines[first]).expect("JSON");
    let offset = chunk["chunk"]["offset"].as_u64().expect("a number") + 100;
    let label = site.repository().join("backup");
    let label = fs::read_dir(label)
        .expect("backups")
        .next()
        .expect("a backup");
    let pack = label.expect("a label").path().join("pack.0000");
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(pack)
        .expect("a pack");
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).expect("read");
    file.write_all_at(&[byte[0] ^ 1], offset).expect("written");
    let output = primary.walzip(&["verify"]).output().expect("walzip runs");
    assert_eq!(output.status.code(), Some(PROBLEMS));
    let said = said(&output);
    assert!(
        said.contains(&format!("chunk {first}, which it needs")),
        "{said}"
    );
    let restored = site.path("restored");
    let map = format!("aside={}", site.path("place").display());
    let mut restore = site.walzip(&["restore", "--tablespace-mapping", &map, "-D"]);
    let output = restore.arg(&restored).output().expect("walzip runs");
    assert_eq!(output.status.code(), Some(DAMAGED));
}
