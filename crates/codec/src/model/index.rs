//! Tuples of indexes, and how they follow from the rows that they are for.

pub mod gin;
mod recipe;
mod tid_run;
pub mod tuple;
