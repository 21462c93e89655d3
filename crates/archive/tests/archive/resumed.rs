//! Backups that are interrupted, and continued by the next one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};
use walzip_archive::ArchiveError;
use walzip_archive::BackupRecord;
use walzip_archive::backup::{BackupOptions, backup};
use walzip_archive::init::{Source, init};
use walzip_archive::restore::{RecoveryTarget, restore};
use walzip_archive::verify::{VerifyOptions, verify};
use walzip_repo::testing::memory_store;
use walzip_repo::{BackupLabel, Repository};

use crate::cluster::{Cluster, Shipper, Site, copy_to, restore_command};
use crate::point_in_time::{ROWS, TIMEOUT, options};

/// A repository in memory of a running cluster.
pub struct Place<'c> {
    cluster: &'c Cluster<'c>,
    pub store: Arc<dyn ObjectStore>,
    pub repository: Repository,
}

impl<'c> Place<'c> {
    pub async fn of(cluster: &'c Cluster<'c>) -> Place<'c> {
        let store = memory_store();
        let source = Source::DataDirectory(cluster.data.clone());
        init(store.clone(), &source).await.expect("made");
        let repository = Repository::open(store.clone()).await.expect("opened");
        Place {
            cluster,
            store,
            repository,
        }
    }

    async fn keys(&self, prefix: &str) -> BTreeSet<String> {
        let prefix = Key::from(prefix);
        let found: Vec<_> = self.store.list(Some(&prefix)).try_collect().await.unwrap();
        found.iter().map(|meta| meta.location.to_string()).collect()
    }

    /// Takes a backup slowly, until so many of its packs are noted; returns its label.
    pub async fn interrupted_after(&self, notes: usize, options: BackupOptions) -> BackupLabel {
        let slow = BackupOptions {
            max_rate_kilobytes: Some(16 << 10),
            ..options
        };
        let noted = async {
            loop {
                tokio::time::sleep(Duration::from_millis(5)).await;
                let Some(left) = self.unfinished().await.pop() else {
                    continue;
                };
                let keys = self.keys(&format!("backup/{left}")).await;
                if keys.iter().filter(|key| key.contains("/chunks.")).count() >= notes {
                    return left;
                }
            }
        };
        tokio::select! {
            taken = self.take(&self.repository, &slow) => panic!("{taken:?}"),
            left = noted => left,
        }
    }

    pub async fn take(
        &self,
        repository: &Repository,
        options: &BackupOptions,
    ) -> Result<BackupRecord, ArchiveError> {
        backup(repository, &self.cluster.settings(), options).await
    }

    async fn unfinished(&self) -> Vec<BackupLabel> {
        self.repository.list_unfinished_backups().await.unwrap()
    }

    /// The process that made the last attempts is this one, and runs. Says that it has ended.
    pub async fn end_attempts(&self) {
        for label in self.unfinished().await {
            for key in self.keys(&format!("backup/{label}")).await {
                if key.ends_with("/started") {
                    self.change(&key, |started| started["process"]["start_ticks"] = json!(0))
                        .await;
                }
            }
        }
    }

    async fn change(&self, key: &str, change: impl FnOnce(&mut Value)) {
        let object = self.store.get(&Key::from(key)).await.unwrap();
        let json = object.bytes().await.unwrap();
        let mut json = serde_json::from_slice(&json).unwrap();
        change(&mut json);
        let key = Key::from(key);
        let put = self.store.put(&key, json.to_string().into());
        put.await.unwrap();
    }

    async fn remove(&self, label: &str) {
        for key in self.keys(&format!("backup/{label}")).await {
            self.store.delete(&Key::from(key)).await.unwrap();
        }
    }

    /// The backup has the objects that it names and no others, and all of it is whole.
    pub async fn assert_whole(&self, record: &BackupRecord) {
        let prefix = format!("backup/{}/", record.label);
        let named = record.objects().map(|of| format!("{prefix}{}", of.name));
        let reserved = ["started", "backup.json"].map(|of| format!("{prefix}{of}"));
        let expected: BTreeSet<String> = named.chain(reserved).collect();
        assert_eq!(self.keys(&prefix).await, expected);
        let verified = verify(&self.repository, &VerifyOptions::default()).await;
        assert_eq!(verified.unwrap().findings, []);
    }
}

pub fn small() -> BackupOptions {
    BackupOptions {
        pack_bytes: 100_000,
        archive_timeout: TIMEOUT,
        threads: 2,
        ..BackupOptions::default()
    }
}

fn packs(record: &BackupRecord) -> Vec<&str> {
    let packs = record.files.iter().flat_map(|files| &files.packs);
    packs.map(|pack| pack.name.as_str()).collect()
}

async fn filled(cluster: &Cluster<'_>) {
    cluster.sql("CREATE TABLE t (a int, b text)").await;
    for start in (0..6).map(|table| table * 60_000) {
        cluster
            .sql(&format!("CREATE TABLE t{start} (a int, b text)"))
            .await;
        cluster
            .sql(&format!(
                "INSERT INTO t{start} SELECT i, md5(i::text) FROM generate_series({start}, {start} + 60000) i"
            ))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_goes_on_with_the_one_that_was_interrupted() {
    let Some(site) = Site::new() else { return };
    let out = site.directory("out");
    let primary = site.cluster("primary", &copy_to(&out));
    let place = Place::of(&primary).await;
    let _shipper = Shipper::start(place.repository.clone(), out);
    filled(&primary).await;
    for (number, notes) in [1, 3, 5].into_iter().enumerate() {
        let left = place.interrupted_after(notes, small()).await;
        place.end_attempts().await;
        primary
            .sql(&format!("INSERT INTO t VALUES ({notes}, 'since then')"))
            .await;
        // Twice, the last time.
        if number == 2 {
            assert_eq!(place.interrupted_after(notes + 1, small()).await, left);
            place.end_attempts().await;
        }
        let expected = primary.sql(ROWS).await;
        let record = place.take(&place.repository, &small()).await;
        let record = record.expect("nothing interrupts it");
        place.assert_whole(&record).await;
        assert_eq!(record.label, left.to_string());
        let attempts = 2 + number as u32 / 2;
        assert_eq!((record.attempts, record.format), (Some(attempts), 4));
        let kept = packs(&record);
        let kept = kept.iter().filter(|name| !name.contains('/')).count();
        // One pack may have nothing but what has changed since.
        assert!(kept >= notes.max(2) - 1, "{:?}", packs(&record));

        let command = restore_command(&site, &place.repository, &format!("in-{notes}")).await;
        let data = site.directory(&format!("restored-{notes}"));
        let options = options(RecoveryTarget::Immediate, &command);
        let restored = restore(&place.repository, &data, &options).await;
        assert_eq!(restored.expect("restored").files_without_checksum, 0);
        site.give(&data);
        let restored = site.start(data);
        restored.promoted().await;
        assert_eq!(restored.sql(ROWS).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_may_run_and_one_that_was_made_otherwise_are_left_alone() {
    let Some(site) = Site::new() else { return };
    let out = site.directory("out");
    let primary = site.cluster("primary", &copy_to(&out));
    let place = Place::of(&primary).await;
    let _shipper = Shipper::start(place.repository.clone(), out);
    filled(&primary).await;
    let left = place.interrupted_after(2, small()).await;
    // It may run: nobody says that its process has ended.
    let beside = place
        .take(&place.repository, &small())
        .await
        .expect("taken");
    assert_eq!(beside.attempts, None);
    assert_eq!(place.unfinished().await.last(), Some(&left));

    // It is not the newest one any more.
    place.end_attempts().await;
    let newer = place
        .take(&place.repository, &small())
        .await
        .expect("taken");
    assert_eq!(newer.attempts, None);
    for label in [&beside.label, &newer.label] {
        place.remove(label).await;
    }

    let not_wanted = BackupOptions {
        resume: false,
        ..small()
    };
    let stronger = BackupOptions {
        level: walzip_codec::Level::STRONG,
        ..small()
    };
    for options in [not_wanted, stronger] {
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let record = place
            .take(&place.repository, &options)
            .await
            .expect("taken");
        assert_eq!(record.attempts, None);
        assert_ne!(record.label, left.to_string());
        place.remove(&record.label).await;
    }

    // One that has become damaged fails the backup, and no later one.
    let pack = Key::from(format!("backup/{left}/pack.0000"));
    let whole = place.store.get(&pack).await.unwrap().bytes().await.unwrap();
    let mut damaged = whole.to_vec();
    damaged[1000] ^= 1;
    place.store.put(&pack, damaged.into()).await.unwrap();
    let failed = place.take(&place.repository, &small()).await;
    let failed = failed.expect_err("its hash is another one");
    assert!(matches!(failed, ArchiveError::Damaged { .. }), "{failed}");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let record = place.take(&place.repository, &small()).await;
    let record = record.expect("anew");
    assert_eq!(record.attempts, None);
    place.assert_whole(&record).await;

    // A pack that is not as long as it was noted is not taken.
    let left = place.interrupted_after(2, small()).await;
    place.end_attempts().await;
    let pack = Key::from(format!("backup/{left}/pack.0000"));
    place.store.put(&pack, "cut".into()).await.unwrap();
    let record = place
        .take(&place.repository, &small())
        .await
        .expect("taken");
    assert!(!packs(&record).contains(&"pack.0000"));
    place.assert_whole(&record).await;
}
