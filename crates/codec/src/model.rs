//! What walzip knows of PostgreSQL: how each byte of a record follows from others, and which
//! streams take what does not follow.
//!
//! One state serves both directions and is changed only by what both know.

mod heap;
mod index;
mod pages;
mod records;
mod relations;
mod rows;
mod values;

pub use records::Model;
