//! Commands over TLS: where their settings come from, and what they say when it fails.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::clusters::object_store::{archived_files, assert_no_gaps};
use crate::clusters::receiver::{FIRST, Receiver, switch_segment, wait_until_archived};
use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

/// Over TCP only with TLS: with a password, or with a certificate.
const RULES: &str = "local all,replication all trust\n\
                     hostssl all,replication scram 127.0.0.1/32 scram-sha-256\n\
                     hostssl all,replication tester 127.0.0.1/32 cert\n";

/// The server keeps its segments: a checkpoint of a backup would recycle what `advise` measures.
const SETTINGS: &str =
    "ssl = on\nssl_ca_file = 'ca.crt'\nlog_connections = on\nwal_keep_size = '256MB'";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../archive/tests/data/tls")
        .join(name)
}

/// Copies one of the tests' files to a place of the site's user, for nobody else to read.
fn install(site: &Site, name: &str, to: &Path) {
    fs::copy(data(name), to).expect("copied");
    fs::set_permissions(to, Permissions::from_mode(0o600)).expect("set");
    site.hand_over(to);
}

/// A server that archives by walzip and listens on TCP, where it takes only TLS.
fn server(site: &Site) -> Server<'_> {
    let server = Server::create(site, "primary", 1).at_port(walzip_testing::free_port());
    server.archive_with_walzip();
    server.configure(SETTINGS);
    for (name, to) in [
        ("server.crt", "server.crt"),
        ("server.key", "server.key"),
        ("authority.crt", "ca.crt"),
    ] {
        install(site, name, &server.data().join(to));
    }
    let rules = server.data().join("pg_hba.conf");
    fs::write(&rules, RULES).expect("written");
    start(&server);
    server.sql("CREATE ROLE scram LOGIN SUPERUSER PASSWORD 'it''s secret'");
    server
}

fn start(server: &Server) {
    server.start(&["listen_addresses=127.0.0.1"]);
}

/// A command that connects as `scram` to `localhost`, where the certificate is for.
fn over_tls(server: &Server, arguments: &[&str]) -> Command {
    let mut command = server.walzip(arguments);
    command
        .env("WALZIP_HOST", "localhost")
        .env("WALZIP_USER", "scram")
        .env("PGPASSWORD", "it's secret");
    command
}

/// What a failing command says.
#[track_caller]
fn complaint(command: &mut Command, code: i32) -> String {
    let output = command.output().expect("walzip starts");
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    let told = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(!told.contains("secret"), "{told}");
    told
}

#[track_caller]
fn says(told: &str, parts: &[&str]) {
    for part in parts {
        assert!(told.contains(part), "\"{part}\" is not in:\n{told}");
    }
}

/// How many sessions of a user have begun over TLS.
fn sessions(server: &Server, user: &str) -> usize {
    let log = server.log();
    let authorized = log.lines().filter(|line| {
        line.contains("connection authorized") && line.contains(&format!("user={user} "))
    });
    let encrypted = authorized.filter(|line| line.contains("SSL enabled"));
    encrypted.count()
}

#[test]
fn every_command_is_encrypted_by_libpqs_variables_and_default_files() {
    let Some(site) = Site::new(15) else { return };
    let server = server(&site);
    // Nothing is said: encrypted, since the server can.
    succeed(&mut over_tls(&server, &["check"]));
    let after_check = sessions(&server, "scram");
    assert!(after_check >= 1, "{}", server.log());

    let authority = site.path("authority.crt");
    install(&site, "authority.crt", &authority);
    let full = |arguments: &[&str]| {
        let mut command = over_tls(&server, arguments);
        command
            .env("PGSSLMODE", "verify-full")
            .env("PGSSLROOTCERT", &authority)
            .env("PGCHANNELBINDING", "require");
        command
    };
    succeed(&mut full(&["check"]));
    succeed(&mut full(&["backup"]));
    succeed(full(&["backup", "--type", "incr"]).args(["--copy-method", "server"]));
    let segment = fs::read_dir(server.data().join("pg_wal")).expect("pg_wal");
    let segment = segment
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name.len() == 24))
        // Later names may be of segments that are not written yet.
        .min()
        .expect("a segment");
    succeed(full(&["inspect", "-h", "localhost"]).arg(&segment));
    succeed(full(&["advise", "-h", "localhost", "--pg-wal"]).arg(server.data().join("pg_wal")));
    assert!(sessions(&server, "scram") > after_check + 4);

    // The files of the home directory, and the same by a connection string.
    let home = site.create_directory(".postgresql");
    let mut by_certificate = server.walzip(&["check"]);
    by_certificate
        .env("WALZIP_HOST", "localhost")
        .env("PGSSLMODE", "verify-full");
    let told = complaint(&mut by_certificate, 31);
    says(
        &told,
        &["/.postgresql/root.crt does not exist", "sslrootcert"],
    );
    install(&site, "authority.crt", &home.join("root.crt"));
    let told = complaint(&mut by_certificate, 105);
    says(&told, &["valid client certificate"]);
    install(&site, "client.crt", &home.join("postgresql.crt"));
    install(&site, "client.key", &home.join("postgresql.key"));
    succeed(&mut by_certificate);
    assert!(sessions(&server, "tester") >= 1);
    fs::rename(&home, site.path("elsewhere")).expect("moved");
    let string = format!(
        "host=localhost sslmode=verify-full sslrootcert={0}/root.crt sslcert={0}/postgresql.crt \
         sslkey={0}/postgresql.key",
        site.path("elsewhere").display()
    );
    succeed(&mut server.walzip(&["check", "-d", &string]));
}

#[test]
fn what_is_wrong_with_tls_is_told_with_what_to_do() {
    let Some(site) = Site::new(15) else { return };
    let server = server(&site);
    let other = site.path("other.crt");
    install(&site, "other-authority.crt", &other);
    let authority = site.path("authority.crt");
    install(&site, "authority.crt", &authority);

    let check = |mode: &str, root: &Path| {
        let mut command = over_tls(&server, &["check"]);
        command.env("PGSSLMODE", mode).env("PGSSLROOTCERT", root);
        command
    };
    let told = complaint(&mut check("verify-ca", &other), 56);
    says(
        &told,
        &["UnknownIssuer", "hint: sslrootcert (PGSSLROOTCERT"],
    );
    let wrong_name = &mut check("verify-full", &authority);
    let told = complaint(wrong_name.env("WALZIP_HOST", "127.0.0.1"), 56);
    says(
        &told,
        &["127.0.0.1", "localhost", "hint: Connect by a name"],
    );
    let told = complaint(&mut check("disable", &authority), 105);
    says(&told, &["no encryption", "hint: "]);
    let told = complaint(&mut check("verify-all", &authority), 31);
    says(&told, &["verify-all", "verify-full"]);

    let stranger = |name: &str, mode: u32| {
        let path = site.path(name);
        install(&site, name, &path);
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("set");
        path
    };
    let mut with_certificate = check("require", &authority);
    with_certificate
        .env("PGSSLCERT", stranger("stranger.crt", 0o644))
        .env("PGSSLKEY", stranger("stranger.key", 0o644));
    let told = complaint(&mut with_certificate, 31);
    says(&told, &["stranger.key", "chmod 0600"]);
    stranger("stranger.key", 0o600);
    let told = complaint(&mut with_certificate, 56);
    says(&told, &["alert", "hint: The server's log"]);
    with_certificate.env("PGSSLKEY", stranger("encrypted.key", 0o600));
    let told = complaint(&mut with_certificate, 31);
    says(&told, &["is encrypted"]);

    let told = complaint(
        over_tls(&server, &["check"])
            .env("PGCHANNELBINDING", "require")
            .env("PGSSLMODE", "disable"),
        105,
    );
    says(&told, &["no encryption"]);

    server.stop();
    server.configure("ssl = off");
    let rules = RULES.replace("hostssl", "host").replace(" cert", " trust");
    fs::write(server.data().join("pg_hba.conf"), rules).expect("written");
    start(&server);
    let told = complaint(&mut check("require", &authority), 56);
    says(&told, &["offers no TLS", "sslmode=require", "ssl = on"]);
    succeed(&mut check("prefer", &authority));
    let bound = &mut over_tls(&server, &["check"]);
    let told = complaint(bound.env("PGCHANNELBINDING", "require"), 105);
    says(&told, &["channel_binding=require", "not encrypted"]);
}

#[test]
fn receiving_goes_on_over_tls_when_the_server_comes_back() {
    let Some(site) = Site::new(15) else { return };
    let server = server(&site);
    server.sql("ALTER SYSTEM SET archive_mode = off");
    server.stop();
    start(&server);
    let authority = site.path("authority.crt");
    install(&site, "authority.crt", &authority);
    let string = format!(
        "host=localhost user=scram password='it\\'s secret' sslmode=verify-full \
         sslrootcert={} channel_binding=require",
        authority.display()
    );
    let mut arguments = FIRST.to_vec();
    arguments.extend(["-d", &string]);
    let receiver = Receiver::start_streaming(&site, &server, &arguments);
    let is_encrypted = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_replication USING (pid)
                        WHERE application_name = 'walzip'";
    server.wait_until(is_encrypted);
    server.pgbench(&["-i", "-q", "-s", "1"]);
    wait_until_archived(&site, &switch_segment(&server));
    server.stop();
    start(&server);
    server.wait_until(&format!("SELECT EXISTS ({is_encrypted} AND ssl)"));
    let last = switch_segment(&server);
    wait_until_archived(&site, &last);
    receiver.stop();
    assert_no_gaps(&archived_files(&site));
}
