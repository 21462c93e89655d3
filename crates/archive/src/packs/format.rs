//! The bytes of a pack of WAL, as in docs/format/wal-packs.md: a header, members, an index and a
//! trailer.

use std::io;

use bytes::Bytes;
use walzip_pgformat::bytes::{read_u32, read_u64};
use walzip_pgformat::wal_file_name::{SEGMENT_SIZE_BYTES_MAX, SEGMENT_SIZE_BYTES_MIN, SegmentName};
use walzip_repo::PackName;
use walzip_repo::layout::{MAX_PACK_BYTES, MAX_PACK_ORIGINAL_BYTES, MAX_PACK_SEGMENTS};

use crate::coding::pack_header::{self, Content, HEADER_LEN};
use crate::packs::scratch::Scratch;
use crate::wal::times_in_brief::TimesInBrief;

/// Length of a segment's entry in the index, in bytes.
pub(crate) const ENTRY_LEN: usize = ENTRY_LEN_V2 + TimesInBrief::LEN;
/// The same in version 2, which says nothing of times.
const ENTRY_LEN_V2: usize = NAME_LEN + 4 * 8 + 2 * HASH_LEN;
/// The same in version 1, where all segments are told from the first one on.
const ENTRY_LEN_V1: usize = ENTRY_LEN_V2 - 8;
/// Length of the trailer, in bytes.
pub(crate) const TRAILER_LEN: usize = 16 + HASH_LEN + TRAILER_MAGIC.len();
/// The last bytes of a pack.
pub(crate) const TRAILER_MAGIC: [u8; 8] = *b"WZPKENDS";
/// So many bytes at the end of a pack are enough to read any index.
pub(crate) const END_LEN_MAX: usize = MAX_PACK_SEGMENTS * ENTRY_LEN + TRAILER_LEN;

/// Length of a segment's name, in bytes.
pub(crate) const NAME_LEN: usize = 24;
const HASH_LEN: usize = 32;

/// A segment in a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The segment's name.
    pub(crate) name: String,
    /// Where it begins in the pack.
    pub(crate) offset: u64,
    /// Bytes of it in the pack.
    pub(crate) len: u64,
    /// Bytes of the segment.
    pub(crate) original_len: u64,
    /// The number in the pack of the segment at which decoding it begins: it is told from those from
    /// there on.
    pub(crate) begins: usize,
    /// BLAKE3 of the segment.
    pub(crate) original_hash: [u8; HASH_LEN],
    /// BLAKE3 of its bytes in the pack.
    pub(crate) hash: [u8; HASH_LEN],
    /// What its records say of time, which packs of versions 1 and 2 do not say.
    pub(crate) times: Option<TimesInBrief>,
}

impl Member {
    /// The byte behind it. Not beyond a pack that was read, and small in one that is written.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// What a pack has, in the order in which it was encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    /// The version of the pack.
    pub(crate) version: u8,
    pub(crate) members: Vec<Member>,
    /// BLAKE3 of all that says what is in the pack: packs with the same are the same.
    pub(crate) hash: [u8; HASH_LEN],
}

impl Index {
    /// Refuses a pack whose header says another version than its end.
    pub(crate) fn check_version(&self, version: u8) -> Result<(), String> {
        match version == self.version {
            true => Ok(()),
            false => Err("its header and its end say different versions".to_owned()),
        }
    }
}

/// A segment as it is encoded.
#[derive(Debug)]
pub(crate) struct EncodedMember {
    pub(crate) bytes: Vec<u8>,
    /// It needs no segment before it.
    pub(crate) begins_anew: bool,
}

/// Builds a pack, of which little is in memory before it is whole.
#[derive(Debug)]
pub(crate) struct PackBuilder {
    members: Vec<Member>,
    bytes: Scratch,
}

impl PackBuilder {
    /// Without segments, whose bytes are kept there.
    pub(crate) fn new(bytes: Scratch) -> PackBuilder {
        PackBuilder {
            members: Vec::new(),
            bytes,
        }
    }

    /// Appends a segment, unless the pack would be longer or hold more than packs may. It is told
    /// from those before it, or begins anew.
    pub(crate) fn push(
        &mut self,
        name: &str,
        (segment, times): (&[u8], TimesInBrief),
        encoded: EncodedMember,
    ) -> bool {
        let last = self.members.last();
        let begins = last.map(|last| last.begins);
        let offset = last.map_or(HEADER_LEN as u64, Member::end);
        let lens = self.members.iter().map(|member| member.original_len);
        let original_len = lens.sum::<u64>() + segment.len() as u64;
        let count = self.members.len() + 1;
        let rest_len = count * ENTRY_LEN + TRAILER_LEN;
        let member = Member {
            name: name.to_owned(),
            offset,
            len: encoded.bytes.len() as u64,
            original_len: segment.len() as u64,
            begins: begins
                .filter(|_| !encoded.begins_anew)
                .unwrap_or(self.members.len()),
            original_hash: blake3::hash(segment).into(),
            hash: blake3::hash(&encoded.bytes).into(),
            times: Some(times),
        };
        if member.end() + rest_len as u64 > MAX_PACK_BYTES as u64
            || count > MAX_PACK_SEGMENTS
            || (original_len > MAX_PACK_ORIGINAL_BYTES && count > 1)
        {
            return false;
        }
        self.members.push(member);
        self.bytes.push(encoded.bytes);
        true
    }

    /// A segment as it will be stored. Fails where it is not what was put into the pack.
    pub(crate) fn read(&self, number: usize) -> io::Result<Bytes> {
        let bytes = self.bytes.read(number)?;
        let hash = self.members.get(number).map(|member| member.hash);
        match hash == Some(blake3::hash(&bytes).into()) {
            true => Ok(bytes),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "bytes that were kept for later have changed",
            )),
        }
    }

    /// The segments so far.
    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// The whole pack, in pieces: for one of its length, the memory that encoding has left is rarely in one
    /// place.
    pub(crate) fn finish(&self) -> io::Result<Vec<Bytes>> {
        let mut pieces = vec![Bytes::from(pack_header::header(Content::Wal).to_vec())];
        for number in 0..self.members.len() {
            pieces.push(self.read(number)?);
        }
        let index_offset = pieces.iter().map(|piece| piece.len() as u64).sum();
        pieces.push(end(&self.members, index_offset).into());
        Ok(pieces)
    }
}

/// The index of these segments, and the trailer.
fn end(members: &[Member], index_offset: u64) -> Vec<u8> {
    let mut end = Vec::with_capacity(members.len() * ENTRY_LEN + TRAILER_LEN);
    for member in members {
        end.extend_from_slice(member.name.as_bytes());
        let begins = member.begins as u64;
        for number in [member.offset, member.len, member.original_len, begins] {
            end.extend_from_slice(&number.to_le_bytes());
        }
        end.extend_from_slice(&member.original_hash);
        end.extend_from_slice(&member.hash);
        end.extend_from_slice(&member.times.unwrap_or_default().to_bytes());
    }
    end.extend_from_slice(&index_offset.to_le_bytes());
    let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
    end.extend_from_slice(&count.to_le_bytes());
    end.extend_from_slice(&u32::from(Content::Wal.version()).to_le_bytes());
    let hash = blake3::hash(&end);
    end.extend_from_slice(hash.as_bytes());
    end.extend_from_slice(&TRAILER_MAGIC);
    end
}

/// Refuses a size that no pack has.
pub(crate) fn check_size(size: u64) -> Result<(), String> {
    if size > MAX_PACK_BYTES as u64 {
        return Err(format!("it has {size} bytes, more than packs may have"));
    }
    match size < (HEADER_LEN + ENTRY_LEN_V1 + TRAILER_LEN) as u64 {
        true => Err(format!("it has {size} bytes, which are too few for a pack")),
        false => Ok(()),
    }
}

/// Reads the index of a pack of this name and size from its last bytes, at least
/// [`END_LEN_MAX`] of them or all. Everything is checked that the bytes themselves can show.
pub(crate) fn read_index(name: &PackName, size: u64, end: &[u8]) -> Result<Index, String> {
    let wrong = |what: &str| Err(what.to_owned());
    check_size(size)?;
    let Some((before, trailer)) = end.split_last_chunk::<TRAILER_LEN>() else {
        return wrong("it is too short for a pack");
    };
    if !trailer.ends_with(&TRAILER_MAGIC) {
        return wrong("it does not end as packs do");
    }
    if read_u32(trailer, 8) != u32::try_from(name.count()).ok() {
        return wrong("its end says another number of segments than its name");
    }
    let (version, entry_len) = match read_u32(trailer, 12) {
        Some(0) => (1, ENTRY_LEN_V1),
        Some(2) => (2, ENTRY_LEN_V2),
        Some(3) => (3, ENTRY_LEN),
        _ => return wrong("its end is of a version that is not known to this walzip"),
    };
    let index_len = name.count() * entry_len;
    let Some(at) = before.len().checked_sub(index_len) else {
        return wrong("it is too short for its index");
    };
    let index = end.get(at..at + index_len + 16).unwrap_or_default();
    let hash = blake3::hash(index);
    if trailer.get(16..16 + HASH_LEN) != Some(hash.as_bytes().as_slice()) {
        return wrong("its index is damaged");
    }
    let index_offset = size - (TRAILER_LEN + index_len) as u64;
    if read_u64(trailer, 0) != Some(index_offset) {
        return wrong("its index is not where it says");
    }
    let entries = index.get(..index_len).unwrap_or_default();
    let entries = entries.chunks_exact(entry_len);
    let members = entries.map(read_member).collect::<Option<Vec<Member>>>();
    let Some(members) = members else {
        return wrong("its index cannot be read");
    };
    check_members(name, &members, index_offset)?;
    Ok(Index {
        version,
        members,
        hash: hash.into(),
    })
}

fn read_member(entry: &[u8]) -> Option<Member> {
    let name = std::str::from_utf8(entry.get(..NAME_LEN)?).ok()?;
    let hash = |at: usize| entry.get(at..at + HASH_LEN)?.try_into().ok();
    let (begins, hashes) = match entry.len() {
        ENTRY_LEN_V1 => (0, NAME_LEN + 24),
        _ => (read_u64(entry, NAME_LEN + 24)?, NAME_LEN + 32),
    };
    let times = match entry.len() {
        ENTRY_LEN => Some(TimesInBrief::from_bytes(entry.get(ENTRY_LEN_V2..)?)?),
        _ => None,
    };
    Some(Member {
        name: name.to_owned(),
        offset: read_u64(entry, NAME_LEN)?,
        len: read_u64(entry, NAME_LEN + 8)?,
        original_len: read_u64(entry, NAME_LEN + 16)?,
        begins: usize::try_from(begins).ok()?,
        original_hash: hash(hashes)?,
        hash: hash(hashes + HASH_LEN)?,
        times,
    })
}

/// Members lie one behind the other between header and index, are those of the pack's name, and all
/// have the size of segments.
fn check_members(name: &PackName, members: &[Member], index_offset: u64) -> Result<(), String> {
    let mut at = HEADER_LEN as u64;
    let mut original_len: u64 = 0;
    let mut begins = 0;
    let size = members.first().map_or(0, |first| first.original_len);
    let (min, max) = (SEGMENT_SIZE_BYTES_MIN, SEGMENT_SIZE_BYTES_MAX);
    if !size.is_power_of_two() || !(u64::from(min)..=u64::from(max)).contains(&size) {
        return Err(format!("{size} bytes is not the size of a segment"));
    }
    for (number, (member, expected)) in members.iter().zip(name.segments()).enumerate() {
        if member.begins == number {
            begins = number;
        }
        if member.begins != begins {
            return Err(format!(
                "{expected} does not begin where the one before does"
            ));
        }
        if member.name != expected {
            return Err(format!("it has {} in the place of {expected}", member.name));
        }
        if member.original_len != size {
            return Err(format!("{expected} has another size than the others"));
        }
        if !has_last_record(member) {
            return Err(format!(
                "{expected} does not have the record that is said to be its last"
            ));
        }
        original_len += size;
        if member.offset != at || member.len == 0 || member.len > index_offset {
            return Err(format!("{expected} does not lie where the one before ends"));
        }
        at += member.len;
    }
    if original_len > MAX_PACK_ORIGINAL_BYTES && members.len() > 1 {
        return Err("it has more WAL than packs may have".to_owned());
    }
    match at == index_offset {
        true => Ok(()),
        false => Err("its segments do not end where its index begins".to_owned()),
    }
}

/// Whether the last record lies in the segment, if there is said to be one.
fn has_last_record(member: &Member) -> bool {
    let Some(last) = member.times.and_then(|times| times.last_record) else {
        return true;
    };
    let size = u32::try_from(member.original_len).unwrap_or_default();
    let range = member
        .name
        .parse()
        .and_then(|name: SegmentName| name.range(size));
    range.is_ok_and(|range| range.contains(&last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use std::time::{Duration, SystemTime};
    use walzip_pgformat::Lsn;

    const SPECIFICATION: &str = include_str!("../../../../docs/format/wal-packs.md");

    fn name(count: usize) -> PackName {
        let archived = SystemTime::UNIX_EPOCH + Duration::from_secs(1_764_072_000);
        PackName::new("000000010000000A000000FE", count, archived).expect("a name")
    }

    fn pack(count: usize) -> Vec<u8> {
        let mut pack = PackBuilder::new(Scratch::in_memory());
        for (number, segment) in name(count).segments().enumerate() {
            let original = vec![number as u8; 1 << 20];
            let encoded = member(&vec![number as u8; 10 + number], number == 2);
            assert!(pack.push(&segment, (&original, times(number)), encoded));
        }
        pack.finish().expect("a pack").concat()
    }

    fn times(number: usize) -> TimesInBrief {
        let mut times = TimesInBrief {
            last_record: Some(Lsn(0xA_0FE0_0028 + 0x10_0000 * number as u64)),
            ends: None,
        };
        for second in [1_764_072_000, 1_764_071_000].iter().take(number) {
            times.add_end(Timestamp::from_second(*second).expect("a time"), true);
        }
        times
    }

    fn member(bytes: &[u8], begins_anew: bool) -> EncodedMember {
        EncodedMember {
            bytes: bytes.to_vec(),
            begins_anew,
        }
    }

    fn read(count: usize, pack: &[u8]) -> Result<Index, String> {
        let end = &pack[pack.len().saturating_sub(END_LEN_MAX)..];
        read_index(&name(count), pack.len() as u64, end)
    }

    #[test]
    fn constants_are_those_of_the_specification() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for (name, value) in [
            ("CONTENT_WAL", (Content::Wal as u8).to_string()),
            ("HEADER_LEN", HEADER_LEN.to_string()),
            ("ENTRY_LEN", ENTRY_LEN.to_string()),
            ("ENTRY_LEN_V2", ENTRY_LEN_V2.to_string()),
            ("ENTRY_LEN_V1", ENTRY_LEN_V1.to_string()),
            ("TRAILER_LEN", TRAILER_LEN.to_string()),
            ("TRAILER_MAGIC", text(&TRAILER_MAGIC)),
            ("END_LEN_MAX", END_LEN_MAX.to_string()),
        ] {
            let row = format!("| `{name}` | `{value}` |");
            assert!(SPECIFICATION.contains(&row), "{row}");
        }
    }

    /// What was written once is read for ever, and written the same.
    #[test]
    fn a_pack_has_these_bytes() {
        let pack = pack(2);
        let hash = blake3::hash(&pack).to_hex();
        assert_eq!(pack.len(), 16 + 10 + 11 + 2 * ENTRY_LEN + TRAILER_LEN);
        assert_eq!(
            hash.as_str(),
            "6b1dcda75f78e09d375218ec45080940fc0c5dc3c0acddf955a2596db2957270"
        );
        let index = read(2, &pack).expect("an index");
        assert_eq!(begins(&self::pack(4)), [0, 0, 2, 2]);
        let lies: Vec<(u64, u64)> = index.members.iter().map(|m| (m.offset, m.len)).collect();
        assert_eq!(lies, [(16, 10), (26, 11)]);
        assert_eq!(
            index.members[1].original_hash,
            *blake3::hash(&vec![1; 1 << 20]).as_bytes()
        );
    }

    /// The same segments as an earlier version wrote them: what its trailer says of the version, and what it left
    /// out of each entry.
    fn earlier(
        pack: &[u8],
        version: u8,
        (number, left_out): (u32, std::ops::Range<usize>),
    ) -> Vec<u8> {
        let index = pack.len() - TRAILER_LEN - 2 * ENTRY_LEN;
        let mut older = pack[..index].to_vec();
        older[4] = version;
        for entry in pack[index..pack.len() - TRAILER_LEN].chunks_exact(ENTRY_LEN) {
            older.extend_from_slice(&entry[..left_out.start]);
            older.extend_from_slice(&entry[left_out.end..ENTRY_LEN_V2]);
        }
        older.extend_from_slice(&(index as u64).to_le_bytes());
        older.extend_from_slice(&2_u32.to_le_bytes());
        older.extend_from_slice(&number.to_le_bytes());
        let hash = blake3::hash(&older[index..]);
        older.extend_from_slice(hash.as_bytes());
        older.extend_from_slice(&TRAILER_MAGIC);
        older
    }

    /// What versions 1 and 2 wrote is read.
    #[test]
    fn packs_of_earlier_versions_are_read() {
        let pack = pack(2);
        let mut newer = read(2, &pack).expect("an index");
        assert_eq!(newer.version, 3);
        newer
            .members
            .iter_mut()
            .for_each(|member| member.times = None);
        for (version, differs, hash) in [
            (
                1,
                (0, NAME_LEN + 24..NAME_LEN + 32),
                "d6cc6eb1f963bd4048b4189444ed520c74bb5ad363a4c04c0215257b95b1e717",
            ),
            (
                2,
                (2, ENTRY_LEN_V2..ENTRY_LEN_V2),
                "8116bc106b9e3bb0854ebd0df7a83975148efdebf71ec4b936f01971044c8b96",
            ),
        ] {
            let older = earlier(&pack, version, differs);
            assert_eq!(blake3::hash(&older).to_hex().as_str(), hash);
            let older = read(2, &older).expect("an index");
            assert_eq!(older.version, version);
            assert_eq!(older.members, newer.members);
        }
    }

    fn begins(pack: &[u8]) -> Vec<usize> {
        let index = read(4, pack).expect("an index");
        index.members.iter().map(|member| member.begins).collect()
    }

    #[test]
    fn every_other_end_is_refused() {
        let pack = pack(3);
        for at in 16 + 10 + 11 + 12..pack.len() {
            let mut changed = pack.clone();
            changed[at] ^= 1;
            assert!(read(3, &changed).is_err(), "byte {at}");
        }
        for len in 0..pack.len() {
            assert!(read(3, &pack[..len]).is_err(), "{len} bytes");
        }
        for count in [1, 2, 4, 64, 256] {
            assert!(read(count, &pack).is_err(), "{count} segments");
        }
    }

    /// The hash of an index is right also if who wrote it lies.
    #[test]
    fn an_index_that_contradicts_itself_is_refused() {
        let lie = |change: &dyn Fn(&mut Member)| {
            let mut builder = PackBuilder::new(Scratch::in_memory());
            for (number, segment) in name(2).segments().enumerate() {
                let encoded = member(&[number as u8; 10], false);
                assert!(builder.push(&segment, (&[0; 1 << 20], times(number)), encoded));
            }
            change(&mut builder.members[1]);
            read(2, &builder.finish().expect("a pack").concat())
        };
        assert!(lie(&|_| {}).is_ok());
        let lies: [&dyn Fn(&mut Member); 10] = [
            &|member| member.times = Some(times(0)),
            &|member| member.offset += 1,
            &|member| member.offset = 16,
            &|member| member.begins = 2,
            &|member| member.len += 1,
            &|member| member.len = 0,
            &|member| member.len = u64::MAX,
            &|member| member.original_len = 2 << 20,
            &|member| member.original_len = u64::MAX,
            &|member| member.name = "000000010000000A000000FE".to_owned(),
        ];
        for (number, change) in lies.iter().enumerate() {
            assert!(lie(change).is_err(), "lie {number}");
        }
    }

    #[test]
    fn bytes_that_have_changed_make_no_pack() {
        let mut builder = PackBuilder::new(Scratch::in_memory());
        for segment in name(2).segments() {
            assert!(builder.push(
                &segment,
                (&[0; 1 << 20], TimesInBrief::default()),
                member(b"bytes", false)
            ));
        }
        assert!(builder.finish().is_ok());
        builder.members[1].hash[0] ^= 1;
        assert!(builder.finish().is_err());
    }

    #[test]
    fn no_more_than_a_pack_may_have_is_added() {
        let mut pack = PackBuilder::new(Scratch::in_memory());
        let segments = name(MAX_PACK_SEGMENTS).segments().collect::<Vec<_>>();
        for segment in &segments {
            assert!(pack.push(segment, (&[0; 1 << 20], times(0)), member(b"x", false)));
        }
        assert!(!pack.push(
            "000000010000000A000001FE",
            (&[0; 1 << 20], times(0)),
            member(b"x", false)
        ));
        let mut pack = PackBuilder::new(Scratch::in_memory());
        let long = member(&vec![0; MAX_PACK_BYTES - 1000], false);
        assert!(pack.push(&segments[0], (b"x", times(0)), long));
        assert!(!pack.push(&segments[1], (b"x", times(0)), member(&[0; 1000], false)));
        let len = pack.finish().expect("a pack").concat().len();
        assert!(len <= MAX_PACK_BYTES, "{len}");
    }
}
