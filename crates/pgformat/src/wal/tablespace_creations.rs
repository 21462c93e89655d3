//! Finds the records that create tablespaces, in segments that arrive piece by piece.
//!
//! Such a record is all that says where a replay will make a directory its own: it has the
//! location on the server that wrote it, and nothing maps it to another place
//! (`xl_tblspc_create_rec`, commands/tablespace.h). Other records are stepped over by their
//! lengths, so that looking costs next to nothing.

use super::max_align;
use super::page_header::{LONG_HEADER, PageHeader};
use super::record::{RECORD_HEADER_LEN, RecordHeader, RecordLayout};
use crate::PAGE_SIZE;
use crate::bytes::read_u32;
use crate::rmgr_id;
use crate::version::Version;

/// A location is shorter than 1 KiB (`MAXPGPATH`), and the record has little more.
const RECORD_LEN_MAX: usize = 2048;

/// The bits of a record's info that belong to its resource manager, and what they are at a
/// creation (`XLOG_TBLSPC_CREATE`); the other record is a drop.
const OPCODE_MASK: u8 = 0xF0;
const CREATE: u8 = 0x00;

/// A tablespace that the log creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablespaceCreation {
    /// Its OID.
    pub oid: u32,
    /// Its directory on the server that wrote the log, empty for one inside the data directory.
    /// Paths need not be UTF-8.
    pub location: Vec<u8>,
}

/// Collects creations from pages that follow each other.
#[derive(Debug, Default)]
pub struct TablespaceCreations {
    page: Vec<u8>,
    begun: Option<Begun>,
    layout: RecordLayout,
    found: Vec<TablespaceCreation>,
}

/// A record that may be a creation, as far as its pages have come.
#[derive(Debug)]
struct Begun {
    bytes: Vec<u8>,
    missing: usize,
}

impl TablespaceCreations {
    /// Takes the next bytes, which need not end where a page does.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = PAGE_SIZE - self.page.len();
            let (fits, rest) = bytes.split_at(room.min(bytes.len()));
            self.page.extend_from_slice(fits);
            bytes = rest;
            if self.page.len() == PAGE_SIZE {
                let page = std::mem::take(&mut self.page);
                self.look_at(&page);
                self.page = page;
                self.page.clear();
            }
        }
    }

    /// What was found, in the log's order.
    pub fn into_found(self) -> Vec<TablespaceCreation> {
        self.found
    }

    fn look_at(&mut self, page: &[u8]) {
        let begun = self.begun.take();
        let Some(header) = PageHeader::read(page) else {
            return;
        };
        let Some(version) = Version::from_page_magic(header.magic) else {
            return;
        };
        let mut at = match header.flags & LONG_HEADER {
            0 => PageHeader::SHORT_LEN,
            _ => PageHeader::LONG_LEN,
        };
        let remaining = header.remaining_len as usize;
        if remaining > page.len() - at {
            return;
        }
        if let Some(mut record) = begun.filter(|begun| begun.missing == remaining) {
            record
                .bytes
                .extend_from_slice(page.get(at..at + remaining).unwrap_or_default());
            self.keep_creation(&record.bytes, version);
        }
        at += max_align(remaining);
        while let Some(total_len) = read_u32(page, at).map(|len| len as usize) {
            if total_len < RECORD_HEADER_LEN {
                return;
            }
            let on_page = page.get(at..).unwrap_or_default();
            match on_page.get(..total_len) {
                Some(record) if may_create(record, total_len) => {
                    self.keep_creation(record, version);
                }
                None if may_create(on_page, total_len) => {
                    self.begun = Some(Begun {
                        bytes: on_page.to_vec(),
                        missing: total_len - on_page.len(),
                    });
                }
                _ => {}
            }
            at = at.saturating_add(max_align(total_len));
        }
    }

    fn keep_creation(&mut self, record: &[u8], version: &Version) {
        if self.layout.read(record, version).is_err() || !is_creation(&self.layout.header) {
            return;
        }
        let start = self.layout.main_start;
        let main = record.get(start..start + self.layout.main_len);
        let Some((oid, path)) = main.and_then(<[u8]>::split_first_chunk::<4>) else {
            return;
        };
        self.found.push(TablespaceCreation {
            oid: u32::from_le_bytes(*oid),
            location: path
                .split(|&byte| byte == 0)
                .next()
                .map(<[u8]>::to_vec)
                .unwrap_or_default(),
        });
    }
}

/// Whether a record of this length that begins with these bytes can be a creation.
fn may_create(beginning: &[u8], total_len: usize) -> bool {
    total_len <= RECORD_LEN_MAX
        && (beginning.len() < RECORD_HEADER_LEN
            || RecordHeader::read(beginning).is_some_and(|header| is_creation(&header)))
}

fn is_creation(header: &RecordHeader) -> bool {
    header.rmid == rmgr_id::TABLESPACE && header.info & OPCODE_MASK == CREATE
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCATION: &[u8] = b"/srv/fast";

    /// A creation with a location of this length, followed by what aligns the next record.
    fn creation(location: &[u8]) -> Vec<u8> {
        let mut record = vec![0; RECORD_HEADER_LEN];
        record[17] = rmgr_id::TABLESPACE;
        let main_len = 4 + location.len() + 1;
        match u8::try_from(main_len) {
            Ok(short) => record.extend([255, short]),
            Err(_) => {
                record.push(254);
                record.extend((main_len as u32).to_le_bytes());
            }
        }
        record.extend(16400_u32.to_le_bytes());
        record.extend(location);
        record.push(0);
        finished(record)
    }

    /// A record of another resource manager.
    fn other(len: usize) -> Vec<u8> {
        let mut record = vec![0; RECORD_HEADER_LEN];
        record[17] = rmgr_id::HEAP;
        let main_len = (len - RECORD_HEADER_LEN - 5) as u32;
        record.push(254);
        record.extend(main_len.to_le_bytes());
        record.resize(len, 7);
        finished(record)
    }

    fn finished(mut record: Vec<u8>) -> Vec<u8> {
        let len = record.len() as u32;
        record[0..4].copy_from_slice(&len.to_le_bytes());
        let crc = RecordHeader::checksum(&record);
        record[20..24].copy_from_slice(&crc.to_le_bytes());
        record
    }

    /// Records on the pages of a segment.
    fn pages(records: &[Vec<u8>]) -> Vec<u8> {
        let mut log = Vec::new();
        for record in records {
            let mut rest = record.as_slice();
            while !rest.is_empty() {
                if log.len() % PAGE_SIZE == 0 {
                    let is_first = log.is_empty();
                    let remaining_len = match rest.len() == record.len() {
                        true => 0,
                        false => rest.len() as u32,
                    };
                    let header = PageHeader {
                        magic: 0xD110,
                        flags: if is_first { LONG_HEADER } else { 0 },
                        timeline: 1,
                        address: log.len() as u64,
                        remaining_len,
                    };
                    log.extend(header.to_bytes());
                    log.resize(log.len() + if is_first { 16 } else { 0 }, 0);
                }
                let room = PAGE_SIZE - log.len() % PAGE_SIZE;
                let (fits, left) = rest.split_at(room.min(rest.len()));
                log.extend(fits);
                rest = left;
            }
            log.resize(max_align(log.len()), 0);
        }
        log.resize(log.len().next_multiple_of(PAGE_SIZE), 0);
        log
    }

    fn found(pieces: &[&[u8]]) -> Vec<TablespaceCreation> {
        let mut creations = TablespaceCreations::default();
        for piece in pieces {
            creations.feed(piece);
        }
        creations.into_found()
    }

    #[test]
    fn finds_a_creation_wherever_it_lies_on_its_pages() {
        let expected = [TablespaceCreation {
            oid: 16400,
            location: LOCATION.to_vec(),
        }];
        // The creation begins at each place where a record can begin on the first two pages.
        for before in (32..2 * PAGE_SIZE).step_by(8) {
            let log = pages(&[other(before), creation(LOCATION), other(100)]);
            assert_eq!(found(&[&log]), expected, "after {before} bytes");
        }
    }

    #[test]
    fn finds_a_creation_in_pieces_of_any_size_and_across_segments() {
        let long = [b"/", [b'x'; 1000].as_slice()].concat();
        let log = pages(&[other(PAGE_SIZE - 100), creation(&long), creation(LOCATION)]);
        let all = found(&[&log]);
        assert_eq!(all.len(), 2);
        for size in [1, 7, 4096, PAGE_SIZE, 10_000] {
            let pieces: Vec<&[u8]> = log.chunks(size).collect();
            assert_eq!(found(&pieces), all, "in pieces of {size}");
        }
        let (last_page, next) = log.split_at(PAGE_SIZE);
        assert_eq!(found(&[next]).len(), 1, "without the page before");
        assert_eq!(found(&[last_page, next]), all);
    }

    #[test]
    fn finds_none_in_damage_and_in_other_records() {
        let mut damaged = pages(&[creation(LOCATION)]);
        damaged[PageHeader::LONG_LEN + 30] ^= 1;
        assert_eq!(found(&[&damaged]), []);
        let mut dropped = creation(LOCATION);
        dropped[16] = 0x10;
        assert_eq!(found(&[&pages(&[finished(dropped), other(9000)])]), []);
        assert_eq!(found(&[&[0; 3 * PAGE_SIZE], &[0xFF; 2 * PAGE_SIZE]]), []);
    }
}
