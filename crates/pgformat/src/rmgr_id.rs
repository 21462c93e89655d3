//! The numbers of the resource managers (access/rmgrlist.h), the same in 13 to 19.

/// Checkpoints, page images and the log's own housekeeping.
pub const XLOG: u8 = 0;
/// Ends of transactions.
pub const XACT: u8 = 1;
/// Creation and truncation of relation files.
pub const STORAGE: u8 = 2;
/// Transaction status.
pub const CLOG: u8 = 3;
/// Databases.
pub const DATABASE: u8 = 4;
/// Tablespaces.
pub const TABLESPACE: u8 = 5;
/// Row locks held by several transactions.
pub const MULTIXACT: u8 = 6;
/// The file names of system catalogs.
pub const RELMAP: u8 = 7;
/// What standbys need: locks and running transactions.
pub const STANDBY: u8 = 8;
/// Tables: the operations that had no number left in `HEAP`.
pub const HEAP2: u8 = 9;
/// Tables.
pub const HEAP: u8 = 10;
/// B-tree indexes.
pub const BTREE: u8 = 11;
/// Hash indexes.
pub const HASH: u8 = 12;
/// GIN indexes.
pub const GIN: u8 = 13;
/// GiST indexes.
pub const GIST: u8 = 14;
/// Sequences.
pub const SEQUENCE: u8 = 15;
/// SP-GiST indexes.
pub const SPGIST: u8 = 16;
/// BRIN indexes.
pub const BRIN: u8 = 17;
/// Times of commits.
pub const COMMIT_TS: u8 = 18;
/// Progress of logical replication.
pub const REPLICATION_ORIGIN: u8 = 19;
/// Pages of extensions, as differences.
pub const GENERIC: u8 = 20;
/// Messages for logical decoding.
pub const LOGICAL_MESSAGE: u8 = 21;
/// The first number that an extension can have (from 15 on).
pub const CUSTOM_MIN: u8 = 128;
