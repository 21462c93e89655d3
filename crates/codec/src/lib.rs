//! How few bytes can carry a WAL segment, exactly and fast.
//!
//! [`encode`] makes a `.wz` file of any bytes; [`decode`] gives them back. An [`Encoder`] and
//! [`decode_member_to`] do the same for inputs of any length, a member at a time. What
//! begins as a WAL segment is taken apart by [`model`], anything else goes to zstd as it is.
//! [`encode_chunk`] and [`ChunkEncoder`] do it for pages of relations. The format is described in docs/format/container.md.

#![deny(unsafe_code)]

mod account;
mod chunk;
mod chunk_encoder;
mod compressors;
mod container;
mod differences;
mod encoder;
mod error;
mod fast_hash;
#[cfg(test)]
mod format_example;
mod format_version;
mod history;
mod level;
mod level_policy;
pub mod limits;
mod member;
mod mixing;
mod model;
mod optional_model;
mod original;
mod packing;
mod proof;
mod run_both;
mod segment;
mod streams;
pub mod table;
mod varint;

pub use account::{
    HistoryAccount, KindAccount, account, account_chunk, account_differences, encode_without,
};
pub use chunk::Extent;
pub use chunk_encoder::{ChunkEncoder, decode_index_chunk, encode_chunk};
pub use compressors::page_image::PageImages;
pub use container::{
    Claims, HEADER_LEN_MAX, Header, MAGIC, MemberKind, VERSION, WalIdentity, name_file,
};
pub use differences::{decode_differences, encode_differences};
pub use encoder::{Encoder, encode, encode_verified};
pub use error::{DecodeError, DecodeToError, EncodeError};
pub use format_version::FormatVersion;
pub use history::{HistoryDecoder, HistoryEncoder};
pub use level::Level;
pub use limits::{CHUNK_LEN_MAX, MEMBER_LEN_MAX};
pub use member::{decode, decode_hashed_to, decode_member, decode_member_to, decode_to};
pub use optional_model::OptionalModel;
pub use original::HashingOutput;
pub use run_both::RunBoth;
pub use streams::kind::{Category, StreamKind};

/// What the names of files end with, behind a dot.
pub const SUFFIX: &str = "wz";
