//! What `archive_command` may rely on.

use walzip_archive::ArchiveError;
use walzip_archive::push::{PushOptions, PushOutcome, push};
use walzip_archive::rebuilt_history::rebuild_history;
use walzip_pgformat::TimelineId;
use walzip_repo::ClusterIdentity;
use walzip_repo::testing::memory_store;

use crate::packs::pack_all;
use crate::wal::{
    CLUSTER, PAGE_MAGIC_15, PgWal, SEGMENT_SIZE, push_content, repository, repository_on, segment,
    segment_name, valid_segment,
};

#[tokio::test]
async fn pushes_an_identical_segment_twice_and_succeeds() {
    let repository = repository().await;
    let content = valid_segment(5, 1);
    let first = push_content(&repository, &segment_name(5), &content)
        .await
        .expect("new");
    assert_eq!(first.outcome, PushOutcome::Stored);
    assert_eq!(first.original_bytes, SEGMENT_SIZE as u64);
    assert!(first.stored_bytes < first.original_bytes);
    let second = push_content(&repository, &segment_name(5), &content)
        .await
        .expect("identical");
    assert_eq!(second.outcome, PushOutcome::AlreadyStored);
    assert_eq!(second.stored_bytes, first.stored_bytes);
}

#[tokio::test]
async fn refuses_different_content_under_a_name_that_is_taken_and_keeps_the_first() {
    let repository = repository().await;
    let name = segment_name(5);
    push_content(&repository, &name, &valid_segment(5, 1))
        .await
        .expect("new");
    let stored = repository.get_wal(&name).await.expect("readable");
    let error = push_content(&repository, &name, &valid_segment(5, 2))
        .await
        .expect_err("other");
    assert!(matches!(error, ArchiveError::Duplicate { .. }), "{error}");
    assert_eq!(repository.get_wal(&name).await.expect("readable"), stored);
}

#[tokio::test]
async fn tells_a_damaged_object_from_a_different_one() {
    let repository = repository().await;
    let name = segment_name(5);
    repository
        .put_wal(&name, "no walzip file".into())
        .await
        .expect("put");
    let error = push_content(&repository, &name, &valid_segment(5, 1))
        .await
        .expect_err("damaged");
    assert!(
        matches!(error, ArchiveError::DamagedThere { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn refuses_the_segment_of_another_cluster_and_says_both_sides() {
    let repository = repository().await;
    let other = ClusterIdentity {
        system_id: 4711,
        ..CLUSTER
    };
    let content = segment(other, 0xD110, 1, 5 * SEGMENT_SIZE as u64, 1);
    let error = push_content(&repository, &segment_name(5), &content)
        .await
        .expect_err("foreign");
    let ArchiveError::Mismatch {
        found,
        repository: ours,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!((*found, *ours), (other, CLUSTER));
    let message = error.to_string();
    assert!(
        message.contains("4711") && message.contains("7710755210953377699"),
        "{message}"
    );
}

#[tokio::test]
async fn refuses_the_segment_of_another_major() {
    let repository = repository().await;
    let content = segment(CLUSTER, 0xD113, 1, 5 * SEGMENT_SIZE as u64, 1);
    let error = push_content(&repository, &segment_name(5), &content)
        .await
        .expect_err("16");
    let ArchiveError::Mismatch { found, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(found.major, 16);
}

#[tokio::test]
async fn refuses_what_is_not_the_segment_that_the_name_says() {
    let repository = repository().await;
    let whole = valid_segment(5, 1);
    let newer_timeline = segment(CLUSTER, 0xD110, 2, 5 * SEGMENT_SIZE as u64, 1);
    let cases: [(&str, String, &[u8]); 6] = [
        ("recycled", segment_name(6), &whole),
        ("truncated", segment_name(5), &whole[..SEGMENT_SIZE - 1]),
        ("never written", segment_name(5), &[0; SEGMENT_SIZE]),
        ("empty", segment_name(5), &[]),
        ("of a newer timeline", segment_name(5), &newer_timeline),
        (
            "recycled and partial",
            format!("{}.partial", segment_name(6)),
            &whole,
        ),
    ];
    for (what, name, content) in cases {
        let error = push_content(&repository, &name, content)
            .await
            .expect_err(what);
        assert!(
            matches!(error, ArchiveError::Invalid { .. }),
            "{what}: {error}"
        );
    }
    assert_eq!(repository.list_wal().await.expect("readable"), []);
}

#[tokio::test]
async fn accepts_the_first_segment_of_a_timeline_which_begins_with_its_parents_pages() {
    let repository = repository().await;
    let name = segment_name(5).replacen('1', "2", 1);
    push_content(&repository, &name, &valid_segment(5, 1))
        .await
        .expect("the parent's first page");
}

/// An archiver that was killed pushes again. What is archived already is no second history,
/// whatever became of the timeline's beginning.
#[tokio::test]
async fn an_archived_history_is_pushed_again_where_the_timeline_lacks_its_beginning() {
    let repository = repository().await;
    let history = b"1\t0/600000\tno recovery target specified\n";
    push_content(&repository, "00000002.history", history)
        .await
        .expect("the history");
    let later = segment(CLUSTER, PAGE_MAGIC_15, 2, 9 * SEGMENT_SIZE as u64, 1);
    push_content(&repository, "000000020000000000000009", &later)
        .await
        .expect("a later segment");
    let again = push_content(&repository, "00000002.history", history).await;
    let again = again.expect("it is archived");
    assert_eq!(again.outcome, PushOutcome::AlreadyStored);
    let other = push_content(&repository, "00000002.history", b"1\t0/500000\tx\n").await;
    assert!(matches!(other, Err(ArchiveError::Duplicate { .. })));
}

/// Of a repository that is younger than the timeline, too.
#[tokio::test]
async fn the_history_beside_a_segment_is_archived_with_it() {
    let repository = repository().await;
    let pg_wal = PgWal::new();
    let history = "1\t0/500000\tno recovery target specified\n";
    std::fs::write(pg_wal.path().join("00000002.history"), history).expect("written");
    let later = |number: u64| {
        let start = number * SEGMENT_SIZE as u64;
        let path = pg_wal
            .path()
            .join(segment_name(number).replacen('1', "2", 1));
        std::fs::write(&path, segment(CLUSTER, PAGE_MAGIC_15, 2, start, 1)).expect("written");
        path
    };
    push(&repository, &later(9), &PushOptions::default())
        .await
        .expect("a segment");
    let archived = repository.list_wal().await.expect("listed");
    let names: Vec<_> = archived.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["00000002.history", "000000020000000000000009"]);
    push(&repository, &later(10), &PushOptions::default())
        .await
        .expect("the next one");
    // A copy that was promoted to the same number elsewhere, and archives from now on.
    let other = "1\t0/700000\tno recovery target specified\n";
    std::fs::write(pg_wal.path().join("00000002.history"), other).expect("written");
    let refused = push(&repository, &later(11), &PushOptions::default()).await;
    let error = refused.expect_err("of another timeline");
    let named = matches!(&error, ArchiveError::Duplicate { name } if name == "00000002.history");
    assert!(named, "{error}");
}

/// Where an earlier time has archived WAL that contradicts the history, WAL is archived all the same. WAL that only
/// lacks the beginning of its timeline contradicts nothing.
#[tokio::test]
async fn a_history_beside_a_segment_that_does_not_fit_is_not_archived() {
    for (switch, is_archived) in [("0/A00000", false), ("0/500000", true)] {
        let repository = repository().await;
        let name = "000000020000000000000009";
        let content = segment(CLUSTER, PAGE_MAGIC_15, 2, 9 * SEGMENT_SIZE as u64, 1);
        push_content(&repository, name, &content).await.expect("it");
        let pg_wal = PgWal::new();
        let history = format!("1\t{switch}\tno recovery target specified\n");
        std::fs::write(pg_wal.path().join("00000002.history"), history).expect("written");
        let next = pg_wal.path().join("00000002000000000000000A");
        let content = segment(CLUSTER, PAGE_MAGIC_15, 2, 10 * SEGMENT_SIZE as u64, 1);
        std::fs::write(&next, content).expect("written");
        let pushed = push(&repository, &next, &PushOptions::default()).await;
        assert_eq!(pushed.expect("pushed").outcome, PushOutcome::Stored);
        let found = repository.find_wal("00000002.history").await;
        assert_eq!(found.expect("asked").is_some(), is_archived, "{switch}");
    }
}

#[tokio::test]
async fn pushes_partial_segments_histories_and_backup_histories() {
    let repository = repository().await;
    let partial = format!("{}.partial", segment_name(5));
    let backup = format!("{}.00000028.backup", segment_name(5));
    push_content(&repository, &partial, &valid_segment(5, 1))
        .await
        .expect("partial");
    push_content(&repository, &backup, b"START WAL LOCATION: 0/500028\n")
        .await
        .expect("backup");
    let history = b"1\t0/5000000\tno recovery target specified\n";
    push_content(&repository, "00000002.history", history)
        .await
        .expect("history");
    let error = push_content(&repository, "00000002.history", b"1\t0/6000000\tother\n").await;
    assert!(matches!(error, Err(ArchiveError::Duplicate { .. })));
    let names: Vec<String> = repository
        .list_wal()
        .await
        .expect("readable")
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    assert_eq!(names, [backup, partial, "00000002.history".to_owned()]);
}

/// A refusal would be repeated for ever, and no WAL after it would be archived.
#[tokio::test]
async fn keeps_whatever_a_history_says_as_long_as_it_says_something() {
    let repository = repository().await;
    for (name, content) in [
        (
            "00000002.history",
            b"9\t0/5000000\tfrom the future\n".as_slice(),
        ),
        // A recovery along timeline 2 that ended before timeline 2 began.
        (
            "00000003.history",
            b"1\t0/5000000\tlater\n\n2\t0/4000000\tearlier\n",
        ),
    ] {
        push_content(&repository, name, content).await.expect(name);
    }
    let error = push_content(&repository, "00000004.history", b"").await;
    assert!(matches!(error, Err(ArchiveError::Invalid { .. })));
}

/// A push that was put too late was killed before it saw that a pack has another segment of this name.
#[tokio::test(start_paused = true)]
async fn refuses_again_what_contradicts_a_pack() {
    let repository = repository().await;
    let name = segment_name(5);
    let content = valid_segment(5, 1);
    push_content(&repository, &name, &content)
        .await
        .expect("new");
    pack_all(&repository).await;
    let other = repository_on(memory_store()).await;
    let late = valid_segment(5, 2);
    push_content(&other, &name, &late).await.expect("new");
    let object = other.get_wal(&name).await.expect("read").expect("there");
    repository.put_wal(&name, object).await.expect("put");
    let pushed = push_content(&repository, &name, &late).await;
    assert!(matches!(pushed, Err(ArchiveError::Duplicate { .. })));
}

#[tokio::test]
async fn refuses_names_that_postgresql_does_not_archive() {
    let repository = repository().await;
    for name in [
        "pg_control",
        "00000001000000000000000G",
        "000000010000000000000005.gz",
    ] {
        let error = push_content(&repository, name, b"x").await.expect_err(name);
        assert!(matches!(error, ArchiveError::Name(_)), "{error}");
    }
}

#[tokio::test]
async fn says_which_file_it_cannot_read() {
    let repository = repository().await;
    let pg_wal = PgWal::new();
    let path = pg_wal.path().join(segment_name(5));
    let error = push(&repository, &path, &PushOptions::default())
        .await
        .expect_err("missing");
    assert!(
        matches!(&error, ArchiveError::File { path: found, .. } if *found == path),
        "{error}"
    );
}

/// The first segments of a timeline were lost, and its history. WAL that begins before the history says is another
/// timeline's of the same number.
#[tokio::test]
async fn takes_the_history_of_a_timeline_whose_beginning_is_missing() {
    for (first, is_taken) in [(8, true), (6, false), (4, false)] {
        let repository = repository().await;
        let start = first * SEGMENT_SIZE as u64;
        let content = segment(CLUSTER, PAGE_MAGIC_15, 2, start, 1);
        let name = format!("0000000200000000{first:08X}");
        let pushed = push_content(&repository, &name, &content).await;
        pushed.expect("pushed");
        let history = b"1\t0/600000\tno recovery target specified\n";
        let pushed = push_content(&repository, "00000002.history", history).await;
        match is_taken {
            true => assert_eq!(pushed.expect("taken").outcome, PushOutcome::Stored),
            false => assert!(
                matches!(pushed, Err(ArchiveError::HistoryConflict { .. })),
                "{first}: {pushed:?}"
            ),
        }
    }
}

/// It says nothing of where the timeline begins, and production waits for its history to be archived.
#[tokio::test]
async fn takes_the_history_of_a_timeline_whose_first_segment_is_damaged() {
    let repository = repository().await;
    // It tells the size of segments.
    let pushed = push_content(&repository, &segment_name(5), &valid_segment(5, 1)).await;
    pushed.expect("pushed");
    let put = repository.put_wal("000000020000000000000006", "no walzip file".into());
    put.await.expect("put");
    let history = b"1\t0/600000\tno recovery target specified\n";
    let pushed = push_content(&repository, "00000002.history", history).await;
    assert_eq!(pushed.expect("taken").outcome, PushOutcome::Stored);
}

/// The beginning of timeline 2 has expired. A follower has the lines of its history.
#[tokio::test]
async fn rebuilds_the_history_of_a_timeline_whose_beginning_is_missing() {
    let repository = repository().await;
    let content = segment(CLUSTER, PAGE_MAGIC_15, 2, 8 * SEGMENT_SIZE as u64, 1);
    let pushed = push_content(&repository, "000000020000000000000008", &content).await;
    pushed.expect("pushed");
    let line = "1\t0/600000\tno recovery target specified\n";
    let third = format!("{line}\n2\t0/900000\tno recovery target specified\n");
    let pushed = push_content(&repository, "00000003.history", third.as_bytes()).await;
    pushed.expect("pushed");
    let rebuilt = rebuild_history(&repository, TimelineId(2)).await;
    let rebuilt = rebuilt.expect("of its follower");
    assert_eq!(rebuilt.content, line.as_bytes());
    rebuilt
        .check(&repository)
        .await
        .expect("nothing is against it");
    rebuilt.archive(&repository).await.expect("archived");
    let there = repository.find_wal("00000002.history").await;
    assert!(there.expect("looked for").is_some());
}

/// Two servers have taken one number. What descends from the one that archived nothing would pass for a descendant of the
/// other.
#[tokio::test]
async fn refuses_a_history_that_names_another_servers_timeline() {
    let repository = repository().await;
    let push = async |name: &str, content: &str| {
        let pushed = push_content(&repository, name, content.as_bytes()).await;
        pushed.map(|pushed| pushed.outcome)
    };
    let stored = PushOutcome::Stored;
    let second = "1\t0/600000\tno recovery target specified\n";
    assert_eq!(
        push("00000002.history", second).await.expect("stored"),
        stored
    );
    let foreign = "1\t0/500000\tx\n\n2\t0/700000\tx\n";
    let pushed = push("00000003.history", foreign).await;
    assert!(
        matches!(&pushed, Err(ArchiveError::AncestorConflict { ancestor, .. }) if ancestor.0 == 2),
        "{pushed:?}"
    );
    // A recovery along the second one that ended before that began.
    let not_reached = "1\t0/600000\tx\n\n2\t0/500000\tx\n";
    assert_eq!(
        push("00000003.history", not_reached).await.expect("stored"),
        stored
    );
    let fourth = format!("{second}\n2\t0/700000\tx\n");
    assert_eq!(
        push("00000004.history", &fourth).await.expect("stored"),
        stored
    );
}

#[tokio::test]
async fn a_history_of_which_its_followers_say_different_things_is_not_rebuilt() {
    let repository = repository().await;
    for (name, content) in [
        ("00000003.history", "1\t0/500000\tx\n\n2\t0/700000\tx\n"),
        ("00000004.history", "1\t0/600000\tx\n\n2\t0/800000\tx\n"),
    ] {
        let pushed = push_content(&repository, name, content.as_bytes()).await;
        pushed.expect("pushed");
    }
    let rebuilt = rebuild_history(&repository, TimelineId(2)).await;
    let error = rebuilt.expect_err("two servers");
    assert!(error.to_string().contains("do not agree"), "{error}");
}
