//! What index entries follow from: rows of the records before, and keys taken out of them.

use super::gin::extracted_tuples::ExtractedTuples;
use crate::model::rows::recent::{RecentRows, RowNumber};
use crate::model::rows::versions::RowVersions;

/// What is known when new index entries are coded.
pub struct KnownRows<'a> {
    /// The number of the index.
    pub relation: u32,
    /// Rows of the records before.
    pub rows: &'a RecentRows,
    /// What is known of rows that may get new versions.
    pub versions: &'a RowVersions,
    /// The transaction's newest row.
    pub newest: RowNumber,
    /// Keys that were taken out of rows.
    pub extracted: &'a mut ExtractedTuples,
}
