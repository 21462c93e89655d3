//! How few bytes can carry a WAL segment, exactly and fast.
//!
//! [`encode`] makes a `.wz` file of any bytes; [`decode`] gives them back. An [`Encoder`] and
//! [`decode_member_to`] do the same for inputs of any length, a member at a time. What
//! begins as a WAL segment is taken apart by [`model`], anything else goes to zstd as it is.
//! The format is described in docs/format/container.md.

#![deny(unsafe_code)]

mod account;
mod coder;
mod container;
mod encoder;
mod error;
mod fast_hash;
mod format_version;
mod layout_choice;
mod level;
pub mod limits;
mod lz4_block;
mod member;
mod mixing;
mod model;
mod original;
mod page_image;
mod parts;
mod prefetch;
mod recency;
mod registry;
mod rows_by_len;
mod segment;
mod stream_kind;
mod streams;
mod transform;
mod trial;
mod varint;
mod zstd_1_5_7;
mod zstd_frame;

pub use account::{KindAccount, account, encoded_len_without};
pub use container::{Claims, HEADER_LEN_MAX, Header, MAGIC, VERSION, WalIdentity, name_file};
pub use encoder::{Encoder, encode, encode_verified};
pub use error::{DecodeError, DecodeToError, EncodeError};
pub use format_version::FormatVersion;
pub use level::Level;
pub use limits::MEMBER_LEN_MAX;
pub use member::{decode, decode_member, decode_member_to, decode_to};
pub use page_image::PageImages;
pub use registry::OptionalModel;
pub use stream_kind::{Category, StreamKind};

/// What the names of files end with, behind a dot.
pub const SUFFIX: &str = "wz";
