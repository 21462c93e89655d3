//! Retention over a store that fails: what is listed can be restored at every moment, and the next
//! expiry finishes. And what begins to be needed meanwhile stays.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use jiff::{SignedDuration, Timestamp};
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use walzip_archive::expire::{ExpireRequest, Plan, Retention, expire, plan_expire_at};
use walzip_archive::pins::{pin, unpin};
use walzip_archive::verify::{VerifyOptions, verify};
use walzip_archive::{
    ArchiveError, ArchiveRecord, BackupRecord, BlockHashFunction, BlockHashesRecord, FilesRecord,
    Moment, ObjectRecord, RequiredWal,
};
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::testing::{Faults, FaultyStore, memory_store};
use walzip_repo::{BackupLabel, BackupType, Interrupted, LocalStore, Repository};

use crate::wal::{CLUSTER, SEGMENT_SIZE, push_content, repository_on, segment_name, valid_segment};

const FIRST_SEGMENT: u64 = 4;
const LAST_SEGMENT: u64 = 14;

/// The archived WAL is older than all backups: a store in memory knows one time only.
fn after(begin: Timestamp, hours: i64) -> Timestamp {
    begin + SignedDuration::from_hours(hours)
}

fn object(name: &str, content: &[u8]) -> ObjectRecord {
    ObjectRecord {
        name: name.to_owned(),
        size_bytes: content.len() as u64,
        blake3: blake3::hash(content).to_hex().to_string(),
    }
}

fn stream(name: &str) -> ArchiveRecord {
    ArchiveRecord {
        tablespace_oid: None,
        original_bytes: 7,
        objects: vec![object(name, name.as_bytes())],
    }
}

/// A backup as far as names and sizes go.
async fn back_up(
    repository: &Repository,
    backup_type: BackupType,
    started: Timestamp,
    number: u64,
    references: &[&BackupLabel],
) -> BackupLabel {
    let references: Vec<String> = references.iter().map(ToString::to_string).collect();
    let writer = repository
        .start_backup_of(backup_type, started, references.clone())
        .await
        .expect("claimed");
    let names = [
        "pack.0000",
        "index.zst.0000",
        "block_hashes.0000",
        "backup_manifest.zst.0000",
    ];
    for name in names {
        let mut object = writer.create_object(name).await.expect("begun");
        object
            .write(name.as_bytes().to_vec())
            .await
            .expect("written");
        object.finish().await.expect("finished");
    }
    let moment = |offset: u64, minutes| Moment {
        lsn: Lsn(number * SEGMENT_SIZE as u64 + offset),
        timeline: TimelineId(1),
        time: started + SignedDuration::from_mins(minutes),
    };
    let segment = segment_name(number).parse().expect("a segment");
    let record = BackupRecord {
        format: 3,
        attempts: None,
        label: writer.label().to_string(),
        backup_type: Some(backup_type),
        prior: references.last().cloned(),
        references,
        system_identifier: CLUSTER.system_id.to_string(),
        major: CLUSTER.major,
        server_version: "15.13".to_owned(),
        segment_size_bytes: SEGMENT_SIZE as u32,
        from_standby: false,
        start: moment(40, 0),
        stop: moment(400, 1),
        required_wal: vec![RequiredWal {
            first_segment: segment,
            last_segment: segment,
        }],
        tablespaces: Vec::new(),
        new_tablespaces: Vec::new(),
        databases: Vec::new(),
        unlogged: Vec::new(),
        archives: Vec::new(),
        data_checksums: None,
        follows: Vec::new(),
        checksums_verified: true,
        files: Some(FilesRecord {
            original_bytes: 7,
            packs: vec![object("pack.0000", b"pack.0000")],
            index: stream("index.zst.0000"),
        }),
        block_hashes: Some(BlockHashesRecord {
            function: BlockHashFunction::default(),
            key: "00".repeat(32),
            objects: vec![object("block_hashes.0000", b"block_hashes.0000")],
            changed: Vec::new(),
        }),
        manifest: stream("backup_manifest.zst.0000"),
    };
    let json = serde_json::to_vec(&record).expect("JSON");
    writer.finish(json.into()).await.expect("finished")
}

/// An archive with three full and two incremental backups, and one that was given up.
struct Filled {
    store: Arc<dyn ObjectStore>,
    repository: Repository,
    labels: Vec<BackupLabel>,
    now: Timestamp,
}

async fn filled() -> Filled {
    let store = memory_store();
    let repository = repository_on(Arc::clone(&store)).await;
    for number in FIRST_SEGMENT..=LAST_SEGMENT {
        let content = valid_segment(number, 1);
        let pushed = push_content(&repository, &segment_name(number), &content).await;
        pushed.expect("pushed");
    }
    let begin = after(Timestamp::now(), 1);
    let take = async |of, hours, number, references: &[&BackupLabel]| {
        back_up(&repository, of, after(begin, hours), number, references).await
    };
    let first = take(BackupType::Full, 1, 5, &[]).await;
    let first_incr = take(BackupType::Incr, 2, 6, &[&first]).await;
    let second = take(BackupType::Full, 3, 8, &[]).await;
    let second_incr = take(BackupType::Incr, 4, 9, &[&second]).await;
    let third = take(BackupType::Full, 5, 12, &[]).await;
    let given_up = repository.start_backup_at(begin).await.expect("claimed");
    let mut object = given_up.create_object("pack.0000").await.expect("begun");
    object.write(&b"half"[..]).await.expect("written");
    object.finish().await.expect("finished");
    Filled {
        store,
        repository,
        labels: vec![first, first_incr, second, second_incr, third],
        now: after(begin, 20 * 24),
    }
}

fn one_full() -> ExpireRequest {
    ExpireRequest {
        retention: Retention {
            full: NonZeroU32::new(1),
            window: None,
        },
        ..ExpireRequest::default()
    }
}

async fn run(repository: &Repository, now: Timestamp) -> Result<Plan, ArchiveError> {
    let request = one_full();
    let plan = plan_expire_at(repository, &request, now).await?;
    expire(repository, &request, &plan).await
}

type Objects = BTreeMap<String, Vec<u8>>;

async fn objects(store: &Arc<dyn ObjectStore>) -> Objects {
    let listed: Vec<_> = store.list(None).try_collect().await.expect("listed");
    let mut objects = Objects::new();
    for meta in listed {
        let object = store.get(&meta.location).await.expect("there");
        let content = object.bytes().await.expect("readable").to_vec();
        objects.insert(meta.location.to_string(), content);
    }
    objects
}

async fn store_with(objects: &Objects) -> Arc<dyn ObjectStore> {
    let store = memory_store();
    for (key, content) in objects {
        let put = store
            .put(&Key::from(key.as_str()), content.clone().into())
            .await;
        put.expect("put");
    }
    store
}

/// Every backup that is listed has its objects, its WAL and what it refers to.
fn assert_listed_are_whole(objects: &Objects, when: &str) {
    let listed = objects.keys().filter_map(|key| {
        let label = key.strip_prefix("backup/")?.strip_suffix("/backup.json")?;
        Some(label.to_owned())
    });
    let listed: BTreeSet<String> = listed.collect();
    for label in &listed {
        let json = &objects[&format!("backup/{label}/backup.json")];
        let record: BackupRecord = serde_json::from_slice(json).expect("JSON");
        for object in record.objects() {
            let found = objects.get(&format!("backup/{label}/{}", object.name));
            let size = found.map(|content| content.len() as u64);
            assert_eq!(
                size,
                Some(object.size_bytes),
                "{when}: {label}/{}",
                object.name
            );
        }
        for needed in &record.references {
            assert!(listed.contains(needed), "{when}: {label} has lost {needed}");
        }
        let wal = record.required_segments().expect("segments");
        for segment in wal {
            let name = format!("/{segment}.wz");
            let mut keys = objects.keys();
            assert!(
                keys.any(|key| key.ends_with(&name)),
                "{when}: {label} {segment}"
            );
        }
    }
}

async fn keys_after(objects: &Objects, now: Timestamp) -> BTreeSet<String> {
    let store = store_with(objects).await;
    let repository = Repository::open(Arc::clone(&store)).await.expect("opened");
    run(&repository, now).await.expect("expired");
    self::objects(&store).await.into_keys().collect()
}

/// Whatever fails, and whether its effect took place or not.
async fn nothing_kept_is_lost(objects: &Objects, kept: &[&BackupLabel], now: Timestamp) {
    let expected = keys_after(objects, now).await;
    for label in kept {
        assert!(expected.contains(&format!("backup/{label}/backup.json")));
    }
    let finished = expected.iter().filter(|key| key.ends_with("/backup.json"));
    assert_eq!(finished.count(), kept.len());
    for lose_answer in [false, true] {
        for call in 2.. {
            let faults = Faults {
                fail_call: Some(call).filter(|_| !lose_answer),
                lose_answer_of_call: Some(call).filter(|_| lose_answer),
                ..Faults::default()
            };
            let store = store_with(objects).await;
            let faulty = FaultyStore::new(Arc::clone(&store), faults);
            let repository = Repository::open(Arc::new(faulty.clone()))
                .await
                .expect("opened");
            let outcome = run(&repository, now).await;
            let when = format!("call {call}, {lose_answer}");
            let left = self::objects(&store).await;
            assert_listed_are_whole(&left, &when);
            for label in kept {
                assert!(
                    left.contains_key(&format!("backup/{label}/backup.json")),
                    "{when}"
                );
            }
            let direct = Repository::open(Arc::clone(&store)).await.expect("opened");
            run(&direct, now)
                .await
                .unwrap_or_else(|error| panic!("{when}: {error}"));
            let found: BTreeSet<String> = self::objects(&store).await.into_keys().collect();
            assert_eq!(found, expected, "{when}: {outcome:?}");
            if faulty.calls() < call {
                assert!(call > 40, "the expiry took {call} calls only");
                assert!(outcome.is_ok(), "{when}: {outcome:?}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn nothing_kept_is_lost_when_any_call_fails_and_the_next_expiry_finishes() {
    let filled = filled().await;
    let before = objects(&filled.store).await;
    nothing_kept_is_lost(&before, &[&filled.labels[4]], filled.now).await;
}

#[tokio::test]
async fn the_same_holds_for_what_is_pinned() {
    let filled = filled().await;
    let incr = &filled.labels[1];
    pin(&filled.repository, incr, None).await.expect("pinned");
    let before = objects(&filled.store).await;
    let kept = [&filled.labels[0], incr, &filled.labels[4]];
    nothing_kept_is_lost(&before, &kept, filled.now).await;
    // Their own WAL, and what follows the oldest that is retained.
    let keys = keys_after(&before, filled.now).await;
    let names = keys
        .iter()
        .filter_map(|key| key.rsplit('/').next()?.strip_suffix(".wz"));
    let expected: Vec<String> = [5, 6, 12, 13, 14].map(segment_name).to_vec();
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

/// What is left of a plan after something has begun to need what it removes.
async fn finished_after(filled: &Filled, plan: &Plan) -> Vec<BackupLabel> {
    let done = expire(&filled.repository, &one_full(), plan).await;
    done.expect("expired");
    let left = objects(&filled.store).await;
    assert_listed_are_whole(&left, "afterwards");
    let mut marks = left.keys().filter(|key| key.ends_with("/expiring"));
    assert_eq!(marks.next(), None);
    filled.repository.list_backups().await.expect("listed")
}

async fn planned(filled: &Filled) -> Plan {
    let plan = plan_expire_at(&filled.repository, &one_full(), filled.now).await;
    let plan = plan.expect("a plan");
    let removed = plan.backups.iter().filter(|backup| backup.removed).count();
    assert_eq!(removed, 5);
    plan
}

#[tokio::test]
async fn what_a_backup_that_begins_meanwhile_may_refer_to_stays() {
    let filled = filled().await;
    let plan = planned(&filled).await;
    let second = filled.labels[2].to_string();
    let late = after(filled.now, -1);
    let running = filled
        .repository
        .start_backup_of(BackupType::Incr, late, vec![second]);
    let running = running.await.expect("claimed");
    assert!(
        filled
            .repository
            .stays(&filled.labels[2])
            .await
            .expect("asked")
    );
    let left = finished_after(&filled, &plan).await;
    assert_eq!(left, [filled.labels[2].clone(), filled.labels[4].clone()]);
    let unfinished = filled.repository.list_unfinished_backups().await;
    assert_eq!(unfinished.expect("listed"), [running.label().clone()]);
}

#[tokio::test]
async fn what_a_backup_has_come_to_refer_to_meanwhile_stays() {
    let filled = filled().await;
    let plan = planned(&filled).await;
    let [second, incr] = [&filled.labels[2], &filled.labels[3]];
    let late = after(filled.now, -1);
    let next = back_up(
        &filled.repository,
        BackupType::Incr,
        late,
        13,
        &[second, incr],
    )
    .await;
    let left = finished_after(&filled, &plan).await;
    let third = &filled.labels[4];
    assert_eq!(left, [second, incr, third, &next].map(Clone::clone));
}

#[tokio::test]
async fn a_pin_that_is_put_meanwhile_counts() {
    let filled = filled().await;
    let plan = planned(&filled).await;
    pin(&filled.repository, &filled.labels[0], None)
        .await
        .expect("pinned");
    let left = finished_after(&filled, &plan).await;
    assert_eq!(left, [filled.labels[0].clone(), filled.labels[4].clone()]);
    assert!(
        unpin(&filled.repository, &filled.labels[0])
            .await
            .expect("unpinned")
    );
    assert!(
        !unpin(&filled.repository, &filled.labels[0])
            .await
            .expect("asked")
    );
}

#[tokio::test]
async fn nothing_begins_to_need_what_is_marked() {
    let filled = filled().await;
    let label = &filled.labels[0];
    let marked = filled.repository.mark_expiring(label, Some(CLUSTER)).await;
    marked.expect("marked");
    assert!(!filled.repository.stays(label).await.expect("asked"));
    let error = pin(&filled.repository, label, None)
        .await
        .expect_err("refused");
    assert!(
        matches!(error, ArchiveError::BeingExpired { .. }),
        "{error}"
    );
    let pinned = filled.repository.read_pin(label).await.expect("asked");
    assert_eq!(pinned, None);
    // The next expiry that keeps it takes the mark back.
    let request = ExpireRequest {
        retention: Retention {
            full: NonZeroU32::new(9),
            window: None,
        },
        ..ExpireRequest::default()
    };
    let plan = plan_expire_at(&filled.repository, &request, filled.now).await;
    let plan = plan.expect("a plan");
    expire(&filled.repository, &request, &plan)
        .await
        .expect("nothing but a leftover");
    assert!(filled.repository.stays(label).await.expect("asked"));
}

#[tokio::test]
async fn two_expiries_at_once_do_what_one_does() {
    let filled = filled().await;
    let before = objects(&filled.store).await;
    let expected = keys_after(&before, filled.now).await;
    let runs = (0..2).map(|_| run(&filled.repository, filled.now));
    futures::future::join_all(runs).await;
    run(&filled.repository, filled.now).await.expect("expired");
    let found: BTreeSet<String> = objects(&filled.store).await.into_keys().collect();
    assert_eq!(found, expected);
}

/// Its backups are no more than names and sizes, and so the findings that there are.
#[tokio::test]
async fn a_verification_takes_nothing_for_damage_that_expires_meanwhile() {
    let mut removed_in_all = 0;
    for seed in 0..24 {
        let filled = filled().await;
        let faults = Faults {
            seed,
            latency_ms_max: 4,
            ..Faults::default()
        };
        let slow = Arc::new(FaultyStore::new(Arc::clone(&filled.store), faults));
        let slow = Repository::open(slow).await.expect("opened");
        let options = VerifyOptions::default();
        let expired = async {
            tokio::time::sleep(Duration::from_millis(2 * seed)).await;
            run(&filled.repository, filled.now).await
        };
        let (verified, expired) = futures::future::join(verify(&slow, &options), expired).await;
        let findings = verified.expect("verified").findings;
        let plan = expired.expect("expired");
        let removed = plan.backups.iter().filter(|backup| backup.removed);
        removed_in_all += removed.count();
        let left = filled.repository.list_backups().await.expect("listed");
        let left: BTreeSet<String> = left.iter().map(ToString::to_string).collect();
        for finding in findings {
            assert!(left.contains(&finding.object), "{seed}: {finding:?}");
        }
    }
    // Two full ones, what refers to them, and what was given up.
    assert_eq!(removed_in_all, 24 * 5);
}

/// A full backup that was given up eight days ago, its plan to go, and the mark of that expiry.
async fn marked_leftover(root: &Path) -> (Repository, BackupLabel, Plan) {
    let repository = repository_on(Arc::new(LocalStore::new(root))).await;
    let begin = after(Timestamp::now(), -8 * 24);
    let writer = repository.start_backup_of(BackupType::Full, begin, Vec::new());
    let label = writer.await.expect("claimed").label().clone();
    let claim = File::options()
        .write(true)
        .open(root.join(format!("backup/{label}/started")));
    let claim = claim.expect("opened");
    claim.set_modified(begin.into()).expect("its time");
    let plan = plan_expire_at(&repository, &one_full(), Timestamp::now()).await;
    let plan = plan.expect("a plan");
    assert!(plan.backups.iter().all(|backup| backup.removed));
    (repository, label, plan)
}

/// Goes on with a backup before an expiry marks it, and expires then.
async fn gone_on_with(
    (repository, label, plan): &(Repository, BackupLabel, Plan),
) -> Vec<BackupLabel> {
    let interrupted = Interrupted {
        label: label.clone(),
        attempts: 1,
        objects: BTreeMap::new(),
    };
    let writer = repository.continue_backup(&interrupted).await;
    assert_eq!(writer.expect("asked").expect("claimed").attempt(), 2);
    let marked = repository.mark_expiring(label, None).await;
    marked.expect("marked");
    let done = expire(repository, &one_full(), plan).await;
    done.expect("expired");
    let left = repository.list_unfinished_backups().await;
    left.expect("listed")
}

#[tokio::test]
async fn a_backup_that_is_gone_on_with_while_it_is_expired_stays() {
    let root = tempfile::tempdir().expect("a directory");
    let leftover = marked_leftover(root.path()).await;
    let (repository, label, _) = &leftover;
    assert_eq!(gone_on_with(&leftover).await, std::slice::from_ref(label));
    let left = repository.list_labels_with_objects().await.expect("listed");
    let names: Vec<_> = left[label].keys().collect();
    assert_eq!(names, ["2/started", "started"]);
}

#[tokio::test]
async fn an_attempt_whose_process_has_ended_keeps_nothing() {
    let root = tempfile::tempdir().expect("a directory");
    let leftover = marked_leftover(root.path()).await;
    let (repository, label, plan) = &leftover;
    gone_on_with(&leftover).await;
    let claim = root.path().join(format!("backup/{label}/2/started"));
    let text = fs::read_to_string(&claim).expect("read");
    let (before, ticks) = text.rsplit_once("\"start_ticks\":").expect("its process");
    let ended = format!("{before}\"start_ticks\":1{}", ticks.trim_start());
    fs::write(&claim, ended).expect("written");
    let marked = repository.mark_expiring(label, None).await;
    marked.expect("marked");
    let done = expire(repository, &one_full(), plan).await;
    done.expect("expired");
    let left = repository.list_unfinished_backups().await;
    assert_eq!(left.expect("listed"), []);
}

/// A server's clock that is days behind makes a backup look older than the window.
#[tokio::test]
async fn a_backup_that_looks_older_than_its_description_does_not_fill_the_window() {
    let store = memory_store();
    let repository = repository_on(store).await;
    for number in FIRST_SEGMENT..=LAST_SEGMENT {
        let content = valid_segment(number, 1);
        let pushed = push_content(&repository, &segment_name(number), &content).await;
        pushed.expect("pushed");
    }
    let now = Timestamp::now();
    for (number, days) in [(5, 9), (8, 8), (12, 7_i64)] {
        let started = after(now, -24 * days);
        back_up(&repository, BackupType::Full, started, number, &[]).await;
    }
    let request = |days: i64| ExpireRequest {
        retention: Retention {
            full: None,
            window: Some(SignedDuration::from_hours(24 * days)),
        },
        ..ExpireRequest::default()
    };
    let later = after(now, 1);
    let plan = plan_expire_at(&repository, &request(3), later).await;
    let kept = |plan: &Plan| plan.backups.iter().filter(|of| !of.removed).count();
    let plan = plan.expect("a plan");
    assert_eq!(kept(&plan), 3, "{plan:?}");
    assert!(
        plan.clusters.iter().all(|of| of.removed_wal.is_empty()),
        "{plan:?}"
    );
    // What is finished by the moment that the window is about goes.
    let last = LAST_SEGMENT + 1;
    let pushed = push_content(&repository, &segment_name(last), &valid_segment(last, 1)).await;
    pushed.expect("pushed");
    let plan = plan_expire_at(&repository, &request(0), later).await;
    assert_eq!(kept(&plan.expect("a plan")), 1);
}
