//! What archived segments say of time.

use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::Repository;

use crate::archived::stored_wal::StoredWal;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
pub(crate) use crate::wal::segment_times::{SegmentTimes, Timed, last_record, timestamp};

impl SegmentTimes {
    /// Decodes an archived segment and reads it.
    pub(crate) async fn read(
        repository: &Repository,
        segment: SegmentName,
    ) -> Result<SegmentTimes, ArchiveError> {
        let content = read_segment(repository, segment).await?;
        Ok(off_the_runtime(move || SegmentTimes::of(&content)).await)
    }
}

/// The content of an archived segment.
pub(crate) async fn read_segment(
    repository: &Repository,
    segment: SegmentName,
) -> Result<Vec<u8>, ArchiveError> {
    let name = segment.to_string();
    let Some(stored) = StoredWal::get(repository, &name).await? else {
        return Err(ArchiveError::Damaged {
            object: name,
            reason: "it disappeared while it was read".to_owned(),
        });
    };
    stored.content(&name).await
}
