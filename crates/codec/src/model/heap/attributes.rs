//! The attributes of a relation, inferred from its tuples alone.

mod forms;
mod guess;
pub mod infer;
mod price;
pub mod sample;
mod search;
