//! Connections to an SSH server that are cut, and servers that cannot be used.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::future::join_all;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use walzip_repo::testing::servers::{self, Sshd};
use walzip_repo::{Location, StoreSettings, open_store};
use walzip_testing::not_run;

use crate::patterned;

/// How many bytes of a connection arrive.
#[derive(Clone, Copy, Debug)]
enum Cut {
    FromServer(u64),
    ToServer(u64),
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut left: u64,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let len = from.read(&mut buffer).await? as u64;
        if len == 0 || len > left {
            return Ok(());
        }
        left -= len;
        to.write_all(&buffer[..len as usize]).await?;
    }
}

/// A port that leads to a server. The first connections are cut; the others are not.
async fn cutting(server: u16, cut: Cut, connections: u32) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(AtomicU32::new(0));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let is_cut = seen.fetch_add(1, Ordering::Relaxed) < connections;
            let (back, forth) = match (is_cut, cut) {
                (false, _) => (u64::MAX, u64::MAX),
                (true, Cut::FromServer(bytes)) => (bytes, u64::MAX),
                (true, Cut::ToServer(bytes)) => (u64::MAX, bytes),
            };
            tokio::spawn(async move {
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await?;
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                // Whichever ends first closes both.
                tokio::select! {
                    ended = pass(from_client, to_server, forth) => ended,
                    ended = pass(from_server, to_client, back) => ended,
                }
            });
        }
    });
    port
}

/// A directory on a server, at another port than its own.
fn store_at(sshd: &Sshd, port: u16, directory: &Path) -> Arc<dyn ObjectStore> {
    let own = sshd.url(directory);
    let (user, _) = own.split_once("@127.0.0.1:").expect("a URL");
    let url = format!("{user}@127.0.0.1:{port}{}", directory.display());
    let known = directory.with_extension(format!("known_hosts_{port}"));
    let key = std::fs::read_to_string(sshd.file("host_key.pub")).unwrap();
    std::fs::write(&known, format!("[127.0.0.1]:{port} {key}")).unwrap();
    let settings = StoreSettings {
        timeout: Some(Duration::from_secs(30)),
        sftp_known_hosts_file: Some(known),
        ..sshd.settings()
    };
    open_store(&Location::parse(&url).unwrap(), &settings).unwrap()
}

async fn create(store: &Arc<dyn ObjectStore>, content: &Bytes) -> object_store::Result<()> {
    let options = PutOptions::from(PutMode::Create);
    let key = object_store::path::Path::from("a/b");
    let put = store.put_opts(&key, content.clone().into(), options);
    put.await.map(|_| ())
}

fn sshd() -> Option<&'static Sshd> {
    let sshd = servers::sshd();
    sshd.map_err(|reason| not_run(&format!("faults of SFTP: {reason}")))
        .ok()
}

/// Also while the keys are exchanged and the user logs in: that says nothing of the user's key.
#[tokio::test]
async fn a_connection_that_is_cut_is_made_again() {
    let Some(sshd) = sshd() else { return };
    let directory = tempfile::tempdir().unwrap();
    let content = patterned("a", 1000);
    let cuts = (1000..4000).step_by(150).map(Cut::FromServer);
    let puts = cuts.enumerate().map(async |(number, cut)| {
        let place = directory.path().join(number.to_string());
        let port = cutting(sshd.port(), cut, 2).await;
        let store = store_at(sshd, port, &place);
        let put = create(&store, &content).await;
        assert!(put.is_ok(), "{cut:?}: {put:?}");
        assert_eq!(std::fs::read(place.join("a/b")).unwrap(), content);
    });
    join_all(puts).await;
}

/// Requests that are made while a connection ends are not waited for, and the temporary file goes.
#[tokio::test]
async fn an_object_that_is_cut_is_written_again_and_leaves_nothing() {
    let Some(sshd) = sshd() else { return };
    let directory = tempfile::tempdir().unwrap();
    let content = patterned("b", 8 << 20);
    let cuts = (1..8).map(|mebibytes| Cut::ToServer(mebibytes * 1_100_000));
    for (number, cut) in cuts.enumerate() {
        let place = directory.path().join(number.to_string());
        let port = cutting(sshd.port(), cut, 2).await;
        let store = store_at(sshd, port, &place);
        let put = create(&store, &content).await;
        assert!(put.is_ok(), "{cut:?}: {put:?}");
        assert!(std::fs::read(place.join("a/b")).unwrap() == content);
        let staging = std::fs::read_dir(place.join(".incoming")).unwrap();
        assert_eq!(staging.count(), 0, "{cut:?}");
    }
}

/// By the server's clock, whatever the times of the other files.
#[tokio::test]
async fn a_removal_sweeps_what_was_left_long_ago_and_nothing_else() {
    let Some(sshd) = sshd() else { return };
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("d");
    let store = store_at(sshd, sshd.port(), &place);
    create(&store, &patterned("d", 10)).await.unwrap();
    let day = Duration::from_secs(24 * 60 * 60);
    let now = SystemTime::now();
    for (name, modified) in [
        ("old", now - 3 * day),
        ("live", now),
        ("later", now + 9 * day),
    ] {
        let file = File::create(place.join(".incoming").join(name)).unwrap();
        file.set_modified(modified).unwrap();
    }
    let key = object_store::path::Path::from("a/b");
    store.delete(&key).await.unwrap();
    let left = std::fs::read_dir(place.join(".incoming")).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["later", "live"]);
}

async fn refusal(sshd: &Sshd) -> String {
    let directory = tempfile::tempdir().unwrap();
    let store = store_at(sshd, sshd.port(), &directory.path().join("c"));
    let put = create(&store, &patterned("c", 10)).await;
    let mut error: &dyn std::error::Error = &put.expect_err("no such server");
    let mut said = error.to_string();
    while let Some(source) = error.source() {
        error = source;
        said = format!("{said}: {error}");
    }
    said
}

#[tokio::test]
async fn a_server_that_cannot_be_used_says_what_it_lacks() {
    if sshd().is_none() {
        return;
    }
    let without = refusal(&Sshd::start("# Subsystem")).await;
    assert!(without.contains("does not offer SFTP"), "{without}");
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("rsa");
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "rsa", "-b", "2048", "-N", "", "-f"]);
    assert!(keygen.arg(&key).status().unwrap().success());
    let further = format!("HostKey {}\nHostKeyAlgorithms rsa-sha2-512", key.display());
    let rsa = refusal(&Sshd::start(&further)).await;
    assert!(rsa.contains("give it an Ed25519 or ECDSA key"), "{rsa}");
}
