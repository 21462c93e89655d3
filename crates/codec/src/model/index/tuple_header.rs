//! The header of an index tuple (`IndexTupleData`, access/itup.h).

/// Its size, in bytes.
pub const INDEX_TUPLE_HEADER_LEN: usize = 8;
/// `INDEX_SIZE_MASK`: the tuple's length in t_info, in bytes.
pub const SIZE_MASK: u16 = 0x1FFF;
