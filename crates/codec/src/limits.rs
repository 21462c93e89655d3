//! The bounds of the format, in one place: docs/format/container.md says the same, and a test
//! holds the two against each other.
//!
//! Each is checked by the decoder before it believes a number of the file. What the encoder
//! cannot say within them it carries as foreign bytes, which have no such bounds.

/// What a member can hold: the largest segment of PostgreSQL.
pub const MEMBER_LEN_MAX: usize = 1 << 30;
/// What a member of pages can hold.
pub const CHUNK_LEN_MAX: usize = 16 << 20;
/// Bytes of the name of an original.
pub const NAME_LEN_MAX: usize = 64;
/// Bytes of streams for each byte of the original, at most; and as many for any original.
pub const CONTENT_EXPANSION_MAX: u64 = 16;
/// The same for a chunk, of which the server has compressed single values at most.
pub const CHUNK_EXPANSION_MAX: u64 = 8;
/// See [`CONTENT_EXPANSION_MAX`].
pub const CONTENT_LEN_BASE: u64 = 1 << 20;
/// Bytes of streams that a member may have whatever its length.
pub const CONTENT_LEN_FREE: u64 = 1 << 27;
/// Of more streams than that, bytes for each byte of the member's body, at most.
pub const CONTENT_PACKED_MAX: u64 = 1 << 12;
/// Streams of one member.
pub const STREAMS_MAX: usize = 1 << 20;
/// Rows of a stream that are laid out together.
pub const BLOCK_ROWS: usize = 1 << 16;
/// Record kinds of one member.
pub const KINDS_MAX: usize = 1 << 16;
/// Block references of one record kind: PostgreSQL numbers them from 0 to 32.
pub const KIND_BLOCKS_MAX: usize = 33;
/// Block references of all record kinds of one member together.
pub const KIND_BLOCKS_TOTAL_MAX: usize = 1 << 17;
/// Memory of the lists of values, shapes and fields of one member's columns: see
/// [`DICTIONARY_VALUE_COST`] and [`JSON_ENTRY_COST`].
pub const LISTS_COST_MAX: usize = 1 << 26;
/// What a value of a dictionary counts for.
pub const DICTIONARY_VALUE_COST: usize = 8;
/// What a shape or a field of jsonb counts for.
pub const JSON_ENTRY_COST: usize = 128;
/// What the words of a column count for.
pub const WORDS_COST: usize = 1 << 16;
/// A value of an attribute that the server has compressed: bytes of the value.
pub const COMPRESSED_VALUE_MAX: usize = 1 << 24;
/// The same of one that lz4 has compressed. What lz4 makes of longer ones depends on the processor.
pub const COMPRESSED_LZ4_MAX: usize = (1 << 16) - 1;
/// Bytes of all such values of a member.
pub const COMPRESSED_VALUES_MAX: usize = 1 << 28;
/// Bins of one stream.
pub const BINS_MAX: usize = 512;
/// Rows of a stream in bins for each of its bytes, at most.
pub const BIN_ROWS_MAX: usize = 256;
/// The largest window of a zstd frame, as a power of two.
pub const WINDOW_LOG_MAX: u32 = 27;

/// Pages that are kept of the WAL before a segment: 640 MiB of them. An encoder may need those that
/// a segment changes twice.
pub const HISTORY_PAGES_MAX: usize = 81920;
/// The same in format 7.
pub const HISTORY_PAGES_MAX_7: usize = 49152;
/// Pages that are kept of a member that is told from its own, for each page of its original, which
/// may have compressed images of more.
pub const OWN_PAGES_FACTOR: usize = 4;

/// Memory of the rows of a table from which an index is told, and of the entries of that index.
pub const ROWS_MEMORY_MAX: usize = 1 << 29;

/// Bytes that are taken apart for the keys of GIN indexes, at most: so many for each byte of
/// the original, and [`CONTENT_LEN_BASE`] more.
pub const EXTRACTION_MAX: usize = 4;

/// See [`EXTRACTION_MAX`].
pub fn extraction_max(original_len: usize) -> usize {
    original_len
        .saturating_mul(EXTRACTION_MAX)
        .saturating_add(CONTENT_LEN_BASE as usize)
}

/// Bytes of streams that a WAL member with a body of this length may have: a few bytes that
/// claim to stand for many have to be decoded into memory before they can be found out. For
/// formats 1 to 4, whose members are whole segments, see [`crate::container::Claims`].
pub fn content_len_believed(body_len: u64) -> u64 {
    CONTENT_LEN_FREE.max(body_len.saturating_mul(CONTENT_PACKED_MAX))
}
