//! Finds the records that tell what else a replay will meet, in segments that arrive piece by piece.
//!
//! The creation of a tablespace is all that says where a replay will make a directory its own: it has the
//! location on the server that wrote it, and nothing maps it to another place
//! (`xl_tblspc_create_rec`, commands/tablespace.h). A change to `wal_level = minimal` is all that says that
//! changes were made after it which are not in the log (`xl_parameter_change`, catalog/pg_control.h). Other
//! records are stepped over by their lengths, so that looking costs next to nothing.

use super::max_align;
use super::page_header::{LONG_HEADER, PageHeader};
use super::record::{RECORD_HEADER_LEN, RecordHeader, RecordLayout};
use crate::PAGE_SIZE;
use crate::bytes::read_u32;
use crate::rmgr_id;
use crate::units::Lsn;
use crate::version::Version;

/// A location is shorter than 1 KiB (`MAXPGPATH`), and the record has little more.
const RECORD_LEN_MAX: usize = 2048;

/// The bits of a record's info that belong to its resource manager.
const OPCODE_MASK: u8 = 0xF0;
/// What they are at a creation (`XLOG_TBLSPC_CREATE`); the other record is a drop.
const CREATE: u8 = 0x00;
/// What they are at a change of settings (`XLOG_PARAMETER_CHANGE`).
const PARAMETER_CHANGE: u8 = 0x60;
/// Where such a record has the new `wal_level`, an i32 (PostgreSQL 13 to 18), and the value of `minimal`.
const WAL_LEVEL: usize = 20;
const WAL_LEVEL_MINIMAL: u32 = 0;

/// A tablespace that the log creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablespaceCreation {
    /// Its OID.
    pub oid: u32,
    /// Its directory on the server that wrote the log, empty for one inside the data directory.
    /// Paths need not be UTF-8.
    pub location: Vec<u8>,
}

/// What was found, in the log's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The tablespaces that the log creates.
    pub tablespaces: Vec<TablespaceCreation>,
    /// Where the records begin with which the server changed to `wal_level = minimal`.
    pub minimal_wal: Vec<Lsn>,
}

/// Collects them from pages that follow each other.
#[derive(Debug, Default)]
pub struct TellingRecords {
    page: Vec<u8>,
    begun: Option<Begun>,
    layout: RecordLayout,
    told: Told,
}

/// A record that may tell something, as far as its pages have come.
#[derive(Debug)]
struct Begun {
    lsn: Lsn,
    bytes: Vec<u8>,
    missing: usize,
}

impl TellingRecords {
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

    /// What was found.
    pub fn finish(self) -> Told {
        self.told
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
            self.keep(record.lsn, &record.bytes, version);
        }
        at += max_align(remaining);
        while let Some(total_len) = read_u32(page, at).map(|len| len as usize) {
            if total_len < RECORD_HEADER_LEN {
                return;
            }
            let on_page = page.get(at..).unwrap_or_default();
            let lsn = Lsn(header.address.wrapping_add(at as u64));
            match on_page.get(..total_len) {
                Some(record) if may_tell(record, total_len) => {
                    self.keep(lsn, record, version);
                }
                None if may_tell(on_page, total_len) => {
                    self.begun = Some(Begun {
                        lsn,
                        bytes: on_page.to_vec(),
                        missing: total_len - on_page.len(),
                    });
                }
                _ => {}
            }
            at = at.saturating_add(max_align(total_len));
        }
    }

    fn keep(&mut self, lsn: Lsn, record: &[u8], version: &Version) {
        if self.layout.read(record, version).is_err() {
            return;
        }
        let start = self.layout.main_start;
        let Some(main) = record.get(start..start + self.layout.main_len) else {
            return;
        };
        if is_creation(&self.layout.header) {
            self.told.tablespaces.extend(creation(main));
        }
        if is_parameter_change(&self.layout.header)
            && read_u32(main, WAL_LEVEL) == Some(WAL_LEVEL_MINIMAL)
        {
            self.told.minimal_wal.push(lsn);
        }
    }
}

/// Whether a record of this length that begins with these bytes can tell something.
fn may_tell(beginning: &[u8], total_len: usize) -> bool {
    let tells = |header: RecordHeader| is_creation(&header) || is_parameter_change(&header);
    total_len <= RECORD_LEN_MAX
        && (beginning.len() < RECORD_HEADER_LEN || RecordHeader::read(beginning).is_some_and(tells))
}

fn is_creation(header: &RecordHeader) -> bool {
    header.rmid == rmgr_id::TABLESPACE && header.info & OPCODE_MASK == CREATE
}

fn is_parameter_change(header: &RecordHeader) -> bool {
    header.rmid == rmgr_id::XLOG && header.info & OPCODE_MASK == PARAMETER_CHANGE
}

/// What the main data of a creation says.
fn creation(main: &[u8]) -> Option<TablespaceCreation> {
    let (oid, path) = main.split_first_chunk::<4>()?;
    Some(TablespaceCreation {
        oid: u32::from_le_bytes(*oid),
        location: path
            .split(|&byte| byte == 0)
            .next()
            .map(<[u8]>::to_vec)
            .unwrap_or_default(),
    })
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

    /// A change of settings with this `wal_level`.
    fn parameter_change(wal_level: u32) -> Vec<u8> {
        let mut record = vec![0; RECORD_HEADER_LEN];
        record[16] = PARAMETER_CHANGE;
        record[17] = rmgr_id::XLOG;
        record.extend([255, 26]);
        for setting in [100, 8, 10, 0, 64, wal_level] {
            record.extend(setting.to_le_bytes());
        }
        record.extend([0, 0]);
        finished(record)
    }

    fn told(pieces: &[&[u8]]) -> Told {
        let mut records = TellingRecords::default();
        for piece in pieces {
            records.feed(piece);
        }
        records.finish()
    }

    fn found(pieces: &[&[u8]]) -> Vec<TablespaceCreation> {
        told(pieces).tablespaces
    }

    #[test]
    fn finds_a_change_to_minimal_wal_wherever_it_lies_on_its_pages() {
        for before in (32..2 * PAGE_SIZE).step_by(8) {
            let log = pages(&[other(before), parameter_change(0), other(100)]);
            let [lsn] = told(&[&log]).minimal_wal[..] else {
                panic!("it is not found after {before} bytes");
            };
            let at = &log[lsn.0 as usize..];
            assert_eq!(read_u32(at, 0), Some(24 + 2 + 26), "after {before} bytes");
        }
        let others = pages(&[parameter_change(1), creation(LOCATION), parameter_change(2)]);
        assert_eq!(told(&[&others]).minimal_wal, []);
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
