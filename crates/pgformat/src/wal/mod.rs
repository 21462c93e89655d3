//! The write-ahead log: pages, and the records that run across them.
//!
//! A segment file is a sequence of 8 KiB pages. Each begins with a header; what is left of
//! the pages, put together, is one stream of records aligned to 8 bytes. A record that does
//! not fit goes on behind the header of the next page, be it in the next file.
//! (src/include/access/xlog_internal.h, xlogrecord.h; PostgreSQL 13 to 19.)

mod backup_mark;
mod checksum;
mod database_records;
mod page_header;
mod reader;
mod record;
mod records;
mod segment_edges;
mod segment_header;
mod telling_records;
mod timed_record;
mod unbroken_records;
mod writer;

pub use backup_mark::BackupMark;
pub use database_records::{
    DatabaseDirectory, DirectoryCopy, changed_directories, committed_transactions,
    dropped_directories, made_directory, made_initial_fork,
};
pub use page_header::{FIRST_IS_CONTRECORD, LONG_HEADER, PageHeader};
pub use reader::{Event, PageState, SegmentReader};
pub use record::{
    Block, Compression, IMAGE_HAS_HOLE, Image, RECORD_HEADER_LEN, RecordError, RecordHeader,
    RecordLayout, RelFileLocator,
};
pub use records::{ReadRecord, Records, RecordsError};
pub use segment_edges::{Discontinuity, EdgeReader, SegmentBegin, SegmentEdges, SegmentEnd};
pub use segment_header::{SegmentHeader, SegmentHeaderError, is_segment_size};
pub use telling_records::{TablespaceCreation, TellingRecords, Told};
pub use timed_record::{TimedRecord, UnixMicros};
pub use unbroken_records::{BrokenRecords, UnbrokenRecords, is_switch};
pub use writer::SegmentWriter;

/// Rounds up to the alignment of records and tuples (`MAXALIGN`).
pub const fn max_align(len: usize) -> usize {
    (len + 7) & !7
}
