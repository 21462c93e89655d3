//! Packs of WAL: segments that were encoded one after the other, in one object.

mod encoding;
pub mod file;
mod format;
pub mod pack;
mod plan;
mod reading;
mod scratch;
mod sequence;
mod settling;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use reading::{PackReader, Undecoded, is_damage};
pub(crate) use sequence::{Before, ReadySegment};
pub(crate) use settling::{check_packed, check_put, compare, is_long_ago};
