//! Which times are refused, and where a recovery is expected to end.

use super::*;
use std::collections::BTreeMap;

/// Commits at seconds, in the order of the WAL, and whether a recovery to second 100 is refused.
fn refused(seconds: &[i64]) -> bool {
    let time = |second| Timestamp::from_second(second).expect("a time");
    let mut seen = Seen::new(time(100));
    for (number, &second) in seconds.iter().enumerate() {
        seen.add(Lsn(number as u64), time(second), true);
    }
    seen.refuse(TimelineId(1)).is_err()
}

#[test]
fn only_what_would_be_left_out_is_refused() {
    assert!(!refused(&[98, 99, 100, 101, 102]));
    // Written late, not set back.
    assert!(!refused(&[99, 101, 100, 102]));
    assert!(refused(&[99, 103, 100, 104]));
    // The first later one counts, even if the others are older.
    assert!(refused(&[50, 4000, 51, 52]));
    // Set back before the target, or all after it.
    assert!(!refused(&[99, 60, 61, 101, 102]));
    assert!(!refused(&[99, 130, 110, 131]));
}

/// Of a WAL with a commit in each segment, at these seconds: what a recovery to a second is refused with.
/// Of so many the first one is read soon.
async fn refusal(stretches: &[Vec<(u64, i64)>], in_pack: u64, target: i64) -> Option<[u64; 2]> {
    let time = |second| Timestamp::from_second(second).expect("a time");
    let of: BTreeMap<u64, i64> = stretches.concat().into_iter().collect();
    let numbers: Vec<Stretch> = stretches
        .iter()
        .map(|stretch| {
            let all: Vec<u64> = stretch.iter().map(|(number, _)| *number).collect();
            let soon = all.iter().filter(|number| *number % in_pack == 0);
            Stretch {
                soon: soon.copied().collect(),
                all,
            }
        })
        .collect();
    let is_later = async |number| {
        assert_eq!(number % in_pack, 0, "it is read soon");
        Ok(Some(of[&number] > target))
    };
    let chosen = near(&numbers, is_later).await.expect("chosen");
    let chosen_max = 4 * NEAR + 2 + in_pack as usize;
    assert!(chosen.len() <= chosen_max * numbers.len());
    let ends_in = async |number| Ok(vec![(Lsn(number), time(of[&number]), true)]);
    let last = of.last_key_value().map_or(0, |(number, _)| *number);
    let seen = look((chosen, last), time(target), ends_in, |_| false).await;
    let seen = seen.expect("looked at");
    seen.refuse(TimelineId(1)).err()?;
    Some([seen.end?.0.0, seen.left_out?.0.0])
}

#[tokio::test]
async fn both_places_of_a_time_are_found_on_timelines_of_any_length() {
    // Until segment 100 a minute for each; then a standby goes on whose clock is ten minutes behind.
    let first: Vec<(u64, i64)> = (0..100)
        .map(|number| (number, 60 * number as i64))
        .collect();
    for length in [20, 50, 200, 500] {
        let second = (100..100 + length).map(|number| (number, 60 * (number as i64 - 10)));
        let stretches = [first.clone(), second.collect()];
        for in_pack in [1, 16, 64] {
            // The first later one, and the last up to the time.
            let refused = refusal(&stretches, in_pack, 95 * 60 + 30).await;
            assert_eq!(refused, Some([96, 105]), "{length} {in_pack}");
            assert_eq!(refusal(&stretches, in_pack, 99 * 60 + 30).await, None);
            assert_eq!(refusal(&stretches, in_pack, 50 * 60).await, None);
        }
    }
}

#[tokio::test]
async fn a_step_within_a_pack_is_found_where_the_target_is_in_it() {
    // From segment 70 on, the clock is five minutes behind.
    let behind = |number| if number < 70 { 0 } else { 5 };
    let all = (0..200).map(|number| (number, 60 * (number as i64 - behind(number))));
    let all: Vec<(u64, i64)> = all.collect();
    for in_pack in [1, 16, 64] {
        let found = refusal(std::slice::from_ref(&all), in_pack, 67 * 60 + 30).await;
        assert_eq!(found, Some([68, 72]), "{in_pack}");
    }
}

#[tokio::test]
async fn the_first_later_segment_is_found_among_others_in_which_no_transaction_ends() {
    let said = |text: &str| -> Vec<Option<bool>> {
        let of = |byte| match byte {
            b'<' => Some(false),
            b'>' => Some(true),
            _ => None,
        };
        text.bytes().map(of).collect()
    };
    for (text, expected) in [
        ("", (0, 0)),
        ("....", (0, 4)),
        ("<<<<", (4, 4)),
        (">>>>", (0, 0)),
        ("<<>>>>", (2, 2)),
        ("<..........>", (1, 11)),
        ("<<<.>..........", (3, 4)),
        ("<<<.>...>>.....>", (3, 4)),
        ("..........<>", (11, 11)),
        (".>..........", (0, 1)),
    ] {
        let said = said(text);
        let segments: Vec<u64> = (0..said.len() as u64).collect();
        let read = std::cell::Cell::new(0);
        let is_later = async |number: u64| {
            read.set(read.get() + 1);
            Ok(said[number as usize])
        };
        let found = first_later(&segments, is_later).await.expect("read");
        assert_eq!(found, expected, "{text}");
        assert!(read.get() <= segments.len(), "{text}");
    }
}

#[test]
fn a_refusal_names_both_positions() {
    let time = |second| Timestamp::from_second(second).expect("a time");
    let mut seen = Seen::new(time(100));
    for (lsn, second) in [
        (0x200, 99),
        (0x300, 110),
        (0x400, 90),
        (0x500, 95),
        (0x600, 111),
    ] {
        seen.add(Lsn(lsn), time(second), true);
    }
    let said = seen.refuse(TimelineId(3)).expect_err("refused").to_string();
    assert!(said.contains("--target-timeline 3"), "{said}");
    assert!(
        said.contains("--target-lsn 0/300 --target-exclusive"),
        "{said}"
    );
    assert!(said.contains("--target-lsn 0/500 "), "{said}");
}

/// What is refused by all ends is refused by what packs say of their segments, and nothing else; and the recovery
/// is expected to end in the same segment.
#[tokio::test]
async fn what_packs_say_is_enough_to_tell_when_to_read_all() {
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    let (mut refused, mut read_all) = (0, 0);
    for _ in 0..2000 {
        let mut clock = 80 * 1_000_000_i64;
        let segments: Vec<Vec<End>> = (0..8)
            .map(|segment| {
                let ends = (0..next(4)).map(|number| {
                    clock += next(4_000_000) as i64;
                    if next(20) == 0 {
                        clock -= next(9_000_000) as i64;
                    }
                    let time = Timestamp::from_microsecond(clock).expect("a time");
                    (Lsn(1000 * segment + number), time, next(5) > 0)
                });
                ends.collect()
            })
            .collect();
        let target = Timestamp::from_second(80 + next(20) as i64).expect("a time");
        let all = async |number: u64| Ok(segments[number as usize].clone());
        let said = async |number: u64| {
            let mut brief = TimesInBrief::default();
            for (_, time, committed) in &segments[number as usize] {
                brief.add_end(*time, *committed);
            }
            let ends = &segments[number as usize];
            Ok(in_brief(Lsn(1000 * number), brief).unwrap_or_else(|| ends.clone()))
        };
        let chosen: BTreeSet<u64> = (0..8).collect();
        let exact = look((chosen.clone(), 7), target, all, |_| false).await;
        let brief = look((chosen, 7), target, said, |_| false).await;
        let (exact, brief) = (exact.expect("looked at"), brief.expect("looked at"));
        let segment = |seen: &Seen| seen.end.map(|(lsn, _)| lsn.0 / 1000);
        assert_eq!(segment(&exact), segment(&brief));
        assert!(exact.left_out.is_none() || brief.left_out.is_some());
        refused += usize::from(exact.left_out.is_some());
        read_all += usize::from(brief.left_out.is_some());
    }
    // An abort that comes late lets all be read, and nothing is refused.
    assert!(
        refused > 50 && read_all < 2 * refused,
        "{refused} {read_all}"
    );
}
