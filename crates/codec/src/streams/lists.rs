//! The memory of the lists that columns have.

use crate::limits::LISTS_COST_MAX;

/// What lists of columns have taken of [`LISTS_COST_MAX`].
#[derive(Debug, Default)]
pub struct Lists(usize);

impl Lists {
    /// Counts some more; `false` where they are too many.
    pub fn take(&mut self, cost: usize) -> bool {
        self.0 = self.0.saturating_add(cost);
        self.0 <= LISTS_COST_MAX
    }
}
