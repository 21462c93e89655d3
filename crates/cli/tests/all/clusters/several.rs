//! A server that archives into two repositories, of which one goes away for a while and the other
//! one for good.

use std::fs;
use std::process::Command;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

/// A walzip command with the site's configuration file, on all of its repositories.
fn walzip(server: &Server, site: &Site, arguments: &[&str]) -> Command {
    let mut command = server.walzip(arguments);
    command
        .env_remove("WALZIP_REPO")
        .env("WALZIP_CONFIG", site.path("walzip.toml"));
    command
}

#[test]
fn a_repository_that_was_away_catches_up_and_restores() {
    let Some(site) = Site::new(15) else { return };
    let (one, two) = (site.path("one"), site.path("two"));
    let config = format!(
        "repo = \"{}\"\nrepo2 = \"{}\"\nrepo2-level = 1\n",
        one.display(),
        two.display()
    );
    fs::write(site.path("walzip.toml"), config).expect("written");
    let primary = Server::create(&site, "primary", 1);
    let on_all = |arguments: &[&str]| succeed(&mut walzip(&primary, &site, arguments));
    on_all(&["init"]);
    primary.configure_archiving();
    primary.configure(&format!(
        "archive_command = '{} archive-push --config {} %p'",
        site.program_under_test().display(),
        site.path("walzip.toml").display(),
    ));
    primary.start(&[]);
    primary.sql("CREATE TABLE note (body text)");
    let checked = on_all(&["check"]);
    assert_eq!(checked.matches(" was archived in ").count(), 2, "{checked}");
    let taken = on_all(&["backup"]);
    assert!(taken.contains("in repository 1: "), "{taken}");
    let taken = on_all(&["backup", "--repo", "2"]);
    assert!(taken.contains("in repository 2: "), "{taken}");

    // PostgreSQL keeps what one of them does not have.
    let away = site.path("away");
    fs::rename(&two, &away).expect("renamed");
    primary.sql("INSERT INTO note VALUES ('while it was away')");
    primary.sql("SELECT pg_switch_wal()");
    primary.wait_until("SELECT failed_count > 0 FROM pg_stat_archiver");
    fs::rename(&away, &two).expect("renamed");
    primary.archive_everything();

    // The administrator takes it out of the file; afterwards it catches up.
    let both = fs::read_to_string(site.path("walzip.toml")).expect("read");
    let single = both.lines().next().expect("a line");
    fs::write(site.path("walzip.toml"), single).expect("written");
    primary.sql("INSERT INTO note VALUES ('while it was left out')");
    primary.archive_everything();
    fs::write(site.path("walzip.toml"), both).expect("written");
    let brought = on_all(&["sync", "--repo", "2"]);
    assert!(
        brought.contains("from repository 1: WAL files "),
        "{brought}"
    );
    assert!(!brought.contains("WAL files 0,"), "{brought}");
    primary.sql("INSERT INTO note VALUES ('when it was back')");
    primary.archive_everything();
    on_all(&["verify"]);
    primary.stop();

    fs::rename(&one, &away).expect("renamed");
    let restored = Server::on(&site, "restored");
    let mut restore = walzip(&restored, &site, &["restore", "-D"]);
    let refused = restore.arg(restored.data()).output().expect("walzip runs");
    assert!(
        !refused.status.success() && said(&refused).contains("--repo takes another one: 2"),
        "{}",
        said(&refused)
    );
    let mut restore = walzip(&restored, &site, &["restore", "--repo", "2", "-D"]);
    succeed(restore.arg(restored.data()));
    restored.start(&[]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    let rows = restored.sql("SELECT string_agg(body, '; ') FROM note");
    assert_eq!(
        rows,
        "while it was away; while it was left out; when it was back"
    );
    restored.stop();
}
