//! How a segment begins and ends: whether one continues another.
//!
//! The first record of a segment names the start of the record before it (`xl_prev`), and a record that does not fit
//! goes on in the next segment: its checksum is right only with both parts. So it shows when one of two neighbours is of
//! another server with the same system identifier: a copy that was started without a recovery. It does not show where
//! the last record of both servers begins at the same position, and ends with the segment.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::max_align;
use super::page_header::PageHeader;
use super::record::{RECORD_HEADER_LEN, RecordHeader};
use super::segment_header::SegmentHeader;
use super::unbroken_records::is_switch;
use crate::PAGE_SIZE;
use crate::bytes::read_u32;
use crate::units::Lsn;

/// How a segment begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentBegin {
    /// Bytes of a record of the segment before (`xlp_rem_len`).
    remaining_len: usize,
    /// What has to be known of these bytes, where all of them are in this segment.
    rest: Option<Rest>,
    /// A crash kept the server from writing the rest of the record before
    /// (`XLP_FIRST_IS_OVERWRITE_CONTRECORD`).
    overwrites: bool,
    /// What the first record names as the start of the one before it.
    prev: Option<Lsn>,
}

/// How a segment ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentEnd {
    /// Where the last whole record begins, as far as that was seen.
    last_whole: Option<Lsn>,
    /// The record that goes on in the next segment, if it begins in this one.
    tail: Option<Tail>,
    /// The bytes that are left after this segment, if all of it is within one record.
    left: Option<usize>,
}

/// The part of a record in the segment in which it begins. However long it is, this is short.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tail {
    lsn: Lsn,
    total_len: usize,
    len: usize,
    /// The record's header, or the first bytes of it.
    header: Vec<u8>,
    /// CRC-32C of what comes after the header.
    crc: u32,
}

/// The part of a record in the segment in which it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rest {
    /// The first bytes, which may be the rest of the record's header.
    head: Vec<u8>,
    /// CRC-32C of what comes after the first 0, 8 and 16 bytes. The part before ends at a multiple of 8.
    crcs: [u32; 3],
    len: usize,
}

impl Rest {
    /// The most bytes of a header that are in it.
    const HEAD_LEN: usize = 16;

    fn add(&mut self, bytes: &[u8]) {
        for (step, crc) in self.crcs.iter_mut().enumerate() {
            let left_out = (8 * step).saturating_sub(self.len).min(bytes.len());
            *crc = crc32c::crc32c_append(*crc, &bytes[left_out..]);
        }
        let missing = Self::HEAD_LEN - self.head.len();
        self.head
            .extend_from_slice(&bytes[..bytes.len().min(missing)]);
        self.len += bytes.len();
    }
}

impl Tail {
    /// Whether the record has the right checksum with this rest; nothing where that cannot be told.
    fn is_right_with(&self, rest: &Rest) -> Option<bool> {
        let missing = RECORD_HEADER_LEN - self.header.len();
        let header = [&self.header, rest.head.get(..missing)?].concat();
        let (crc, len) = (rest.crcs.get(missing / 8)?, rest.len - missing);
        let data = crc32c::crc32c_combine(self.crc, *crc, len);
        let is_right = |read: RecordHeader| read.crc == crc32c::crc32c_append(data, &header[..20]);
        Some(RecordHeader::read(&header).is_some_and(is_right))
    }
}

/// Both of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentEdges {
    /// Bytes of a segment of this cluster.
    pub segment_size: u32,
    /// Its beginning.
    pub begin: SegmentBegin,
    /// Its end.
    pub end: SegmentEnd,
}

/// Why a segment does not continue the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discontinuity {
    /// The first record comes after another one than the last of the segment before.
    OtherRecord {
        /// The record that it comes after.
        named: Lsn,
        /// The last one of the segment before.
        last: Lsn,
    },
    /// The first record comes after none: `pg_resetwal` began the WAL anew.
    Anew,
    /// It begins with so many bytes of a record, of which the segment before leaves others.
    OtherLength {
        /// The bytes that are left of the record.
        expected: usize,
        /// What its first page says of them.
        found: usize,
    },
    /// The record that runs from the one into the other has a wrong checksum.
    WrongChecksum {
        /// Where it begins.
        record: Lsn,
    },
}

impl fmt::Display for Discontinuity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Discontinuity::OtherRecord { named, last } => write!(
                f,
                "its first record comes after one at {named}, and the last one before it is at {last}"
            ),
            Discontinuity::Anew => write!(
                f,
                "its first record comes after none: pg_resetwal began the WAL anew there"
            ),
            Discontinuity::OtherLength { expected, found } => write!(
                f,
                "it begins with {found} bytes of a record, of which {expected} are left"
            ),
            Discontinuity::WrongChecksum { record } => write!(
                f,
                "the record at {record}, which goes on in it, has a wrong checksum"
            ),
        }
    }
}

impl SegmentBegin {
    /// Why the segment does not continue the one that ends like this. Nothing where it does, and where that cannot be
    /// told.
    pub fn discontinuity(&self, before: &SegmentEnd) -> Option<Discontinuity> {
        if self.prev == Some(Lsn(0)) {
            return Some(Discontinuity::Anew);
        }
        let tail = before.tail.as_ref();
        let left = tail.map(|tail| tail.total_len - tail.len).or(before.left);
        if before.last_whole.is_none() && left.is_none() {
            return None;
        }
        let expected = left.unwrap_or(0);
        if self.remaining_len != expected && !self.overwrites {
            return Some(Discontinuity::OtherLength {
                expected,
                found: self.remaining_len,
            });
        }
        let last = match self.overwrites {
            true => before.last_whole,
            false => tail.map(|tail| tail.lsn).or(before.last_whole),
        };
        if let (Some(named), Some(last)) = (self.prev, last)
            && named != last
        {
            return Some(Discontinuity::OtherRecord { named, last });
        }
        let tail = tail.filter(|_| !self.overwrites)?;
        let is_right = tail.is_right_with(self.rest.as_ref()?)?;
        (!is_right).then_some(Discontinuity::WrongChecksum { record: tail.lsn })
    }
}

/// Finds the edges of a segment that is written to it from its first byte to its last.
#[derive(Debug, Default)]
pub struct EdgeReader {
    /// Nothing before the first page, and of what is no WAL.
    header: Option<SegmentHeader>,
    /// The beginning of a page of which the rest was not written yet.
    part: Vec<u8>,
    /// Bytes before that.
    offset: usize,
    beginning: Beginning,
    ending: Ending,
}

/// What was read of the beginning.
#[derive(Debug, Default)]
struct Beginning {
    begin: SegmentBegin,
    /// Bytes of the record of before, and up to the first record, which are to be passed.
    to_pass: usize,
    /// What was passed of the record of before.
    rest: Rest,
    /// What there is of the first record's header.
    first: Vec<u8>,
    is_done: bool,
}

/// The records since the last page on which one begins.
#[derive(Debug, Default)]
struct Ending {
    /// Where the first of them begins.
    first: Option<Lsn>,
    /// Those of the page on which they begin, and as many bytes after it as a header has, without page headers.
    kept: Vec<u8>,
    kept_max: usize,
    /// CRC-32C of what comes after that.
    crc: u32,
    /// The length of all.
    len: usize,
    /// Where the last page ends.
    end: usize,
    /// How many pages there are of the segment.
    pages: usize,
}

impl EdgeReader {
    /// Finds the edges in a file, and reads little else of it.
    pub fn read_from(mut file: impl Read + Seek) -> io::Result<Option<SegmentEdges>> {
        let len = file.seek(SeekFrom::End(0))?;
        file.rewind()?;
        let (mut reader, mut page) = (EdgeReader::default(), [0; PAGE_SIZE]);
        while !reader.beginning.is_done && (reader.offset as u64) < len {
            file.read_exact(&mut page)?;
            reader.page(&page);
        }
        let mut last = len.saturating_sub(PAGE_SIZE as u64);
        while last > reader.offset as u64 {
            file.seek(SeekFrom::Start(last))?;
            file.read_exact(&mut page)?;
            if reader.begins(&page, last as usize) {
                reader.offset = last as usize;
                break;
            }
            last -= PAGE_SIZE as u64;
        }
        file.seek(SeekFrom::Start(reader.offset as u64))?;
        io::copy(&mut file, &mut reader)?;
        Ok(reader.finish())
    }

    /// The edges, after the last byte; nothing of what is no segment, or only a part of one.
    pub fn finish(self) -> Option<SegmentEdges> {
        let header = self.header?;
        let is_whole = self.part.is_empty() && self.offset == header.segment_size as usize;
        let begin = self.beginning.begin;
        is_whole.then(|| SegmentEdges {
            segment_size: header.segment_size,
            end: self.ending.finish(self.offset, begin.remaining_len),
            begin,
        })
    }

    fn page(&mut self, page: &[u8]) {
        let offset = self.offset;
        self.offset += PAGE_SIZE;
        if offset == 0 {
            self.header = SegmentHeader::read(page).ok();
        }
        let Some((header, read)) = self.header.zip(self.own_header(page, offset)) else {
            self.beginning.is_done = true;
            return;
        };
        let header_len = header.page_header_len(offset);
        let payload = page.get(header_len..).unwrap_or_default();
        let remaining_len = read.remaining_len as usize;
        let overwrites = read.flags & header.version.overwrite_contrecord != 0;
        if offset == 0 {
            self.beginning.start(remaining_len, overwrites);
        } else if overwrites {
            // What the page before had begun is not gone on with.
            self.beginning.is_done = true;
        }
        self.beginning.page(remaining_len, payload);
        let start = max_align(remaining_len);
        let record = read.address.wrapping_add((header_len + start) as u64);
        self.ending.page(Lsn(record), start, payload);
        self.ending.end = self.offset;
        self.ending.pages += 1;
    }

    /// The header of the page at an offset, if it is one of this segment.
    fn own_header(&self, page: &[u8], offset: usize) -> Option<PageHeader> {
        let header = self.header?;
        let address = header.start.0.wrapping_add(offset as u64);
        PageHeader::read(page)
            .filter(|read| read.magic == header.version.page_magic && read.address == address)
    }

    /// Whether a record begins on the page at an offset.
    fn begins(&self, page: &[u8], offset: usize) -> bool {
        let Some((header, read)) = self.header.zip(self.own_header(page, offset)) else {
            return false;
        };
        let payload = page.get(header.page_header_len(offset)..);
        payload.is_some_and(|payload| begins(payload, max_align(read.remaining_len as usize)))
    }
}

/// Whether a record begins behind so many bytes.
fn begins(payload: &[u8], start: usize) -> bool {
    let total_len = payload.get(start..).and_then(|record| read_u32(record, 0));
    total_len.is_some_and(|len| len as usize >= RECORD_HEADER_LEN)
}

impl Write for EdgeReader {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        if !self.part.is_empty() {
            let (missing, after) = rest.split_at(rest.len().min(PAGE_SIZE - self.part.len()));
            self.part.extend_from_slice(missing);
            rest = after;
            if self.part.len() == PAGE_SIZE {
                let page = std::mem::take(&mut self.part);
                self.page(&page);
            }
        }
        let mut pages = rest.chunks_exact(PAGE_SIZE);
        for page in &mut pages {
            self.page(page);
        }
        self.part.extend_from_slice(pages.remainder());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Beginning {
    fn start(&mut self, remaining_len: usize, overwrites: bool) {
        self.begin.remaining_len = remaining_len;
        self.begin.overwrites = overwrites;
        self.to_pass = max_align(remaining_len);
    }

    /// Takes the next page, which says how much is left of the record that goes on there.
    fn page(&mut self, remaining_len: usize, payload: &[u8]) {
        if self.is_done || max_align(remaining_len) != max_align(self.expected_len()) {
            self.is_done = true;
            return;
        }
        let (of_rest, after) = payload.split_at(payload.len().min(self.to_pass));
        self.to_pass -= of_rest.len();
        // Without the padding.
        let left = self.begin.remaining_len - self.rest.len;
        self.rest.add(&of_rest[..of_rest.len().min(left)]);
        if self.to_pass > 0 {
            return;
        }
        self.begin.rest.get_or_insert_with(|| self.rest.clone());
        let missing = RECORD_HEADER_LEN - self.first.len();
        self.first
            .extend_from_slice(&after[..after.len().min(missing)]);
        if self.first.len() == RECORD_HEADER_LEN {
            let header = RecordHeader::read(&self.first);
            let header = header.filter(|header| header.total_len as usize >= RECORD_HEADER_LEN);
            self.begin.prev = header.map(|header| Lsn(header.prev));
            self.is_done = true;
        }
    }

    /// How much the next page has to say that is left: of the record of before, or of the first one, of whose header
    /// the page before had the first bytes.
    fn expected_len(&self) -> usize {
        let of_first = read_u32(&self.first, 0).map_or(0, |len| len as usize);
        match self.to_pass {
            0 => of_first.saturating_sub(self.first.len()),
            to_pass => to_pass,
        }
    }
}

impl Ending {
    /// Takes the next page, on which the first record that begins there begins after so many bytes.
    fn page(&mut self, record: Lsn, start: usize, payload: &[u8]) {
        let begins = begins(payload, start);
        let payload = if begins { &payload[start..] } else { payload };
        if begins {
            *self = Ending {
                first: Some(record),
                kept_max: payload.len() + RECORD_HEADER_LEN,
                pages: self.pages,
                ..Ending::default()
            };
        }
        let kept = payload.len().min(self.kept_max - self.kept.len());
        self.kept.extend_from_slice(&payload[..kept]);
        self.crc = crc32c::crc32c_append(self.crc, &payload[kept..]);
        self.len += payload.len();
    }

    /// The end of a segment that begins with so many bytes of a record.
    fn finish(self, segment_len: usize, remaining_len: usize) -> SegmentEnd {
        let mut end = SegmentEnd::default();
        let Some(first) = self.first else {
            let is_whole = self.pages * PAGE_SIZE == segment_len;
            end.left = remaining_len.checked_sub(self.len).filter(|_| is_whole);
            return end;
        };
        let mut at = 0;
        while let Some(total_len) = self.kept.get(at..).and_then(|record| read_u32(record, 0)) {
            let total_len = total_len as usize;
            if total_len < RECORD_HEADER_LEN {
                break;
            }
            // All of them begin on the first page.
            let lsn = Lsn(first.0 + at as u64);
            let len = self.len - at;
            if total_len > len {
                // Where the pages end before the segment does, so does the WAL.
                if self.end == segment_len {
                    end.tail = Some(self.tail(at, lsn, total_len));
                }
                break;
            }
            end.last_whole = Some(lsn);
            // What follows is no part of the WAL: a standby may not have been sent the zeros there.
            let header = self.kept.get(at..).and_then(RecordHeader::read);
            if header.is_some_and(|header| is_switch(&header)) {
                break;
            }
            at += max_align(total_len);
        }
        end
    }

    /// The record that begins after so many of the kept bytes, and does not end.
    fn tail(&self, at: usize, lsn: Lsn, total_len: usize) -> Tail {
        let bytes = &self.kept[at..];
        let (header, data) = bytes.split_at(bytes.len().min(RECORD_HEADER_LEN));
        let after = self.len - self.kept.len();
        Tail {
            lsn,
            total_len,
            len: self.len - at,
            header: header.to_vec(),
            crc: crc32c::crc32c_combine(crc32c::crc32c(data), self.crc, after),
        }
    }
}
