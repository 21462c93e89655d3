//! What PostgreSQL asks of an archiver: push, get, backup, restore, verify.
//!
//! The model and the invariants are in this crate's README.

#![forbid(unsafe_code)]

pub mod archive_command;
mod archiver;
pub mod backup;
mod backup_record;
mod backup_stream;
pub mod check;
mod cluster;
mod coding;
mod content;
mod durable;
mod error;
pub mod get;
pub mod info;
pub mod init;
mod pg_manifest;
pub mod push;
pub mod replication;
pub mod restore;
mod server;
mod text;
mod timelines;
pub mod verify;
mod wal_index;
mod wal_wait;

pub use archiver::{Archiver, Attempt};
pub use backup_record::{
    ArchiveRecord, BackupRecord, Moment, ObjectRecord, RequiredWal, TablespaceRecord,
};
pub use error::ArchiveError;
pub use wal_index::{SegmentRange, TimelineWal};
