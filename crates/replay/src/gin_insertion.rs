//! Insertions into the tree of keys of a GIN index, as they stand in a record (access/ginxlog.h).

use walzip_pgformat::opcode::gin;

use crate::index_tuple;
use crate::record::Record;

/// Of `xl_info`, the bits of the type.
pub const OPCODE: u8 = 0xF0;

/// `GIN_INSERT_ISDATA`: into a tree of rows.
pub const IS_DATA: u16 = 1;
/// `GIN_INSERT_ISLEAF`
pub const IS_LEAF: u16 = 2;

/// An insertion into the tree of keys, as it stands in a record: `ginxlogInsertEntry`.
#[derive(Clone, Copy)]
pub struct NewEntry<'r> {
    /// Its number on the page.
    pub number: u16,
    /// It replaces the entry that has that number.
    pub replaces: bool,
    /// The entry.
    pub tuple: &'r [u8],
}

/// Bytes of a `ginxlogInsertEntry` before the tuple.
pub const ENTRY_HEADER_LEN: usize = 4;

impl<'r> NewEntry<'r> {
    /// What the data of a record say.
    pub fn of(data: &'r [u8]) -> Option<NewEntry<'r>> {
        let (header, rest) = data.split_at_checked(ENTRY_HEADER_LEN)?;
        let len = index_tuple::len(rest)?;
        Some(NewEntry {
            number: u16::from_le_bytes([header[0], header[1]]),
            replaces: header[2] != 0,
            tuple: rest.get(..len)?,
        })
    }
}

/// Whether a record puts an entry on a leaf of the tree of keys.
pub fn is_leaf_entry(record: &Record<'_>) -> bool {
    let flags = record.main_u16(0).unwrap_or_default();
    record.opcode(OPCODE) == gin::INSERT && flags & (IS_DATA | IS_LEAF) == IS_LEAF
}
