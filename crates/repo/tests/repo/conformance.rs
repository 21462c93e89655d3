//! What a repository does on every store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::TryStreamExt;
use futures::future::join_all;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use walzip_repo::{
    BackupLabel, BackupType, Initialised, PART_BYTES, PutOutcome, RepoError, Repository,
};

use crate::{CLUSTER, OTHER_CLUSTER, SEGMENT, new_repository, patterned};

pub async fn gets_back_what_was_put(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(store).await;
    for (name, size) in [
        ("000000010000000000000001", 0),
        ("000000010000000000000002", 1),
    ]
    .into_iter()
    .chain([
        ("000000010000000100000000", 3 << 20),
        ("00000002.history", 200),
    ]) {
        let object = patterned(name, size);
        let outcome = repository.put_wal(name, object.clone()).await.unwrap();
        assert_eq!(outcome, PutOutcome::Created);
        assert_eq!(repository.get_wal(name).await.unwrap(), Some(object));
        let found = repository.find_wal(name).await.unwrap().unwrap();
        assert_eq!((found.name.as_str(), found.size_bytes), (name, size as u64));
    }
}

pub async fn says_none_for_what_is_not_there(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(store).await;
    assert_eq!(repository.get_wal(SEGMENT).await.unwrap(), None);
    assert_eq!(repository.find_wal(SEGMENT).await.unwrap(), None);
    assert_eq!(repository.list_wal().await.unwrap(), []);
    assert_eq!(repository.list_backups().await.unwrap(), []);
    assert_eq!(repository.list_unfinished_backups().await.unwrap(), []);
    let label: BackupLabel = "20261121-220130F".parse().unwrap();
    let error = repository.read_backup_json(&label).await.unwrap_err();
    assert!(matches!(error, RepoError::NotFound { .. }), "{error}");
}

pub async fn leaves_an_existing_object_alone(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(store).await;
    let object = Bytes::from_static(b"first");
    repository.put_wal(SEGMENT, object.clone()).await.unwrap();
    for other in ["first", "other", ""] {
        let outcome = repository.put_wal(SEGMENT, other.into()).await.unwrap();
        assert_eq!(outcome, PutOutcome::Exists);
        assert_eq!(
            repository.get_wal(SEGMENT).await.unwrap(),
            Some(object.clone())
        );
    }
}

pub async fn lets_one_of_many_simultaneous_puts_create(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(store).await;
    for round in 0..8 {
        let name = format!("0000000100000000000000{round:02X}");
        let objects: Vec<Bytes> = (0..16)
            .map(|writer| patterned(&format!("{writer}"), 100_000))
            .collect();
        let puts = objects
            .iter()
            .map(|object| repository.put_wal(&name, object.clone()));
        let outcomes = join_all(puts).await;
        let winners: Vec<_> = (0..objects.len())
            .filter(|writer| *outcomes[*writer].as_ref().unwrap() == PutOutcome::Created)
            .collect();
        assert_eq!(winners.len(), 1);
        let stored = repository.get_wal(&name).await.unwrap().unwrap();
        assert!(stored == objects[winners[0]]);
    }
}

pub async fn lists_wal_by_name_with_sizes_and_times(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(store).await;
    let mut names = [
        "00000002.history",
        "000000020000000100000000",
        "0000000100000000000000FF",
        "0000000100000000000000FF.partial",
        "000000010000000000000003.00000028.backup",
        "odd.name",
    ];
    for (size, name) in names.iter().enumerate() {
        repository
            .put_wal(name, patterned(name, size))
            .await
            .unwrap();
    }
    let sizes: std::collections::BTreeMap<_, _> = names.iter().copied().zip(0..).collect();
    names.sort();
    let listed = repository.list_wal().await.unwrap();
    let listed_names: Vec<_> = listed.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(listed_names, names);
    for entry in &listed {
        assert_eq!(entry.size_bytes, sizes[entry.name.as_str()]);
        let age = SystemTime::now()
            .duration_since(entry.modified)
            .unwrap_or_default();
        assert!(age < Duration::from_secs(3600), "{entry:?}");
    }
}

pub async fn passes_over_objects_that_are_not_its_own(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(Arc::clone(&store)).await;
    for key in [
        format!("wal/15-{}/0000000100000000/{SEGMENT}.wz", CLUSTER.system_id),
        format!("wal/15-{}/{SEGMENT}.wz", CLUSTER.system_id),
        format!("wal/15-{}/00000002.history", CLUSTER.system_id),
        format!("wal/15-{}0/00000002.history.wz", CLUSTER.system_id),
        format!("wal/16-{}/00000002.history.wz", CLUSTER.system_id),
        "backup/20261121-220130/backup.json".to_owned(),
        "backup/notes.txt".to_owned(),
    ] {
        store.put(&Path::from(key), "stray".into()).await.unwrap();
    }
    assert_eq!(repository.list_wal().await.unwrap(), []);
    assert_eq!(repository.list_backups().await.unwrap(), []);
    assert_eq!(repository.list_unfinished_backups().await.unwrap(), []);
}

pub async fn initialising_again_is_success_for_the_same_cluster_only(store: Arc<dyn ObjectStore>) {
    let first = new_repository(Arc::clone(&store)).await;
    let (again, outcome) = Repository::init(Arc::clone(&store), CLUSTER).await.unwrap();
    assert_eq!(outcome, Initialised::Existed);
    assert_eq!(again.created(), first.created());
    for other in OTHER_CLUSTER {
        let error = Repository::init(Arc::clone(&store), other)
            .await
            .unwrap_err();
        assert!(matches!(error, RepoError::Mismatch { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(&CLUSTER.to_string()), "{text}");
        assert!(text.contains(&other.to_string()), "{text}");
    }
    assert_eq!(Repository::open(store).await.unwrap().cluster(), CLUSTER);
}

pub async fn simultaneous_initialisations_agree(store: Arc<dyn ObjectStore>) {
    let both = [CLUSTER, OTHER_CLUSTER[0]];
    let attempts = (0..12).map(|n| Repository::init(Arc::clone(&store), both[n % 2]));
    let outcomes = join_all(attempts).await;
    let owner = Repository::open(store).await.unwrap().cluster();
    let created = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Ok((_, Initialised::Created))));
    assert_eq!(created.count(), 1);
    for (n, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.is_ok(), both[n % 2] == owner);
    }
}

pub async fn opens_nothing_but_a_repository(store: Arc<dyn ObjectStore>) {
    let error = Repository::open(Arc::clone(&store)).await.unwrap_err();
    assert!(matches!(error, RepoError::NotARepository { .. }), "{error}");
    let stray = Path::from("wal/15-1/00000002.history.wz");
    store.put(&stray, "stray".into()).await.unwrap();
    let error = Repository::open(store).await.unwrap_err();
    assert!(matches!(error, RepoError::NotARepository { .. }), "{error}");
}

pub async fn a_backup_exists_when_it_is_finished(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(store).await;
    let writer = repository.start_backup().await.unwrap();
    let label = writer.label().clone();
    let mut object = writer.create_object("base/1.tar.zst").await.unwrap();
    object.write(&b"hello "[..]).await.unwrap();
    object.write(&b"world"[..]).await.unwrap();
    assert_eq!(object.finish().await.unwrap(), 11);
    assert_eq!(repository.list_backups().await.unwrap(), []);
    let unfinished = repository.list_unfinished_backups().await.unwrap();
    assert_eq!(unfinished, std::slice::from_ref(&label));
    let error = repository.read_backup_json(&label).await.unwrap_err();
    assert!(matches!(error, RepoError::NotFound { .. }), "{error}");

    let json = Bytes::from_static(b"{\"format\": 1}\n");
    assert_eq!(writer.finish(json.clone()).await.unwrap(), label);
    let finished = repository.list_backups().await.unwrap();
    assert_eq!(finished, std::slice::from_ref(&label));
    assert_eq!(repository.list_unfinished_backups().await.unwrap(), []);
    assert_eq!(repository.read_backup_json(&label).await.unwrap(), json);
    let content = read_object(&repository, &label, "base/1.tar.zst").await;
    assert_eq!(content.unwrap(), b"hello world");
    let error = read_object(&repository, &label, "base/2")
        .await
        .unwrap_err();
    assert!(matches!(error, RepoError::NotFound { .. }), "{error}");
}

pub async fn streams_backup_objects_of_any_length(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(store).await;
    let writer = repository.start_backup().await.unwrap();
    let label = writer.label().clone();
    let sizes = [0, 1, PART_BYTES - 1, PART_BYTES, 2 * PART_BYTES + 12_345];
    for size in sizes {
        let name = format!("object-{size}");
        let mut object = writer.create_object(&name).await.unwrap();
        for piece in patterned(&name, size).chunks(1_000_003) {
            object.write(piece.to_vec()).await.unwrap();
        }
        assert_eq!(object.finish().await.unwrap(), size as u64);
    }
    writer.finish(Bytes::from_static(b"{}")).await.unwrap();
    for size in sizes {
        let name = format!("object-{size}");
        let content = read_object(&repository, &label, &name).await.unwrap();
        assert!(content == patterned(&name, size), "{name}");
    }
    let listed = repository.list_backup_objects(&label).await.unwrap();
    let expected = sizes.map(|size| (format!("object-{size}"), size as u64));
    assert_eq!(listed, expected.into_iter().collect());
}

pub async fn simultaneous_backups_have_labels_of_their_own(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(store).await;
    let now = "2026-11-21T22:01:30.5Z".parse().unwrap();
    let starts = (0..8).map(|_| repository.start_backup_at(now));
    let writers = join_all(starts).await;
    let labels: BTreeSet<BackupLabel> = writers
        .iter()
        .map(|writer| writer.as_ref().unwrap().label().clone())
        .collect();
    let labels: Vec<String> = labels.iter().map(BackupLabel::to_string).collect();
    let expected: Vec<String> = (30..38).map(|s| format!("20261121-2201{s}F")).collect();
    assert_eq!(labels, expected);
    // Those of other types have no second in common with them: labels sort by time.
    for (of, expected) in [
        (BackupType::Diff, "20261121-220138D"),
        (BackupType::Incr, "20261121-220139I"),
        (BackupType::Full, "20261121-220140F"),
    ] {
        let writer = repository
            .start_backup_of(of, now, Vec::new())
            .await
            .unwrap();
        assert_eq!(writer.label().as_str(), expected);
    }
}

pub async fn a_backup_with_a_missing_object_cannot_be_finished(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(Arc::clone(&store)).await;
    let finish = Bytes::from_static(b"{}");

    let given_up = repository.start_backup().await.unwrap();
    let mut object = given_up.create_object("base.tar").await.unwrap();
    object.write(&b"half of it"[..]).await.unwrap();
    drop(object);
    let error = given_up.finish(finish.clone()).await.unwrap_err();
    assert!(
        matches!(error, RepoError::IncompleteBackup { .. }),
        "{error}"
    );

    for replacement in [None, Some("shorter")] {
        let damaged = repository.start_backup().await.unwrap();
        let mut object = damaged.create_object("base.tar").await.unwrap();
        object.write(&b"all of it"[..]).await.unwrap();
        object.finish().await.unwrap();
        let key = Path::from(format!("backup/{}/base.tar", damaged.label()));
        store.delete(&key).await.unwrap();
        if let Some(content) = replacement {
            store.put(&key, content.into()).await.unwrap();
        }
        let error = damaged.finish(finish.clone()).await.unwrap_err();
        assert!(
            matches!(error, RepoError::IncompleteBackup { .. }),
            "{error}"
        );
    }
    assert_eq!(repository.list_backups().await.unwrap(), []);
    assert_eq!(repository.list_unfinished_backups().await.unwrap().len(), 3);
}

pub async fn an_object_that_was_not_finished_does_not_exist(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(store).await;
    let writer = repository.start_backup().await.unwrap();
    let label = writer.label().clone();
    let mut object = writer.create_object("base.tar").await.unwrap();
    object.write(vec![7; 2 * PART_BYTES]).await.unwrap();
    let error = writer.create_object("base.tar").await.unwrap_err();
    assert!(matches!(error, RepoError::AlreadyExists { .. }), "{error}");
    drop(object);
    let found = repository.list_backup_objects(&label).await.unwrap();
    assert!(found.is_empty(), "{found:?}");
    let error = read_object(&repository, &label, "base.tar")
        .await
        .unwrap_err();
    assert!(matches!(error, RepoError::NotFound { .. }), "{error}");
}

pub async fn deletes_what_it_is_told_to(store: Arc<dyn ObjectStore>) {
    let repository = new_repository(Arc::clone(&store)).await;
    let name = "00000002.history";
    repository.put_wal(name, "1".into()).await.unwrap();
    let key = Path::from(format!("wal/15-{}/{name}.wz", CLUSTER.system_id));
    store.delete(&key).await.unwrap();
    assert_eq!(repository.get_wal(name).await.unwrap(), None);
    let outcome = repository.put_wal(name, "2".into()).await.unwrap();
    assert_eq!(outcome, PutOutcome::Created);
}

async fn read_object(
    repository: &Repository,
    label: &BackupLabel,
    name: &str,
) -> Result<Vec<u8>, RepoError> {
    let stream = repository.open_backup_object(label, name).await?;
    let pieces: Vec<Bytes> = stream.try_collect().await?;
    Ok(pieces.concat())
}
