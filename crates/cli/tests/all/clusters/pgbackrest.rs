//! `walzip import` of what a real pgBackRest has archived, and a restore through it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use walzip_testing::not_run;

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

/// The program that `scripts/fetch-pgbackrest` has fetched.
pub fn program() -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fetch-pgbackrest");
    let output = Command::new(script).arg("--path").output().ok();
    let output = output.filter(|output| output.status.success());
    let Some(output) = output else {
        not_run("pgBackRest is not here; run scripts/fetch-pgbackrest");
        return None;
    };
    let path = String::from_utf8(output.stdout).expect("a path");
    Some(PathBuf::from(path.trim_end()))
}

/// pgBackRest with a stanza for a server.
struct PgBackRest<'a> {
    site: &'a Site,
    program: PathBuf,
}

impl<'a> PgBackRest<'a> {
    fn configured(site: &'a Site, program: PathBuf, server: &Server) -> PgBackRest<'a> {
        for directory in ["pgbackrest", "pgbackrest/log", "pgbackrest/lock"] {
            site.create_directory(directory);
        }
        let place = |name: &str| site.path("pgbackrest").join(name).display().to_string();
        let settings = format!(
            "[global]\nrepo1-path={}\nlog-path={}\nlock-path={}\nspool-path={}\n\
             log-level-file=off\nlog-level-console=warn\n\
             [demo]\npg1-path={}\npg1-socket-path={}\npg1-port=5432\npg1-user=tester\n",
            place("repo"),
            place("log"),
            place("lock"),
            place("spool"),
            server.data().display(),
            server.socket().display(),
        );
        fs::write(place("conf"), settings).expect("written");
        PgBackRest { site, program }
    }

    fn command_line(&self) -> String {
        let conf = self.site.path("pgbackrest").join("conf");
        format!(
            "{} --config={} --stanza=demo",
            self.program.display(),
            conf.display()
        )
    }

    fn create_stanza(&self) {
        let mut create = self.site.command("sh");
        let command = format!("{} stanza-create", self.command_line());
        succeed(create.args(["-c", &command]));
    }

    fn archives(&self, server: &Server, compression: &str) {
        let command = format!(
            "{} --compress-type={compression} archive-push %p",
            self.command_line()
        );
        set_archive_command(server, &command);
    }

    fn repository(&self) -> PathBuf {
        self.site.path("pgbackrest").join("repo")
    }
}

fn set_archive_command(server: &Server, command: &str) {
    server.sql(&format!(
        "ALTER SYSTEM SET archive_command = '{command}'; SELECT pg_reload_conf()"
    ));
    server.wait_until(&format!(
        "SELECT setting = '{command}' FROM pg_settings WHERE name = 'archive_command'"
    ));
}

fn archives_with_walzip(server: &Server) {
    server.sql("ALTER SYSTEM RESET archive_command; SELECT pg_reload_conf()");
    server.wait_until(
        "SELECT setting LIKE '%walzip archive-push%' FROM pg_settings WHERE name = 'archive_command'",
    );
}

/// Makes a new timeline: its history and the rest of the old one are archived.
fn promote(site: &Site, server: &Server) {
    server.stop();
    let signal = server.data().join("standby.signal");
    fs::write(&signal, "").expect("written");
    site.hand_over(&signal);
    server.start(&[]);
    server.sql("SELECT pg_promote()");
    server.wait_until("SELECT NOT pg_is_in_recovery()");
}

fn import(server: &Server, directory: &Path, flags: &[&str]) -> String {
    let mut import = server.walzip(&["import"]);
    succeed(import.args(flags).arg(directory))
}

const ROWS: &str = "SELECT string_agg(body, ' ' ORDER BY body) FROM note";

#[test]
fn a_restore_leads_through_what_pgbackrest_archived() {
    let (Some(site), Some(program)) = (Site::new(15), program()) else {
        return;
    };
    let primary = Server::create(&site, "primary", 1);
    primary.archive_with_walzip();
    primary.start(&[]);
    primary.sql("CREATE TABLE note (body text); INSERT INTO note VALUES ('1-walzip')");
    succeed(&mut primary.walzip(&["backup"]));

    let pgbackrest = PgBackRest::configured(&site, program, &primary);
    pgbackrest.create_stanza();
    for compression in ["gz", "lz4", "zst", "bz2", "none"] {
        pgbackrest.archives(&primary, compression);
        primary.sql(&format!("INSERT INTO note VALUES ('2-{compression}')"));
        primary.archive_everything();
    }
    promote(&site, &primary);
    primary.sql("INSERT INTO note VALUES ('3-promoted')");
    primary.archive_everything();

    let archive = pgbackrest.repository();
    let dry = import(&primary, &archive, &["--dry-run"]);
    assert!(dry.contains("would be imported: WAL files "), "{dry}");
    let told = import(&primary, &archive, &[]);
    assert!(!told.contains("imported: WAL files 0 "), "{told}");
    // The server goes over, and what pgBackRest archived meanwhile is taken over after it.
    primary.sql("INSERT INTO note VALUES ('4-meanwhile')");
    primary.archive_everything();
    archives_with_walzip(&primary);
    primary.sql("INSERT INTO note VALUES ('5-walzip')");
    primary.archive_everything();
    let told = import(&primary, &archive, &[]);
    assert!(told.contains("the same content: "), "{told}");
    let told = import(&primary, &archive.join("archive/demo"), &["--trust-names"]);
    assert!(told.contains("imported: WAL files 0 "), "{told}");
    succeed(&mut primary.walzip(&["verify"]));
    succeed(&mut primary.walzip(&["check"]));
    let expected = primary.sql(ROWS);
    primary.stop();

    let restored = Server::on(&site, "restored");
    let output = restored
        .walzip(&["restore", "-D"])
        .arg(restored.data())
        .output()
        .expect("walzip starts");
    assert!(output.status.success(), "{}", said(&output));
    restored.start(&[]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(restored.sql(ROWS), expected);
    assert!(expected.contains("2-bz2 2-gz 2-lz4 2-none 2-zst 3-promoted 4-meanwhile 5-walzip"));
}
