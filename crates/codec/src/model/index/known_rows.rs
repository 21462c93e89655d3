//! What new index entries follow from: rows of earlier records, and keys extracted from them.

use super::gin::extracted_tuples::ExtractedTuples;
use super::known_table::KnownTable;
use crate::model::rows::recent::{RecentRows, RowNumber};
use crate::model::rows::versions::RowVersions;

/// What is known when new index entries are coded.
pub struct KnownRows<'a> {
    /// The number of the index among the segment's relations.
    pub relation: u32,
    /// Rows of earlier records.
    pub rows: &'a RecentRows,
    /// Last known versions of rows.
    pub versions: &'a RowVersions,
    /// The transaction's newest row.
    pub newest: RowNumber,
    /// The table, if it is known.
    pub table: Option<KnownTable<'a>>,
    /// Keys that were extracted from rows.
    pub extracted: &'a mut ExtractedTuples,
}
