//! How likely records are to name the pages of a relation again, long after they did.
//!
//! Rows that are only appended leave pages that no record names again; where any row may be
//! updated, each page is. That is seen from what records have named.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use walzip_pgformat::wal::RelFileLocator;

/// A fork of a relation.
pub(crate) type ForkKey = (RelFileLocator, u8);

/// Bytes of WAL after which a page that is named again has returned. Until then others go before it.
const LONG: u64 = 32 << 20;

/// What is known of a fork of a relation, as long as pages of it are kept.
#[derive(Clone, Copy, Default)]
struct Fork {
    kept: u32,
    came: u64,
    returned: u64,
}

/// Counts of pages by fork of a relation.
#[derive(Clone, Default)]
pub(crate) struct Returns {
    /// Whoever writes to the database chooses the keys: the hash begins at random.
    forks: HashMap<ForkKey, Fork, RandomState>,
    /// Where the last record ends.
    now: u64,
}

impl Returns {
    /// A page is kept from now on.
    pub(crate) fn come(&mut self, of: ForkKey) {
        let fork = self.forks.entry(of).or_default();
        fork.kept += 1;
        fork.came += 1;
    }

    /// A page is no longer kept.
    pub(crate) fn leave(&mut self, of: ForkKey) {
        if let Some(fork) = self.forks.get_mut(&of) {
            fork.kept = fork.kept.saturating_sub(1);
            if fork.kept == 0 {
                self.forks.remove(&of);
            }
        }
    }

    /// A record that ends at `end` names a page that was last named at `named`, 0 if it never was.
    pub(crate) fn name(&mut self, of: ForkKey, named: u64, end: u64) {
        self.now = end;
        if named != 0
            && end.saturating_sub(named) > LONG
            && let Some(fork) = self.forks.get_mut(&of)
        {
            fork.returned += 1;
        }
    }

    /// The more, the likelier it is that a page is named again, that was last named at `named`: of pages that
    /// came, how many were. How long ago it was says nothing more: a checkpoint makes pages be named
    /// in turn.
    pub(crate) fn weight(&self, of: ForkKey, named: u64) -> u128 {
        match self.forks.get(&of) {
            Some(fork) if self.now.saturating_sub(named) > LONG => {
                ((u128::from(fork.returned) + 1) << 32) / u128::from(fork.came.max(1))
            }
            _ => u128::MAX,
        }
    }

    /// All that is counted.
    pub(crate) fn known(&self) -> Vec<u8> {
        let mut forks: Vec<_> = self.forks.iter().collect();
        forks.sort_unstable_by_key(|(of, _)| **of);
        let mut known = self.now.to_le_bytes().to_vec();
        for ((locator, number), fork) in forks {
            known.extend_from_slice(&locator.to_bytes());
            known.push(*number);
            known.extend_from_slice(&fork.kept.to_le_bytes());
            known.extend_from_slice(&fork.came.to_le_bytes());
            known.extend_from_slice(&fork.returned.to_le_bytes());
        }
        known
    }
}
