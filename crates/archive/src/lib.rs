//! What PostgreSQL asks of an archiver: push, get, backup, restore, verify.
//!
//! The model and the invariants are in this crate's README.

#![forbid(unsafe_code)]

pub mod replication;
