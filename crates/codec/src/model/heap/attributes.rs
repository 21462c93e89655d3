//! Which attributes the tuples of a relation have, found out from the tuples alone.

mod guess;
pub mod infer;
mod price;
pub mod sample;
mod search;
