//! Relations: their numbers, the streams that belong to each, and which of their blocks records
//! refer to.

mod block_number;
mod relation;

pub use relation::{Relation, RelationFork, Relations};
