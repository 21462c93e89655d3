//! The proof that a member decodes to its original.
//!
//! A decoder unpacks a member into streams, and makes the original of the streams. Each half is
//! proven by itself: while one thread packs the streams, unpacks the member and compares its streams,
//! another one may make the original of the streams and compare it.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::sync::OnceLock;

use walzip_pgformat::Input;
use walzip_pgformat::wal::SegmentHeader;

use crate::container::{self, Body, Claims, ContentShape, Header, MemberKind, WalIdentity};
use crate::error::{DecodeError, EncodeError};
use crate::format_version::FormatVersion;
use crate::level::Level;
use crate::member;
use crate::original::{Expected, Original};
use crate::packing;
use crate::run_both::RunBoth;
use crate::segment;
use crate::streams::StreamReader;
use crate::streams::coder::Choices;
use crate::streams::filled::Filled;

/// What [`member::encode_part`] makes of a segment or of a part of one, proven.
pub fn encode_part(
    input: Input<'_>,
    header: &SegmentHeader,
    kind: MemberKind,
    (level, choices): (Level, Choices),
    run_both: RunBoth,
) -> Result<Option<Vec<u8>>, EncodeError> {
    let mut own = member::own_pages(kind, input.len());
    let Some(streams) = segment::encode(input, header, choices, own.as_mut())? else {
        return Ok(None);
    };
    drop(own);
    let unhashed = Unhashed {
        kind,
        identity: WalIdentity::from(header),
        len: input.len(),
    };
    let packed = OnceLock::new();
    let mut hash = Err(EncodeError::NotProven);
    let pack = || {
        let packed = packing::pack_streams(&streams, kind, choices, level, unhashed.len)?;
        let proven = packed.map(|body| Packed::proven(body, &unhashed, &streams));
        proven.transpose()
    };
    run_both(
        &|| {
            packed.get_or_init(pack);
        },
        &mut || hash = replay(&streams, &unhashed, input),
    );
    let packed = packed.into_inner().unwrap_or(Err(EncodeError::NotProven));
    match (packed?, hash?) {
        (Some(packed), hash) => packed.member(hash, &unhashed).map(Some),
        (None, _) => Ok(None),
    }
}

/// What a member's header says besides the hash.
struct Unhashed {
    kind: MemberKind,
    identity: WalIdentity,
    len: usize,
}

impl Unhashed {
    fn write(&self, body: &Body, hash: blake3::Hash) -> Vec<u8> {
        container::write_member(self.len, hash, self.kind, Some(self.identity), body)
    }
}

/// Packed streams, and a member of them that has no hash yet and unpacks to them.
struct Packed {
    body: Body,
    unhashed: Vec<u8>,
}

impl Packed {
    fn proven(body: Body, header: &Unhashed, streams: &[Filled]) -> Result<Packed, EncodeError> {
        let unhashed = header.write(&body, NO_HASH);
        match unpacks_to(&unhashed, header, streams) {
            Ok(true) => Ok(Packed { body, unhashed }),
            _ => Err(EncodeError::NotProven),
        }
    }

    /// The member with its hash, in which nothing else is different.
    fn member(self, hash: blake3::Hash, header: &Unhashed) -> Result<Vec<u8>, EncodeError> {
        let member = header.write(&self.body, hash);
        match differs_in_hash(&member, &self.unhashed, hash) {
            Ok(true) => Ok(member),
            _ => Err(EncodeError::NotProven),
        }
    }
}

/// In the place of the hash of the original, as long as it is not known.
const NO_HASH: blake3::Hash = blake3::Hash::from_bytes([0; 32]);

/// Whether a member is another one with this hash.
fn differs_in_hash(
    member: &[u8],
    unhashed: &[u8],
    hash: blake3::Hash,
) -> Result<bool, DecodeError> {
    let (of_member, of_unhashed) = (Header::read(member)?, Header::read(unhashed)?);
    let expected = Header {
        original_hash: *hash.as_bytes(),
        ..of_unhashed
    };
    let is_body_same = member.get(of_member.header_len..) == unhashed.get(expected.header_len..);
    Ok(of_member == expected && is_body_same)
}

/// Proves that a file decodes to an input.
pub fn of_file(input: Input<'_>, file: Vec<u8>) -> Result<Vec<u8>, EncodeError> {
    let mut expected = Expected::new(input);
    match member::decode_to(&file, &mut expected) {
        Ok(()) if expected.is_complete() => Ok(file),
        _ => Err(EncodeError::NotProven),
    }
}

/// Makes the original of streams and compares it with the input; returns its hash.
fn replay(
    streams: &[Filled],
    claimed: &Unhashed,
    input: Input<'_>,
) -> Result<blake3::Hash, EncodeError> {
    let mut expected = Expected::new(input);
    let mut original = Original::new(&mut expected);
    let mut own = member::own_pages(claimed.kind, input.len());
    let replayed = member::segment_header(
        &claimed.identity,
        input.len() as u64,
        FormatVersion::CURRENT,
    )
    .map_err(Into::into)
    .and_then(|segment| {
        let reader = StreamReader::of_filled(streams);
        segment::decode(reader, segment, input.len(), own.as_mut(), &mut original)
    });
    let hash = original.finish();
    match (replayed, hash) {
        (Ok(()), Ok((_, hash))) if expected.is_complete() => Ok(hash.into()),
        _ => Err(EncodeError::NotProven),
    }
}

/// Whether a member claims to be this segment, and a decoder finds the streams in it.
fn unpacks_to(member: &[u8], claimed: &Unhashed, streams: &[Filled]) -> Result<bool, DecodeError> {
    let header = Header::read(member)?;
    let body = member.get(header.header_len..).unwrap_or_default();
    let is_whole = header.member_len == member.len() as u64;
    if !is_whole
        || header.version != FormatVersion::CURRENT
        || header.kind != claimed.kind
        || header.identity != Some(claimed.identity)
    {
        return Ok(false);
    }
    let mut content = container::read_content((&header).into(), body, Claims::Believed)?;
    let len_max = ContentShape::from(&header).unpacked_len_max(body);
    let reader = StreamReader::new(&mut content, header.version, len_max)?;
    Ok(reader.is_of(streams))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::level_policy;
    use crate::run_both::run_in_turn;
    use crate::streams::StreamWriter;
    use crate::streams::coder::Coder;
    use crate::streams::kind::StreamKind;

    fn streams(value: u32) -> Vec<Filled> {
        let mut writer = StreamWriter::default();
        let stream = writer.open(StreamKind::BlockNumber, 4);
        for number in 0..1000 {
            writer.u32(stream, number * value);
        }
        writer.into_streams()
    }

    fn claimed(timeline: u32) -> Unhashed {
        let identity = WalIdentity {
            page_magic: 0xD110,
            system_id: walzip_pgformat::SystemId(7),
            timeline: walzip_pgformat::TimelineId(timeline),
            start: walzip_pgformat::Lsn(16 << 20),
            segment_size: 16 << 20,
        };
        Unhashed {
            kind: MemberKind::Wal,
            identity,
            len: 16 << 20,
        }
    }

    /// A member of other streams, or of another segment, proves nothing.
    #[test]
    fn a_member_is_held_against_its_streams() {
        let (level, choices) = (Level::MIN, level_policy::choices(Level::MIN));
        let body = packing::pack_streams(&streams(3), MemberKind::Wal, choices, level, 16 << 20);
        let body = body.unwrap().unwrap();
        let member = claimed(1).write(&body, blake3::hash(b""));
        let alone = Unhashed {
            kind: MemberKind::WalAlone,
            ..claimed(1)
        };
        assert_eq!(unpacks_to(&member, &claimed(1), &streams(3)), Ok(true));
        assert_eq!(unpacks_to(&member, &claimed(1), &streams(4)), Ok(false));
        assert_eq!(unpacks_to(&member, &claimed(1), &[]), Ok(false));
        assert_eq!(unpacks_to(&member, &claimed(2), &streams(3)), Ok(false));
        assert_eq!(unpacks_to(&member, &alone, &streams(3)), Ok(false));
        let mut damaged = member.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert!(unpacks_to(&damaged, &claimed(1), &streams(3)).is_err());
    }

    #[test]
    fn streams_that_make_no_segment_are_no_proof() {
        let input = vec![0; 16 << 20];
        let replayed = replay(&streams(3), &claimed(1), input.as_slice().into());
        assert!(matches!(replayed, Err(EncodeError::NotProven)));
    }

    /// Of a member whose streams were compared, only the hash may become another one.
    #[test]
    fn nothing_but_the_hash_is_added_to_what_was_compared() {
        let (level, choices) = (Level::MIN, level_policy::choices(Level::MIN));
        let pack = |value| {
            let streams = streams(value);
            let body = packing::pack_streams(&streams, MemberKind::Wal, choices, level, 16 << 20);
            body.unwrap().unwrap()
        };
        let hash = blake3::hash(b"");
        let member = |body, hash, timeline| claimed(timeline).write(body, hash);
        let (body, other) = (pack(3), pack(4));
        let unhashed = member(&body, NO_HASH, 1);
        let is_same = |member: &[u8]| differs_in_hash(member, &unhashed, hash);
        assert_eq!(is_same(&member(&body, hash, 1)), Ok(true));
        assert_eq!(is_same(&member(&body, NO_HASH, 1)), Ok(false));
        assert_eq!(is_same(&member(&body, hash, 2)), Ok(false));
        assert_eq!(is_same(&member(&other, hash, 1)), Ok(false));
    }

    /// What a caller does not run is not proven.
    #[test]
    fn both_halves_have_to_be_run() {
        let segment = include_bytes!("../tests/inputs/pg15_gin_keys").as_slice();
        let header = SegmentHeader::read(segment).unwrap();
        let encode = |run_both| {
            let how = (Level::MIN, level_policy::choices(Level::MIN));
            encode_part(segment.into(), &header, MemberKind::Wal, how, run_both)
        };
        assert!(encode(run_in_turn).unwrap().is_some());
        let not_proven: [RunBoth; 3] = [|_, _| (), |beside, _| beside(), |_, here| here()];
        for run_both in not_proven {
            assert!(matches!(encode(run_both), Err(EncodeError::NotProven)));
        }
    }
}
