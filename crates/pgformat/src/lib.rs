//! PostgreSQL's bytes: what they mean, and how to write them back identically.
//!
//! Nothing here does I/O but through [`ReadAt`], reads a clock, or allocates from a size that was not checked.
//! The model and the invariants are in this crate's README.

#![deny(unsafe_code)]

pub mod backup_label;
pub mod bytes;
pub mod control_file;
pub mod hash;
mod input;
pub mod opcode;
pub mod page_checksum;
pub mod pglz;
pub mod posting_list;
pub mod prefetch;
pub mod relation_file;
pub mod rmgr;
pub mod rmgr_id;
pub mod timeline_history;
pub mod units;
pub mod version;
pub mod wal;
pub mod wal_file_name;
pub mod wal_summary;

pub use input::{Input, ReadAt};
pub use timeline_history as history;
pub use units::{Lsn, SystemId, TimelineId};
pub use version::Version;

/// The size of a WAL page and of a relation page: PostgreSQL's default, and the only one
/// supported (`XLOG_BLCKSZ`, `BLCKSZ`).
pub const PAGE_SIZE: usize = 8192;
