//! A data directory that has come further than the archived WAL leads.

use std::collections::BTreeSet;
use std::path::Path;

use walzip_pgformat::Lsn;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};

use super::wal_files::files_of;
use crate::cluster;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::wal::wal_end::WalEnd;

/// Refuses it where the WAL between is not in `pg_wal` either: it was written while nobody archived. A server that was shut
/// down has come to its last checkpoint.
pub(super) async fn refuse(data: &Path, end: &WalEnd) -> Result<(), ArchiveError> {
    let control_file = cluster::read_control_file(data).await?;
    let at = control_file.checkpoint.max(control_file.min_recovery);
    let size = control_file.segment_size_bytes;
    // A standby has come to the end of a record, and where that is the end of a segment, no byte of the next.
    let number_of = |position: Lsn| position.0.saturating_sub(1) / u64::from(size);
    let archived = end
        .segment
        .as_ref()
        .and_then(|name| name.parse::<SegmentName>().ok());
    let last = archived.and_then(|segment| segment.number(size).ok());
    let last = last.unwrap_or(number_of(end.last_record));
    let directory = data.join("pg_wal");
    let files = off_the_runtime(move || files_of(&directory)).await?;
    let there: BTreeSet<u64> = files
        .iter()
        .filter_map(|file| match file.name {
            WalFileName::Segment(name) => name.number(size).ok(),
            _ => None,
        })
        .collect();
    // Between the two there may be any number of segments: the first and the last tell.
    let until = number_of(at);
    let is_nowhere = |number: u64| !there.contains(&number);
    match until > last && (is_nowhere(last + 1) || is_nowhere(until)) {
        true => Err(ArchiveError::DirectoryAhead {
            path: data.to_owned(),
            at,
            end: Box::new(end.clone()),
        }),
        false => Ok(()),
    }
}
