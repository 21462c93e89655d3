//! A data directory that has come further than the archived WAL leads.

use std::collections::BTreeSet;
use std::path::Path;

use walzip_pgformat::Lsn;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_repo::Repository;

use super::wal_files::files_of;
use crate::archived::stored_wal::StoredWal;
use crate::cluster;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::wal::replayed::end_of_records;
use crate::wal::wal_end::WalEnd;

/// Refuses it where the WAL between is not in `pg_wal` either: it was written while nobody archived. A server that was shut
/// down has come to its last checkpoint.
pub(super) async fn refuse(
    repository: &Repository,
    data: &Path,
    end: &WalEnd,
) -> Result<(), ArchiveError> {
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
    let until = number_of(at);
    if until < last {
        return Ok(());
    }
    let directory = data.join("pg_wal");
    let files = off_the_runtime(move || files_of(&directory)).await?;
    let there: BTreeSet<u64> = files
        .iter()
        .filter_map(|file| match file.name {
            WalFileName::Segment(name) => name.number(size).ok(),
            _ => None,
        })
        .collect();
    let is_nowhere = |number: u64| !there.contains(&number);
    let is_ahead = match archived {
        // Of a segment that is there too it is known what is archived.
        Some(archived) if until == last => {
            is_nowhere(last) && is_shorter(repository, archived, at).await?
        }
        // Between the two there may be any number of segments: the first and the last tell.
        _ => until > last && (is_nowhere(last + 1) || is_nowhere(until)),
    };
    match is_ahead {
        true => Err(ArchiveError::DirectoryAhead {
            path: data.to_owned(),
            at,
            end: Box::new(end.clone()),
        }),
        false => Ok(()),
    }
}

/// Whether the records of an archived segment end before a position in it.
async fn is_shorter(
    repository: &Repository,
    segment: SegmentName,
    at: Lsn,
) -> Result<bool, ArchiveError> {
    let name = segment.to_string();
    let Some(stored) = StoredWal::get(repository, &name).await? else {
        return Ok(true);
    };
    let content = stored.content(&name).await?;
    let start = segment.start(u32::try_from(content.len()).unwrap_or(u32::MAX))?;
    let end = off_the_runtime(move || {
        let end = end_of_records(&content);
        // After a switch nothing comes in the segment.
        end.map_or(0, |end| {
            if end.is_switch {
                content.len()
            } else {
                end.offset
            }
        })
    })
    .await;
    // PostgreSQL counts from where the next record would begin.
    Ok(Lsn((start.0 + end as u64).next_multiple_of(8)) < at)
}
