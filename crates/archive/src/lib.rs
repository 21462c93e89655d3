//! What PostgreSQL asks of an archiver: push, get, backup, restore, verify.
//!
//! The model and the invariants are in this crate's README.

#![forbid(unsafe_code)]

pub mod archive_command;
mod archive_status;
mod archived_wal;
mod archiver;
pub mod backup;
mod backup_attempt;
mod backup_files;
pub mod backup_get;
mod backup_objects;
mod backup_record;
mod backup_stream;
mod branches;
pub mod check;
mod chunks;
mod clock_guard;
mod cluster;
mod cluster_choice;
mod coding;
mod content;
mod continuity;
mod copying;
mod data_directory;
mod databases;
mod decoding;
mod durable;
pub mod early_end;
mod error;
mod expected_end;
pub mod expire;
mod file_crc;
pub mod get;
pub mod get_ahead;
mod growth;
pub mod import;
mod indexed_tables;
pub mod info;
pub mod init;
pub mod members;
mod neighbours;
mod other_branch;
mod own_history;
mod own_wal;
mod pack_header;
mod packed_times;
pub mod packs;
mod pg_manifest;
pub mod pins;
mod placement;
pub mod progress;
mod promised;
mod proven_copy;
pub mod push;
pub mod push_ahead;
mod read_each;
pub mod rebuilt_history;
pub mod receive;
mod regular_file;
pub mod replication;
pub mod repository_copy;
mod required_wal;
pub mod restore;
mod running_server;
mod server;
pub mod set_aside;
pub mod spool;
mod stable_file;
mod stored_wal;
pub mod sync;
mod tablespace_guard;
mod tablespace_record;
mod tablespaces;
mod tar_files;
mod text;
mod time_error;
mod timeline_info;
mod timelines;
mod times_in_brief;
mod two_threads;
mod unfinished_segment;
pub mod verify;
mod wal_end;
mod wal_index;
mod wal_object;
mod wal_search;
mod wal_times;
mod wal_wait;
mod workers;

pub use archive_status::{Backlog, is_ready};
pub use archiver::{Archiver, Attempt};
pub use backup_objects::{DamagedObject, damaged as damaged_objects};
pub use backup_record::{
    ArchiveRecord, BackupRecord, BlockHashFunction, BlockHashesRecord, DatabaseRecord, FilesRecord,
    Moment, ObjectRecord, RequiredWal,
};
pub use cluster_choice::{ClusterChoice, part};
pub use error::{ArchiveError, OccupiedDirectory};
pub use expected_end::ExpectedEnd;
pub use growth::Growth;
pub use other_branch::OtherBranch;
pub use tablespace_record::TablespaceRecord;
pub use wal_index::{RecoveryWindow, SegmentRange, TimelineWal};
