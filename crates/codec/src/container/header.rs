//! The header of a member.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use walzip_pgformat::wal::SegmentHeader;
use walzip_pgformat::{Lsn, SystemId, TimelineId, Version};

use crate::error::{DecodeError, EncodeError};
use crate::format_version::FormatVersion;
use crate::limits::{
    CHUNK_EXPANSION_MAX, CHUNK_LEN_MAX, CONTENT_EXPANSION_MAX, CONTENT_LEN_BASE, MEMBER_LEN_MAX,
    NAME_LEN_MAX,
};
use crate::varint;

/// The first bytes of a member.
pub const MAGIC: [u8; 4] = *b"WALZ";
/// The version that is written, which is the newest one that is read.
pub const VERSION: u8 = FormatVersion::CURRENT.number();

/// What the content of a member is. The number is part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// The original itself.
    Foreign = 0,
    /// The streams of a WAL segment or of a part of one.
    Wal = 1,
    /// The streams of a chunk of relation files.
    Pages = 2,
    /// The streams of blocks that are told from others, which the decoder is given.
    Differences = 3,
    /// The streams of a WAL segment or of a part of one that is told from the WAL before it.
    WalAfter = 4,
    /// The streams of a chunk of an index that is told from the rows of its table, which the decoder
    /// is given.
    IndexPages = 5,
    /// The streams of a WAL segment or of a part of one that is told from the pages that it has itself:
    /// as [`MemberKind::WalAfter`], after no WAL.
    WalAlone = 6,
}

impl MemberKind {
    /// The kind of a number, in a member of this version of the format.
    fn of(number: u8, format: FormatVersion) -> Option<MemberKind> {
        match number {
            0 => Some(MemberKind::Foreign),
            1 => Some(MemberKind::Wal),
            2 if format.has_pages() => Some(MemberKind::Pages),
            3 if format.has_pages() => Some(MemberKind::Differences),
            4 if format.has_history() => Some(MemberKind::WalAfter),
            5 if format.has_index_pages() => Some(MemberKind::IndexPages),
            6 if format.has_own_pages() => Some(MemberKind::WalAlone),
            _ => None,
        }
    }

    /// How many other objects are needed to decode a member.
    fn references(self) -> u8 {
        u8::from(matches!(
            self,
            MemberKind::Differences | MemberKind::WalAfter | MemberKind::IndexPages
        ))
    }

    /// Bytes that the blocks of a member may have, all together.
    pub fn content_len_max(self, original_len: u64) -> u64 {
        let streams_of = |expansion| {
            original_len
                .saturating_mul(expansion)
                .saturating_add(CONTENT_LEN_BASE)
        };
        match self {
            MemberKind::Foreign => original_len,
            MemberKind::Wal | MemberKind::WalAfter | MemberKind::WalAlone => {
                streams_of(CONTENT_EXPANSION_MAX)
            }
            MemberKind::Pages | MemberKind::Differences | MemberKind::IndexPages => {
                streams_of(CHUNK_EXPANSION_MAX)
            }
        }
    }

    /// Bytes that an original may have.
    pub fn original_len_max(self) -> usize {
        match self {
            MemberKind::Foreign | MemberKind::Wal | MemberKind::WalAfter | MemberKind::WalAlone => {
                MEMBER_LEN_MAX
            }
            MemberKind::Pages | MemberKind::Differences | MemberKind::IndexPages => CHUNK_LEN_MAX,
        }
    }
}

/// Identifies the cluster and the segment of a member, or of which it is a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalIdentity {
    /// `xlp_magic`, which identifies the major version.
    pub page_magic: u16,
    /// The cluster's system identifier.
    pub system_id: SystemId,
    /// The timeline of the segment's first page.
    pub timeline: TimelineId,
    /// The position of the member's first byte. It is a multiple of the segment size except for
    /// parts after the first.
    pub start: Lsn,
    /// Length of a whole segment of the cluster, in bytes.
    pub segment_size: u32,
}

impl WalIdentity {
    const LEN: usize = 26;

    fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0..2].copy_from_slice(&self.page_magic.to_le_bytes());
        bytes[2..10].copy_from_slice(&self.system_id.0.to_le_bytes());
        bytes[10..14].copy_from_slice(&self.timeline.0.to_le_bytes());
        bytes[14..22].copy_from_slice(&self.start.0.to_le_bytes());
        bytes[22..26].copy_from_slice(&self.segment_size.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<WalIdentity> {
        use walzip_pgformat::bytes::{read_u16, read_u32, read_u64};
        Some(WalIdentity {
            page_magic: read_u16(bytes, 0)?,
            system_id: SystemId(read_u64(bytes, 2)?),
            timeline: TimelineId(read_u32(bytes, 10)?),
            start: Lsn(read_u64(bytes, 14)?),
            segment_size: read_u32(bytes, 22)?,
        })
    }

    /// The major version that wrote the segment.
    pub fn version(&self) -> Option<&'static Version> {
        Version::from_page_magic(self.page_magic)
    }
}

impl From<&SegmentHeader> for WalIdentity {
    fn from(header: &SegmentHeader) -> Self {
        WalIdentity {
            page_magic: header.version.page_magic,
            system_id: header.system_id,
            timeline: header.timeline,
            start: header.start,
            segment_size: header.segment_size,
        }
    }
}

/// The header of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The format's version.
    pub version: FormatVersion,
    /// Length of the original, in bytes.
    pub original_len: u64,
    /// BLAKE3 of the original.
    pub original_hash: [u8; 32],
    /// What the content is.
    pub kind: MemberKind,
    /// The segment; `None` for a member that is no WAL.
    pub identity: Option<WalIdentity>,
    /// BLAKE3 of the blocks that a member of differences is told from; `None` for any other.
    pub base_hash: Option<[u8; 32]>,
    /// The file name of the original, if the member has it: see [`name_file`].
    pub name: Option<String>,
    /// Length of the header, in bytes.
    pub header_len: usize,
    /// Length of the whole member, header included, in bytes.
    pub member_len: u64,
}

/// Maximum length of a header. Reading this many bytes is enough for [`Header::read`].
pub const HEADER_LEN_MAX: usize = 4 + 3 + 10 + 32 + BASE_HASH_LEN + 1 + NAME_LEN_MAX + 10 + 4;
/// In place of an identity, which is shorter.
const BASE_HASH_LEN: usize = 32;

impl Header {
    /// Reads and checks the header of the member at the front of `bytes`.
    pub fn read(bytes: &[u8]) -> Result<Header, DecodeError> {
        const CUT: DecodeError = DecodeError::Truncated("header");
        let mut rest = match bytes.strip_prefix(&MAGIC) {
            Some(rest) => rest,
            None if !bytes.is_empty() && MAGIC.starts_with(bytes) => return Err(CUT),
            None => return Err(DecodeError::NotWalzip),
        };
        let mut take = |len: usize| -> Result<&[u8], DecodeError> {
            let (part, remaining) = rest.split_at_checked(len).ok_or(CUT)?;
            rest = remaining;
            Ok(part)
        };
        let &[version, kind, references] = take(3)?.first_chunk().ok_or(CUT)?;
        let version = FormatVersion::of(version).ok_or(DecodeError::UnsupportedVersion {
            found: version,
            supported: VERSION,
        })?;
        let kind =
            MemberKind::of(kind, version).ok_or(DecodeError::Corrupt("unknown kind of member"))?;
        if references != kind.references() {
            return Err(DecodeError::Corrupt("unknown references to other objects"));
        }
        let hash = take(32)?;
        let (mut identity, mut base_hash) = (None, None);
        match kind {
            MemberKind::Foreign | MemberKind::Pages | MemberKind::IndexPages => {}
            MemberKind::Wal | MemberKind::WalAfter | MemberKind::WalAlone => {
                identity = WalIdentity::from_bytes(take(WalIdentity::LEN)?)
            }
            MemberKind::Differences => base_hash = take(BASE_HASH_LEN)?.first_chunk().copied(),
        }
        let name = if version.has_names() {
            read_name(&mut rest)?
        } else {
            None
        };
        let original_len = varint::read(&mut rest).ok_or(CUT)?;
        let body_len = varint::read(&mut rest).ok_or(CUT)?;
        let header_len = bytes.len() - rest.len();
        let stored = rest.first_chunk().ok_or(CUT)?;
        let (header, _) = bytes.split_at_checked(header_len).ok_or(CUT)?;
        if crc32c::crc32c(header) != u32::from_le_bytes(*stored) {
            return Err(DecodeError::Checksum("header"));
        }
        if original_len > kind.original_len_max() as u64 {
            return Err(DecodeError::Corrupt("original length above the maximum"));
        }
        let mut original_hash = [0; 32];
        original_hash.copy_from_slice(hash);
        let header_len = header_len + 4;
        let member_len = body_len
            .checked_add(header_len as u64)
            .ok_or(DecodeError::Corrupt("member length above the maximum"))?;
        Ok(Header {
            version,
            original_len,
            original_hash,
            kind,
            identity,
            base_hash,
            name,
            header_len,
            member_len,
        })
    }

    /// Appends the header of a member whose blocks have `body_len` bytes.
    pub fn write(&self, out: &mut Vec<u8>, body_len: u64) {
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&[VERSION, self.kind as u8, self.kind.references()]);
        header.extend_from_slice(&self.original_hash);
        if let Some(identity) = self.identity {
            header.extend_from_slice(&identity.to_bytes());
        }
        if let Some(base_hash) = self.base_hash {
            header.extend_from_slice(&base_hash);
        }
        let name = self.name.as_deref().unwrap_or_default();
        varint::write(&mut header, name.len() as u64);
        header.extend_from_slice(name.as_bytes());
        varint::write(&mut header, self.original_len);
        varint::write(&mut header, body_len);
        let checksum = crc32c::crc32c(&header);
        out.extend_from_slice(&header);
        out.extend_from_slice(&checksum.to_le_bytes());
    }
}

/// Whether a header can have this name: ASCII letters, digits and dots, as in PostgreSQL's names of
/// WAL files.
fn is_name(name: &[u8]) -> bool {
    let is_expected = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'.';
    (1..=NAME_LEN_MAX).contains(&name.len())
        && name.first() != Some(&b'.')
        && name.iter().all(is_expected)
}

/// Reads the length and the name at the front of `rest`, and removes them from it.
fn read_name(rest: &mut &[u8]) -> Result<Option<String>, DecodeError> {
    const CUT: DecodeError = DecodeError::Truncated("header");
    const UNEXPECTED: DecodeError = DecodeError::Corrupt("name that no WAL file has");
    let len = varint::read(rest).ok_or(CUT)?;
    if len > NAME_LEN_MAX as u64 {
        return Err(UNEXPECTED);
    }
    let (name, remaining) = rest.split_at_checked(len as usize).ok_or(CUT)?;
    *rest = remaining;
    match str::from_utf8(name) {
        Ok("") => Ok(None),
        Ok(text) if is_name(name) => Ok(Some(text.to_owned())),
        _ => Err(UNEXPECTED),
    }
}

/// Writes the original's name into the header of the first member of a file that this version
/// encoded. A file that was renamed can then be recognized. The blocks do not change.
pub fn name_file(file: &mut Vec<u8>, name: &str) -> Result<(), EncodeError> {
    let refused = || EncodeError::Name(name.to_owned());
    let header = Header::read(file).map_err(|_| refused())?;
    if header.version != FormatVersion::CURRENT || !is_name(name.as_bytes()) {
        return Err(refused());
    }
    let unnamed_len = header.header_len;
    let body_len = header.member_len - unnamed_len as u64;
    let named = Header {
        name: Some(name.to_owned()),
        ..header
    };
    let mut bytes = Vec::with_capacity(HEADER_LEN_MAX);
    named.write(&mut bytes, body_len);
    file.splice(..unnamed_len, bytes);
    Ok(())
}
