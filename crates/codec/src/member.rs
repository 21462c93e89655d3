//! Members, of which a file is a sequence.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::Write;

use walzip_pgformat::wal::{SegmentHeader, is_segment_size};
use walzip_pgformat::{Input, PAGE_SIZE, Version};

use crate::chunk;
use crate::container::{self, Claims, ContentShape, Header, MemberKind, WalIdentity};
use crate::error::{DecodeError, DecodeToError, EncodeError, NO_MEMORY};
use crate::format_version::FormatVersion;
use crate::level::Level;
use crate::limits::MEMBER_LEN_MAX;
use crate::model::{ChunkPages, History};
use crate::original::{Hashed, HashingOutput, InMemory, Original};
use crate::packing;
use crate::run_both::{RunBoth, run_in_turn};
use crate::segment;
use crate::streams::StreamReader;
use crate::streams::coder::Choices;

const TOO_MUCH: DecodeError = DecodeError::Corrupt("members of more bytes than a segment");
const NO_SEGMENT: DecodeError = DecodeError::Corrupt("identity of no segment");

/// Bytes of an original that are believed before they are there.
const RESERVED_MAX: u64 = 64 << 20;

/// Encodes a segment, or a part of one, as one member of a kind that needs no WAL before it; `None` where the
/// format cannot say it. The result is not proven: see [`crate::proof`].
pub fn encode_part(
    input: Input<'_>,
    header: &SegmentHeader,
    kind: MemberKind,
    level: Level,
    choices: Choices,
) -> Result<Option<Vec<u8>>, EncodeError> {
    let mut own = own_pages(kind, input.len());
    encode_told(input, header, kind, (level, choices), own.as_mut())
}

/// The same, told from the WAL before. After `None` the history must not be used any more.
pub fn encode_part_after(
    history: &mut History,
    input: Input<'_>,
    header: &SegmentHeader,
    level: Level,
    choices: Choices,
) -> Result<Option<Vec<u8>>, EncodeError> {
    let kind = MemberKind::WalAfter;
    encode_told(input, header, kind, (level, choices), Some(history))
}

/// What a member begins with that is told from its own pages, and has so many bytes.
pub fn own_pages(kind: MemberKind, original_len: usize) -> Option<History> {
    (kind == MemberKind::WalAlone).then(|| History::of_own_pages(original_len))
}

fn encode_told(
    input: Input<'_>,
    header: &SegmentHeader,
    kind: MemberKind,
    (level, choices): (Level, Choices),
    history: Option<&mut History>,
) -> Result<Option<Vec<u8>>, EncodeError> {
    let hashed = Hashed::new(input);
    let Some(streams) = segment::encode(hashed.input(), header, choices, history)? else {
        return Ok(None);
    };
    let body = packing::pack_streams(&streams, kind, choices, level, input.len())?;
    let identity = Some(WalIdentity::from(header));
    let member = |body| {
        Ok(container::write_member(
            input.len(),
            hashed.finish()?,
            kind,
            identity,
            &body,
        ))
    };
    body.map(member).transpose()
}

/// Encodes any bytes as one member.
pub fn encode_foreign(input: Input<'_>, level: Level) -> Result<Vec<u8>, EncodeError> {
    let mut read = Vec::new();
    let bytes = match input {
        Input::Bytes(bytes) => bytes,
        Input::Reader(_) => {
            input.append(0, input.len(), &mut read)?;
            &read
        }
    };
    let body = packing::pack_foreign(bytes, level)?;
    let hash = blake3::hash(bytes);
    Ok(container::write_member(
        bytes.len(),
        hash,
        MemberKind::Foreign,
        None,
        &body,
    ))
}

/// Decodes all members of a file, which together hold at most [`MEMBER_LEN_MAX`] bytes; of
/// more, decode one after the other. For a file of one's own: it gets the memory that it claims.
pub fn decode(file: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let (original, ()) = in_memory(total_len(file)?, |original| decode_to(file, original))?;
    Ok(original)
}

/// [`decode`] into an output; see [`decode_member_to`].
pub fn decode_to(file: &[u8], output: &mut dyn Write) -> Result<(), DecodeToError> {
    total_len(file)?;
    let mut at = decode_member_to(file, output, Claims::Believed)?;
    while let Some(rest) = file.get(at..).filter(|rest| !rest.is_empty()) {
        at += decode_member_to(rest, output, Claims::Believed)?;
    }
    Ok(())
}

/// [`decode_to`] for an output that hashes what it gets, on two threads where the caller has them.
///
/// The output gets the original before it is checked, as that of [`decode_member_to`] does.
pub fn decode_hashed_to(
    file: &[u8],
    output: &mut dyn HashingOutput,
    run_both: RunBoth,
) -> Result<(), DecodeToError> {
    total_len(file)?;
    let mut rest = file;
    loop {
        let original = Original::hashed_by(output);
        let len = decode_into(rest, original, Claims::Believed, run_both, None)?;
        rest = rest.get(len..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
    }
}

/// Bytes that all members claim to hold: refuses too many, before anything is decoded.
pub fn total_len(file: &[u8]) -> Result<u64, DecodeError> {
    let mut rest = file;
    let mut total = 0u64;
    while !rest.is_empty() {
        let header = Header::read(rest)?;
        total = total.saturating_add(header.original_len);
        if total > MEMBER_LEN_MAX as u64 {
            return Err(TOO_MUCH);
        }
        let member_len = usize::try_from(header.member_len).unwrap_or(usize::MAX);
        rest = rest.get(member_len..).unwrap_or_default();
    }
    Ok(total)
}

/// Decodes the member at the front of `bytes`; also returns the bytes that it has.
pub fn decode_member(bytes: &[u8], claims: Claims) -> Result<(Vec<u8>, usize), DecodeError> {
    let len = Header::read(bytes)?.original_len;
    in_memory(len, |original| decode_member_to(bytes, original, claims))
}

fn in_memory<T>(
    len: u64,
    decode: impl FnOnce(&mut InMemory) -> Result<T, DecodeToError>,
) -> Result<(Vec<u8>, T), DecodeError> {
    let mut original = InMemory::of(len.min(RESERVED_MAX) as usize);
    match decode(&mut original) {
        Ok(result) => Ok((original.bytes, result)),
        Err(DecodeToError::Decode(error)) => Err(error),
        // Which memory does not do.
        Err(DecodeToError::Write(_)) => Err(NO_MEMORY),
    }
}

/// Decodes the member at the front of `bytes` into an output; returns the bytes that it has.
///
/// The output gets the original a piece at a time, before all of it is checked: where this
/// fails, what was written is worth nothing.
pub fn decode_member_to(
    bytes: &[u8],
    output: &mut dyn Write,
    claims: Claims,
) -> Result<usize, DecodeToError> {
    decode_member_after(bytes, output, claims, None)
}

/// The same, with the WAL before the member, if that is known.
pub fn decode_member_after(
    bytes: &[u8],
    output: &mut dyn Write,
    claims: Claims,
    history: Option<&mut History>,
) -> Result<usize, DecodeToError> {
    decode_into(bytes, Original::new(output), claims, run_in_turn, history)
}

/// Goes past the member at the front of `bytes`, and learns what it leaves for those after it; returns
/// the bytes that it has. Its original is not made, and its hash not compared.
pub fn pass_member(
    bytes: &[u8],
    claims: Claims,
    history: &mut History,
) -> Result<usize, DecodeToError> {
    let member = Member::read(bytes)?;
    if let Some(history) = member.history(Some(history))? {
        let (mut content, segment) = (member.content(claims)?, member.segment()?);
        let streams = member.streams(&mut content, run_in_turn)?;
        let segment = segment.ok_or(NO_SEGMENT)?;
        segment::pass(streams, segment, member.original_len(), history)?;
    }
    Ok(member.len)
}

fn decode_into(
    bytes: &[u8],
    mut original: Original<'_>,
    claims: Claims,
    run_both: RunBoth,
    history: Option<&mut History>,
) -> Result<usize, DecodeToError> {
    let member = Member::read(bytes)?;
    let mut own = own_pages(member.header.kind, member.original_len());
    let history = member.history(history)?.or(own.as_mut());
    let segment = member.segment()?;
    let header = &member.header;
    if header.kind == MemberKind::Foreign {
        container::decode_foreign(header, member.body, &mut original)?;
    } else {
        let mut content = member.content(claims)?;
        let streams = member.streams(&mut content, run_both)?;
        let len = member.original_len();
        match segment {
            Some(segment) => segment::decode(streams, segment, len, history, &mut original)?,
            None => chunk::decode(streams, ChunkPages::default(), len, &mut original)?,
        }
    }
    original.check(header.original_len, &header.original_hash)?;
    Ok(member.len)
}

/// A member whose header was read.
struct Member<'m> {
    header: Header,
    body: &'m [u8],
    len: usize,
}

impl<'m> Member<'m> {
    /// The one at the front of `bytes`.
    fn read(bytes: &'m [u8]) -> Result<Member<'m>, DecodeError> {
        const CUT: DecodeError = DecodeError::Truncated("member");
        let header = Header::read(bytes)?;
        if header.original_len > MEMBER_LEN_MAX as u64 {
            return Err(TOO_MUCH);
        }
        let len = usize::try_from(header.member_len).map_err(|_| CUT)?;
        let body = bytes
            .get(..len)
            .and_then(|all| all.get(header.header_len..));
        match header.kind {
            MemberKind::Differences => Err(DecodeError::BaseNeeded),
            MemberKind::IndexPages => Err(DecodeError::TableNeeded),
            _ => Ok(Member {
                body: body.ok_or(CUT)?,
                header,
                len,
            }),
        }
    }

    /// The WAL before, if it is needed. What is told from nothing begins anew.
    fn history<'h>(
        &self,
        history: Option<&'h mut History>,
    ) -> Result<Option<&'h mut History>, DecodeError> {
        match (self.header.kind, history) {
            (MemberKind::WalAfter, None) => Err(DecodeError::HistoryNeeded),
            (MemberKind::WalAfter, history) => Ok(history),
            (_, history) => {
                if let Some(history) = history {
                    *history = History::default();
                }
                Ok(None)
            }
        }
    }

    fn segment(&self) -> Result<Option<SegmentHeader>, DecodeError> {
        let header = &self.header;
        let identity = header.identity.as_ref();
        let segment =
            identity.map(|identity| segment_header(identity, header.original_len, header.version));
        segment.transpose()
    }

    fn original_len(&self) -> usize {
        self.header.original_len as usize
    }

    fn content(&self, claims: Claims) -> Result<Vec<u8>, DecodeError> {
        container::read_content((&self.header).into(), self.body, claims)
    }

    fn streams<'c>(
        &self,
        content: &'c mut Vec<u8>,
        run_both: RunBoth,
    ) -> Result<StreamReader<'c>, DecodeError> {
        let len_max = ContentShape::from(&self.header).unpacked_len_max(self.body);
        StreamReader::shared(content, self.header.version, len_max, run_both)
    }
}

/// What the pages of the segment need; the rest of it is in the streams.
pub fn segment_header(
    identity: &WalIdentity,
    original_len: u64,
    format: FormatVersion,
) -> Result<SegmentHeader, DecodeError> {
    let version = Version::from_page_magic(identity.page_magic)
        .ok_or(DecodeError::Corrupt("page magic of no known major"))?;
    if !is_segment_size(identity.segment_size) {
        return Err(NO_SEGMENT);
    }
    let segment = SegmentHeader {
        version,
        flags: 0,
        timeline: identity.timeline,
        start: identity.start,
        system_id: identity.system_id,
        segment_size: identity.segment_size,
        remaining_len: 0,
    };
    let offset = segment.offset_in_segment();
    let fits = u64::from(offset) + original_len <= u64::from(segment.segment_size);
    let may_be_there = match offset {
        0 => true,
        offset => format.has_parts() && offset.is_multiple_of(PAGE_SIZE as u32),
    };
    (fits && may_be_there).then_some(segment).ok_or(NO_SEGMENT)
}
