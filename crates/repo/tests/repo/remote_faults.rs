//! What services on other hosts do wrong, on the way to a real one: refusals, lost answers, bodies
//! that break off, silence.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use walzip_repo::testing::proxy::{Proxy, Spoilt};
use walzip_repo::testing::servers;
use walzip_repo::{
    Location, PART_BYTES, PutOutcome, RepoError, Repository, StoreSettings, open_store,
};

use crate::suite::fresh;
use crate::{CLUSTER, OTHER_CLUSTER, SEGMENT, new_repository, patterned};

/// A bucket behind a proxy.
struct Spoiling {
    proxy: Proxy,
    store: Arc<dyn ObjectStore>,
    /// The same bucket without it.
    honest: Arc<dyn ObjectStore>,
}

fn spoiling(
    seconds: u64,
    plan: impl Fn(u64, &str, &str) -> Spoilt + Send + Sync + 'static,
) -> Spoiling {
    let bucket = fresh("spoilt");
    let honest = servers::moto_bucket(&bucket);
    let proxy = Proxy::start(servers::moto().port(), plan);
    let settings = StoreSettings {
        timeout: Some(Duration::from_secs(seconds)),
        ..servers::s3_settings(proxy.port())
    };
    let location = Location::parse(&format!("s3://{bucket}")).unwrap();
    Spoiling {
        proxy,
        store: open_store(&location, &settings).unwrap(),
        honest: open_store(&location, &honest).unwrap(),
    }
}

async fn create(store: &Arc<dyn ObjectStore>, content: &Bytes) -> object_store::Result<()> {
    let options = PutOptions::from(PutMode::Create);
    let key = Path::from("a/b");
    let put = store.put_opts(&key, content.clone().into(), options);
    put.await.map(|_| ())
}

/// What is billed, and what PostgreSQL waits for.
#[tokio::test]
async fn a_new_segment_takes_two_requests_and_a_get_one() {
    let Spoiling {
        proxy,
        store,
        honest,
    } = spoiling(60, |_, _, _| Spoilt::Not);
    new_repository(honest).await;

    let repository = Repository::open(Arc::clone(&store)).await.unwrap();
    repository.put_wal(SEGMENT, "x".into()).await.unwrap();
    let seen = proxy.take_seen();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(
        seen[0].starts_with("GET ") && seen[0].ends_with("/repository.json"),
        "{seen:?}"
    );
    assert!(seen[1].starts_with("PUT "), "{seen:?}");

    let got = Repository::get_wal_unopened(&store, CLUSTER, SEGMENT)
        .await
        .unwrap();
    assert_eq!(got.map(|got| got.object), Some("x".into()));
    assert_eq!(proxy.take_seen().len(), 1);
    for other in OTHER_CLUSTER {
        let got = Repository::get_wal_unopened(&store, other, SEGMENT)
            .await
            .unwrap();
        assert_eq!(got, None);
    }

    // It was pushed before: the answer to the put says so, and the content is compared.
    proxy.take_seen();
    let repository = Repository::open(store).await.unwrap();
    let outcome = repository.put_wal(SEGMENT, "x".into()).await.unwrap();
    assert_eq!(outcome, PutOutcome::Exists);
    repository.get_wal(SEGMENT).await.unwrap();
    assert_eq!(proxy.take_seen().len(), 3);
}

#[tokio::test]
async fn a_refusal_for_the_moment_is_asked_again() {
    for status in [429, 500, 503] {
        let plan = move |number, _: &str, _: &str| match number % 2 {
            0 => Spoilt::Refused(status),
            _ => Spoilt::Not,
        };
        let Spoiling { store, .. } = spoiling(60, plan);
        let content = patterned("content", 100_000);
        create(&store, &content).await.unwrap();
        let found = store.get(&Path::from("a/b")).await.unwrap();
        assert!(found.bytes().await.unwrap() == content);
    }
}

/// S3 answers so while another create of the same name is in progress, which may still fail.
#[tokio::test]
async fn a_conflict_counts_only_when_the_object_is_there() {
    let conflict_first = |number, _: &str, _: &str| match number {
        0 => Spoilt::Refused(409),
        _ => Spoilt::Not,
    };
    let content = patterned("content", 1000);
    let Spoiling { store, proxy, .. } = spoiling(60, conflict_first);
    create(&store, &content).await.unwrap();
    let methods: Vec<String> = proxy.take_seen();
    let methods: Vec<&str> = methods
        .iter()
        .filter_map(|seen| seen.split(' ').next())
        .collect();
    assert_eq!(methods, ["PUT", "HEAD", "PUT"]);

    let Spoiling { store, honest, .. } = spoiling(60, conflict_first);
    create(&honest, &content).await.unwrap();
    let again = create(&store, &content).await;
    assert!(
        matches!(again, Err(object_store::Error::AlreadyExists { .. })),
        "{again:?}"
    );

    // One that never ends is no success, and nothing that is there.
    let Spoiling { store, .. } = spoiling(2, |_, method, _| match method {
        "PUT" => Spoilt::Refused(409),
        _ => Spoilt::Not,
    });
    let error = create(&store, &content).await.unwrap_err();
    assert!(
        matches!(error, object_store::Error::Generic { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_create_whose_answer_was_lost_meets_its_own_object() {
    for lost in [Spoilt::AnswerLost, Spoilt::Silent, Spoilt::Reset] {
        let Spoiling { store, honest, .. } = spoiling(9, move |number, _, _| match number {
            1 => lost,
            _ => Spoilt::Not,
        });
        new_repository(honest).await;
        let repository = Repository::open(store).await.unwrap();
        let content = patterned("segment", 50_000);
        let outcome = repository.put_wal(SEGMENT, content.clone()).await.unwrap();
        let expected = match lost {
            Spoilt::AnswerLost => PutOutcome::Exists,
            _ => PutOutcome::Created,
        };
        assert_eq!(outcome, expected, "{lost:?}");
        assert_eq!(repository.get_wal(SEGMENT).await.unwrap(), Some(content));
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_or_stalls_goes_on_where_it_was() {
    for how in [Spoilt::Truncated, Spoilt::Stalled] {
        let Spoiling { store, honest, .. } = spoiling(9, move |number, _, _| match number {
            0 | 1 => how,
            _ => Spoilt::Not,
        });
        let content = patterned("content", 3_000_000);
        create(&honest, &content).await.unwrap();
        let found = store.get(&Path::from("a/b")).await.unwrap();
        assert!(found.bytes().await.unwrap() == content, "{how:?}");
    }
}

/// Nothing incomplete is ever delivered, and nothing is waited for without end.
#[tokio::test]
async fn a_service_that_never_answers_whole_is_an_error() {
    for how in [
        Spoilt::Truncated,
        Spoilt::Stalled,
        Spoilt::Silent,
        Spoilt::Reset,
        Spoilt::AnswerLost,
        Spoilt::Refused(503),
        Spoilt::Late(Duration::from_secs(60)),
    ] {
        let Spoiling { store, honest, .. } = spoiling(2, move |_, _, _| how);
        create(&honest, &patterned("content", 3_000_000))
            .await
            .unwrap();
        let read = async {
            let found = store.get(&Path::from("a/b")).await?;
            found.bytes().await
        };
        assert!(read.await.is_err(), "{how:?}");
        if !matches!(how, Spoilt::Truncated | Spoilt::Stalled) {
            let error = Repository::open(store).await.map(|_| ()).unwrap_err();
            assert!(
                matches!(error, RepoError::Unavailable { .. }),
                "{how:?}: {error:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_object_in_parts_survives_lost_answers() {
    for method in ["POST", "PUT"] {
        let lose_first = move |number: u64, seen: &str, target: &str| {
            let is_part_or_end = seen == method && target.contains("uploadId=");
            match is_part_or_end && number < 8 && number.is_multiple_of(2) {
                true => Spoilt::AnswerLost,
                false => Spoilt::Not,
            }
        };
        let Spoiling { store, honest, .. } = spoiling(60, lose_first);
        new_repository(Arc::clone(&honest)).await;
        let repository = Repository::open(store).await.unwrap();
        let writer = repository.start_backup().await.unwrap();
        let label = writer.label().clone();
        let content = patterned("pack", 2 * PART_BYTES + 7);
        for name in ["pack-1", "pack-2"] {
            let mut object = writer.create_object(name).await.unwrap();
            object.write(content.clone()).await.unwrap();
            object.finish().await.unwrap();
        }
        writer.finish("{}".into()).await.unwrap();
        for name in ["pack-1", "pack-2"] {
            let key = Path::from(format!("backup/{label}/{name}"));
            let found = honest.get(&key).await.unwrap().bytes().await.unwrap();
            assert!(found == content, "{method} {name}");
        }
    }
}

/// By seed: whatever fails, what is reported as done is there, and what is read is right.
#[tokio::test]
async fn random_faults_lose_nothing() {
    for seed in 1..=4_u64 {
        let plan = move |number: u64, _: &str, _: &str| {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number;
            state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            match (state ^ (state >> 31)) % 20 {
                0 => Spoilt::Reset,
                1 => Spoilt::AnswerLost,
                2 => Spoilt::Refused(503),
                3 => Spoilt::Truncated,
                4 => Spoilt::Late(Duration::from_millis(20)),
                _ => Spoilt::Not,
            }
        };
        let Spoiling { store, honest, .. } = spoiling(60, plan);
        let (repository, _) = Repository::init(store, CLUSTER).await.unwrap();
        for number in 0..20 {
            let name = format!("0000000100000000000000{number:02X}");
            let content = patterned(&name, 20_000);
            match repository.put_wal(&name, content.clone()).await.unwrap() {
                PutOutcome::Created | PutOutcome::Exists => {}
            }
            assert!(
                repository.get_wal(&name).await.unwrap() == Some(content),
                "seed {seed}"
            );
        }
        assert_eq!(
            repository.list_wal().await.unwrap().len(),
            20,
            "seed {seed}"
        );
        let repository = Repository::open(honest).await.unwrap();
        assert_eq!(
            repository.list_wal().await.unwrap().len(),
            20,
            "seed {seed}"
        );
    }
}

/// A server that passes over the condition of a put.
#[tokio::test]
async fn a_store_that_overwrites_is_refused() {
    let Spoiling { store, .. } = spoiling(60, |_, _, _| Spoilt::Unconditional);
    let error = walzip_repo::probe_store(&store).await.unwrap_err();
    assert!(matches!(error, RepoError::Unsafe { .. }), "{error:?}");
    assert!(error.to_string().contains("If-None-Match"), "{error}");
}

#[tokio::test]
async fn credentials_that_are_refused_are_no_secret_in_the_message() {
    let Spoiling { store, .. } = spoiling(60, |_, _, _| Spoilt::Refused(403));
    let error = Repository::open(store).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, RepoError::Permission { .. }), "{error:?}");
    let mut text = format!("{error} {error:?}");
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text.push_str(&error.to_string());
        cause = error.source();
    }
    assert!(text.contains("an injected fault"), "{text}");
    assert!(!text.contains("SECRET"), "{text}");
}

/// A gateway that wants somebody to sign in says 200. Taken for an empty list, it would be the end of the archive.
#[tokio::test]
async fn a_page_in_the_place_of_a_list_is_no_empty_archive() {
    let lists = |target: &str| target.contains("list-type=2");
    let Spoiling { store, honest, .. } = spoiling(2, move |_, _, target| match lists(target) {
        true => Spoilt::Page,
        false => Spoilt::Not,
    });
    new_repository(honest).await;
    let repository = Repository::open(store).await.unwrap();
    let error = repository.packs().with(SEGMENT).await.unwrap_err();
    assert!(matches!(error, RepoError::Unavailable { .. }), "{error:?}");
    // One that passes is asked again.
    let Spoiling { store, honest, .. } = spoiling(60, move |number, _, target| {
        match lists(target) && number < 2 {
            true => Spoilt::Page,
            false => Spoilt::Not,
        }
    });
    new_repository(honest).await;
    let repository = Repository::open(store).await.unwrap();
    assert_eq!(repository.packs().with(SEGMENT).await.unwrap(), []);
}

/// The client knows no kind for a list that is refused.
#[tokio::test]
async fn a_list_that_is_refused_is_a_matter_of_rights() {
    let Spoiling { store, honest, .. } =
        spoiling(60, |_, _, target| match target.contains("list-type=2") {
            true => Spoilt::Refused(403),
            false => Spoilt::Not,
        });
    new_repository(honest).await;
    let repository = Repository::open(store).await.unwrap();
    let error = repository.packs().with(SEGMENT).await.unwrap_err();
    assert!(matches!(error, RepoError::Permission { .. }), "{error:?}");
}
