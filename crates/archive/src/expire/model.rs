//! Ten thousand random lives of archives, in each of which an oracle that knows how the life went
//! says what has to stay, and whether each removal is right.

mod life;
mod oracle;

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use jiff::{SignedDuration, Timestamp};

use super::decide::decide;
use super::plan::{self, Reason};
use super::{ExpireRequest, Retention};
use life::{Life, Random};
use oracle::Oracle;

const LIVES: u64 = 10_000;

fn request(random: &mut Random) -> ExpireRequest {
    let full = NonZeroU32::new(random.below(4) as u32);
    let days = random.below(12) as i64;
    let window = (days > 0 || full.is_none()).then(|| SignedDuration::from_hours(24 * days));
    ExpireRequest {
        retention: Retention { full, window },
        aside: random.chance(30),
        ..ExpireRequest::default()
    }
}

#[test]
fn what_must_stay_stays_and_what_goes_may_go() {
    let (mut removed, mut emptied, mut kept_by_pins, mut superseded) = (0, 0, 0, 0);
    for seed in 0..LIVES {
        let mut random = Random::new(seed);
        let mut life = Life::lead(&mut random);
        let now = life.now;
        let request = request(&mut random);
        let first = decide(&life.inventory, &request, now).expect("a plan");
        let oracle = Oracle::new(&life, &request, &first);
        if let Err(wrong) = oracle.check() {
            panic!("seed {seed}: {wrong}\n{request:?}\n{first:#?}");
        }
        removed += first.backups.iter().filter(|of| of.removed).count();
        emptied += first
            .clusters
            .iter()
            .filter(|of| !of.wal.is_empty())
            .count();
        kept_by_pins += oracle.by_pins();
        superseded += first.clusters.iter().filter(|of| of.superseded).count();
        // What was decided once is decided: carried out, nothing more goes, and nothing is lost.
        life.carry_out(&first);
        let second = decide(&life.inventory, &request, now).expect("a plan");
        let goes: Vec<_> = second.backups.iter().filter(|of| of.removed).collect();
        assert!(goes.is_empty(), "seed {seed}: {goes:?}\n{first:#?}");
        if let Err(wrong) = Oracle::new(&life, &request, &second).check() {
            panic!("seed {seed}, again: {wrong}\n{second:#?}");
        }
    }
    // The lives were such that all of it was met.
    let met = [removed, emptied, kept_by_pins, superseded];
    assert!(met.iter().all(|count| *count > 300), "{met:?}");
}

#[test]
fn nothing_goes_when_the_clock_is_behind() {
    for seed in 0..200 {
        let life = Life::lead(&mut Random::new(seed));
        let request = request(&mut Random::new(seed));
        let behind = Timestamp::UNIX_EPOCH;
        let refused = decide(&life.inventory, &request, behind);
        let error = refused.expect_err("the clock is behind");
        assert!(
            matches!(error, crate::error::ArchiveError::ClockBehind { .. }),
            "{error}"
        );
        let ignores = ExpireRequest {
            ignores_clock: true,
            takes_last: false,
            ..request
        };
        assert!(decide(&life.inventory, &ignores, behind).is_ok());
    }
}

/// A backup that is kept for one of several timelines says for which.
#[test]
fn full_backups_that_are_counted_along_several_timelines_say_along_which() {
    let mut several = 0;
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let life = Life::lead(&mut random);
        let request = request(&mut random);
        let plan = decide(&life.inventory, &request, life.now).expect("a plan");
        for cluster in &plan.clusters {
            let own =
                |backup: &&plan::BackupPlan| backup.cluster.as_ref() == Some(&cluster.cluster);
            let reasons = plan.backups.iter().filter(own).flat_map(|of| &of.reasons);
            let counted_along: BTreeSet<Option<u32>> = reasons
                .filter_map(|reason| match reason {
                    Reason::RetentionFull { timeline } => Some(*timeline),
                    _ => None,
                })
                .collect();
            let is_one = counted_along.len() < 2;
            assert!(
                is_one || !counted_along.contains(&None),
                "seed {seed}: {plan:#?}"
            );
            several += usize::from(!is_one);
        }
    }
    assert!(several > 0);
}

/// Plans that remove one thing more are found wrong, so that the check above can fail.
#[test]
fn the_oracle_notices_one_removal_too_many() {
    let (mut backups, mut wal, mut tried_wal) = (0, 0, 0);
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let life = Life::lead(&mut random);
        let request = request(&mut random);
        let plan = decide(&life.inventory, &request, life.now).expect("a plan");
        let is_certain = |reason: &Reason| match reason {
            Reason::Pinned | Reason::NeededBy { .. } => true,
            Reason::RetentionFull { .. } => life.is_simple(),
            _ => false,
        };
        for number in 0..plan.backups.len() {
            let backup = &plan.backups[number];
            let is_sound = life.is_sound(&backup.label);
            if !is_sound || backup.removed || !backup.reasons.iter().any(is_certain) {
                continue;
            }
            let mut wrong = plan.clone();
            wrong.backups[number].removed = true;
            let found = Oracle::new(&life, &request, &wrong).check();
            assert!(found.is_err(), "seed {seed}: {:?} may go", backup);
            backups += 1;
        }
        let Some(entry) = life.any_wal(&mut random) else {
            continue;
        };
        let mut wrong = plan.clone();
        let last = wrong.clusters.last_mut().expect("a cluster");
        if last.wal.iter().any(|of| of.name == entry.name) {
            continue;
        }
        last.wal.push(plan::WalName {
            name: entry.name,
            stored_bytes: entry.size_bytes,
            is_packed: false,
        });
        tried_wal += 1;
        wal += usize::from(Oracle::new(&life, &request, &wrong).check().is_err());
    }
    assert!(backups > 1000, "{backups}");
    // Not all that is kept in doubt is needed.
    assert!(wal > tried_wal / 2, "{wal} of {tried_wal}");
}
