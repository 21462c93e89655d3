//! A backup's files as chunks in packs, with one index (docs/format/repository.md).

mod cutter;
pub(crate) mod index;
pub(crate) mod pack;
pub(crate) mod reading;
pub(crate) mod writing;
