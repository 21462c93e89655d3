//! A real backup in a repository that loses or changes bytes: it is found, and never restored
//! into something that starts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use walzip_archive::backup::{BackupOptions, backup};
use walzip_archive::check::check;
use walzip_archive::info::info;
use walzip_archive::init::{Source, init};
use walzip_archive::restore::{
    ArchiveMode, Recovery, RecoveryTarget, RestoreCommand, RestoreOptions, TargetTimeline, restore,
};
use walzip_archive::verify::{FindingKind, VerifyOptions, verify};
use walzip_archive::{ArchiveError, BackupRecord, DamagedObject, damaged_objects};
use walzip_pgformat::TimelineId;
use walzip_repo::testing::{Faults, FaultyStore, memory_store};
use walzip_repo::{BackupType, Repository};

use crate::cluster::{Cluster, Shipper, Site, copy_to};
use crate::wal::{push_content, repository_on, segment_name, valid_segment};

const TIMEOUT: Duration = Duration::from_secs(30);

fn options(target: RecoveryTarget) -> RestoreOptions {
    RestoreOptions {
        cluster: None,
        backup: None,
        recovery: Recovery {
            target,
            ..Recovery::default()
        },
        standby: false,
        restore_command: RestoreCommand::new("walzip archive-get %f %p"),
        tablespace_map: BTreeMap::new(),
        archive_mode: ArchiveMode::Preserve,
        delta: None,
        databases: Vec::new(),
        progress: Default::default(),
    }
}

async fn repository_of(cluster: &Cluster<'_>) -> (Arc<dyn ObjectStore>, Repository) {
    let store = memory_store();
    let source = Source::DataDirectory(cluster.data.clone());
    init(store.clone(), &source).await.expect("made");
    let repository = Repository::open(store.clone()).await.expect("opened");
    (store, repository)
}

fn damaged_object(backup: &str, object: &str, problem: &str) -> DamagedObject {
    DamagedObject {
        backup: backup.to_owned(),
        object: object.to_owned(),
        problem: problem.to_owned(),
    }
}

async fn findings(repository: &Repository) -> Vec<(FindingKind, String)> {
    let verification = verify(repository, &VerifyOptions::default()).await;
    let findings = verification.expect("looked at").findings;
    findings
        .into_iter()
        .map(|finding| (finding.kind, finding.object))
        .collect()
}

/// The object whose key ends so, taken out of the store.
async fn take(store: &Arc<dyn ObjectStore>, end: &str) -> (Key, Vec<u8>) {
    use futures::TryStreamExt;
    let listing: Vec<_> = store.list(None).try_collect().await.expect("listed");
    let keys = listing.into_iter().map(|meta| meta.location);
    let key = keys
        .into_iter()
        .find(|key| key.as_ref().ends_with(end))
        .expect(end);
    let content = store
        .get(&key)
        .await
        .expect("there")
        .bytes()
        .await
        .expect("readable");
    store.delete(&key).await.expect("deleted");
    (key, content.to_vec())
}

async fn put(store: &Arc<dyn ObjectStore>, key: &Key, content: &[u8]) {
    store.put(key, content.to_vec().into()).await.expect("put");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finds_damage_and_restores_nothing_from_it_that_starts() {
    let Some(site) = Site::new() else { return };
    let out = site.directory("out");
    let primary = site.cluster("primary", &copy_to(&out));
    let (store, repository) = repository_of(&primary).await;
    let _shipper = Shipper::start(repository.clone(), out);
    let settings = primary.settings();
    let before = RecoveryTarget::Time(jiff::Timestamp::now());
    let record = backup(&repository, &settings, &BackupOptions::default())
        .await
        .expect("backup");
    let label = record.label.clone();
    let mut later = Vec::new();
    for _ in 0..3 {
        let arrival = check(&repository, &settings, TIMEOUT)
            .await
            .expect("archived");
        later.push(arrival.arrival.expect("a primary").segment.to_string());
    }

    let told = info(&repository).await.expect("readable");
    assert_eq!(told.newest.backups.len(), 1);
    assert_eq!(told.newest.segment_size_bytes, Some(1 << 20));
    assert!(told.newest.backups[0].missing_segments.is_empty());
    assert!(
        told.newest.wal.len() == 1 && told.newest.wal[0].gaps.is_empty(),
        "{told:?}"
    );
    assert_eq!(findings(&repository).await, []);

    // A byte of the files.
    let (key, content) = take(&store, "pack.0000").await;
    assert_eq!(
        findings(&repository).await,
        [(FindingKind::BackupDamaged, label.clone())]
    );
    let is_lost = [damaged_object(&label, "pack.0000", "is missing")];
    let told = info(&repository).await.expect("readable");
    assert_eq!(told.newest.backups[0].damaged_objects, is_lost);
    assert_eq!(told.newest.wal[0].recovery_windows, []);
    assert_eq!(damaged_objects(&repository).await.expect("listed"), is_lost);
    let mut changed = content.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    put(&store, &key, &changed).await;
    assert_eq!(
        findings(&repository).await,
        [(FindingKind::BackupDamaged, label.clone())]
    );
    let data = site.directory("restored");
    let error = restore(&repository, &data, &options(RecoveryTarget::Latest)).await;
    assert!(
        matches!(error, Err(ArchiveError::Damaged { .. })),
        "{error:?}"
    );
    assert_unstartable(&data);
    put(&store, &key, &content).await;

    // Without block hashes the next backup is a full one, and this one can be restored.
    let (hashes, bytes) = take(&store, "block_hashes.0000").await;
    assert_eq!(
        findings(&repository).await,
        [(FindingKind::BackupDamaged, label.clone())]
    );
    let without = site.directory("without");
    let restored = restore(&repository, &without, &options(RecoveryTarget::Latest)).await;
    restored.expect("restored");
    let told = info(&repository).await.expect("readable");
    assert_eq!(told.newest.backups[0].damaged_objects, []);
    assert_eq!(
        damaged_objects(&repository).await.expect("listed"),
        [damaged_object(&label, "block_hashes.0000", "is missing")]
    );
    put(&store, &hashes, &bytes).await;

    // A restore refuses a pack that has become longer, so it is no whole backup either.
    store.delete(&key).await.expect("deleted");
    put(&store, &key, &[&content[..], b"x"].concat()).await;
    assert_eq!(
        findings(&repository).await,
        [(FindingKind::BackupDamaged, label.clone())]
    );
    let longer = format!(
        "has {} bytes, {} were written",
        content.len() + 1,
        content.len()
    );
    let told = info(&repository).await.expect("readable");
    assert_eq!(
        told.newest.backups[0].damaged_objects,
        [damaged_object(&label, "pack.0000", &longer)]
    );
    store.delete(&key).await.expect("deleted");
    put(&store, &key, &content).await;
    let told = info(&repository).await.expect("readable");
    assert!(told.newest.backups[0].is_whole() && told.newest.wal[0].recovery_windows.len() == 1);

    // What a restore left behind is in the way of the next one.
    let again = restore(&repository, &data, &options(RecoveryTarget::Latest)).await;
    assert!(
        matches!(again, Err(ArchiveError::NotEmpty { .. })),
        "{again:?}"
    );
    let too_early = restore(&repository, &site.directory("early"), &options(before)).await;
    assert!(
        matches!(&too_early, Err(ArchiveError::TooEarly { label, .. }) if *label == record.label),
        "{too_early:?}"
    );

    // A segment that the backup needs, and one that later moments need.
    let needed = record.required_segments().expect("valid")[0].to_string();
    let (key, content) = take(&store, &format!("{needed}.wz")).await;
    assert_eq!(
        findings(&repository).await,
        [(FindingKind::BackupWalMissing, label.clone())]
    );
    let told = info(&repository).await.expect("readable");
    assert_eq!(told.newest.backups[0].missing_segments, [needed]);
    put(&store, &key, &content).await;

    // It goes while the files are restored, as an expiry removes it.
    let faults = Faults {
        latency_ms_max: 400,
        ..Faults::default()
    };
    let slow = Repository::open(Arc::new(FaultyStore::new(store.clone(), faults))).await;
    let (slow, meanwhile) = (slow.expect("opened"), site.directory("meanwhile"));
    let latest = options(RecoveryTarget::Latest);
    let restoring = restore(&slow, &meanwhile, &latest);
    let expiring = async {
        for _ in 0..10_000 {
            if meanwhile.join("walzip_restore.unfinished").exists() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        store.delete(&key).await.expect("deleted");
    };
    let (restored, ()) = futures::future::join(restoring, expiring).await;
    assert!(
        matches!(restored, Err(ArchiveError::ExpiredMeanwhile(_))),
        "{restored:?}"
    );
    put(&store, &key, &content).await;

    let (key, content) = take(&store, &format!("{}.wz", later[1])).await;
    assert_eq!(findings(&repository).await, [(FindingKind::WalGap, label)]);
    let told = info(&repository).await.expect("readable");
    assert_eq!(told.newest.wal[0].gaps[0].first, later[1]);
    put(&store, &key, &content[..content.len() - 1]).await;
    assert_eq!(
        findings(&repository).await,
        [(FindingKind::WalDamaged, later[1].clone())]
    );
}

/// A bit that flips before the archive is compressed: every hash of ours is right, and only
/// PostgreSQL's manifest tells.
#[tokio::test]
async fn finds_an_object_that_lies_under_the_name_of_another_file() {
    let store = memory_store();
    let repository = repository_on(store.clone()).await;
    let backup = format!("{}.00000028.backup", segment_name(5));
    let history = b"1\t0/600000\tno recovery target specified\n";
    let (segment, content) = (segment_name(5), valid_segment(5, 1));
    let files: [(&str, &[u8]); 4] = [
        (&segment, &content),
        (&backup, b"START WAL LOCATION: 0/500028\n"),
        ("00000002.history", history),
        ("00000003.history", history),
    ];
    for (name, content) in files {
        push_content(&repository, name, content)
            .await
            .expect("pushed");
    }
    for (name, other) in [
        (backup.as_str(), segment.as_str()),
        ("00000003.history", "00000002.history"),
    ] {
        let (key, _) = take(&store, &format!("/{name}.wz")).await;
        let (other_key, object) = take(&store, &format!("/{other}.wz")).await;
        put(&store, &other_key, &object).await;
        put(&store, &key, &object).await;
    }
    let found = findings(&repository).await;
    let expected = [backup.as_str(), "00000003.history"];
    let expected = expected.map(|name| (FindingKind::WalDamaged, name.to_owned()));
    assert_eq!(found, expected);
    // A get refuses it although its content is the same.
    let again = push_content(&repository, "00000003.history", history).await;
    assert!(matches!(again, Err(ArchiveError::DamagedThere { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finds_damage_that_is_older_than_the_hashes() {
    let Some(site) = Site::new() else { return };
    let out = site.directory("out");
    let primary = site.cluster("primary", &copy_to(&out));
    let (store, repository) = repository_of(&primary).await;
    let _shipper = Shipper::start(repository.clone(), out);
    let record = backup(&repository, &primary.settings(), &BackupOptions::default())
        .await
        .expect("backup");

    change_settings_file(&store).await;

    let verification = verify(&repository, &VerifyOptions::default())
        .await
        .expect("looked at");
    let [finding] = verification.findings.as_slice() else {
        panic!("{:?}", verification.findings)
    };
    assert_eq!(
        (finding.kind, finding.object.as_str()),
        (FindingKind::BackupDamaged, record.label.as_str())
    );
    assert_eq!(
        finding.detail,
        "postgresql.conf does not have the manifest's checksum"
    );
}

/// Changes a byte of the file postgresql.conf, which no other file equals, and all hashes and sizes
/// to match.
async fn change_settings_file(store: &Arc<dyn ObjectStore>) {
    let (index_key, index) = take(store, "index.zst.0000").await;
    let index = zstd::decode_all(index.as_slice()).expect("zstd");
    let lines = std::str::from_utf8(&index).expect("UTF-8").lines();
    let mut lines: Vec<serde_json::Value> = lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let files = lines.iter().filter_map(|line| line.get("file"));
    let before = files.take_while(|file| file["path"] != "postgresql.conf");
    let before = before.filter(|file| file.get("offset").is_none());
    let mut at = before
        .map(|file| number(&file["size_bytes"]))
        .sum::<usize>();

    let (pack_key, old) = take(store, "pack.0000").await;
    let mut pack = old[..16].to_vec();
    let chunks = lines.iter_mut().filter_map(|line| line.get_mut("chunk"));
    for chunk in chunks {
        let start = number(&chunk["offset"]);
        let mut encoded = old[start..start + number(&chunk["size_bytes"])].to_vec();
        let len = number(&chunk["original_bytes"]);
        if at < len {
            let mut content = walzip_codec::decode(&encoded).expect("a chunk");
            content[at] ^= 1;
            chunk["original_blake3"] = blake3::hash(&content).to_hex().as_str().into();
            encoded = walzip_codec::encode(&content, walzip_codec::Level::MIN).expect("encoded");
        }
        at = at.wrapping_sub(len);
        chunk["offset"] = pack.len().into();
        chunk["size_bytes"] = encoded.len().into();
        chunk["blake3"] = blake3::hash(&encoded).to_hex().as_str().into();
        pack.extend_from_slice(&encoded);
    }
    put(store, &pack_key, &pack).await;
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let index = zstd::encode_all(text.as_bytes(), 1).expect("zstd");
    put(store, &index_key, &index).await;

    let (key, content) = take(store, "backup.json").await;
    let mut json: serde_json::Value = serde_json::from_slice(&content).expect("JSON");
    let files = &mut json["files"];
    files["index"]["original_bytes"] = text.len().into();
    for (object, content) in [("/packs/0", &pack), ("/index/objects/0", &index)] {
        let object = files.pointer_mut(object).expect("an object");
        object["size_bytes"] = content.len().into();
        object["blake3"] = blake3::hash(content).to_hex().as_str().into();
    }
    put(store, &key, json.to_string().as_bytes()).await;
}

fn number(value: &serde_json::Value) -> usize {
    value.as_u64().expect("a number") as usize
}

/// What a restore passes over, it passes over because somebody said so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_damaged_object_is_not_in_the_way_of_a_restore_that_does_without_it() {
    let Some(site) = Site::new() else { return };
    let out = site.directory("out");
    let primary = site.cluster("primary", &copy_to(&out));
    let (store, repository) = repository_of(&primary).await;
    let _shipper = Shipper::start(repository.clone(), out);
    let settings = primary.settings();
    let mut labels = Vec::new();
    for _ in 0..2 {
        let record = backup(&repository, &settings, &BackupOptions::default()).await;
        labels.push(record.expect("backup").label);
    }
    let (key, _) = take(&store, &format!("{}/backup.json", labels[1])).await;
    put(&store, &key, b"{").await;
    let history = walzip_codec::encode(b"no history", walzip_codec::Level::default());
    repository
        .put_wal("00000002.history", history.expect("encoded").into())
        .await
        .expect("put");

    let data = site.directory("restored");
    let refused = restore(&repository, &data, &options(RecoveryTarget::Latest)).await;
    assert!(
        matches!(refused, Err(ArchiveError::HistoryLost { .. })),
        "{refused:?}"
    );
    let mut along_the_first = options(RecoveryTarget::Latest);
    along_the_first.recovery.timeline = TargetTimeline::Id(TimelineId(1));
    let refused = restore(&repository, &data, &along_the_first).await;
    match refused {
        Err(ArchiveError::BackupUnusable { older, .. }) => assert_eq!(older.as_str(), labels[0]),
        other => panic!("{other:?}"),
    }
    along_the_first.backup = Some(labels[0].parse().expect("a label"));
    let restored = restore(&repository, &data, &along_the_first).await;
    assert_eq!(restored.expect("as it was told").backup.label, labels[0]);
    let named = RestoreOptions {
        cluster: None,
        backup: Some(labels[1].parse().expect("a label")),
        ..options(RecoveryTarget::Latest)
    };
    let refused = restore(&repository, &site.directory("named"), &named).await;
    assert!(
        matches!(refused, Err(ArchiveError::Damaged { .. })),
        "{refused:?}"
    );

    let told = info(&repository).await.expect("readable");
    assert_eq!(told.newest.backups.len(), 1);
    assert_eq!(told.unreadable_backups[0].label, labels[1]);
    assert_eq!(
        findings(&repository).await,
        [
            (FindingKind::BackupDamaged, labels[1].clone()),
            (FindingKind::WalDamaged, "00000002.history".to_owned()),
        ]
    );
}

fn assert_unstartable(data: &Path) {
    assert!(!data.join("global/pg_control").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_over_a_failing_store_is_complete_or_not_listed() {
    let Some(site) = Site::new() else { return };
    let out = site.directory("out");
    let primary = site.cluster("primary", &copy_to(&out));
    let (store, healthy) = repository_of(&primary).await;
    let _shipper = Shipper::start(healthy.clone(), out);
    let settings = primary.settings();
    let (mut done, mut failed) = (0, 0);
    let options = |backup_type| BackupOptions {
        backup_type,
        ..BackupOptions::default()
    };
    let full = backup(&healthy, &settings, &options(BackupType::Full)).await;
    full.expect("a backup to compare with");
    let calls = [2, 4, 6, 8, 9, 10, 12, 14, 17, 20, 25, 30, 40, 1000];
    let tries = calls.map(|call| [BackupType::Full, BackupType::Incr].map(|of| (call, of)));
    for (call, of) in tries.into_iter().flatten() {
        for lose_answer in [false, true] {
            let faults = Faults {
                fail_call: (!lose_answer).then_some(call),
                lose_answer_of_call: lose_answer.then_some(call),
                ..Faults::default()
            };
            let faulty = Arc::new(FaultyStore::new(store.clone(), faults));
            let repository = Repository::open(faulty).await.expect("opened");
            let listed = healthy.list_backups().await.expect("readable").len();
            match backup(&repository, &settings, &options(of)).await {
                Ok(record) => {
                    let label = record.label.parse().expect("a label");
                    let stored = BackupRecord::read(&healthy, &label).await.expect("listed");
                    assert_eq!(stored, record);
                    done += 1;
                }
                Err(_) => {
                    let now = healthy.list_backups().await.expect("readable").len();
                    // The answer to the very last put may be what was lost.
                    assert!(now == listed || (lose_answer && now == listed + 1));
                    failed += 1;
                }
            }
        }
    }
    assert!(done > 0 && failed > 0, "{done} done, {failed} failed");
    assert_eq!(findings(&healthy).await, []);
}
