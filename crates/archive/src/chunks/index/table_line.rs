//! A table from whose rows chunks of its indexes are told, as a line of the index of a backup.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use walzip_codec::table::{Attribute, KeyAttribute, Order, TableShape};

use super::Index;

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
    attributes: Vec<Stored>,
    /// The attributes of the keys of its indexes.
    indexes: Vec<Vec<KeyLine>>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Stored {
    Varlena,
    Fixed1,
    Fixed2,
    Fixed4,
    Fixed8,
    Uuid,
    Fixed16,
    Name,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct KeyLine {
    /// Which one of the row, counted from 0.
    attribute: u16,
    order: OrderLine,
    #[serde(default, skip_serializing_if = "is_false")]
    descending: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    nullable: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    nulls_first: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OrderLine {
    Signed,
    Unsigned,
    Float,
    Bytes,
    Numeric,
    Unknown,
}

impl From<TableLine> for StoredTable {
    fn from(line: TableLine) -> StoredTable {
        let key = |of: &KeyLine| KeyAttribute {
            attribute: of.attribute,
            order: match of.order {
                OrderLine::Signed => Order::Signed,
                OrderLine::Unsigned => Order::Unsigned,
                OrderLine::Float => Order::Float,
                OrderLine::Bytes => Order::Bytes,
                OrderLine::Numeric => Order::Numeric,
                OrderLine::Unknown => Order::Unknown,
            },
            descending: of.descending,
            nullable: of.nullable,
            nulls_first: of.nulls_first,
        };
        let attribute = |stored: &Stored| match stored {
            Stored::Varlena => Attribute::Varlena,
            Stored::Fixed1 => Attribute::Fixed1,
            Stored::Fixed2 => Attribute::Fixed2,
            Stored::Fixed4 => Attribute::Fixed4,
            Stored::Fixed8 => Attribute::Fixed8,
            Stored::Uuid => Attribute::Uuid,
            Stored::Fixed16 => Attribute::Fixed16,
            Stored::Name => Attribute::Name,
        };
        let keys = line.indexes.iter();
        StoredTable {
            first_chunk: line.first_chunk,
            chunks: line.chunks,
            shape: TableShape {
                attributes: line.attributes.iter().map(attribute).collect(),
                indexes: keys.map(|of| of.iter().map(key).collect()).collect(),
            },
        }
    }
}

impl From<StoredTable> for TableLine {
    fn from(table: StoredTable) -> TableLine {
        let key = |of: &KeyAttribute| KeyLine {
            attribute: of.attribute,
            order: match of.order {
                Order::Signed => OrderLine::Signed,
                Order::Unsigned => OrderLine::Unsigned,
                Order::Float => OrderLine::Float,
                Order::Bytes => OrderLine::Bytes,
                Order::Numeric => OrderLine::Numeric,
                Order::Unknown => OrderLine::Unknown,
            },
            descending: of.descending,
            nullable: of.nullable,
            nulls_first: of.nulls_first,
        };
        let attribute = |attribute: &Attribute| match attribute {
            Attribute::Varlena => Stored::Varlena,
            Attribute::Fixed1 => Stored::Fixed1,
            Attribute::Fixed2 => Stored::Fixed2,
            Attribute::Fixed4 => Stored::Fixed4,
            Attribute::Fixed8 => Stored::Fixed8,
            Attribute::Uuid => Stored::Uuid,
            Attribute::Fixed16 => Stored::Fixed16,
            Attribute::Name => Stored::Name,
        };
        let keys = table.shape.indexes.iter();
        TableLine {
            first_chunk: table.first_chunk,
            chunks: table.chunks,
            attributes: table.shape.attributes.iter().map(attribute).collect(),
            indexes: keys.map(|of| of.iter().map(key).collect()).collect(),
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
                chunks.all(|chunk: &super::Chunk| {
                    let is_told = chunk.base.is_some() || chunk.index.is_some();
                    !is_told && chunk.original_bytes.is_multiple_of(PAGE_BYTES)
                })
            };
            let is_there = table.first_chunk >= end && chunks.is_some_and(are_pages);
            if !is_there || table.chunks == 0 || !table.shape.is_valid() {
                return Err(format!("table {number} is none"));
            }
            end = table.first_chunk + table.chunks;
        }
        let mut last_index = [0; 2];
        for (number, chunk) in self.chunks.iter().enumerate() {
            let Some([table, index]) = chunk.index else {
                continue;
            };
            if [table, index] < last_index {
                return Err(format!("chunk {number} is of an index that came before"));
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
                return Err(format!("chunk {number} is told from an index that is none"));
            }
        }
        Ok(())
    }
}
