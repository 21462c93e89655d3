//! Some of many, taken at random, and always the same for the same seed.

use serde::{Deserialize, Serialize};

use crate::random::Random;
use crate::text::counted;

/// How many are taken at random, and by which seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// How many at most.
    pub segments: usize,
    /// What the choice follows from.
    pub seed: u64,
}

/// A sample that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    /// How many there were.
    pub of: usize,
    /// What the choice followed from.
    pub seed: u64,
}

impl Sample {
    /// Takes some, each as likely as the others, and leaves them in their order.
    pub fn take<T>(self, all: Vec<T>) -> (Vec<T>, Sampled) {
        let of = all.len();
        let mut random = Random::new(self.seed, 0);
        let mut places: Vec<usize> = (0..of).collect();
        // The first places of a shuffled list; nobody asks for the order of the others.
        for at in 0..self.segments.min(of) {
            let other = at + random.below((of - at) as u64) as usize;
            places.swap(at, other);
        }
        let mut taken = vec![false; of];
        for place in places.into_iter().take(self.segments) {
            taken[place] = true;
        }
        let chosen = all.into_iter().zip(taken);
        let chosen = chosen.filter(|(_, taken)| *taken).map(|(one, _)| one);
        (
            chosen.collect(),
            Sampled {
                of,
                seed: self.seed,
            },
        )
    }
}

impl Sampled {
    /// For a person.
    pub(crate) fn words(self) -> String {
        let of = counted(self.of, "segment");
        format!("a random sample of {of}, seed {}", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(segments: usize, seed: u64) -> Vec<u32> {
        Sample { segments, seed }.take((0..1000).collect()).0
    }

    #[test]
    fn the_same_seed_takes_the_same_and_another_one_others() {
        assert_eq!(sample(20, 1), sample(20, 1));
        assert_ne!(sample(20, 1), sample(20, 2));
        assert_eq!(sample(20, 1).len(), 20);
    }

    #[test]
    fn what_is_taken_is_taken_once_in_its_order_and_no_more_than_there_is() {
        let taken = sample(500, 7);
        assert!(taken.is_sorted_by(|a, b| a < b));
        assert_eq!(sample(5000, 7).len(), 1000);
        let (none, sampled) = Sample {
            segments: 3,
            seed: 1,
        }
        .take(Vec::<u32>::new());
        assert_eq!((none.len(), sampled.of), (0, 0));
    }

    #[test]
    fn every_place_is_as_likely_as_the_others() {
        let mut times = [0; 10];
        for seed in 0..1000 {
            let (taken, _) = Sample { segments: 3, seed }.take((0..10).collect::<Vec<usize>>());
            taken.into_iter().for_each(|place| times[place] += 1);
        }
        assert!(
            times.iter().all(|times| (240..360).contains(times)),
            "{times:?}"
        );
    }
}
