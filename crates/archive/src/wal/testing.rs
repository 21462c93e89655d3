//! Segments of a few records, for tests.

use walzip_pgformat::wal::{LONG_HEADER, PageHeader, RECORD_HEADER_LEN, RecordHeader};
use walzip_pgformat::{PAGE_SIZE, rmgr_id};
use walzip_repo::ClusterIdentity;

pub(crate) const CLUSTER: ClusterIdentity = ClusterIdentity {
    system_id: 7,
    major: 15,
};
pub(crate) const SIZE: usize = 1 << 20;

/// A record: whose, what, how long, and what its data are filled with.
pub(crate) struct Record {
    rmid: u8,
    info: u8,
    len: usize,
    fill: u8,
}

impl Record {
    /// Of a table.
    pub(crate) fn row(len: usize, fill: u8) -> Record {
        Record {
            rmid: rmgr_id::HEAP,
            info: 0,
            len,
            fill,
        }
    }

    pub(crate) fn checkpoint(len: usize) -> Record {
        Record {
            rmid: rmgr_id::XLOG,
            info: 0,
            len,
            fill: 0,
        }
    }

    /// The last one of a segment.
    pub(crate) fn switch() -> Record {
        Record {
            rmid: rmgr_id::XLOG,
            info: 0x40,
            len: RECORD_HEADER_LEN,
            fill: 0,
        }
    }

    fn bytes(&self, prev: u64) -> Vec<u8> {
        let mut record = vec![0; RECORD_HEADER_LEN];
        record[0..4].copy_from_slice(&(self.len as u32).to_le_bytes());
        record[8..16].copy_from_slice(&prev.to_le_bytes());
        record[16] = self.info;
        record[17] = self.rmid;
        if self.len > RECORD_HEADER_LEN {
            // Main data of a length that one byte says.
            record.extend([255, (self.len - RECORD_HEADER_LEN - 2) as u8]);
            record.resize(self.len, self.fill);
        }
        let crc = RecordHeader::checksum(&record);
        record[20..24].copy_from_slice(&crc.to_le_bytes());
        record
    }
}

/// A segment of timeline 1 with one page of records. The rest is zeros.
pub(crate) fn segment(number: u64, records: &[Record]) -> Vec<u8> {
    let (mut bytes, _) = first_page(number, records);
    bytes.resize(SIZE, 0);
    bytes
}

/// A segment with one more record, which goes on in the next segment. It is filled with this up to an offset, behind which
/// there are zeros: so much a standby was sent.
pub(crate) fn going_on(number: u64, records: &[Record], fill: u8, sent: usize) -> Vec<u8> {
    const LEN: usize = 2 * SIZE;
    /// Of main data, with a length of four bytes (XLR_BLOCK_ID_DATA_LONG in access/xlogrecord.h, 18).
    const DATA_LONG: u8 = 254;
    /// XLP_FIRST_IS_CONTRECORD in access/xlog_internal.h, 18.
    const CONTINUED: u16 = 1;
    let (mut bytes, prev) = first_page(number, records);
    let mut record = vec![0; RECORD_HEADER_LEN];
    record[0..4].copy_from_slice(&(LEN as u32).to_le_bytes());
    record[8..16].copy_from_slice(&prev.to_le_bytes());
    record[17] = rmgr_id::HEAP;
    record.push(DATA_LONG);
    record.extend(((LEN - RECORD_HEADER_LEN - 5) as u32).to_le_bytes());
    record.resize(LEN, fill);
    let mut left = &record[..];
    while bytes.len() < SIZE {
        if bytes.len().is_multiple_of(PAGE_SIZE) {
            let header = PageHeader {
                magic: 0xD110,
                flags: CONTINUED,
                timeline: 1,
                address: number * SIZE as u64 + bytes.len() as u64,
                remaining_len: left.len() as u32,
            };
            bytes.extend(header.to_bytes());
        }
        let (here, rest) = left.split_at(PAGE_SIZE - bytes.len() % PAGE_SIZE);
        bytes.extend_from_slice(here);
        left = rest;
    }
    bytes[sent..].fill(0);
    bytes
}

/// What a segment begins with, and the position of its last record.
fn first_page(number: u64, records: &[Record]) -> (Vec<u8>, u64) {
    let start = number * SIZE as u64;
    let header = PageHeader {
        magic: 0xD110,
        flags: LONG_HEADER,
        timeline: 1,
        address: start,
        remaining_len: 0,
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend(CLUSTER.system_id.to_le_bytes());
    bytes.extend((SIZE as u32).to_le_bytes());
    bytes.extend((PAGE_SIZE as u32).to_le_bytes());
    let mut prev = 0;
    for record in records {
        let lsn = start + bytes.len() as u64;
        bytes.extend(record.bytes(prev));
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        prev = lsn;
    }
    (bytes, prev)
}
