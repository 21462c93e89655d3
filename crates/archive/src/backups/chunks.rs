//! A backup's files as chunks in packs, with one index (docs/format/backup.md).

mod block_hashes;
mod blocking_reads;
mod buffers;
mod changes;
mod cut_tables;
pub(crate) mod cutter;
pub(crate) mod decoded;
pub(crate) mod index;
pub(crate) mod kept;
pub(crate) mod pack;
mod pack_writer;
pub(crate) mod packed;
pub(crate) mod pieces;
pub(crate) mod prior;
pub(crate) mod reading;
mod referring;
pub(crate) mod sources;
mod stored_tables;
pub(crate) mod tables;
pub(crate) mod writing;
