//! How long a pack is there before the first of its segments' own objects goes.

use std::time::{Duration, Instant};

use walzip_repo::layout::PACK_SETTLED_SECONDS;

/// So long a pack is there before a segment that is in it is removed.
pub(crate) const SETTLED: Duration = Duration::from_secs(PACK_SETTLED_SECONDS);

/// Whether segments that were not packed at `looked` may have been removed by now.
pub(crate) fn is_long_ago(looked: Instant) -> bool {
    looked.elapsed() >= SETTLED / 2
}
