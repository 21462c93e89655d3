//! Relations: their numbers, their streams, and the block numbers of references to them.

mod block_number;
mod relation;

pub use relation::{Relation, RelationFork, Relations};
