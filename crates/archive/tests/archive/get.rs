//! What `restore_command` may rely on.

use std::sync::Arc;

use walzip_archive::ArchiveError;
use walzip_archive::get::{GetOptions, Got, get};
use walzip_archive::push::PushOptions;
use walzip_archive::push::push;
use walzip_repo::Repository;
use walzip_repo::testing::{Faults, FaultyStore, memory_store};

use crate::packs::pack_all;
use crate::wal::{
    CLUSTER, PgWal, SEGMENT_SIZE, push_content, repository, repository_on, segment, segment_name,
    valid_segment,
};

#[tokio::test]
async fn gets_exactly_what_was_pushed() {
    let repository = repository().await;
    let content = valid_segment(5, 1);
    push_content(&repository, &segment_name(5), &content)
        .await
        .expect("pushed");
    let pg_wal = PgWal::new();
    let destination = pg_wal.path().join("RECOVERYXLOG");
    let got = get(
        &repository,
        &segment_name(5),
        &destination,
        &GetOptions::default(),
    )
    .await;
    let Ok(Got::Found { original_bytes, .. }) = got else {
        panic!("{got:?}")
    };
    assert_eq!(original_bytes, SEGMENT_SIZE as u64);
    assert!(std::fs::read(&destination).expect("written") == content);
    assert_eq!(pg_wal.files(), ["RECOVERYXLOG"]);
}

#[tokio::test]
async fn answers_that_a_file_is_not_there_and_leaves_nothing_behind() {
    let repository = repository().await;
    let pg_wal = PgWal::new();
    for name in [segment_name(5), "00000002.history".to_owned()] {
        let destination = pg_wal.path().join("RECOVERYHISTORY");
        let got = get(&repository, &name, &destination, &GetOptions::default()).await;
        assert_eq!(got.expect("an answer"), Got::NotFound);
    }
    assert!(pg_wal.files().is_empty());
}

/// The file system that has it may be mounted while it is asked for.
#[tokio::test(start_paused = true)]
async fn a_file_counts_as_not_there_when_it_was_asked_for_again() {
    let history = "00000002.history";
    for (name, is_packed, call) in [
        (segment_name(5), false, 2),
        (segment_name(5), true, 3),
        (history.to_owned(), false, 2),
    ] {
        let store = memory_store();
        let healthy = repository_on(Arc::clone(&store)).await;
        for (name, content) in [
            (segment_name(5), valid_segment(5, 1)),
            (segment_name(6), valid_segment(6, 1)),
            (history.to_owned(), b"1\t0/500000\tbegun\n".to_vec()),
        ] {
            let pushed = push_content(&healthy, &name, &content).await;
            pushed.expect("pushed");
        }
        if is_packed {
            assert_eq!(pack_all(&healthy).await.packs.len(), 1);
        }
        // The first call reads repository.json.
        let faults = Faults {
            find_nothing_at_call: Some(call),
            ..Faults::default()
        };
        let faulty = FaultyStore::new(store, faults);
        let repository = Repository::open(Arc::new(faulty.clone())).await;
        let repository = repository.expect("opened");
        let pg_wal = PgWal::new();
        let destination = pg_wal.path().join("got");
        let got = get(&repository, &name, &destination, &GetOptions::default()).await;
        let got = got.expect("an answer");
        assert!(matches!(got, Got::Found { .. }), "{name} {is_packed}");
        assert!(faulty.calls() > call + 1);
    }
}

#[tokio::test]
async fn delivers_nothing_from_a_damaged_object() {
    let repository = repository().await;
    let object = walzip_codec::encode(&valid_segment(5, 1), PushOptions::default().level);
    let mut object = object.expect("encoded");
    let middle = object.len() / 2;
    object[middle] ^= 1;
    repository
        .put_wal(&segment_name(5), object.into())
        .await
        .expect("put");
    let pg_wal = PgWal::new();
    let destination = pg_wal.path().join("RECOVERYXLOG");
    let got = get(
        &repository,
        &segment_name(5),
        &destination,
        &GetOptions::default(),
    )
    .await;
    assert!(
        matches!(got, Err(ArchiveError::Undecodable { .. })),
        "{got:?}"
    );
    assert!(pg_wal.files().is_empty());
}

#[tokio::test]
async fn delivers_nothing_that_belongs_under_another_name_or_to_another_cluster() {
    let repository = repository().await;
    let other = walzip_repo::ClusterIdentity {
        system_id: 4711,
        ..CLUSTER
    };
    let foreign = segment(other, 0xD110, 1, 6 * SEGMENT_SIZE as u64, 1);
    for (number, content) in [(5, valid_segment(7, 1)), (6, foreign)] {
        let object = walzip_codec::encode(&content, PushOptions::default().level).expect("encoded");
        repository
            .put_wal(&segment_name(number), object.into())
            .await
            .expect("put");
        let pg_wal = PgWal::new();
        let destination = pg_wal.path().join("RECOVERYXLOG");
        let got = get(
            &repository,
            &segment_name(number),
            &destination,
            &GetOptions::default(),
        )
        .await;
        let error = got.expect_err("not what the name says");
        let is_expected = matches!(
            error,
            ArchiveError::Damaged { .. } | ArchiveError::Mismatch { .. }
        );
        assert!(is_expected, "{error}");
        assert!(pg_wal.files().is_empty());
    }
}

/// Histories and backup histories do not say whose they are, and a partial segment looks like a
/// whole one: the object has to say it.
#[tokio::test]
async fn delivers_nothing_that_was_stored_under_another_name() {
    let segment = valid_segment(3, 1);
    let partial = format!("{}.partial", segment_name(3));
    let history = b"1\t0/3000000\tno recovery target specified\n".as_slice();
    let backup = |number: u64| format!("{}.00000028.backup", segment_name(number));
    let swapped: [(String, String, &[u8]); 4] = [
        (
            "00000002.history".into(),
            "00000003.history".into(),
            history,
        ),
        (backup(2), backup(3), b"START WAL LOCATION: 0/2000028\n"),
        (partial.clone(), segment_name(3), &segment),
        (segment_name(3), partial, &segment),
    ];
    for (name, other, content) in swapped {
        let archive = repository().await;
        push_content(&archive, &name, content)
            .await
            .expect("pushed");
        let object = archive.get_wal(&name).await.expect("read").expect("there");
        let repository = repository().await;
        repository.put_wal(&other, object).await.expect("put");
        let pg_wal = PgWal::new();
        let destination = pg_wal.path().join("RECOVERYXLOG");
        let got = get(&repository, &other, &destination, &GetOptions::default()).await;
        let error = got.expect_err("another file's object").to_string();
        assert!(
            error.ends_with(&format!("the object is that of {name}")),
            "{error}"
        );
        assert!(pg_wal.files().is_empty());
    }
}

#[tokio::test]
async fn ignores_a_data_directory_without_a_control_file_and_refuses_a_damaged_one() {
    let repository = repository().await;
    let data = PgWal::new();
    let options = GetOptions {
        data_directory: Some(data.path().to_owned()),
        ..GetOptions::default()
    };
    let destination = data.path().join("RECOVERYXLOG");
    let got = get(&repository, &segment_name(5), &destination, &options).await;
    assert_eq!(got.expect("an answer"), Got::NotFound);

    std::fs::create_dir(data.path().join("global")).expect("created");
    data.write("global/pg_control", &[0; 8192]);
    let got = get(&repository, &segment_name(5), &destination, &options).await;
    assert!(
        matches!(got, Err(ArchiveError::ControlFile { .. })),
        "{got:?}"
    );
}

#[tokio::test]
async fn pushes_again_what_it_got() {
    let repository = repository().await;
    let content = valid_segment(5, 1);
    push_content(&repository, &segment_name(5), &content)
        .await
        .expect("pushed");
    let pg_wal = PgWal::new();
    let destination = pg_wal.path().join(segment_name(5));
    get(
        &repository,
        &segment_name(5),
        &destination,
        &GetOptions::default(),
    )
    .await
    .expect("got");
    push(&repository, &destination, &PushOptions::default())
        .await
        .expect("identical");
}
