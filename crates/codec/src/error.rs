//! Why a file cannot be decoded, or an input not be encoded.

/// A `.wz` file cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes do not begin as a walzip file does.
    #[error("not a walzip file")]
    NotWalzip,
    /// A later version wrote the file.
    #[error("format version {found}, this walzip reads up to {supported}")]
    UnsupportedVersion {
        /// As the file has it.
        found: u8,
        /// The last one known here.
        supported: u8,
    },
    /// The file ends early.
    #[error("truncated: {0} ends early")]
    Truncated(&'static str),
    /// A checksum of the file does not fit its bytes.
    #[error("damaged: checksum of {0} does not match")]
    Checksum(&'static str),
    /// The file says what no encoder says.
    #[error("damaged: {0}")]
    Corrupt(&'static str),
    /// The file claims more than its length makes likely: see [`crate::container::Claims`].
    #[error("claims {content_len} bytes of streams in {body_len} bytes")]
    Disproportionate {
        /// Bytes that the streams have.
        content_len: u64,
        /// Bytes that they are packed in.
        body_len: usize,
    },
    /// The file is a member of differences, which is not decoded without the blocks that it is told
    /// from.
    #[error("a member of differences needs the blocks that it was told from")]
    BaseNeeded,
    /// The member is of an index, and is not decoded without the rows of its table.
    #[error("a member of an index needs the rows of its table")]
    TableNeeded,
    /// The WAL before it is needed to decode it.
    #[error(
        "told from the WAL before it: it stands in a pack, and is decoded with those before it"
    )]
    HistoryNeeded,
    /// A member of differences was told from other blocks than those that are given.
    #[error("the blocks that it was told from are others")]
    OtherBase,
    /// Everything could be decoded, but to other bytes than were encoded.
    #[error("damaged: decoded bytes do not match the BLAKE3 hash of the original")]
    HashMismatch,
}

/// A member could not be decoded into an output.
#[derive(Debug, thiserror::Error)]
pub enum DecodeToError {
    /// The member cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The output took no more.
    #[error("cannot write what was decoded")]
    Write(#[source] std::io::Error),
}

/// What content claims, it may have; but not here.
pub(crate) const NO_MEMORY: DecodeError =
    DecodeError::Corrupt("more content than there is memory for");

/// An input could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The input could not be read.
    #[error("cannot read the input")]
    Read(#[from] std::io::Error),
    /// More than a member can hold; encode it with a [`crate::encoder::Encoder`].
    #[error("{len} bytes are more than a member can hold ({max})")]
    TooLong {
        /// Bytes of the input.
        len: usize,
        /// Bytes that fit.
        max: usize,
    },
    /// The extents of a chunk are not those of its bytes.
    #[error("extents of {extents} bytes in a chunk of {len}")]
    Extents {
        /// Bytes that the extents have together.
        extents: u64,
        /// Bytes of the chunk.
        len: usize,
    },
    /// There are not as many bytes to tell a chunk from as it has.
    #[error("a chunk of {len} bytes is not told from {base}")]
    Base {
        /// Bytes of the chunk.
        len: usize,
        /// Bytes that it would be told from.
        base: usize,
    },
    /// No header can carry the name.
    #[error("{0:?} is no name of a WAL file")]
    Name(String),
    /// zstd failed, which it should not.
    #[error("zstd failed: {0}")]
    Zstd(&'static str),
    /// The proof failed: what was encoded does not decode to the input.
    #[error("internal error: encoded bytes do not decode to the input")]
    NotProven,
}
