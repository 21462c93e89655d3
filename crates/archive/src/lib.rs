//! What PostgreSQL asks of an archiver: push, get, backup, restore, verify.
//!
//! The model and the invariants are in this crate's README.

#![forbid(unsafe_code)]

mod cluster;
mod coding;
mod content;
mod durable;
mod error;
pub mod get;
pub mod init;
pub mod push;
pub mod replication;

pub use error::ArchiveError;
