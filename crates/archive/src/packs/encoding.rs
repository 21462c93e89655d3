//! A pack of segments that are objects of their own.

use std::path::Path;

use bytes::Bytes;
use walzip_codec::{EncodeError, HistoryEncoder, Level};
use walzip_repo::{PackName, Repository};

use super::format::{EncodedMember, PackBuilder};
use super::plan::{Candidate, LEAST_SEGMENTS};
use super::scratch::Scratch;
use crate::coding::{self, Beginning, off_the_runtime};
use crate::error::ArchiveError;
use crate::wal_object;

/// A pack that is not stored yet.
pub(super) struct EncodedPack {
    pub(super) name: PackName,
    /// In pieces.
    pub(super) object: Vec<Bytes>,
}

/// Encodes segments, as many from the first one on as a pack can hold. Nothing if they are too few,
/// or if one is gone: it expired, was set aside, or somebody else has packed it.
pub(super) async fn encode(
    part: &Repository,
    candidates: &[Candidate],
    level: Level,
    scratch: &Path,
) -> Result<Option<EncodedPack>, ArchiveError> {
    let mut building = Building::new(level, scratch);
    for candidate in candidates {
        let name = &candidate.name;
        let Some(object) = part.get_wal(name).await? else {
            return Ok(None);
        };
        let segment = coding::decode(name, object).await?;
        let beginning = Beginning::of(&segment);
        wal_object::prove_beginning(name, &beginning, part.cluster())?;
        let alone = candidate.stored_bytes;
        let (after, fitted) = building.add(name, segment, alone).await?;
        building = after;
        if !fitted {
            break;
        }
    }
    let count = building.pack.members().len();
    let packed = candidates.get(..count).unwrap_or_default();
    let newest = packed.iter().map(|candidate| candidate.archived).max();
    let (Some(first), Some(newest)) = (packed.first(), newest) else {
        return Ok(None);
    };
    if count < LEAST_SEGMENTS {
        return Ok(None);
    }
    let name = PackName::new(&first.name, count, newest)?;
    let Building { encoder, pack, .. } = building;
    let finish = move || {
        // Its memory goes before the whole pack takes more.
        drop(encoder);
        pack.finish()
    };
    let object = off_the_runtime(finish).await;
    let object = object.map_err(|error| ArchiveError::file("read", scratch, error))?;
    Ok(Some(EncodedPack { name, object }))
}

/// After this number of segments that were told from those before them, the next one may begin anew.
/// Images come back with the next checkpoint: a history is worth nothing before that, and these are 2 GiB.
const ANEW_AFTER: usize = 128;
/// It does so where its own object takes less than this, in percent of what it takes otherwise: it can be
/// decoded sooner then, and damage before it does not concern it.
const ANEW_PERCENT_MAX: u64 = 120;

struct Building {
    level: Level,
    encoder: HistoryEncoder,
    /// Segments that this encoder has encoded.
    count: usize,
    pack: PackBuilder,
}

impl Building {
    fn new(level: Level, scratch: &Path) -> Building {
        Building {
            level,
            encoder: HistoryEncoder::new(level),
            count: 0,
            pack: PackBuilder::new(Scratch::new(scratch)),
        }
    }

    /// Says whether the segment found room. Its own object has so many bytes.
    async fn add(
        mut self,
        name: &str,
        segment: Vec<u8>,
        alone: u64,
    ) -> Result<(Building, bool), ArchiveError> {
        let name = name.to_owned();
        off_the_runtime(move || {
            let encoded = self.encode(&segment, alone);
            let member = encoded.map_err(|source| ArchiveError::Encode {
                name: name.clone(),
                source,
            })?;
            let fitted = self.pack.push(&name, &segment, member);
            Ok((self, fitted))
        })
        .await
    }

    fn encode(&mut self, segment: &[u8], alone: u64) -> Result<EncodedMember, EncodeError> {
        let mut bytes = self.encoder.encode(segment)?;
        self.count += 1;
        let may_begin = self.count > ANEW_AFTER && (self.count - 1).is_multiple_of(ANEW_AFTER);
        if may_begin && alone * 100 < bytes.len() as u64 * ANEW_PERCENT_MAX {
            // Two histories at a time would be too much memory.
            self.encoder = HistoryEncoder::new(self.level);
            bytes = self.encoder.encode(segment)?;
            self.count = 1;
        }
        Ok(EncodedMember {
            bytes,
            begins_anew: self.count == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the segments that begin anew, of 258 of which each takes so many bytes by itself.
    fn begins_anew(alone: u64) -> Vec<usize> {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let mut building = Building::new(Level::default(), scratch.path());
        let begins = |number: &usize| {
            let segment = vec![*number as u8; 1000];
            let encoded = building.encode(&segment, alone).expect("encoded");
            encoded.begins_anew
        };
        (1..=258).filter(begins).collect()
    }

    #[test]
    fn a_segment_begins_anew_only_where_its_own_object_is_not_much_longer() {
        assert_eq!(begins_anew(1 << 20), [1]);
        assert_eq!(begins_anew(1), [1, 129, 257]);
    }
}
