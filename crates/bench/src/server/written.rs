//! What a server wrote into its WAL between two positions.

use std::fs;
use std::ops::{AddAssign, Range};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use walzip_pgformat::wal::{RecordLayout, Records};
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_pgformat::{Lsn, TimelineId, rmgr_id};

use super::Server;
use crate::error::Error;

/// `XLOG_CHECKPOINT_ONLINE`.
const CHECKPOINT_ONLINE: u8 = 0x10;

/// What is in a stretch of WAL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Written {
    /// From the first position to the last.
    pub bytes: u64,
    /// Records.
    pub records: u64,
    /// Their bytes.
    pub record_bytes: u64,
    /// Full-page images.
    pub images: u64,
    /// Their bytes as they stand, compressed or not.
    pub image_bytes: u64,
    /// Checkpoints that were finished.
    pub checkpoints: u64,
}

impl Written {
    /// How much of the records' bytes are full-page images.
    pub fn image_share(&self) -> f64 {
        self.image_bytes as f64 / self.record_bytes.max(1) as f64
    }

    fn add(&mut self, layout: &RecordLayout) {
        self.records += 1;
        self.record_bytes += u64::from(layout.header.total_len);
        for image in layout
            .blocks
            .iter()
            .filter_map(|block| block.image.as_ref())
        {
            self.images += 1;
            self.image_bytes += u64::from(image.len);
        }
        let kind = (layout.header.rmid, layout.header.info & 0xF0);
        if kind == (rmgr_id::XLOG, CHECKPOINT_ONLINE) {
            self.checkpoints += 1;
        }
    }
}

impl AddAssign for Written {
    fn add_assign(&mut self, other: Written) {
        self.bytes += other.bytes;
        self.records += other.records;
        self.record_bytes += other.record_bytes;
        self.images += other.images;
        self.image_bytes += other.image_bytes;
        self.checkpoints += other.checkpoints;
    }
}

impl Server {
    /// What is in the WAL between two positions, all of which the server must still have.
    pub fn written(&self, range: Range<u64>) -> Result<Written, Error> {
        let mut written = Written {
            bytes: range.end.saturating_sub(range.start),
            ..Written::default()
        };
        let mut records = Records::default();
        let size = self.segment_bytes();
        for number in range.start / size..=range.end / size {
            let (name, path) = self.segment(number)?;
            // The last position may be the end of a segment behind which there is none yet.
            if number * size == range.end && !path.exists() {
                continue;
            }
            let segment = fs::read(&path).map_err(|source| Error::file(&path, source))?;
            let read = records.read(&segment, |record| {
                if range.contains(&record.lsn.0) {
                    written.add(record.layout);
                }
            });
            read.map_err(|error| Error::Server {
                doing: format!("read segment {name}"),
                reason: error.to_string(),
            })?;
        }
        Ok(written)
    }

    /// How large a segment is.
    pub fn segment_bytes(&self) -> u64 {
        u64::from(self.settings().segment_megabytes) << 20
    }

    /// The segments that lie wholly between two positions: their numbers.
    pub fn whole_segments(&self, range: Range<u64>) -> Range<u64> {
        let size = self.segment_bytes();
        range.start.div_ceil(size)..range.end / size
    }

    /// A segment's name and where the server has it.
    pub fn segment(&self, number: u64) -> Result<(String, PathBuf), Error> {
        let size = self.segment_bytes();
        let name = SegmentName::from_lsn(TimelineId(1), Lsn(number * size), size as u32);
        let name = name
            .map_err(|error| Error::Usage(error.to_string()))?
            .to_string();
        let path = self.data().join("pg_wal").join(&name);
        Ok((name, path))
    }

    /// Ends the current segment, so that what comes next begins with a new one.
    pub fn switch_segment(&self) -> Result<(), Error> {
        // A segment that nothing was written to is not switched.
        self.sql("SELECT pg_create_restore_point('end'); SELECT pg_switch_wal()")?;
        Ok(())
    }
}
