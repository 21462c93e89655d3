//! A table from whose rows chunks of its indexes are told, as a line of the index of a backup.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use walzip_codec::table::{Attribute, KeyAttribute, Order, TableShape};

use super::{Chunk, Index, is_false};

/// A table from whose rows chunks of its indexes are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "TableLine", into = "TableLine")]
pub(crate) struct StoredTable {
    /// The number of the first chunk of its pages.
    pub(crate) first_chunk: u32,
    /// How many chunks they are in, which have nothing else.
    pub(crate) chunks: u32,
    pub(crate) shape: TableShape,
}

impl StoredTable {
    /// The numbers of the chunks of its pages.
    pub(crate) fn chunks(&self) -> Range<usize> {
        let first = self.first_chunk as usize;
        first..first.saturating_add(self.chunks as usize)
    }
}

#[derive(Serialize, Deserialize)]
struct TableLine {
    first_chunk: u32,
    chunks: u32,
    /// How the values of its rows are stored, up to the last one that a key has.
    attributes: Vec<Named>,
    /// The attributes of the keys of its indexes.
    indexes: Vec<Vec<OfKey>>,
}

#[derive(Serialize, Deserialize)]
struct Named(#[serde(with = "AttributeName")] Attribute);

/// As an attribute is called.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Attribute", rename_all = "kebab-case")]
enum AttributeName {
    Varlena,
    Fixed1,
    Fixed2,
    Fixed4,
    Fixed8,
    Uuid,
    Fixed16,
    Name,
}

#[derive(Serialize, Deserialize)]
struct OfKey(#[serde(with = "KeyFields")] KeyAttribute);

/// What is said of an attribute of a key.
#[derive(Serialize, Deserialize)]
#[serde(remote = "KeyAttribute")]
struct KeyFields {
    attribute: u16,
    #[serde(with = "OrderName")]
    order: Order,
    #[serde(default, skip_serializing_if = "is_false")]
    descending: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    nullable: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    nulls_first: bool,
}

/// As an order is called.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Order", rename_all = "kebab-case")]
enum OrderName {
    Signed,
    Unsigned,
    Float,
    Bytes,
    Numeric,
    Unknown,
}

impl From<TableLine> for StoredTable {
    fn from(line: TableLine) -> StoredTable {
        let keys = line.indexes.into_iter();
        let attributes = line.attributes.into_iter();
        StoredTable {
            first_chunk: line.first_chunk,
            chunks: line.chunks,
            shape: TableShape {
                attributes: attributes.map(|Named(attribute)| attribute).collect(),
                indexes: keys
                    .map(|key| key.into_iter().map(|OfKey(of_key)| of_key).collect())
                    .collect(),
            },
        }
    }
}

impl From<StoredTable> for TableLine {
    fn from(table: StoredTable) -> TableLine {
        let TableShape {
            attributes,
            indexes,
        } = table.shape;
        let keys = indexes.into_iter();
        TableLine {
            first_chunk: table.first_chunk,
            chunks: table.chunks,
            attributes: attributes.into_iter().map(Named).collect(),
            indexes: keys
                .map(|key| key.into_iter().map(OfKey).collect())
                .collect(),
        }
    }
}

impl Index {
    /// Refuses tables that are not where they are said to be, and chunks that are told from none.
    pub(super) fn check_tables(&self) -> Result<(), String> {
        const PAGE_BYTES: u32 = walzip_pgformat::PAGE_SIZE as u32;
        let mut end = 0;
        for (number, table) in self.tables.iter().enumerate() {
            let chunks = self.chunks.get(table.chunks());
            let are_pages = |chunks: &[_]| {
                let mut chunks = chunks.iter();
                chunks.all(|chunk: &Chunk| {
                    let is_told = chunk.base.is_some() || chunk.index.is_some();
                    !is_told && chunk.original_bytes.is_multiple_of(PAGE_BYTES)
                })
            };
            let is_there = table.first_chunk >= end && chunks.is_some_and(are_pages);
            if !is_there || table.chunks == 0 || !table.shape.is_valid() {
                return Err(format!(
                    "table {number} does not lie in chunks of whole pages, or its description is invalid"
                ));
            }
            end = table.first_chunk + table.chunks;
        }
        let mut last_index = [0; 2];
        for (number, chunk) in self.chunks.iter().enumerate() {
            let Some([table, index]) = chunk.index else {
                continue;
            };
            if [table, index] < last_index {
                return Err(format!(
                    "chunk {number} is of an index whose chunks came before others"
                ));
            }
            last_index = [table, index];
            // No other table comes between.
            let before = |table: &StoredTable| table.first_chunk as usize <= number;
            let last = self.tables.partition_point(before).checked_sub(1);
            let is_last = last == Some(table as usize) && chunk.base.is_none();
            let of = self.tables.get(table as usize).filter(|_| is_last);
            let has_index = |of: &StoredTable| {
                number >= of.chunks().end && (index as usize) < of.shape.indexes.len()
            };
            if !of.is_some_and(has_index) {
                return Err(format!(
                    "chunk {number} does not follow the table that it is told from, or that has no such index"
                ));
            }
        }
        Ok(())
    }
}
