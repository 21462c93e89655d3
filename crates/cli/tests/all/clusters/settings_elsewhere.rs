//! Debian's layout: a cluster's settings lie in /etc, and in no base backup.

use std::fs;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

#[test]
fn a_restore_says_how_to_start_a_cluster_that_keeps_its_settings_elsewhere() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    let elsewhere = site.create_directory("etc");
    for name in ["postgresql.conf", "pg_hba.conf", "pg_ident.conf"] {
        let place = elsewhere.join(name);
        fs::rename(primary.data().join(name), &place).expect("rename");
    }
    let conf = elsewhere.join("postgresql.conf");
    let settings = format!(
        "{}\ndata_directory = '{}'\nhba_file = '{}'\nident_file = '{}'\n",
        fs::read_to_string(&conf).expect("a readable file"),
        primary.data().display(),
        elsewhere.join("pg_hba.conf").display(),
        elsewhere.join("pg_ident.conf").display(),
    );
    fs::write(&conf, settings).expect("a writable file");
    let config_file = format!("config_file={}", conf.display());
    primary.start(&[&config_file]);
    primary.sql("CREATE TABLE t AS SELECT 1 AS a");
    succeed(&mut primary.walzip(&["backup"]));
    primary.sql("INSERT INTO t VALUES (2)");
    primary.archive_everything();
    let expected = primary.fingerprint();
    primary.stop();

    let restored = Server::on(&site, "restored");
    let output = restored
        .walzip(&["restore", "-D"])
        .arg(restored.data())
        .output();
    let told = said(&output.expect("walzip starts"));
    let place = restored.data();
    let data_directory = format!("data_directory={}", place.display());
    assert!(told.contains("has no postgresql.conf"), "{told}");
    assert!(told.contains(&format!("-c {data_directory} ")), "{told}");
    restored.start(&[&data_directory, &config_file, "archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(restored.fingerprint(), expected);
}
