//! What the WAL itself tells: its contents, how its segments ended, when transactions
//! committed, and what checkpoints cost.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde::Serialize;
use walzip_pgformat::rmgr_id;
use walzip_pgformat::wal::{Event, RecordLayout, SegmentHeader, SegmentReader};

use super::stretch::{Moment, Stretch, Touch, Walk};
use crate::cancel::Cancel;
use crate::contents::Contents;
use crate::error::Error;
use crate::input::{is_segment_name, segment_name};
use crate::record_facts::{first_number, is, is_checkpoint, is_end_of_transaction};

/// Of the resource manager XLOG.
const SWITCH: u8 = 0x40;

/// What was found in all segments that were looked at.
#[derive(Debug, Default, Serialize)]
pub struct WalSurvey {
    /// How many WAL segments.
    pub segments: usize,
    /// How many files are none.
    pub not_segments: usize,
    /// Bytes of the segments.
    pub bytes: u64,
    /// The majors that wrote them.
    pub majors: BTreeSet<u32>,
    /// The clusters that wrote them.
    pub clusters: BTreeSet<String>,
    /// The size of a segment; of the last, when they differ.
    pub segment_size_bytes: u64,
    /// How many were ended before they were full: by archive_timeout or by hand.
    pub switched: usize,
    /// Bytes that those left empty.
    pub switched_zero_bytes: u64,
    /// Where their bytes go.
    pub contents: Contents,
    /// The oldest and the newest end of a transaction.
    pub transactions: Option<(Moment, Moment)>,
    /// Segments that follow one another.
    pub stretches: Vec<Stretch>,
}

impl WalSurvey {
    /// Reads files in the order of their positions.
    pub(super) fn of(paths: &[PathBuf], cancel: &Cancel) -> Result<WalSurvey, Error> {
        let mut survey = WalSurvey::default();
        let mut walk = Walk::default();
        for path in paths {
            if cancel.is_requested() {
                return Err(Error::Interrupted);
            }
            match fs::read(path) {
                Ok(bytes) => survey.add(&segment_name(path), &bytes, &mut walk),
                // A server renames its segments when they are archived and old.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => return Err(Error::file(path, source)),
            }
        }
        survey.stretches = walk.finish();
        Ok(survey)
    }

    fn add(&mut self, name: &str, bytes: &[u8], walk: &mut Walk) {
        let Ok(header) = SegmentHeader::read(bytes) else {
            self.not_segments += 1;
            return;
        };
        if !is_at(name, &header) {
            return;
        }
        self.segments += 1;
        self.bytes += bytes.len() as u64;
        self.majors.insert(header.version.major);
        self.clusters.insert(header.system_id.to_string());
        self.segment_size_bytes = u64::from(header.segment_size);
        self.contents.add(bytes);
        walk.enter(&header);
        let Ok(mut reader) = SegmentReader::new(bytes) else {
            return;
        };
        let mut layout = RecordLayout::default();
        let mut switched = false;
        while let Some(event) = reader.next_event(&mut layout) {
            match event {
                Event::Record { lsn } => {
                    switched = is(&layout, rmgr_id::XLOG, SWITCH);
                    self.record(lsn.0, &layout, reader.bytes(), walk);
                }
                Event::Other { start, end } if switched && end >= bytes.len() => {
                    self.switched += 1;
                    self.switched_zero_bytes += (end - start) as u64;
                }
                _ => {}
            }
        }
    }

    fn record(&mut self, position: u64, layout: &RecordLayout, record: &[u8], walk: &mut Walk) {
        let number = first_number(layout, record);
        if is_checkpoint(layout) {
            walk.checkpoint(number);
        }
        if is_end_of_transaction(layout) {
            let microseconds = number.map(u64::cast_signed);
            self.transaction(position, microseconds.filter(|time| *time > 0), walk);
        }
        for block in &layout.blocks {
            if let Some(image) = &block.image {
                walk.image(Touch {
                    position,
                    page: (block.locator, block.fork(), block.number),
                    bytes: u32::from(image.len),
                });
            }
        }
    }

    fn transaction(&mut self, position: u64, microseconds: Option<i64>, walk: &mut Walk) {
        let Some(microseconds) = microseconds else {
            return;
        };
        let moment = Moment {
            position,
            microseconds,
        };
        walk.transaction(moment);
        let (first, last) = self.transactions.get_or_insert((moment, moment));
        if position < first.position {
            *first = moment;
        }
        if position > last.position {
            *last = moment;
        }
    }

    /// The share of the bytes that are page images.
    pub fn image_share(&self) -> f64 {
        self.contents.before.image_bytes as f64 / (self.bytes as f64).max(1.0)
    }

    /// The longest stretch of segments that follow one another.
    pub fn longest_stretch(&self) -> Option<&Stretch> {
        self.stretches.iter().max_by_key(|stretch| stretch.segments)
    }
}

/// Whether a segment is what its name says; one that was recycled meanwhile is not.
pub(super) fn is_at(name: &str, header: &SegmentHeader) -> bool {
    if !is_segment_name(name) {
        return true;
    }
    let parsed = name.parse::<walzip_pgformat::wal_file_name::SegmentName>();
    parsed.is_ok_and(|name| {
        name.start(header.segment_size)
            .is_ok_and(|start| start == header.start)
    })
}
