//! Index tuples, and how they follow from the rows that they point to.

mod expected_entries;
mod extracted_key;
pub mod gin;
pub mod item_spans;
pub mod known_rows;
pub mod known_table;
mod leaf_keys;
pub mod page_tuples;
mod recipe;
mod tid_run;
pub mod tuple;
