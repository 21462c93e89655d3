//! Which names can be stored, and where.

use std::path::PathBuf;

use walzip_repo::testing::memory_store;
use walzip_repo::{BackupLabel, BackupType, Location, RepoError};

use crate::{CLUSTER, new_repository};

#[tokio::test]
async fn wal_names_that_could_lead_elsewhere_are_refused() {
    let repository = new_repository(memory_store()).await;
    let too_long = "0".repeat(65);
    let names = [
        "",
        ".",
        "..",
        "...",
        ".hidden",
        "../x",
        "a/b",
        "/etc/passwd",
        "a\\b",
        "a b",
        "a\0b",
        "a#1",
        "a-b",
        "a_b",
        "a%2Fb",
        "\u{e9}",
        "*",
        "a\n",
        &too_long,
    ];
    for name in names {
        for outcome in [
            repository.put_wal(name, "x".into()).await.map(|_| ()),
            repository.get_wal(name).await.map(|_| ()),
            repository.find_wal(name).await.map(|_| ()),
        ] {
            let error = outcome.unwrap_err();
            let is_refused = matches!(&error, RepoError::InvalidName { name: n, .. } if n == name);
            assert!(is_refused, "{name:?}: {error}");
        }
    }
    repository
        .put_wal(&"0".repeat(64), "x".into())
        .await
        .unwrap();
}

#[tokio::test]
async fn backup_object_names_that_could_lead_elsewhere_are_refused() {
    let repository = new_repository(memory_store()).await;
    let writer = repository.start_backup().await.unwrap();
    let label = writer.label().clone();
    let too_long = "0".repeat(201);
    let names = [
        "",
        ".",
        "..",
        "../x",
        "a/../b",
        "a//b",
        "/a",
        "a/",
        "a/.b",
        "a b",
        "a%b",
        "a\0",
        "\u{e9}",
        "started",
        "backup.json",
        "pinned",
        "expiring",
        "started/x",
        &too_long,
    ];
    for name in names {
        let error = writer.create_object(name).await.unwrap_err();
        assert!(
            matches!(error, RepoError::InvalidName { .. }),
            "{name:?}: {error}"
        );
        let outcome = repository.open_backup_object(&label, name).await;
        let error = outcome.err().expect("no object can have this name");
        assert!(
            matches!(error, RepoError::InvalidName { .. }),
            "{name:?}: {error}"
        );
    }
}

#[tokio::test]
async fn wal_lies_where_the_format_says() {
    let store = memory_store();
    let repository = new_repository(store.clone()).await;
    for (name, prefix) in [
        ("000000010000000A000000FE", "000000010000000A/"),
        ("000000010000000A000000FE.partial", "000000010000000A/"),
        (
            "000000010000000A000000FE.00000028.backup",
            "000000010000000A/",
        ),
        ("0000000A.history", ""),
        ("000000010000000a000000fe", ""),
        ("000000010000000A000000FE0", ""),
    ] {
        repository.put_wal(name, "x".into()).await.unwrap();
        let key = format!("wal/15-{}/{prefix}{name}.wz", CLUSTER.system_id);
        let found = object_store::ObjectStoreExt::head(store.as_ref(), &key.as_str().into()).await;
        assert!(found.is_ok(), "{key}");
    }
}

#[test]
fn labels_are_times_and_nothing_else() {
    let label = BackupLabel::full("2026-11-21T23:01:30.987+01:00".parse().unwrap());
    assert_eq!(label.as_str(), "20261121-220130F");
    assert_eq!(label.as_str().parse::<BackupLabel>().unwrap(), label);
    for (text, of) in [
        ("20261121-220130F", BackupType::Full),
        ("20261121-220130D", BackupType::Diff),
        ("20261121-220130I", BackupType::Incr),
    ] {
        let label = text.parse::<BackupLabel>().unwrap();
        assert_eq!((label.as_str(), label.backup_type()), (text, of));
        assert!(label.began_by("2026-11-21T22:01:30Z".parse().unwrap()));
        assert!(!label.began_by("2026-11-21T22:01:29Z".parse().unwrap()));
    }
    for text in [
        "",
        "F",
        "20261121-220130",
        "20261121-220130f",
        "20261121-220130FF",
        "20261121-220130X",
        "20261121-220130f",
        "20261321-220130F",
        "20261121-250130F",
        "20261121-220160F",
        "2026-11-21 22:01F",
        "../../../../../F",
        "20261121-22013\u{e9}F",
        " 0261121-220130F",
        "20261121_220130F",
    ] {
        let error = text.parse::<BackupLabel>().unwrap_err();
        assert!(
            matches!(error, RepoError::InvalidName { .. }),
            "{text:?}: {error}"
        );
    }
}

#[test]
fn locations_are_paths_and_file_urls() {
    let local = |path: &str| Location::Local(PathBuf::from(path));
    assert_eq!(Location::parse("/srv/repo").unwrap(), local("/srv/repo"));
    assert_eq!(
        Location::parse("file:///srv/my%20repo").unwrap(),
        local("/srv/my repo")
    );
    let here = std::env::current_dir().unwrap();
    assert_eq!(
        Location::parse("repo").unwrap(),
        Location::Local(here.join("repo"))
    );
    let printed = Location::parse("repo").unwrap().to_string();
    assert_eq!(
        Location::parse(&printed).unwrap(),
        Location::parse("repo").unwrap()
    );
    for text in ["", "a\0b", "file://elsewhere/srv"] {
        let error = Location::parse(text).unwrap_err();
        assert!(
            matches!(error, RepoError::InvalidLocation { .. }),
            "{text:?}: {error}"
        );
    }
    for text in ["ftp://x", "http://x/y", "swift://x"] {
        let error = Location::parse(text).unwrap_err();
        let scheme = text.split(':').next().unwrap();
        assert_eq!(
            error.to_string(),
            format!("repositories at {scheme}:// are not supported")
        );
    }
}
