//! A server that archives into two repositories, of which one goes away for a while and the other
//! one for good.

use std::fs;
use std::process::Command;

use crate::clusters::object_store::archived_files;
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

/// A copy has taken the number of production's next timeline in the second repository only.
#[test]
fn sync_brings_productions_timeline_where_a_copys_of_its_number_was_set_aside() {
    let Some(site) = Site::new(15) else { return };
    let repositories = ["one", "two"].map(|name| site.path(name).display().to_string());
    let config = format!(
        "repo = {:?}\nrepo2 = {:?}\n",
        repositories[0], repositories[1]
    );
    fs::write(site.path("walzip.toml"), config).expect("written");
    let push = |to: &str| {
        let program = site.program_under_test().display().to_string();
        format!("archive_command={program} archive-push {to} %p")
    };
    let primary = Server::create(&site, "primary", 1);
    succeed(&mut walzip(&primary, &site, &["init"]));
    primary.configure_archiving();
    let file = site.path("walzip.toml").display().to_string();
    let into_both = push(&format!("--config {file}"));
    primary.start(&[&into_both]);
    primary.sql("CREATE TABLE note (body text); INSERT INTO note VALUES ('1-common')");
    for repository in ["1", "2"] {
        succeed(&mut walzip(
            &primary,
            &site,
            &["backup", "--repo", repository],
        ));
    }
    primary.archive_everything();
    // Each archives into one repository; the first one's failed in the other.
    let promoted = |name: &'static str, number: usize| {
        let server = Server::on(&site, name);
        let from = (number + 1).to_string();
        let restore = [
            "restore",
            "--repo",
            &from,
            "--archive-mode",
            "preserve",
            "-D",
        ];
        succeed(walzip(&server, &site, &restore).arg(server.data()));
        server.start(&[&push(&format!("--repo {}", repositories[number]))]);
        server.wait_until("SELECT NOT pg_is_in_recovery()");
        server.sql(&format!("INSERT INTO note VALUES ('3-{name}')"));
        server.archive_everything();
        server.stop();
    };
    promoted("copy", 1);
    primary.sql("INSERT INTO note VALUES ('2-common')");
    primary.archive_everything();
    primary.stop();
    promoted("production", 0);
    let set_aside = ["timeline", "set-aside", "2", "--repo", "2", "--confirm"];
    succeed(&mut walzip(&primary, &site, &set_aside));
    let told = succeed(&mut walzip(&primary, &site, &["sync", "--repo", "2"]));
    assert!(!told.contains("not brought"), "{told}");

    let restored = Server::on(&site, "restored");
    let restore = ["restore", "--repo", "2", "-D"];
    succeed(walzip(&restored, &site, &restore).arg(restored.data()));
    restored.start(&[]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    let rows = restored.sql("SELECT string_agg(body, ' ' ORDER BY body) FROM note");
    assert_eq!(rows, "1-common 2-common 3-production");
}

/// The original's configuration is on the machine, and names other repositories, and other keys: the
/// restored cluster asks the repository that it was restored from, as it was reached then.
#[test]
fn a_restored_cluster_asks_no_repository_of_the_machines_configuration() {
    let Some(site) = Site::new(15) else { return };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(&[]);
    primary.sql("CREATE TABLE note AS SELECT 'in its own repository' AS body");
    primary.archive_everything();
    succeed(&mut primary.walzip(&["backup"]));
    primary.stop();
    let other = site.path("other").display().to_string();
    succeed(&mut primary.walzip(&["init", "--repo", &other]));
    // A segment that only the other one has.
    let segment = fs::read_dir(primary.data().join("pg_wal")).expect("read");
    let mut names: Vec<String> = segment
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .filter(|name| name.len() == 24 && archived_segment(&site, name).is_none())
        .collect();
    names.sort();
    let later = names
        .first()
        .expect("a segment that is not archived")
        .clone();
    let path = primary
        .data()
        .join("pg_wal")
        .join(&later)
        .display()
        .to_string();
    succeed(&mut primary.walzip(&["archive-push", "--repo", &other, &path]));

    let restored = Server::on(&site, "restored");
    succeed(restored.walzip(&["restore", "-D"]).arg(restored.data()));
    let settings = fs::read_to_string(restored.data().join("postgresql.auto.conf"));
    let settings = settings.expect("settings");
    let line = settings
        .lines()
        .rfind(|line| line.starts_with("restore_command"));
    let (_, command) = line.expect("a command").split_once('=').expect("a setting");
    let command = command.trim().trim_matches('\'').replace("''", "'");
    let key = site.path("stranger.key").display().to_string();
    succeed(&mut site.walzip(&["key", "init", &key]));
    let own = site.repository().display().to_string();
    let configurations = [
        format!("repo = \"{other}\"\n"),
        format!("repo = \"{other}\"\nrepo2 = \"{own}\"\nrepo2-key-file = \"{key}\"\n"),
        format!("repo-key-file = \"{key}\"\nrepo = \"{own}\"\n"),
        "not a configuration".to_owned(),
    ];
    let archived = archived_segment(&site, "").expect("something archived");
    for configuration in configurations {
        fs::write(site.path("walzip.toml"), &configuration).expect("written");
        for (name, code) in [(archived.as_str(), 0), (later.as_str(), 1)] {
            let got = site.path("got");
            let mut get = site.command("/bin/sh");
            let text = command
                .replace("%f", name)
                .replace("%p", &got.display().to_string());
            get.args(["-c", &text])
                .env("WALZIP_CONFIG", site.path("walzip.toml"))
                .env("WALZIP_REPO", &other);
            let output = get.output().expect("a shell");
            let told = said(&output);
            assert_eq!(
                output.status.code(),
                Some(code),
                "{name}, {configuration}: {told}"
            );
            assert_eq!(got.exists(), code == 0, "{name}, {configuration}: {told}");
            let _ = fs::remove_file(got);
        }
    }
    restored.start(&[]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(
        restored.sql("SELECT body FROM note"),
        "in its own repository"
    );
    restored.stop();
}

/// A segment of the site's repository whose name ends so.
fn archived_segment(site: &Site, end: &str) -> Option<String> {
    let files = archived_files(site).into_iter();
    let mut names = files.map(|(name, _)| name).filter(|name| name.len() == 24);
    names.find(|name| name.ends_with(end))
}
