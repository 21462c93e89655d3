//! Versions of the format, and what came with each. docs/format/container.md lists them.

use std::fmt;

use walzip_replay::{Eviction, Revision};

use crate::limits::{BLOCK_ROWS, HISTORY_PAGES_MAX, HISTORY_PAGES_MAX_7};

/// A version of the format. What a decoder understands follows from it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FormatVersion(u8);

impl FormatVersion {
    /// The version that is written.
    pub const CURRENT: FormatVersion = FormatVersion(15);

    const GIST: FormatVersion = FormatVersion(2);
    const ROW_VERSIONS: FormatVersion = FormatVersion(3);
    const WORDS: FormatVersion = FormatVersion(4);
    const NAMES: FormatVersion = FormatVersion(5);
    const BLOCKS: FormatVersion = FormatVersion(6);
    const CODED_STREAMS: FormatVersion = FormatVersion(6);
    const PAGES: FormatVersion = FormatVersion(7);
    const SECOND_REPLAY: FormatVersion = FormatVersion(8);
    const CHANGED_WORDS: FormatVersion = FormatVersion(8);
    const LEAF_BLOCKS: FormatVersion = FormatVersion(9);
    const INDEX_PAGES: FormatVersion = FormatVersion(10);
    const THIRD_REPLAY: FormatVersion = FormatVersion(11);
    const RETURNS: FormatVersion = FormatVersion(12);
    const KNOWN_ROWS: FormatVersion = FormatVersion(13);
    const OWN_PAGES: FormatVersion = FormatVersion(14);
    const COMPRESSED_VALUES: FormatVersion = FormatVersion(15);
    const TOKENS: FormatVersion = FormatVersion(15);
    const IMAGE_ROWS: FormatVersion = FormatVersion(15);

    /// The version of a number; `None` where this walzip does not read it.
    pub const fn of(number: u8) -> Option<FormatVersion> {
        if number == 0 || number > Self::CURRENT.0 {
            return None;
        }
        Some(FormatVersion(number))
    }

    /// Its number, as in a header.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// There are models for GiST and SP-GiST.
    pub fn has_gist(self) -> bool {
        self >= Self::GIST
    }

    /// New versions of rows are made of the old ones.
    pub fn has_row_versions(self) -> bool {
        self >= Self::ROW_VERSIONS
    }

    /// Texts stand in words.
    pub fn has_words(self) -> bool {
        self >= Self::WORDS
    }

    /// Keys of GIN indexes are taken out of rows.
    pub fn has_extracted_keys(self) -> bool {
        self >= Self::WORDS
    }

    /// Members may be parts of segments, and claim only what their bytes make likely.
    pub fn has_parts(self) -> bool {
        self >= Self::NAMES
    }

    /// Rows of a stream that are laid out together.
    pub fn block_rows(self) -> usize {
        match self >= Self::BLOCKS {
            true => BLOCK_ROWS,
            false => usize::MAX,
        }
    }

    /// Streams may be coded.
    pub fn has_coded_streams(self) -> bool {
        self >= Self::CODED_STREAMS
    }

    /// There are members of pages.
    pub fn has_pages(self) -> bool {
        self >= Self::PAGES
    }

    /// There are members that are told from the WAL before them.
    pub fn has_history(self) -> bool {
        self >= Self::PAGES
    }

    /// There are members of WAL that are told from their own pages alone.
    pub fn has_own_pages(self) -> bool {
        self >= Self::OWN_PAGES
    }

    /// What records do to the pages of a history.
    pub fn replay(self) -> Revision {
        match self {
            _ if self >= Self::THIRD_REPLAY => Revision::Third,
            _ if self >= Self::SECOND_REPLAY => Revision::Second,
            _ => Revision::First,
        }
    }

    /// Records of all indexes are replayed.
    pub fn replays_all(self) -> bool {
        self >= Self::THIRD_REPLAY
    }

    /// Pages of a history.
    pub fn history_pages_max(self) -> usize {
        match self >= Self::SECOND_REPLAY {
            true => HISTORY_PAGES_MAX,
            false => HISTORY_PAGES_MAX_7,
        }
    }

    /// Which page of a history goes where there are too many.
    pub fn eviction(self) -> Eviction {
        match self {
            _ if self >= Self::KNOWN_ROWS => Eviction::LeastLikelyOther,
            _ if self >= Self::RETURNS => Eviction::LeastLikely,
            _ => Eviction::NotUsed,
        }
    }

    /// New versions of rows are told word by word.
    pub fn has_changed_words(self) -> bool {
        self >= Self::CHANGED_WORDS
    }

    /// New versions of rows are made of rows on page images.
    pub fn has_image_rows(self) -> bool {
        self >= Self::IMAGE_ROWS
    }

    /// The key of a new index tuple tells the block of its leaf page.
    pub fn has_leaf_blocks(self) -> bool {
        self >= Self::LEAF_BLOCKS
    }

    /// Index entries follow from rows that earlier WAL has left on pages.
    pub fn has_known_rows(self) -> bool {
        self >= Self::KNOWN_ROWS
    }

    /// Values that the server has compressed may be taken apart.
    pub fn has_compressed_values(self) -> bool {
        self >= Self::COMPRESSED_VALUES
    }

    /// There are members of indexes that are told from the rows of their tables.
    pub fn has_index_pages(self) -> bool {
        self >= Self::INDEX_PAGES
    }

    /// Hexadecimal tokens of texts are packed.
    pub fn has_tokens(self) -> bool {
        self >= Self::TOKENS
    }

    /// Headers have the name of the original.
    pub fn has_names(self) -> bool {
        self >= Self::NAMES
    }
}

impl fmt::Display for FormatVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
