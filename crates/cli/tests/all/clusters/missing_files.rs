//! Clusters that lack files which their server lists: a volume that is not mounted, a directory that
//! somebody has removed. No backup is made that would lack them too.

use std::fs;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

/// `file-invalid`.
const FILE_INVALID: i32 = 28;

/// Every way in which a backup is made.
const WAYS: [[&str; 4]; 4] = [
    ["--type", "full", "--copy-method", "files"],
    ["--type", "full", "--copy-method", "server"],
    ["--type", "incr", "--copy-method", "files"],
    ["--type", "diff", "--copy-method", "server"],
];

#[test]
fn a_tablespace_that_is_not_mounted_makes_no_backup_of_13() {
    a_tablespace_that_is_not_mounted_makes_no_backup(13);
}

#[test]
fn a_tablespace_that_is_not_mounted_makes_no_backup_of_18() {
    a_tablespace_that_is_not_mounted_makes_no_backup(18);
}

fn a_tablespace_that_is_not_mounted_makes_no_backup(major: u32) {
    let Some(site) = Site::new(major) else { return };
    let primary = Server::backed_up(&site);
    let place = site.create_directory("volume");
    primary.sql(&format!(
        "CREATE TABLESPACE volume LOCATION '{}';
         CREATE TABLE on_volume TABLESPACE volume AS SELECT generate_series(1, 1000) i;",
        place.display()
    ));
    primary.sql("CREATE DATABASE on_volume TABLESPACE volume");
    succeed(&mut primary.walzip(&["backup"]));
    let oid = primary.sql("SELECT oid FROM pg_tablespace WHERE spcname = 'volume'");

    let aside = site.path("volume.aside");
    fs::rename(&place, &aside).expect("unmounted");
    for is_there in [true, false] {
        if is_there {
            site.create_directory("volume");
        }
        for way in WAYS {
            let told = refused(&primary, way);
            assert!(
                told.contains(&format!("tablespace \"volume\" ({oid})")),
                "{told}"
            );
            assert!(told.contains("Mount the volume"), "{told}");
        }
        if is_there {
            fs::remove_dir(&place).expect("empty");
        }
    }

    fs::rename(&aside, &place).expect("mounted again");
    for way in WAYS {
        succeed(primary.walzip(&["backup"]).args(way));
    }
    // What is dropped is not missed.
    primary.sql("DROP TABLE on_volume");
    primary.sql("DROP DATABASE on_volume");
    primary.sql("DROP TABLESPACE volume");
    succeed(&mut primary.walzip(&["backup"]));
}

#[test]
fn a_database_without_its_directory_makes_no_backup() {
    let Some(site) = Site::new(16) else { return };
    let primary = Server::backed_up(&site);
    let place = site.create_directory("place");
    primary.sql(&format!(
        "CREATE TABLESPACE place LOCATION '{}'",
        place.display()
    ));
    for (name, options) in [("shop", ""), ("wiki", "TABLESPACE place")] {
        primary.sql(&format!("CREATE DATABASE {name} {options}"));
        succeed(&mut primary.walzip(&["backup"]));
        let oid = primary.sql(&format!(
            "SELECT oid FROM pg_database WHERE datname = '{name}'"
        ));
        let directory = match options {
            "" => primary.data().join("base"),
            _ => {
                let of_major = fs::read_dir(&place).expect("a tablespace").next();
                of_major.expect("of this server").expect("an entry").path()
            }
        };
        let (directory, aside) = (directory.join(&oid), site.path("aside"));
        fs::rename(&directory, &aside).expect("moved away");
        for way in WAYS {
            let told = refused(&primary, way);
            assert!(
                told.contains(&format!("database \"{name}\" ({oid})")),
                "{told}"
            );
        }
        // An empty one in its place is none.
        fs::create_dir(&directory).expect("made");
        for way in WAYS {
            refused(&primary, way);
        }
        fs::remove_dir(&directory).expect("empty");
        fs::rename(&aside, &directory).expect("moved back");
        succeed(&mut primary.walzip(&["backup"]));
    }
}

#[track_caller]
fn refused(primary: &Server, way: [&str; 4]) -> String {
    let mut backup = primary.walzip(&["backup"]);
    let output = backup.args(way).output().expect("walzip runs");
    let told = said(&output);
    assert_eq!(output.status.code(), Some(FILE_INVALID), "{way:?}: {told}");
    told
}
