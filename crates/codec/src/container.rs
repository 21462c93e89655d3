//! The container of a member: header, blocks, checksums. docs/format/container.md specifies it; a
//! test checks the constants against it.

mod blocks;
mod header;

use crate::format_version::FormatVersion;

pub use blocks::{
    Body, Claims, ContentShape, decode_foreign, outlook, pack, pack_content, pack_mixed,
    pack_pieces, read_content,
};
pub use header::{HEADER_LEN_MAX, Header, MAGIC, MemberKind, VERSION, WalIdentity, name_file};

/// Writes the member of an original with this length and hash, encoded as `body`.
pub fn write_member(
    original_len: usize,
    original_hash: blake3::Hash,
    kind: MemberKind,
    identity: Option<WalIdentity>,
    body: &Body,
) -> Vec<u8> {
    write(header(original_len, original_hash, kind, identity), body)
}

/// Writes the member of blocks with this length and hash, which are told from those of a hash.
pub fn write_differences(
    original_len: usize,
    original_hash: blake3::Hash,
    base_hash: blake3::Hash,
    body: &Body,
) -> Vec<u8> {
    let header = Header {
        base_hash: Some(*base_hash.as_bytes()),
        ..header(original_len, original_hash, MemberKind::Differences, None)
    };
    write(header, body)
}

fn header(
    original_len: usize,
    original_hash: blake3::Hash,
    kind: MemberKind,
    identity: Option<WalIdentity>,
) -> Header {
    Header {
        version: FormatVersion::CURRENT,
        original_len: original_len as u64,
        original_hash: *original_hash.as_bytes(),
        kind,
        identity,
        base_hash: None,
        name: None,
        header_len: 0,
        member_len: 0,
    }
}

fn write(header: Header, body: &Body) -> Vec<u8> {
    let body_len = body.len();
    let mut out = Vec::with_capacity(HEADER_LEN_MAX + body_len);
    header.write(&mut out, body_len as u64);
    body.write(&mut out);
    out
}
