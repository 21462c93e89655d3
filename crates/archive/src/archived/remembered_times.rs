//! What single segments say of time, remembered: a service asks for the same ones again with each measurement, and one
//! in a pack takes as long to decode as all before it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::{ClusterIdentity, Repository};

use crate::archived::wal_times::SegmentTimes;
use crate::error::ArchiveError;

/// How many segments are remembered: a few of each timeline are asked for.
const REMEMBERED_MAX: usize = 32;

/// A segment as it was stored. Under the same name another one may be stored, when that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    repository_created: Timestamp,
    cluster: ClusterIdentity,
    segment: SegmentName,
    stored: Timestamp,
}

/// The last one that was asked for at the end.
static REMEMBERED: Mutex<VecDeque<(Key, Arc<SegmentTimes>)>> = Mutex::new(VecDeque::new());

/// Reads an archived segment that was stored at a time, or remembers it.
pub(crate) async fn times(
    repository: &Repository,
    segment: SegmentName,
    stored: Option<Timestamp>,
) -> Result<Arc<SegmentTimes>, ArchiveError> {
    let Some(stored) = stored else {
        return Ok(Arc::new(SegmentTimes::read(repository, segment).await?));
    };
    let key = Key {
        repository_created: repository.created(),
        cluster: repository.cluster(),
        segment,
        stored,
    };
    if let Some(times) = remembered(&key) {
        return Ok(times);
    }
    let times = Arc::new(SegmentTimes::read(repository, segment).await?);
    remember(key, Arc::clone(&times));
    Ok(times)
}

fn remembered(key: &Key) -> Option<Arc<SegmentTimes>> {
    let mut all = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner);
    let at = all.iter().position(|(of, _)| of == key)?;
    let found = all.remove(at)?;
    let times = Arc::clone(&found.1);
    all.push_back(found);
    Some(times)
}

fn remember(key: Key, times: Arc<SegmentTimes>) {
    let mut all = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() >= REMEMBERED_MAX {
        all.pop_front();
    }
    all.push_back((key, times));
}

#[cfg(test)]
mod tests {
    use super::*;
    use walzip_pgformat::{Lsn, TimelineId};

    fn key(position: u32, stored: i64) -> Key {
        Key {
            repository_created: Timestamp::UNIX_EPOCH,
            cluster: ClusterIdentity {
                system_id: 7,
                major: 15,
            },
            segment: SegmentName::from_lsn(TimelineId(1), Lsn(u64::from(position) << 24), 1 << 24)
                .expect("a segment"),
            stored: Timestamp::from_second(stored).expect("a time"),
        }
    }

    #[test]
    fn what_was_asked_for_last_is_remembered_as_it_was_stored() {
        let times = || Arc::new(SegmentTimes::default());
        remember(key(0, 5), times());
        assert!(remembered(&key(0, 5)).is_some());
        assert!(remembered(&key(0, 6)).is_none(), "stored again");
        for position in 1..=REMEMBERED_MAX as u32 {
            assert!(remembered(&key(0, 5)).is_some(), "asked for again");
            remember(key(position, 5), times());
        }
        assert!(remembered(&key(1, 5)).is_none(), "the oldest one");
        assert!(remembered(&key(0, 5)).is_some());
    }
}
