//! Packs of WAL: segments that were encoded one after the other, in one object.

pub mod file;
pub(crate) mod format;
pub(crate) mod reading;
pub(crate) mod scratch;
pub(crate) mod sequence;
pub(crate) mod settled;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use reading::{PackReader, Undecoded, is_damage};
pub(crate) use sequence::{Before, ReadySegment};
