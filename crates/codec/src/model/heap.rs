//! Heap tuples: their headers, and the values of their attributes.

mod attributes;
mod bodies;
pub mod body;
pub mod tuple;
