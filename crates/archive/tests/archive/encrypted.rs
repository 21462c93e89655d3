//! Connections with TLS to a real server: every mode, whose certificates are trusted, our own
//! certificate, and what a session is bound to.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use walzip_archive::replication::{
    Connection, ConnectionSettings, Mode, ServerError, SslMode, TlsFault,
};

use crate::cluster::{Cluster, Site};

/// Who may come in, and how. The last column is the method.
const RULES: &str = "local all,replication all trust\n\
                     host all,replication either 127.0.0.1/32 trust\n\
                     hostssl all,replication encrypted 127.0.0.1/32 trust\n\
                     hostnossl all,replication clear 127.0.0.1/32 trust\n\
                     hostssl all,replication scram 127.0.0.1/32 scram-sha-256\n\
                     hostssl all,replication plain 127.0.0.1/32 password\n\
                     hostssl all,replication tester 127.0.0.1/32 cert\n\
                     hostssl all,replication vouched 127.0.0.1/32 trust clientcert=verify-ca\n";

const ROLES: &str = "SET password_encryption = 'scram-sha-256'; \
                     CREATE ROLE either LOGIN REPLICATION; \
                     CREATE ROLE encrypted LOGIN REPLICATION; \
                     CREATE ROLE clear LOGIN REPLICATION; \
                     CREATE ROLE scram LOGIN REPLICATION PASSWORD 'it''s secret'; \
                     CREATE ROLE plain LOGIN REPLICATION PASSWORD 'it''s secret'; \
                     CREATE ROLE tester LOGIN REPLICATION; \
                     CREATE ROLE vouched LOGIN REPLICATION";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/tls")
        .join(name)
}

struct Server<'s> {
    site: &'s Site,
    cluster: Cluster<'s>,
    port: u16,
    /// Copies of our files, of which the keys are for us alone.
    files: tempfile::TempDir,
}

impl<'s> Server<'s> {
    /// A server that listens on TCP, with a certificate or without TLS.
    async fn start(site: &'s Site, certificate: Option<&str>) -> Server<'s> {
        let data_directory = site.create("primary", "false");
        fs::write(data_directory.join("pg_hba.conf"), RULES).expect("written");
        if let Some(name) = certificate {
            install(site, &data_directory, name);
            let path = data_directory.join("postgresql.conf");
            let conf = fs::read_to_string(&path).expect("postgresql.conf");
            fs::write(path, conf + "ssl = on\nssl_ca_file = 'ca.crt'\n").expect("written");
        }
        let port = walzip_testing::free_port();
        let cluster = site.start_listening(data_directory, "127.0.0.1", port);
        cluster.sql(ROLES).await;
        let server = Server {
            site,
            cluster,
            port,
            files: tempfile::tempdir().expect("a directory"),
        };
        for entry in fs::read_dir(data("")).expect("the certificates") {
            let entry = entry.expect("an entry");
            let copy = server.files.path().join(entry.file_name());
            fs::copy(entry.path(), &copy).expect("copied");
            fs::set_permissions(copy, Permissions::from_mode(0o600)).expect("set");
        }
        server
    }

    fn settings(&self, text: &str) -> ConnectionSettings {
        let files = format!("={}/", self.files.path().display());
        let port = self.port;
        let text = format!("host=localhost port={port} {}", text.replace("=@", &files));
        ConnectionSettings::parse(&text).expect("valid settings")
    }

    async fn open(&self, text: &str) -> Result<Connection, ServerError> {
        Connection::open(&self.settings(text), Mode::Sql).await
    }

    /// Whether a session begins, and is encrypted, over SQL and over replication.
    #[track_caller]
    fn is_encrypted(&self, text: &str) -> impl Future<Output = bool> {
        let caller = std::panic::Location::caller();
        let settings = self.settings(text);
        async move {
            let what = |error: ServerError| -> Connection { panic!("{caller}: {error}") };
            let mut sql = Connection::open(&settings, Mode::Sql)
                .await
                .unwrap_or_else(what);
            let query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
            let answer = sql.query_value(query).await.expect("an answer");
            sql.close().await;
            let mut replication = Connection::open(&settings, Mode::Replication)
                .await
                .unwrap_or_else(what);
            replication.identify_system().await.expect("an answer");
            replication.close().await;
            answer == "t"
        }
    }

    async fn refusal(&self, text: &str) -> ServerError {
        self.open(text).await.err().expect(text)
    }

    async fn fault(&self, text: &str) -> TlsFault {
        match self.refusal(text).await {
            ServerError::Tls { fault, .. } => fault,
            other => panic!("{text}: {other}"),
        }
    }

    /// Gives the server another certificate.
    async fn use_certificate(&self, name: &str) {
        let old = self.certificate().await;
        install(self.site, &self.cluster.data, name);
        self.cluster.sql("SELECT pg_reload_conf()").await;
        // The postmaster reads the files when it gets to it.
        for _ in 0..100 {
            if self.certificate().await != old {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{name} was not taken within 5 seconds");
    }

    /// Makes the server speak TLS 1.2 and nothing newer.
    async fn speak_tls_1_2(&self) {
        let set = "ALTER SYSTEM SET ssl_max_protocol_version = 'TLSv1.2'";
        self.cluster.sql(set).await;
        self.cluster.sql("SELECT pg_reload_conf()").await;
        let query = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        for _ in 0..100 {
            let opened = self.open("user=either sslmode=require").await;
            let mut sql = opened.expect("a session");
            let version = sql.query_value(query).await.expect("an answer");
            sql.close().await;
            if version == "TLSv1.2" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("TLS 1.2 was not spoken within 5 seconds");
    }

    /// What tells the server's certificates apart: who is trusted when it alone is.
    async fn certificate(&self) -> Vec<bool> {
        let mut trusted = Vec::new();
        for name in ["authority", "self-signed", "expired"] {
            let text = format!("user=either sslmode=verify-ca sslrootcert=@{name}.crt");
            trusted.push(match self.open(&text).await {
                Ok(_) => true,
                Err(error) => error.to_string().contains("expired"),
            });
        }
        trusted
    }
}

/// Puts a certificate, its key and the authority of clients into a data directory.
fn install(site: &Site, data_directory: &Path, name: &str) {
    for (from, to) in [
        (format!("{name}.crt"), "server.crt"),
        (format!("{name}.key"), "server.key"),
        ("authority.crt".to_owned(), "ca.crt"),
    ] {
        let path = data_directory.join(to);
        fs::copy(data(&from), &path).expect("copied");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("set");
        site.give(&path);
    }
}

#[tokio::test]
async fn each_mode_is_encrypted_as_much_as_it_asks_for() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(&site, Some("server")).await;
    for (mode, encrypted) in [
        ("disable", false),
        ("allow", false),
        ("prefer", true),
        ("require", true),
        ("verify-ca", true),
        ("verify-full", true),
    ] {
        let text = format!("user=either sslrootcert=@authority.crt sslmode={mode}");
        assert_eq!(server.is_encrypted(&text).await, encrypted, "{mode}");
    }
    // Nothing said is prefer.
    assert!(server.is_encrypted("user=either").await);
    // What the server takes decides where the mode leaves it open.
    for mode in ["allow", "prefer", "require"] {
        let text = format!("user=encrypted sslmode={mode}");
        assert!(server.is_encrypted(&text).await, "{mode}");
    }
    for mode in ["disable", "allow", "prefer"] {
        let text = format!("user=clear sslmode={mode}");
        assert!(!server.is_encrypted(&text).await, "{mode}");
    }
    for text in [
        "user=encrypted sslmode=disable",
        "user=clear sslmode=require",
    ] {
        let refused = server.refusal(text).await;
        assert_eq!(refused.sqlstate(), Some("28000"), "{refused}");
    }
    // A socket is as it was, whatever is said.
    let socket = ConnectionSettings {
        tls: server
            .settings("sslmode=verify-full sslrootcert=/absent")
            .tls,
        ..server.cluster.settings()
    };
    Connection::open(&socket, Mode::Sql)
        .await
        .expect("a socket needs no TLS");
}

#[tokio::test]
async fn a_server_without_tls_is_for_modes_that_do_not_demand_it() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(&site, None).await;
    for mode in ["disable", "allow", "prefer"] {
        let text = format!("user=either sslmode={mode}");
        assert!(!server.is_encrypted(&text).await, "{mode}");
    }
    for mode in ["require", "verify-ca", "verify-full"] {
        let text = format!("user=either sslmode={mode} sslrootcert=@authority.crt");
        let refused = server.refusal(&text).await;
        assert!(
            matches!(refused, ServerError::TlsNotOffered { .. }),
            "{refused}"
        );
    }
    // There is one way only: its refusal is told once.
    for mode in ["allow", "prefer"] {
        let text = format!("user=encrypted sslmode={mode}");
        let refused = server.refusal(&text).await;
        assert!(matches!(refused, ServerError::Sql(_)), "{refused}");
    }
}

#[tokio::test]
async fn a_server_is_trusted_for_its_authority_and_its_name() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(&site, Some("server")).await;
    let ours = "user=either sslrootcert=@authority.crt";
    let others = "user=either sslrootcert=@other-authority.crt";
    for mode in ["require", "verify-ca"] {
        let text = format!("{ours} host=127.0.0.1 sslmode={mode}");
        assert!(server.is_encrypted(&text).await, "{mode}");
        // As with libpq, certificates that are named count for require too.
        let fault = server.fault(&format!("{others} sslmode={mode}")).await;
        assert!(matches!(fault, TlsFault::Certificate(_)), "{fault}");
    }
    let fault = server
        .fault(&format!("{ours} host=127.0.0.1 sslmode=verify-full"))
        .await;
    assert!(matches!(fault, TlsFault::Name(_)), "{fault}");
    let fault = server.fault(&format!("{others} sslmode=verify-full")).await;
    assert!(matches!(fault, TlsFault::Certificate(_)), "{fault}");
    // None of the system's authorities knows it, if there are any.
    server.refusal("user=either sslrootcert=system").await;
    // As libpq does, prefer goes on without encryption.
    assert!(
        !server
            .is_encrypted(&format!("{others} sslmode=prefer"))
            .await
    );
    let refused = server
        .refusal(&format!("{others} user=encrypted sslmode=prefer"))
        .await;
    assert!(
        matches!(refused, ServerError::NeitherWay { .. }),
        "{refused}"
    );
}

#[tokio::test]
async fn certificates_as_people_make_them_are_taken_as_libpq_takes_them() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(&site, Some("common-name")).await;
    let full = |root: &str| format!("user=either sslmode=verify-full sslrootcert=@{root}.crt");
    assert!(server.is_encrypted(&full("authority")).await);
    let elsewhere = format!("{} host=127.0.0.1", full("authority"));
    let fault = server.fault(&elsewhere).await;
    assert!(matches!(fault, TlsFault::Name(_)), "{fault}");

    server.use_certificate("self-signed").await;
    assert!(server.is_encrypted(&full("self-signed")).await);
    let fault = server.fault(&full("authority")).await;
    assert!(matches!(fault, TlsFault::Certificate(_)), "{fault}");

    server.use_certificate("expired").await;
    let fault = server.fault(&full("authority")).await;
    assert!(matches!(fault, TlsFault::Certificate(_)), "{fault}");
    assert!(fault.to_string().contains("expired"), "{fault}");
    // Nor does it vouch for itself.
    let refused = server.refusal(&full("expired")).await;
    assert!(matches!(refused, ServerError::TlsFile { .. }), "{refused}");
    let text = "user=either sslrootcert=@absent.crt";
    let refused = server.refusal(text).await;
    assert!(matches!(refused, ServerError::TlsFile { .. }), "{refused}");
    let others = "user=either sslmode=verify-full sslrootcert=@server.crt";
    let fault = server.fault(others).await;
    assert!(matches!(fault, TlsFault::Certificate(_)), "{fault}");
    assert!(server.is_encrypted("user=either sslmode=require").await);
}

#[tokio::test]
async fn a_certificate_of_the_first_version_is_for_those_who_verify_none() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(&site, Some("version-1")).await;
    for text in ["user=either sslmode=require", "user=either"] {
        assert!(server.is_encrypted(text).await, "{text}");
    }
    let text = "user=either sslmode=verify-ca sslrootcert=@authority.crt";
    let fault = server.fault(text).await;
    assert!(matches!(fault, TlsFault::Certificate(_)), "{fault}");
    let bound = "user=scram password='it\\'s secret' sslmode=require channel_binding=require";
    assert!(server.is_encrypted(bound).await);
    server.speak_tls_1_2().await;
    assert!(server.is_encrypted("user=either sslmode=require").await);
    assert!(server.is_encrypted(bound).await);
    let fault = server.fault(text).await;
    assert!(matches!(fault, TlsFault::Certificate(_)), "{fault}");
}

#[tokio::test]
async fn tls_1_2_is_verified_as_well() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(&site, Some("server")).await;
    server.speak_tls_1_2().await;
    let verified = "user=either sslmode=verify-full sslrootcert=@authority.crt";
    assert!(server.is_encrypted(verified).await);
    let others = "user=either sslmode=verify-full sslrootcert=@other-authority.crt";
    let fault = server.fault(others).await;
    assert!(matches!(fault, TlsFault::Certificate(_)), "{fault}");
    let own = "user=tester sslmode=require sslcert=@client.crt sslkey=@client.key";
    assert!(server.is_encrypted(own).await);
}

#[tokio::test]
async fn our_certificate_says_who_we_are() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(&site, Some("server")).await;
    let own = "sslmode=require sslcert=@client.crt sslkey=@client.key";
    assert!(server.is_encrypted(&format!("user=tester {own}")).await);
    assert!(server.is_encrypted(&format!("user=vouched {own}")).await);
    for user in ["tester", "vouched"] {
        let refused = server
            .refusal(&format!("user={user} sslmode=require"))
            .await;
        assert_eq!(refused.sqlstate(), Some("28000"), "{refused}");
    }
    // It is signed by nobody whom the server trusts.
    let stranger = "user=tester sslmode=require sslcert=@stranger.crt sslkey=@stranger.key";
    for _ in 0..20 {
        let fault = server.fault(stranger).await;
        assert!(matches!(fault, TlsFault::Refused(_)), "{fault}");
    }
    let key = server.files.path().join("client.key");
    fs::set_permissions(key, Permissions::from_mode(0o644)).expect("set");
    let refused = server.refusal(&format!("user=tester {own}")).await;
    assert!(matches!(refused, ServerError::TlsFile { .. }), "{refused}");
}

#[tokio::test]
async fn scram_is_bound_to_the_session_if_it_can_be_and_where_it_has_to_be() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(&site, Some("server")).await;
    let with = |text: &str| format!("password='it\\'s secret' sslmode=require {text}");
    for binding in ["disable", "prefer", "require"] {
        let text = with(&format!("user=scram channel_binding={binding}"));
        assert!(server.is_encrypted(&text).await, "{binding}");
    }
    assert!(server.is_encrypted(&with("user=plain")).await);
    // No password is sent to a server that proves nothing.
    for user in ["plain", "encrypted"] {
        let text = with(&format!("user={user} channel_binding=require"));
        let refused = server.refusal(&text).await;
        assert!(matches!(refused, ServerError::Unbound { .. }), "{refused}");
    }
    let wrong = "user=scram password=wrong sslmode=require";
    for binding in ["disable", "require"] {
        let text = format!("{wrong} channel_binding={binding}");
        let refused = server.refusal(&text).await;
        assert_eq!(refused.sqlstate(), Some("28P01"), "{refused}");
    }
    let socket = ConnectionSettings {
        tls: server.settings("channel_binding=require").tls,
        ..server.cluster.settings()
    };
    let refused = Connection::open(&socket, Mode::Sql).await.err();
    let refused = refused.expect("a socket has nothing to bind to");
    assert!(matches!(refused, ServerError::Unbound { .. }), "{refused}");
}

#[tokio::test]
async fn answers_of_many_megabytes_come_through_tls_as_they_are() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(&site, Some("server")).await;
    let settings = server.settings("user=either sslmode=require");
    assert_eq!(settings.tls.mode, Some(SslMode::Require));
    let mut sql = Connection::open(&settings, Mode::Sql).await.expect("open");
    let query = "SELECT string_agg(md5(i::text), '' ORDER BY i) FROM generate_series(1, 500000) i";
    let hash = format!("SELECT md5(answer) FROM ({query}) AS it (answer)");
    let expected = server.cluster.sql(&hash).await;
    let answer = sql.query_value(query).await.expect("an answer");
    assert_eq!(answer.len(), 16_000_000);
    let again = sql.query_value(&format!("SELECT md5('{answer}')")).await;
    assert_eq!(again.expect("an answer"), expected);
}
