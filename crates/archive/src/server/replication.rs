//! A small PostgreSQL client that can speak the replication protocol.
//!
//! The general-purpose Rust clients have no replication mode, so this one is built on
//! `postgres-protocol` (message layout and authentication). It knows what backing up and
//! checking a cluster need: simple queries, `IDENTIFY_SYSTEM`, `SHOW`, and `BASE_BACKUP` in
//! the grammar of 13 and 14 and in that of 15 and later. For receiving WAL it knows slots,
//! `TIMELINE_HISTORY` and `START_REPLICATION`.
//!
//! A connection is of one [`Mode`] for its whole life. Whatever the server sends is checked
//! before use: the size of a message is bounded before memory is reserved for it, and a message
//! out of turn is an error.

mod authentication;
mod base_backup;
mod connection;
mod error;
mod names;
mod online_backup;
mod settings;
mod slots;
mod ssl_mode;
mod tls;
mod tls_settings;
mod wal_stream;

pub use base_backup::{
    BackupEnd, BackupPart, BackupTablespace, BaseBackup, BaseBackupOptions, ManifestChecksums,
};
pub use connection::{Connection, Mode, Row, SystemIdentification};
pub use error::{ServerError, SqlError, TlsFault};
pub use online_backup::{OnlineBackup, OnlineBackupEnd};
pub use settings::{ConnectionSettings, Host};
pub use slots::{SlotName, SlotPosition, slot_restart};
pub use ssl_mode::SslMode;
pub use tls_settings::{ChannelBinding, RootCertificates, TlsSettings};
pub use wal_stream::{NextTimeline, StreamPart, WalStream};
