//! Which ways are tried, what is made of a server's answer, and what is wrong with files.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::net::TcpListener;

use super::super::tls_settings::RootCertificates;
use super::super::{Connection, ConnectionSettings, Mode};
use super::*;

#[test]
fn each_mode_has_its_ways_and_a_socket_is_never_encrypted() {
    let host = Host::Tcp("db.example".to_owned());
    let socket = Host::Unix("/run/postgresql".into());
    for (mode, expected) in [
        (SslMode::Disable, (Way::Plain, None)),
        (SslMode::Allow, (Way::Plain, Some(Way::Tls))),
        (SslMode::Prefer, (Way::TlsIfOffered, Some(Way::Plain))),
        (SslMode::Require, (Way::Tls, None)),
        (SslMode::VerifyCa, (Way::Tls, None)),
        (SslMode::VerifyFull, (Way::Tls, None)),
    ] {
        assert_eq!(ways(&host, mode), expected, "{mode}");
        assert_eq!(ways(&socket, mode), (Way::Plain, None), "{mode}");
    }
}

/// A server that gives the same answer to everybody and keeps silent then.
async fn answering(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        let mut taken = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 8];
            stream.read_exact(&mut request).await.expect("a request");
            stream.write_all(answer).await.expect("an answer");
            taken.push(stream);
        }
    });
    port
}

async fn opened(answer: &'static [u8], rest: &str) -> ServerError {
    let port = answering(answer).await;
    let text = format!("host=127.0.0.1 port={port} user=x connect_timeout=1 {rest}");
    let settings = ConnectionSettings::parse(&text).expect("valid");
    let opened = Connection::open(&settings, Mode::Sql).await;
    opened.err().expect("no session")
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_demanded() {
    for mode in ["require", "verify-ca", "verify-full"] {
        let error = opened(b"N", &format!("sslmode={mode}")).await;
        assert!(
            matches!(error, ServerError::TlsNotOffered { .. }),
            "{error}"
        );
        assert!(error.to_string().contains(mode), "{error}");
        assert!(!error.is_passing());
    }
}

#[tokio::test]
async fn messages_that_somebody_put_behind_the_answer_in_the_clear_are_never_read() {
    // AuthenticationOk and ReadyForQuery: a session, if they counted.
    let error = opened(b"SR\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", "sslmode=require").await;
    let fault = match error {
        ServerError::Tls { fault, .. } => fault,
        other => panic!("{other}"),
    };
    assert!(matches!(fault, TlsFault::Incompatible(_)), "{fault}");
}

#[tokio::test]
async fn a_server_that_offers_tls_and_keeps_silent_is_given_up() {
    let error = opened(b"S", "sslmode=require").await;
    assert!(matches!(error, ServerError::Connect { .. }), "{error}");
    assert!(error.is_passing());
}

#[tokio::test]
async fn an_error_in_place_of_an_answer_is_not_believed_and_passes() {
    let error = opened(b"E\0\0\0\x10Mnonsense\0\0\0\0", "sslmode=prefer").await;
    assert!(error.is_passing(), "{error}");
    assert!(!error.to_string().contains("nonsense"), "{error}");
    let error = opened(b"H", "sslmode=prefer").await;
    assert!(matches!(error, ServerError::Protocol(_)), "{error}");
}

fn data(name: &str) -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tls");
    data.join(name)
}

/// A directory as `~/.postgresql`, with copies of files under the names that they have there.
fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (file, name) in files {
        let path = directory.path().join(name);
        std::fs::copy(data(file), &path).expect("copied");
        let mode = if name.ends_with(".key") { 0o600 } else { 0o644 };
        std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
    }
    directory
}

fn settings(directory: &tempfile::TempDir) -> TlsSettings {
    TlsSettings {
        directory: Some(directory.path().to_owned()),
        ..TlsSettings::default()
    }
}

#[test]
fn the_root_certificates_of_the_home_directory_count_if_they_are_there() {
    let empty = settings(&directory(&[]));
    let none = files::roots(&empty, SslMode::Require).expect("not needed");
    assert!(none.is_none());
    for mode in [SslMode::VerifyCa, SslMode::VerifyFull] {
        let Err(error) = files::roots(&empty, mode) else {
            panic!("needed");
        };
        assert!(
            error.to_string().contains("root.crt does not exist"),
            "{error}"
        );
        let nowhere = files::roots(&TlsSettings::default(), mode).err();
        assert!(nowhere.expect("needed").to_string().contains("sslrootcert"));
    }
    let there = directory(&[("authority.crt", "root.crt")]);
    for mode in [SslMode::Require, SslMode::VerifyCa] {
        let found = files::roots(&settings(&there), mode).expect("read");
        assert_eq!(found.expect("there").certificates.len(), 1);
    }
}

#[test]
fn root_certificates_that_are_named_have_to_be_there_and_to_be_some() {
    let there = directory(&[("server.key", "root.key"), ("make-certificates", "text")]);
    for name in ["absent", "root.key", "text"] {
        let file = there.path().join(name);
        let named = TlsSettings {
            root_certificates: Some(RootCertificates::File(file)),
            ..TlsSettings::default()
        };
        let Err(error) = files::roots(&named, SslMode::Require) else {
            panic!("{name}");
        };
        assert!(matches!(error, ServerError::TlsFile { .. }), "{error}");
    }
}

#[test]
fn a_list_of_revoked_certificates_in_the_home_directory_is_not_passed_over() {
    let there = directory(&[("authority.crt", "root.crt"), ("authority.crt", "root.crl")]);
    let error = files::roots(&settings(&there), SslMode::Require).err();
    assert!(error.expect("refused").to_string().contains("root.crl"));
}

fn own(settings: &TlsSettings) -> Result<bool, ServerError> {
    let provider = rustls::crypto::ring::default_provider();
    let own = files::client_certificate(settings, &provider)?;
    Ok(own.is_some())
}

#[test]
fn our_certificate_is_taken_with_its_key_and_not_missed() {
    assert!(!own(&TlsSettings::default()).expect("no certificate"));
    assert!(!own(&settings(&directory(&[]))).expect("no certificate"));
    for key in ["client.key", "client-old.key"] {
        let there = directory(&[("client.crt", "postgresql.crt"), (key, "postgresql.key")]);
        assert!(own(&settings(&there)).expect(key), "{key}");
    }
    let there = directory(&[("client.crt", "c"), ("client.key", "k.key")]);
    let named = TlsSettings {
        certificate: Some(there.path().join("c")),
        key: Some(there.path().join("k.key")),
        ..TlsSettings::default()
    };
    assert!(own(&named).expect("named"));
    let version_1 = [
        ("version-1.crt", "postgresql.crt"),
        ("version-1.key", "postgresql.key"),
    ];
    assert!(own(&settings(&directory(&version_1))).expect("of the first version"));
}

#[test]
fn a_key_that_cannot_be_used_is_refused_with_the_reason_and_without_its_content() {
    for (key, reason) in [
        (None, "does not exist"),
        (Some("server.key"), "is not the key of the certificate"),
        (Some("encrypted.key"), "is encrypted"),
        (Some("encrypted-old.key"), "is encrypted"),
        (Some("client.crt"), "is no private key"),
    ] {
        let key = key.map(|key| (key, "postgresql.key"));
        let files: Vec<_> = key
            .into_iter()
            .chain([("client.crt", "postgresql.crt")])
            .collect();
        let there = directory(&files);
        let error = own(&settings(&there)).expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
        assert!(error.len() < 300, "{error}");
    }
    let there = directory(&[("client.crt", "postgresql.crt")]);
    std::fs::create_dir(there.path().join("postgresql.key")).expect("made");
    let error = own(&settings(&there)).expect_err("a directory");
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    let there = directory(&[
        ("client.crt", "postgresql.crt"),
        ("client.key", "postgresql.key"),
    ]);
    let key = there.path().join("postgresql.key");
    let is_root = rustix::process::geteuid().is_root();
    for (mode, allowed) in [
        (0o600, true),
        (0o400, true),
        (0o640, is_root),
        (0o644, false),
        (0o660, false),
        (0o604, false),
    ] {
        std::fs::set_permissions(&key, Permissions::from_mode(mode)).expect("set");
        let taken = own(&settings(&there));
        assert_eq!(taken.is_ok(), allowed, "{mode:o}");
        if let Err(error) = taken {
            assert!(error.to_string().contains("chmod 0600"), "{error}");
        }
    }
}
