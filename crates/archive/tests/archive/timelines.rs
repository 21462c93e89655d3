//! A standby that is backed up, promoted, and restored along its new timeline.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use walzip_archive::ArchiveError;
use walzip_archive::backup::{BackupOptions, backup};
use walzip_archive::check::check;
use walzip_archive::info::info;
use walzip_archive::init::{Source, init};
use walzip_archive::restore::{
    ArchiveMode, Recovery, RecoveryTarget, RestoreCommand, RestoreOptions, TargetTimeline, restore,
};
use walzip_archive::verify::{VerifyOptions, verify};
use walzip_pgformat::TimelineId;
use walzip_repo::Repository;
use walzip_repo::testing::memory_store;

use crate::cluster::{Cluster, Shipper, Site, copy_to, restore_command};

const TIMEOUT: Duration = Duration::from_secs(30);
const ROWS: &str = "SELECT count(*), sum(a) FROM t";

fn options(restore_command: &str, timeline: TargetTimeline) -> RestoreOptions {
    RestoreOptions {
        cluster: None,
        backup: None,
        recovery: Recovery {
            target: RecoveryTarget::Latest,
            timeline,
            ..Recovery::default()
        },
        standby: false,
        restore_command: RestoreCommand::new(restore_command),
        tablespace_map: BTreeMap::new(),
        archive_mode: ArchiveMode::Preserve,
        delta: None,
        databases: Vec::new(),
        progress: Default::default(),
    }
}

/// Makes a standby of a restored directory.
fn follow(data: &Path, primary: &Cluster<'_>) {
    std::fs::remove_file(data.join("recovery.signal")).expect("written by restore");
    std::fs::write(data.join("standby.signal"), "").expect("written");
    let path = data.join("postgresql.auto.conf");
    let settings = std::fs::read_to_string(&path).expect("readable");
    let sockets = primary.data.with_extension("sockets");
    let line = format!(
        "primary_conninfo = 'host={} user=postgres'\n",
        sockets.display()
    );
    std::fs::write(&path, settings + &line).expect("written");
}

/// Waits until the archive has a history, and with it a new timeline.
async fn history_arrives(repository: &Repository, name: &str) {
    for _ in 0..300 {
        if repository.find_wal(name).await.expect("readable").is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{name} was not archived within 30 seconds");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backs_up_a_standby_and_restores_along_the_timeline_of_its_promotion() {
    let Some(site) = Site::new() else { return };
    let out = site.directory("out");
    let primary = site.cluster("primary", &copy_to(&out));
    let store = memory_store();
    let source = Source::DataDirectory(primary.data.clone());
    init(store.clone(), &source).await.expect("made");
    let repository = Repository::open(store).await.expect("opened");
    let _shipper = Shipper::start(repository.clone(), out);
    primary
        .sql("CREATE TABLE t AS SELECT a FROM generate_series(1, 1000) a")
        .await;
    let settings = primary.settings();
    backup(&repository, &settings, &BackupOptions::default())
        .await
        .expect("of the primary");

    let data = site.directory("standby");
    let nowhere = "false %f %p";
    let of_primary = options(nowhere, TargetTimeline::Latest);
    restore(&repository, &data, &of_primary)
        .await
        .expect("restored");
    follow(&data, &primary);
    site.give(&data);
    let standby = site.start(data);
    assert_eq!(standby.sql("SELECT pg_is_in_recovery()").await, "t");

    // A standby cannot end a segment: its primary does, while the backup waits.
    let busy = async {
        loop {
            check(&repository, &settings, TIMEOUT)
                .await
                .expect("archived");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let standby_settings = standby.settings();
    let backup_options = BackupOptions::default();
    let record = tokio::select! {
        record = backup(&repository, &standby_settings, &backup_options) => record,
        () = busy => unreachable!("it has no end"),
    };
    let record = record.expect("of the standby");
    assert!(record.from_standby);

    primary.sql("INSERT INTO t VALUES (5000)").await;
    check(&repository, &settings, TIMEOUT)
        .await
        .expect("archived");
    drop(primary);
    standby.sql("SELECT pg_promote()").await;
    standby.promoted().await;
    standby.sql("INSERT INTO t VALUES (7000)").await;
    history_arrives(&repository, "00000002.history").await;
    check(&repository, &standby_settings, TIMEOUT)
        .await
        .expect("archived");
    let rows = standby.sql(ROWS).await;
    drop(standby);

    let told = info(&repository).await.expect("readable");
    let timelines: Vec<u32> = told
        .newest
        .wal
        .iter()
        .map(|timeline| timeline.timeline)
        .collect();
    assert_eq!(timelines, [1, 2]);
    let verification = verify(&repository, &VerifyOptions::default())
        .await
        .expect("looked at");
    assert_eq!(verification.findings, []);

    let command = restore_command(&site, &repository, "in").await;
    let data = site.directory("restored");
    let restored = restore(
        &repository,
        &data,
        &options(&command, TargetTimeline::Latest),
    )
    .await;
    assert_eq!(restored.expect("restored").backup.label, record.label);
    site.give(&data);
    let cluster = site.start(data);
    cluster.promoted().await;
    assert_eq!(cluster.sql(ROWS).await, rows);

    let unknown = options(&command, TargetTimeline::Id(TimelineId(9)));
    let refused = restore(&repository, &site.directory("nine"), &unknown).await;
    assert!(
        matches!(refused, Err(ArchiveError::NoBackup(_))),
        "{refused:?}"
    );
}
