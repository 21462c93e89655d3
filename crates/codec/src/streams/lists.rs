//! What the columns of a member take together: the memory of their lists, and the bytes of values that the server
//! has compressed.

use crate::limits::{COMPRESSED_VALUES_MAX, LISTS_COST_MAX};

/// The part used up of [`LISTS_COST_MAX`] and of [`COMPRESSED_VALUES_MAX`].
#[derive(Debug, Default)]
pub struct Lists {
    cost: usize,
    apart: usize,
}

impl Lists {
    /// Adds `cost`. Returns `false` if the limit is exceeded.
    pub fn take(&mut self, cost: usize) -> bool {
        self.cost = self.cost.saturating_add(cost);
        self.cost <= LISTS_COST_MAX
    }

    /// Adds the bytes of values that are taken apart, unless that exceeds the limit: then returns `false`.
    pub fn take_apart(&mut self, len: usize) -> bool {
        let apart = self.apart.saturating_add(len);
        let fits = apart <= COMPRESSED_VALUES_MAX;
        if fits {
            self.apart = apart;
        }
        fits
    }
}
