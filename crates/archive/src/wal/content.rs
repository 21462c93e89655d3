//! Whether the content of a WAL file belongs under its name, in this repository.
//!
//! A segment says in its first page which cluster wrote it and which position it starts at, so
//! a file that was never written, was recycled, or is another cluster's is found out. Histories
//! are text and do not say whose they are: push looks at the data directory that they are from.
//! What PostgreSQL has written into them is kept whatever it is: a refusal
//! would be repeated for ever, and no WAL after it would be archived.

use walzip_pgformat::wal::{SegmentHeader, SegmentHeaderError};
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName, WalFileNameError};
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::ClusterIdentity;

/// How the content of a file contradicts its name or its key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContentError {
    #[error("not a WAL segment: {0}")]
    Header(#[from] SegmentHeaderError),
    #[error("written by {0}")]
    Cluster(ClusterIdentity),
    #[error(transparent)]
    Name(#[from] WalFileNameError),
    #[error("the segment has {len} bytes, segments of this cluster have {segment_size}")]
    Size { len: usize, segment_size: u32 },
    #[error("the name says position {named}, the content starts at {found}")]
    Position { named: Lsn, found: Lsn },
    #[error("the name says timeline {named}, the content is of timeline {found}")]
    Timeline {
        named: TimelineId,
        found: TimelineId,
    },
    #[error("the file is empty")]
    Empty,
}

/// The cluster whose segment this is, if it is one.
pub(crate) fn cluster_of_segment(beginning: &[u8]) -> Option<ClusterIdentity> {
    let header = SegmentHeader::read(beginning).ok()?;
    Some(cluster_of(&header))
}

fn cluster_of(header: &SegmentHeader) -> ClusterIdentity {
    ClusterIdentity {
        system_id: header.system_id.0,
        major: header.version.major,
    }
}

/// Checks content against the name that PostgreSQL gave it and the repository's cluster.
pub(crate) fn check(
    name: &WalFileName,
    content: &[u8],
    cluster: ClusterIdentity,
) -> Result<(), ContentError> {
    check_beginning(name, content, content.len(), cluster)
}

/// [`check`] for content that has `len` bytes and begins with these, a page at least.
pub(crate) fn check_beginning(
    name: &WalFileName,
    beginning: &[u8],
    len: usize,
    cluster: ClusterIdentity,
) -> Result<(), ContentError> {
    match name {
        WalFileName::Segment(segment) | WalFileName::Partial(segment) => {
            check_segment(*segment, beginning, len, cluster)
        }
        WalFileName::History(_) | WalFileName::BackupHistory { .. } if len == 0 => {
            Err(ContentError::Empty)
        }
        WalFileName::History(_) | WalFileName::BackupHistory { .. } => Ok(()),
    }
}

fn check_segment(
    name: SegmentName,
    beginning: &[u8],
    len: usize,
    cluster: ClusterIdentity,
) -> Result<(), ContentError> {
    let header = SegmentHeader::read(beginning)?;
    let found = cluster_of(&header);
    if found != cluster {
        return Err(ContentError::Cluster(found));
    }
    if len != header.segment_size as usize {
        return Err(ContentError::Size {
            len,
            segment_size: header.segment_size,
        });
    }
    let named = name.start(header.segment_size)?;
    if named != header.start {
        return Err(ContentError::Position {
            named,
            found: header.start,
        });
    }
    // A timeline's first segment begins with a copy of what its parent wrote, so the first page
    // may be of an older timeline, never of a newer one.
    if header.timeline > name.timeline {
        return Err(ContentError::Timeline {
            named: name.timeline,
            found: header.timeline,
        });
    }
    Ok(())
}
