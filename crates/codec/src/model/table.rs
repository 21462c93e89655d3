//! The rows of a table, and the entries that a B-tree on it has for them in the order of its keys.
//!
//! An index says nothing that its table does not say: its keys are values of rows, and their order
//! is that of a comparison. What a page has that does not follow, such as entries of rows that are
//! gone, is coded otherwise.

pub mod entries;
pub mod index_tuple;
pub mod row_order;
pub mod rows;
pub mod shape;
pub mod sort_key;
