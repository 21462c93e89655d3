//! The memory of the lists that columns have.

use crate::limits::LISTS_COST_MAX;

/// The part used up by lists of columns of [`LISTS_COST_MAX`].
#[derive(Debug, Default)]
pub struct Lists(usize);

impl Lists {
    /// Adds `cost`. Returns `false` if the limit is exceeded.
    pub fn take(&mut self, cost: usize) -> bool {
        self.0 = self.0.saturating_add(cost);
        self.0 <= LISTS_COST_MAX
    }
}
