//! Pauses that grow while something goes on failing.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);

/// The next pause: each is twice as long as the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    next: Duration,
    max: Duration,
}

impl Pause {
    pub(super) fn new(max: Duration) -> Pause {
        Pause { next: FIRST, max }
    }

    /// How long to pause now.
    pub(super) fn next(&mut self) -> Duration {
        let now = self.next;
        self.next = self.max.min(now * 2);
        now
    }

    /// After a success the pauses are short again.
    pub(super) fn reset(&mut self) {
        self.next = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_begin_anew_after_a_success() {
        let mut pause = Pause::new(Duration::from_secs(5));
        let seconds: Vec<u64> = (0..5).map(|_| pause.next().as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 5, 5]);
        pause.reset();
        assert_eq!(pause.next().as_secs(), 1);
    }
}
