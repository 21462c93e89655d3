//! Rows of earlier records, from which later tuples follow: index entries and new versions.

pub mod change;
pub mod changed_words;
mod copies;
mod image_rows;
pub mod image_versions;
pub mod recent;
pub mod versions;
