//! Abandoned timelines: what moves, what is refused, and that nothing is lost whatever fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::ObjectStore;
use walzip_archive::ArchiveError;
use walzip_archive::push::{PushOptions, push};
use walzip_archive::set_aside::{
    Move, plan_put_back, plan_set_aside, plan_set_aside_from, put_back, set_aside,
};
use walzip_codec::Level;
use walzip_pgformat::TimelineId;
use walzip_repo::testing::{Faults, FaultyStore, memory_store};
use walzip_repo::{AsideLabel, Repository};

use crate::wal::{
    CLUSTER, PAGE_MAGIC_15, PgWal, SEGMENT_SIZE, push_content, repository_on, segment,
    valid_segment,
};

type Objects = BTreeMap<String, Vec<u8>>;

const HISTORY_2: &[u8] = b"1\t0/600000\tno recovery target specified\n";
const HISTORY_3: &[u8] = b"1\t0/600000\tx\n2\t0/700000\tx\n";
const HISTORY_4: &[u8] = b"1\t0/500000\tx\n";

fn name(timeline: u32, number: u64) -> String {
    format!("{timeline:08X}00000000{number:08X}")
}

async fn push_segment(repository: &Repository, timeline: u32, number: u64, seed: u8) {
    let start = number * SEGMENT_SIZE as u64;
    let content = segment(CLUSTER, PAGE_MAGIC_15, timeline, start, seed);
    let pushed = push_content(repository, &name(timeline, number), &content).await;
    pushed.expect("pushed");
}

/// Timeline 1; 2 left it, and 3 left that; 4 left 1 elsewhere.
async fn fill(repository: &Repository) {
    for number in 4..7 {
        let content = valid_segment(number, 1);
        let pushed = push_content(repository, &name(1, number), &content).await;
        pushed.expect("pushed");
    }
    for (history, content) in [("2", HISTORY_2), ("3", HISTORY_3), ("4", HISTORY_4)] {
        let history = format!("0000000{history}.history");
        let pushed = push_content(repository, &history, content).await;
        pushed.expect("pushed");
    }
    let partial = format!("{}.partial", name(1, 6));
    let pushed = push_content(repository, &partial, &valid_segment(6, 2)).await;
    pushed.expect("pushed");
    for (timeline, number) in [(2, 6), (2, 7), (3, 7), (4, 5)] {
        push_segment(repository, timeline, number, 3).await;
    }
}

async fn wal(repository: &Repository) -> Objects {
    let mut objects = Objects::new();
    for entry in repository.list_wal().await.expect("listed") {
        let object = repository.get_wal(&entry.name).await.expect("read");
        objects.insert(entry.name, object.expect("there").to_vec());
    }
    objects
}

async fn aside(repository: &Repository, label: AsideLabel) -> Objects {
    let mut objects = Objects::new();
    for entry in repository.list_aside(label).await.expect("listed") {
        let object = repository.get_aside(label, &entry.name).await;
        objects.insert(entry.name, object.expect("read").expect("there").to_vec());
    }
    objects
}

async fn move_away(repository: &Repository, timeline: u32) -> Result<AsideLabel, ArchiveError> {
    let plan = plan_set_aside(repository, TimelineId(timeline)).await?;
    set_aside(repository, &plan).await?;
    Ok(plan.label)
}

async fn move_back(repository: &Repository, label: AsideLabel) -> Result<(), ArchiveError> {
    let plan = plan_put_back(repository, label).await?;
    put_back(repository, &plan).await
}

/// At another level, or by another walzip, a file has other bytes in the archive.
#[tokio::test]
async fn what_was_pushed_again_in_other_bytes_comes_back() {
    let repository = repository_on(memory_store()).await;
    fill(&repository).await;
    let label = move_away(&repository, 4).await.expect("moved");
    let name = name(4, 5);
    let content = segment(CLUSTER, PAGE_MAGIC_15, 4, 5 * SEGMENT_SIZE as u64, 3);
    let pg_wal = PgWal::new();
    let options = PushOptions {
        level: Level::MAX,
        ..PushOptions::default()
    };
    let pushed = push(&repository, &pg_wal.write(&name, &content), &options).await;
    pushed.expect("pushed");
    let again = repository.get_wal(&name).await.expect("read");
    let moved = repository.get_aside(label, &name).await.expect("read");
    assert!(again.is_some() && moved.is_some() && again != moved);
    move_back(&repository, label).await.expect("put back");
    assert_eq!(aside(&repository, label).await, Objects::new());
    assert_eq!(repository.get_wal(&name).await.expect("read"), again);

    // Other content is refused, and stays aside.
    let label = move_away(&repository, 4).await.expect("moved");
    push_segment(&repository, 4, 5, 4).await;
    let refused = move_back(&repository, label).await;
    assert!(matches!(refused, Err(ArchiveError::Duplicate { .. })));
    assert_eq!(aside(&repository, label).await.len(), 2);
}

#[tokio::test]
async fn a_timeline_its_descendants_and_its_partial_segment_move_and_come_back() {
    let repository = repository_on(memory_store()).await;
    fill(&repository).await;
    let before = wal(&repository).await;

    let plan = plan_set_aside(&repository, TimelineId(2)).await;
    let plan = plan.expect("allowed");
    let moved: Vec<(u32, u64)> = plan
        .timelines
        .iter()
        .map(|t| (t.timeline.0, t.segments))
        .collect();
    assert_eq!(moved, [(2, 2), (3, 1)]);
    assert_eq!(plan.objects(), 6);
    assert_eq!(wal(&repository).await, before, "planning moves nothing");

    let label = move_away(&repository, 2).await.expect("moved");
    assert_eq!(label.to_string(), "00000002");
    let left: Vec<String> = wal(&repository).await.into_keys().collect();
    let expected = [
        name(1, 4),
        name(1, 5),
        name(1, 6),
        "00000004.history".to_owned(),
        name(4, 5),
    ];
    let mut expected = Vec::from(expected);
    expected.sort();
    assert_eq!(left, expected);
    assert_eq!(aside(&repository, label).await.len(), 6);

    let again = plan_set_aside(&repository, TimelineId(2)).await;
    let again = again.expect("done before");
    assert_eq!((again.objects(), again.label), (0, label));
    move_back(&repository, label).await.expect("put back");
    assert_eq!(wal(&repository).await, before);
    assert!(aside(&repository, label).await.is_empty());
}

#[tokio::test]
async fn another_timeline_of_the_same_number_gets_a_label_of_its_own() {
    let repository = repository_on(memory_store()).await;
    fill(&repository).await;
    let first = move_away(&repository, 2).await.expect("moved");
    let other = b"1\t0/680000\tanother\n";
    let pushed = push_content(&repository, "00000002.history", other).await;
    pushed.expect("the number is free");
    push_segment(&repository, 2, 6, 9).await;
    let present = wal(&repository).await;
    let error = move_back(&repository, first).await.expect_err("taken");
    assert!(matches!(error, ArchiveError::Duplicate { .. }), "{error}");
    assert_eq!(wal(&repository).await, present, "nothing was moved");

    let second = move_away(&repository, 2).await.expect("moved");
    assert_eq!(second.to_string(), "00000002-2");
    assert_eq!(aside(&repository, second).await.len(), 2);
    move_back(&repository, first).await.expect("free again");
}

#[tokio::test]
async fn a_lost_history_keeps_no_timeline_from_being_set_aside() {
    let repository = repository_on(memory_store()).await;
    push_segment(&repository, 2, 6, 1).await;
    let label = move_away(&repository, 2).await.expect("moved");
    assert!(wal(&repository).await.is_empty());
    // Another timeline of this number has a history: the segments are not put into it.
    let pushed = push_content(&repository, "00000002.history", HISTORY_2).await;
    pushed.expect("pushed");
    let error = move_back(&repository, label).await.expect_err("taken");
    assert!(matches!(error, ArchiveError::Duplicate { .. }), "{error}");
}

#[tokio::test]
async fn the_first_timeline_and_unknown_ones_are_refused() {
    let repository = repository_on(memory_store()).await;
    fill(&repository).await;
    for (timeline, words) in [(1, "left no other"), (5, "has timelines 1, 2, 3, 4")] {
        let error = move_away(&repository, timeline).await.expect_err("refused");
        assert!(matches!(error, ArchiveError::Request(_)), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let error = move_back(&repository, AsideLabel::first(2)).await;
    let error = error.expect_err("nothing there");
    assert!(
        error.to_string().contains("nothing is set aside"),
        "{error}"
    );
}

#[tokio::test]
async fn wal_that_arrives_meanwhile_stops_the_move_before_the_history_goes() {
    let repository = repository_on(memory_store()).await;
    fill(&repository).await;
    let plan = plan_set_aside(&repository, TimelineId(2)).await;
    let plan = plan.expect("allowed");
    push_segment(&repository, 2, 8, 1).await;
    let error = set_aside(&repository, &plan).await.expect_err("stopped");
    assert!(error.to_string().contains(&name(2, 8)), "{error}");
    assert!(wal(&repository).await.contains_key("00000002.history"));
    let label = move_away(&repository, 2).await.expect("moved");
    assert_eq!(label, plan.label, "the second attempt goes on");
    assert_eq!(aside(&repository, label).await.len(), 7);
}

/// Fills a store once for all runs of a test.
async fn filled() -> Objects {
    let repository = repository_on(memory_store()).await;
    fill(&repository).await;
    wal(&repository).await
}

async fn store_with(objects: &Objects) -> Arc<dyn ObjectStore> {
    let store = memory_store();
    let repository = repository_on(Arc::clone(&store)).await;
    for (name, object) in objects {
        let put = repository.put_wal(name, object.clone().into()).await;
        put.expect("put");
    }
    store
}

/// Every object is in the WAL, or set aside, or both, and nowhere in two versions.
async fn assert_nothing_lost(repository: &Repository, objects: &Objects) {
    let mut found = wal(repository).await;
    let has_wal_of_2 = found.keys().any(|name| name.starts_with("000000020"));
    assert!(found.contains_key("00000002.history") || !has_wal_of_2);
    let labels = repository.list_aside_labels().await.expect("listed");
    assert!(labels.len() <= 1, "{labels:?}");
    for label in labels {
        for (name, object) in aside(repository, label).await {
            let twice = found.insert(name, object.clone());
            assert!(twice.is_none_or(|other| other == object));
        }
    }
    assert_eq!(&found, objects);
}

async fn over(store: &Arc<dyn ObjectStore>, faults: Faults) -> FaultyStore {
    FaultyStore::new(Arc::clone(store), faults)
}

#[tokio::test]
async fn nothing_is_lost_when_any_call_fails_and_the_next_attempt_finishes() {
    let objects = filled().await;
    for lose_answer in [false, true] {
        for call in 2.. {
            let faults = Faults {
                fail_call: Some(call).filter(|_| !lose_answer),
                lose_answer_of_call: Some(call).filter(|_| lose_answer),
                ..Faults::default()
            };
            let store = store_with(&objects).await;
            let direct = Repository::open(Arc::clone(&store)).await.expect("opened");
            let away = over(&store, faults).await;
            let repository = Repository::open(Arc::new(away.clone()))
                .await
                .expect("opened");
            let _ = move_away(&repository, 2).await;
            assert_nothing_lost(&direct, &objects).await;
            let label = move_away(&direct, 2).await.expect("finished");
            assert_eq!(aside(&direct, label).await.len(), 6, "call {call}");
            assert_nothing_lost(&direct, &objects).await;

            let back = over(&store, faults).await;
            let repository = Repository::open(Arc::new(back.clone()))
                .await
                .expect("opened");
            let _ = move_back(&repository, label).await;
            assert_nothing_lost(&direct, &objects).await;
            if !aside(&direct, label).await.is_empty() {
                move_back(&direct, label).await.expect("finished");
            }
            assert_eq!(wal(&direct).await, objects, "call {call}");
            if away.calls() < call && back.calls() < call {
                assert!(call > 40, "the moves took {call} calls only");
                break;
            }
        }
    }
}

/// Of a timeline that stays, what is from a segment on moves, and 2 and 3, which left it behind that segment.
async fn move_part(repository: &Repository) -> Result<Move, ArchiveError> {
    let from = name(1, 5).parse().expect("a segment");
    let plan = plan_set_aside_from(repository, from, false).await?;
    set_aside(repository, &plan).await?;
    Ok(plan)
}

/// Also where nothing is left but histories, which go last.
#[tokio::test]
async fn a_part_whose_move_was_interrupted_moves_when_it_is_asked_for_again() {
    let objects = filled().await;
    for call in 2.. {
        let faults = Faults {
            fail_call: Some(call),
            ..Faults::default()
        };
        let store = store_with(&objects).await;
        let direct = Repository::open(Arc::clone(&store)).await.expect("opened");
        let faulty = over(&store, faults).await;
        let repository = Repository::open(Arc::new(faulty)).await.expect("opened");
        let first = move_part(&repository).await;
        let again = move_part(&direct).await;
        let again = again.unwrap_or_else(|error| panic!("call {call}: {error}"));
        assert!(first.is_err() || again.objects() == 0, "call {call}");
        let (moved, left) = (aside(&direct, again.label).await, wal(&direct).await);
        assert_eq!((moved.len(), left.len()), (8, 3), "call {call}");
        assert!(left.contains_key("00000004.history") && left.contains_key(&name(1, 4)));
        if first.is_ok() {
            assert!(call > 40, "the move took {call} calls only");
            return;
        }
    }
}

/// A timeline that left the part and was archived after the move goes with the same label.
#[tokio::test]
async fn a_timeline_that_comes_after_the_move_of_a_part_moves_too() {
    let repository = repository_on(store_with(&filled().await).await).await;
    let first = move_part(&repository).await.expect("moved");
    let pushed = push_content(&repository, "00000002.history", HISTORY_2).await;
    pushed.expect("pushed");
    let again = move_part(&repository).await.expect("moved");
    assert_eq!((again.objects(), again.label), (1, first.label));
    assert!(!wal(&repository).await.contains_key("00000002.history"));
}

/// Who interrupts a move may have thought better of it.
#[tokio::test]
async fn a_move_that_was_interrupted_can_be_taken_back() {
    let objects = filled().await;
    for call in 2.. {
        let store = store_with(&objects).await;
        let direct = Repository::open(Arc::clone(&store)).await.expect("opened");
        let faults = Faults {
            fail_call: Some(call),
            ..Faults::default()
        };
        let faulty = over(&store, faults).await;
        let repository = Repository::open(Arc::new(faulty)).await.expect("opened");
        let moved = move_away(&repository, 2).await;
        let label = AsideLabel::first(2);
        if !aside(&direct, label).await.is_empty() {
            let back = move_back(&direct, label).await;
            back.unwrap_or_else(|error| panic!("call {call}: {error}"));
        }
        assert_eq!(wal(&direct).await, objects, "call {call}");
        if moved.is_ok() {
            assert!(call > 40, "the move took {call} calls only");
            return;
        }
    }
}

#[tokio::test]
async fn every_object_arrives_when_every_nth_call_fails() {
    let objects = filled().await;
    for nth in 15..40 {
        let store = store_with(&objects).await;
        let direct = Repository::open(Arc::clone(&store)).await.expect("opened");
        let faults = Faults {
            fail_every: Some(nth),
            ..Faults::default()
        };
        let faulty = over(&store, faults).await;
        let repository = Repository::open(Arc::new(faulty)).await.expect("opened");
        let mut attempts = 0;
        // What an attempt can still do shrinks with what was done: the last one has no fault.
        while move_away(&repository, 2).await.is_err() && attempts < 50 {
            assert_nothing_lost(&direct, &objects).await;
            attempts += 1;
        }
        assert!(attempts > 0, "every {nth}th call");
        assert_nothing_lost(&direct, &objects).await;
        let label = move_away(&direct, 2).await.expect("finished");
        assert_eq!(aside(&direct, label).await.len(), 6, "every {nth}th call");
    }
}
