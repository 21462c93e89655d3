//! What every store does with objects, below the repository.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::future::join_all;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
};

use crate::patterned;

/// Above the smallest part that S3 takes.
const PART: usize = (5 << 20) + 1;

async fn create(
    store: &Arc<dyn ObjectStore>,
    key: &str,
    content: Bytes,
) -> object_store::Result<()> {
    let key = Path::from(key);
    let put = store.put_opts(
        &key,
        PutPayload::from(content),
        PutOptions::from(PutMode::Create),
    );
    put.await.map(|_| ())
}

async fn content(store: &Arc<dyn ObjectStore>, key: &str) -> Bytes {
    let found = store.get(&Path::from(key)).await.unwrap();
    found.bytes().await.unwrap()
}

async fn keys(store: &Arc<dyn ObjectStore>, prefix: &str) -> Vec<String> {
    let prefix = Path::from(prefix);
    let listed = store
        .list(Some(&prefix))
        .map_ok(|meta| meta.location.to_string());
    let mut keys: Vec<String> = listed.try_collect().await.unwrap();
    // Encryption has objects of its own.
    keys.retain(|key| !key.starts_with("keys/"));
    keys.sort();
    keys
}

pub async fn a_name_is_given_once_however_many_ask(store: Arc<dyn ObjectStore>) {
    for round in 0..4 {
        let key = format!("race/{round}");
        let contents: Vec<Bytes> = (0..16)
            .map(|writer| patterned(&format!("{round} {writer}"), 70_000))
            .collect();
        let puts = contents
            .iter()
            .map(|object| create(&store, &key, object.clone()));
        let outcomes = join_all(puts).await;
        let winners: Vec<usize> = (0..16).filter(|&at| outcomes[at].is_ok()).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        for outcome in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
            assert!(
                matches!(outcome, Error::AlreadyExists { .. }),
                "{outcome:?}"
            );
        }
        assert!(content(&store, &key).await == contents[winners[0]]);
    }
}

pub async fn a_range_is_what_was_asked_for(store: Arc<dyn ObjectStore>) {
    let object = patterned("ranges", 1_000_000);
    create(&store, "a/ranges", object.clone()).await.unwrap();
    let key = Path::from("a/ranges");
    for range in [0..1, 0..1_000_000, 999_999..1_000_000, 300_000..700_001] {
        let found = store.get_range(&key, range.clone()).await.unwrap();
        let (start, end) = (range.start as usize, range.end as usize);
        assert!(found == object.slice(start..end), "{range:?}");
    }
    let suffix = GetOptions {
        range: Some(GetRange::Offset(999_990)),
        ..GetOptions::default()
    };
    let found = store.get_opts(&key, suffix).await.unwrap();
    assert_eq!(found.meta.size, 1_000_000);
    assert!(found.bytes().await.unwrap() == object.slice(999_990..));
    let beyond = store.get_range(&key, 1_000_000..1_000_001).await;
    assert!(beyond.is_err(), "{beyond:?}");
}

pub async fn what_is_missing_is_not_found(store: Arc<dyn ObjectStore>) {
    let key = Path::from("a/b/missing");
    create(&store, "a/present", "x".into()).await.unwrap();
    let got = store.get(&key).await.map(|_| ());
    assert!(matches!(got, Err(Error::NotFound { .. })), "{got:?}");
    let head = store.head(&key).await;
    assert!(matches!(head, Err(Error::NotFound { .. })), "{head:?}");
    let range = store.get_range(&key, 0..1).await;
    assert!(matches!(range, Err(Error::NotFound { .. })), "{range:?}");
    // A part of a key is no object.
    let part = store.get(&Path::from("a")).await.map(|_| ());
    assert!(part.is_err(), "{part:?}");
    // Some services do not tell whether there was something.
    match store.delete(&key).await {
        Ok(()) | Err(Error::NotFound { .. }) => {}
        other => panic!("{other:?}"),
    }
}

pub async fn lists_what_is_below_a_prefix(store: Arc<dyn ObjectStore>) {
    assert_eq!(keys(&store, "").await, [""; 0]);
    assert_eq!(keys(&store, "list").await, [""; 0]);
    let all = [
        "list/a",
        "list/b/1",
        "list/b/2",
        "list/b/c/3",
        "list-not",
        "listing/x",
    ];
    for (size, key) in all.iter().enumerate() {
        create(&store, key, patterned(key, size)).await.unwrap();
    }
    assert_eq!(keys(&store, "list").await, all[..4]);
    assert_eq!(keys(&store, "list/b").await, all[1..4]);
    let every: BTreeSet<&str> = all.into_iter().collect();
    assert_eq!(
        keys(&store, "").await,
        every.into_iter().collect::<Vec<_>>()
    );
    let listed: Vec<_> = store
        .list(Some(&Path::from("list/b/c")))
        .try_collect()
        .await
        .unwrap();
    assert_eq!(listed[0].size, 3);

    let level = store
        .list_with_delimiter(Some(&Path::from("list")))
        .await
        .unwrap();
    let names = |paths: Vec<Path>| paths.iter().map(Path::to_string).collect::<Vec<_>>();
    assert_eq!(names(level.common_prefixes), ["list/b"]);
    let objects = level
        .objects
        .into_iter()
        .map(|meta| meta.location)
        .collect();
    assert_eq!(names(objects), ["list/a"]);
    let top = store.list_with_delimiter(None).await.unwrap();
    let mut top = names(top.common_prefixes);
    top.retain(|prefix| prefix != "keys");
    assert_eq!(top, ["list", "listing"]);
    let none = store
        .list_with_delimiter(Some(&Path::from("nothing")))
        .await
        .unwrap();
    assert!(none.objects.is_empty() && none.common_prefixes.is_empty());
}

/// More than a service lists in one answer.
pub async fn lists_more_than_one_answer_holds(store: Arc<dyn ObjectStore>) {
    let names: Vec<String> = (0..1005)
        .map(|number| format!("many/{number:04}"))
        .collect();
    for some in names.chunks(32) {
        let puts = some.iter().map(|key| create(&store, key, Bytes::new()));
        for put in join_all(puts).await {
            put.unwrap();
        }
    }
    assert_eq!(keys(&store, "many").await, names);
}

pub async fn names_are_taken_as_they_are(store: Arc<dyn ObjectStore>) {
    let all = [
        "names/00000002.history.wz",
        "names/A-b_c.d",
        "names/a-b_c.d",
        "names/0/1/2/3/4/5/6/7/8/9",
        "names/x.00000028.backup.wz",
    ];
    for key in all {
        create(&store, key, patterned(key, 100)).await.unwrap();
    }
    for key in all {
        assert!(content(&store, key).await == patterned(key, 100), "{key}");
    }
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    assert_eq!(keys(&store, "names").await, sorted);
}

pub async fn an_object_in_parts_appears_when_it_is_complete(store: Arc<dyn ObjectStore>) {
    let key = Path::from("parts/big");
    let object = patterned("big", 2 * PART + 12_345);
    let mut upload = store.put_multipart(&key).await.unwrap();
    let parts: Vec<_> = object
        .chunks(PART)
        .map(|part| upload.put_part(PutPayload::from(object.slice_ref(part))))
        .collect();
    for part in join_all(parts.into_iter().rev()).await {
        part.unwrap();
    }
    let before = store.head(&key).await;
    assert!(matches!(before, Err(Error::NotFound { .. })), "{before:?}");
    assert_eq!(keys(&store, "parts").await, [""; 0]);
    upload.complete().await.unwrap();
    assert!(content(&store, "parts/big").await == object);
    assert_eq!(store.head(&key).await.unwrap().size, object.len() as u64);

    let empty = Path::from("parts/empty");
    store
        .put_multipart(&empty)
        .await
        .unwrap()
        .complete()
        .await
        .unwrap();
    assert_eq!(store.head(&empty).await.unwrap().size, 0);
}

pub async fn an_upload_that_was_given_up_leaves_nothing(store: Arc<dyn ObjectStore>) {
    let key = Path::from("parts/given-up");
    let mut upload = store.put_multipart(&key).await.unwrap();
    upload
        .put_part(patterned("part", PART).into())
        .await
        .unwrap();
    upload.abort().await.unwrap();
    let head = store.head(&key).await;
    assert!(matches!(head, Err(Error::NotFound { .. })), "{head:?}");
    assert_eq!(keys(&store, "").await, [""; 0]);
}

pub async fn what_was_deleted_can_be_created_again(store: Arc<dyn ObjectStore>) {
    for content in ["1", "2"] {
        create(&store, "delete/me", content.into()).await.unwrap();
        store.delete(&Path::from("delete/me")).await.unwrap();
        assert_eq!(keys(&store, "").await, [""; 0]);
    }
}

pub async fn a_probe_finds_a_store_that_gives_names_once(store: Arc<dyn ObjectStore>) {
    for _ in 0..2 {
        walzip_repo::probe_store(&store).await.unwrap();
    }
    assert_eq!(keys(&store, "").await, ["probe"]);
}
