//! Packs: segments that were archived one by one, encoded again, each told from those before it.

use super::{Recommendation, Saves, percent};
use crate::advise::Advice;
use crate::text::{bytes, counted};

/// Packs that save less are not worth the time that getting one segment takes.
const WORTH_IT: f64 = 0.9;

impl Advice {
    /// Nothing where too few segments follow one another to tell.
    pub(super) fn packs(&self) -> Option<Recommendation> {
        let packing = self.packing?;
        let saves_much = packing.ratio() < WORTH_IT;
        let advice = match saves_much {
            true => format!(
                "walzip pack, or pack-every with walzip serve: {} of what segments take one by one",
                percent(packing.ratio())
            ),
            false => "leave segments as they are: packs save little here".to_owned(),
        };
        let reasons = vec![
            format!(
                "{} that follow one another take {} with walzip -{} one by one, and {} in a pack; packing one \
                 took {:.2} s, its proof included",
                counted(packing.segments, "segment"),
                bytes(packing.single_bytes as f64),
                packing.level,
                bytes(packing.packed_bytes as f64),
                packing.seconds
            ),
            format!(
                "the first segments of a pack cost most: the second half of these takes {} of what it takes one \
                 by one, and a pack has up to 256 segments",
                percent(packing.later_ratio())
            ),
            "one segment out of a pack takes longer to get, since those before it are decoded; a recovery, which \
             gets all of them, does not wait for that (walzip bench packs measures both)"
                .to_owned(),
        ];
        let is_walzip = self
            .chosen_program()
            .is_some_and(|program| program.is_walzip());
        let saved = (packing.single_bytes as f64 - packing.packed_bytes as f64)
            / (packing.original_bytes as f64).max(1.0);
        let saves = self
            .wal_bytes_per_day()
            .filter(|_| saves_much && is_walzip)
            .map(|per_day| per_day * saved);
        Some(Recommendation {
            subject: "packs",
            advice,
            change: saves_much,
            reasons,
            saves_bytes_per_day: saves,
            saves_of: Saves::Archived,
            saves_per_month: self.worth(saves),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::advise::Packing;
    use crate::advise::text::fixture::advice;

    #[test]
    fn packs_are_advised_where_they_save_much() {
        let mut example = advice(|_| {});
        assert!(example.packs().is_none());
        let mut packing = Packing {
            segments: 16,
            level: 3,
            original_bytes: 16 << 24,
            single_bytes: 100 << 20,
            packed_bytes: 25 << 20,
            later_single_bytes: 50 << 20,
            later_packed_bytes: 5 << 20,
            seconds: 0.4,
        };
        example.packing = Some(packing);
        let found = example.packs().expect("advice");
        assert!(
            found.change && found.advice.contains("25% of what"),
            "{found:?}"
        );
        assert!(found.reasons[1].contains("takes 10% of"), "{found:?}");
        let saved = found.saves_bytes_per_day.expect("known");
        assert!((saved - 10e9 * 75.0 / 256.0).abs() < 1.0, "{saved}");
        packing.packed_bytes = 99 << 20;
        example.packing = Some(packing);
        let found = example.packs().expect("advice");
        assert!(
            !found.change && found.saves_bytes_per_day.is_none(),
            "{found:?}"
        );
    }
}
