//! Tuples of heaps: their headers, and the values of their attributes.

mod attributes;
pub mod bodies;
pub mod tuple;
