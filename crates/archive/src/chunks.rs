//! A backup's files as chunks in packs, with one index (docs/format/backup.md).

pub(crate) mod cutter;
pub(crate) mod index;
pub(crate) mod pack;
pub(crate) mod reading;
pub(crate) mod writing;
