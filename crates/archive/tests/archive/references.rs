//! Backups that refer to others, changed by somebody who makes all hashes right: what cannot be is
//! refused with the names of both, and costs no memory.

use std::sync::Arc;

use futures::TryStreamExt;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};
use walzip_archive::ArchiveError;
use walzip_archive::backup::{BackupOptions, backup};
use walzip_archive::backup_get::backup_get;
use walzip_archive::info::info;
use walzip_archive::init::{Source, init};
use walzip_archive::verify::{FindingKind, VerifyOptions, verify};
use walzip_repo::testing::memory_store;
use walzip_repo::{BackupLabel, BackupType, Repository};

use crate::cluster::{Shipper, Site, copy_to};

/// A full backup and an incremental one, and where the objects are.
struct Taken {
    store: Arc<dyn ObjectStore>,
    repository: Repository,
    full: String,
    incr: String,
}

impl Taken {
    fn key(&self, label: &str, name: &str) -> Key {
        Key::from(format!("backup/{label}/{name}"))
    }

    async fn read(&self, label: &str, name: &str) -> Vec<u8> {
        let object = self.store.get(&self.key(label, name)).await.expect(name);
        object.bytes().await.expect("readable").to_vec()
    }

    async fn write(&self, label: &str, name: &str, content: &[u8]) {
        let key = self.key(label, name);
        let put = self.store.put(&key, content.to_vec().into()).await;
        put.expect("put");
    }

    async fn record(&self, label: &str) -> Value {
        let json = self.read(label, "backup.json").await;
        serde_json::from_slice(&json).expect("JSON")
    }

    /// Changes a description.
    async fn change(&self, label: &str, change: impl FnOnce(&mut Value)) {
        let mut record = self.record(label).await;
        change(&mut record);
        let json = record.to_string();
        self.write(label, "backup.json", json.as_bytes()).await;
    }

    /// Changes the lines of the incremental backup's index, and what is recorded of it.
    async fn change_index(&self, change: impl FnOnce(&str) -> String) {
        let index = self.read(&self.incr, "index.zst.0000").await;
        let index = zstd::decode_all(index.as_slice()).expect("zstd");
        let before = String::from_utf8(index).expect("UTF-8");
        let text = change(&before);
        assert!(text != before, "nothing was changed");
        let index = zstd::encode_all(text.as_bytes(), 1).expect("zstd");
        self.write(&self.incr, "index.zst.0000", &index).await;
        self.change(&self.incr, |record| {
            record["files"]["index"] = json!({
                "original_bytes": text.len(),
                "objects": [{
                    "name": "index.zst.0000",
                    "size_bytes": index.len(),
                    "blake3": blake3::hash(&index).to_hex().as_str(),
                }],
            });
        })
        .await;
    }

    /// What is said of the incremental backup, by who gets a file out of it and by who verifies.
    async fn refused(&self) -> String {
        let label: BackupLabel = self.incr.parse().expect("a label");
        let got = backup_get(&self.repository, Some(&label), "PG_VERSION", Vec::new()).await;
        let Err(error @ ArchiveError::Damaged { .. }) = got else {
            panic!("{got:?}")
        };
        let verification = verify(&self.repository, &VerifyOptions::default()).await;
        let findings = verification.expect("looked at").findings;
        let is_told = |label: &str| {
            let of = (FindingKind::BackupDamaged, label);
            findings
                .iter()
                .any(|finding| (finding.kind, finding.object.as_str()) == of)
        };
        assert!(is_told(&self.incr), "{findings:?}");
        error.to_string()
    }

    /// Both backups as they were taken.
    async fn restore(&self, before: &[(String, &'static str, Vec<u8>)]) {
        for (label, name, content) in before {
            self.write(label, name, content).await;
        }
        let verification = verify(&self.repository, &VerifyOptions::default()).await;
        assert_eq!(verification.expect("looked at").findings, []);
    }
}

async fn taken(site: &Site) -> Taken {
    let out = site.directory("out");
    let primary = site.cluster("primary", &copy_to(&out));
    let store = memory_store();
    let source = Source::DataDirectory(primary.data.clone());
    init(store.clone(), &source).await.expect("made");
    let repository = Repository::open(store.clone()).await.expect("opened");
    let _shipper = Shipper::start(repository.clone(), out);
    let settings = primary.settings();
    primary
        .sql("CREATE TABLE t AS SELECT i, md5(i::text) AS b FROM generate_series(1, 20000) i")
        .await;
    let mut labels = Vec::new();
    for backup_type in [BackupType::Full, BackupType::Incr] {
        let options = BackupOptions {
            backup_type,
            ..BackupOptions::default()
        };
        let taken = backup(&repository, &settings, &options).await;
        labels.push(taken.expect("a backup").label);
        primary.sql("UPDATE t SET b = 'x' WHERE i % 500 = 0").await;
    }
    let [full, incr] = labels.try_into().expect("two");
    Taken {
        store,
        repository,
        full,
        incr,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_referred_to_is_refused() {
    let Some(site) = Site::new() else { return };
    let taken = taken(&site).await;
    let (full, incr) = (taken.full.as_str(), taken.incr.as_str());
    let mut before = Vec::new();
    for (label, name) in [
        (incr, "backup.json"),
        (incr, "index.zst.0000"),
        (full, "backup.json"),
    ] {
        before.push((label.to_owned(), name, taken.read(label, name).await));
    }
    let both = format!("backup {incr}, which needs backup {full},");

    // Itself, nothing that is there, and a full backup that is none.
    taken
        .change(incr, |record| record["references"] = json!([incr]))
        .await;
    assert!(taken.refused().await.contains("refers to itself"));
    taken.restore(&before).await;
    taken
        .change(incr, |record| {
            record["references"] = json!(["20200101-000000F"])
        })
        .await;
    assert!(taken.refused().await.contains("20200101-000000F"));
    taken.restore(&before).await;
    let full_record = taken.record(full).await;
    taken
        .change(full, |record| record["system_identifier"] = json!("77"))
        .await;
    let told = taken.refused().await;
    assert!(
        told.contains(&both) && told.contains("another backup or cluster"),
        "{told}"
    );
    taken.restore(&before).await;
    let other = "20200101-000000I";
    let mut stranger = full_record.clone();
    stranger["label"] = json!(other);
    stranger["type"] = json!("incr");
    stranger["prior"] = json!(full);
    stranger["references"] = json!([full]);
    let json = stranger.to_string();
    taken.write(other, "backup.json", json.as_bytes()).await;
    taken
        .change(incr, |record| record["references"] = json!([other]))
        .await;
    let told = taken.refused().await;
    assert!(
        told.contains("not the full backup that it is taken for"),
        "{told}"
    );
    taken
        .store
        .delete(&taken.key(other, "backup.json"))
        .await
        .expect("deleted");
    taken.restore(&before).await;

    // Bytes that are nowhere, in an index whose hashes are right.
    let beyond = full_record["files"]["original_bytes"].to_string();
    type Change<'c> = (&'c str, &'c dyn Fn(&str) -> String);
    let changes: [Change<'_>; 5] = [
        ("bytes that no backup has", &|text| {
            replaced_offset(text, &beyond)
        }),
        ("bytes that no backup has", &|text| {
            text.replacen(",2]", ",9]", 1)
        }),
        ("told from", &|text| {
            text.replacen("\"base\":[[", &format!("\"base\":[[{beyond}"), 1)
        }),
        ("impossible", &|text| {
            replaced_offset(text, "18446744073709551615")
        }),
        ("pieces", &|text| {
            text.replacen("{\"pieces\":[[", "{\"pieces\":[[1],[", 1)
        }),
    ];
    for (expected, change) in changes {
        taken.change_index(change).await;
        let told = taken.refused().await;
        assert!(
            told.contains(expected) && told.contains(incr),
            "{expected}: {told}"
        );
        taken.restore(&before).await;
    }
}

/// The first piece that says where it begins, elsewhere.
fn replaced_offset(text: &str, offset: &str) -> String {
    let at = text.match_indices(",2,").next().expect("a piece").0 + 3;
    let end = at + text[at..].find(']').expect("its end");
    format!("{}{offset}{}", &text[..at], &text[end..])
}

/// A backup needs the files of the one that it refers to, and none of its WAL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn info_says_of_each_backup_what_it_needs() {
    let Some(site) = Site::new() else { return };
    let taken = taken(&site).await;
    let said = async || {
        let told = info(&taken.repository).await.expect("readable").newest;
        let whole = told.backups.iter().map(|backup| backup.is_whole());
        let windows = told.wal.iter().flat_map(|wal| &wal.recovery_windows);
        let windows: Vec<String> = windows.map(|window| window.backup.clone()).collect();
        (whole.collect::<Vec<bool>>(), windows)
    };
    let (full, incr) = (&taken.full, &taken.incr);
    assert_eq!(said().await, (vec![true, true], vec![full.clone()]));

    // Marked by an expiry that did not get further.
    taken.write(full, "expiring", b"{}").await;
    assert_eq!(said().await, (vec![true, true], vec![full.clone()]));
    let mark = taken.key(full, "expiring");
    taken.store.delete(&mark).await.expect("deleted");

    let record = taken.record(full).await;
    let wal = record["required_wal"][0]["first_segment"].as_str();
    let wal = format!("/{}.wz", wal.expect("a segment"));
    let listed = taken.store.list(None).map_ok(|object| object.location);
    let objects: Vec<Key> = listed.try_collect().await.expect("listed");
    let wal = objects.iter().find(|key| key.as_ref().ends_with(&wal));
    let wal = wal.expect("archived").clone();
    let content = taken.store.get(&wal).await.expect("there");
    let content = content.bytes().await.expect("readable");
    taken.store.delete(&wal).await.expect("deleted");
    assert_eq!(said().await, (vec![false, true], vec![incr.clone()]));
    taken.store.put(&wal, content.into()).await.expect("put");

    let pack = taken.key(full, "pack.0000");
    taken.store.delete(&pack).await.expect("deleted");
    assert_eq!(said().await, (vec![false, false], vec![]));
}
