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

    /// Adds the bytes of a value that is taken apart. Returns `false` if the limit is exceeded.
    pub fn take_apart(&mut self, len: usize) -> bool {
        self.apart = self.apart.saturating_add(len);
        self.apart <= COMPRESSED_VALUES_MAX
    }
}
