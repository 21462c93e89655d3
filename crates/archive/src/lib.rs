//! What PostgreSQL asks of an archiver: push, get, backup, restore, verify.
//!
//! The model and the invariants are in this crate's README.

#![forbid(unsafe_code)]

mod archived;
pub mod backup;
pub mod backup_get;
mod backups;
pub mod check;
mod cluster;
mod coding;
mod error;
pub mod expire;
mod files;
pub mod get;
pub mod import;
pub mod info;
pub mod init;
pub mod pack;
pub mod packs;
pub mod pins;
pub mod progress;
pub mod push;
mod read_each;
pub mod rebuilt_history;
pub mod receive;
pub mod repository_copy;
pub mod restore;
mod server;
pub mod set_aside;
pub mod spool;
pub mod sync;
pub mod verify;
mod wal;

pub use archived::competing::CompetingTimeline;
pub use archived::wal_index::{RecoveryWindow, SegmentRange, TimelineWal};
pub use backups::backup_objects::{DamagedObject, damaged as damaged_objects};
pub use backups::backup_record::{
    ArchiveRecord, BackupRecord, BlockHashFunction, BlockHashesRecord, DatabaseRecord, FilesRecord,
    Moment, ObjectRecord, RequiredWal,
};
pub use backups::unlogged::UnloggedRelation;
pub use cluster::choice::{ClusterChoice, part};
pub use cluster::replay_start::first_segment_of_replay;
pub use coding::members;
pub use error::{
    ArchiveError, LostHistories, OccupiedDirectory,
    other_branch::{OtherBranch, PutAway},
};
pub use info::growth::Growth;
pub use push::archive_status::{Backlog, is_ready};
pub use server::archiver::{Archiver, Attempt};
pub use server::tablespace_record::TablespaceRecord;
pub use server::{archive_command, replication};
pub use wal::expected_end::ExpectedEnd;
