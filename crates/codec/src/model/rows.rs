//! Rows that records have brought, and what later records say about them again.

pub mod change;
mod copies;
pub mod recent;
pub mod versions;
