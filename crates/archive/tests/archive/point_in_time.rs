//! A real cluster, backed up, broken by a mistake, and restored to the moment before it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use walzip_archive::ArchiveError;
use walzip_archive::backup::{BackupOptions, backup};
use walzip_archive::check::check;
use walzip_archive::init::{Source, init};
use walzip_archive::restore::{
    ArchiveMode, Recovery, RecoveryTarget, RestoreCommand, RestoreOptions, restore,
};
use walzip_repo::testing::memory_store;
use walzip_repo::{ClusterIdentity, Repository};

use crate::cluster::{Cluster, Shipper, Site, copy_to, restore_command};
use crate::wal::CLUSTER;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
pub(crate) const ROWS: &str = "SELECT count(*), coalesce(sum(hashtext(t::text)), 0) FROM t";

pub(crate) async fn repository_of(cluster: &Cluster<'_>) -> Repository {
    let store = memory_store();
    let made = init(store.clone(), &Source::DataDirectory(cluster.data.clone())).await;
    assert!(made.expect("made").created);
    let again = init(store.clone(), &Source::Server(Box::new(cluster.settings()))).await;
    assert!(!again.expect("the same cluster").created);
    Repository::open(store).await.expect("opened")
}

pub(crate) fn options(target: RecoveryTarget, restore_command: &str) -> RestoreOptions {
    RestoreOptions {
        cluster: None,
        backup: None,
        recovery: Recovery {
            target,
            ..Recovery::default()
        },
        standby: false,
        restore_command: RestoreCommand::new(restore_command),
        tablespace_map: BTreeMap::new(),
        archive_mode: ArchiveMode::Off,
        delta: None,
        databases: Vec::new(),
        progress: Default::default(),
    }
}

/// Restores, starts, waits for the promotion and returns the rows' digest.
pub(crate) async fn rows_after_restore(
    site: &Site,
    repository: &Repository,
    name: &str,
    mut options: RestoreOptions,
    tablespace: PathBuf,
) -> String {
    let data = site.directory(name);
    let old = repository_tablespace(repository).await;
    options.tablespace_map = BTreeMap::from([(old, tablespace.clone())]);
    let restored = restore(repository, &data, &options)
        .await
        .expect("restored");
    assert_eq!(restored.files_without_checksum, 0);
    site.give(&data);
    site.give(&tablespace);
    let cluster = site.start(data);
    cluster.promoted().await;
    cluster.sql(ROWS).await
}

async fn repository_tablespace(repository: &Repository) -> String {
    let labels = repository.list_backups().await.expect("readable");
    let record = walzip_archive::BackupRecord::read(repository, &labels[0])
        .await
        .expect("read");
    record.tablespaces[0].oid.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restores_to_the_moment_before_a_mistake_and_to_the_end() {
    let Some(site) = Site::new() else { return };
    let out = site.directory("out");
    let primary = site.cluster("primary", &copy_to(&out));
    let repository = repository_of(&primary).await;
    let _shipper = Shipper::start(repository.clone(), out);

    let tablespace = site.directory("tablespace");
    primary
        .sql(&format!(
            "CREATE TABLESPACE s LOCATION '{}'",
            tablespace.display()
        ))
        .await;
    primary
        .sql("CREATE TABLE t (a int, b text) TABLESPACE s")
        .await;
    primary
        .sql("INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 5000) i")
        .await;
    let settings = primary.settings();
    // Small packs, so that there are several.
    let small = BackupOptions {
        pack_bytes: 300_000,
        archive_timeout: TIMEOUT,
        ..Default::default()
    };
    let record = backup(&repository, &settings, &small)
        .await
        .expect("backed up");
    assert!(record.files.expect("packs").packs.len() > 1);

    primary
        .sql("INSERT INTO t SELECT i, md5(i::text) FROM generate_series(5001, 9000) i")
        .await;
    let before = primary.sql(ROWS).await;
    assert!(before.starts_with("9000,"), "{before}");
    primary
        .sql("SELECT pg_create_restore_point('before the mistake')")
        .await;
    let time = primary
        .sql("SELECT clock_timestamp() AT TIME ZONE 'UTC' || '+00'")
        .await;
    primary.sql("DELETE FROM t").await;
    primary.sql("INSERT INTO t VALUES (1, 'after')").await;
    let after = primary.sql(ROWS).await;
    let arrived = check(&repository, &settings, TIMEOUT)
        .await
        .expect("archived");
    assert!(arrived.arrival.is_some());

    let command = restore_command(&site, &repository, "in").await;
    let time = RecoveryTarget::time(&time).expect("a time of the server");
    let name = RecoveryTarget::Name("before the mistake".to_owned());
    for (directory, target, expected) in [
        ("to-time", time, &before),
        ("to-name", name, &before),
        ("to-end", RecoveryTarget::Latest, &after),
    ] {
        let tablespace = site.directory(&format!("{directory}-tablespace"));
        let options = options(target, &command);
        let rows = rows_after_restore(&site, &repository, directory, options, tablespace).await;
        assert_eq!(rows, *expected, "{directory}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_no_backup_whose_wal_does_not_arrive() {
    let Some(site) = Site::new() else { return };
    let primary = site.cluster("primary", "false");
    let repository = repository_of(&primary).await;
    let options = BackupOptions {
        archive_timeout: Duration::from_secs(2),
        ..BackupOptions::default()
    };
    let error = backup(&repository, &primary.settings(), &options)
        .await
        .expect_err("no archiving");
    let ArchiveError::NotArchived { failure, .. } = &error else {
        panic!("{error}")
    };
    assert!(failure.is_some(), "{error}");
    assert_eq!(repository.list_backups().await.expect("readable"), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refuses_to_back_up_another_cluster_or_one_that_does_not_archive() {
    let Some(site) = Site::new() else { return };
    let primary = site.cluster("primary", "false");
    let settings = primary.settings();
    let other = ClusterIdentity {
        system_id: 4711,
        ..CLUSTER
    };
    let (foreign, _) = Repository::init(memory_store(), other).await.expect("made");
    let error = backup(&foreign, &settings, &BackupOptions::default())
        .await
        .expect_err("foreign");
    assert!(matches!(error, ArchiveError::Mismatch { .. }), "{error}");

    let repository = repository_of(&primary).await;
    let data = primary.data.clone();
    primary.sql("ALTER SYSTEM SET archive_mode = off").await;
    drop(primary);
    std::fs::remove_dir_all(data.with_extension("sockets")).expect("removed");
    let primary = site.start(data);
    let refused = backup(&repository, &primary.settings(), &BackupOptions::default()).await;
    let error = refused.expect_err("archive_mode is off");
    assert!(matches!(error, ArchiveError::ArchiveModeOff), "{error}");
}
