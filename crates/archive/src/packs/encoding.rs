//! A pack of segments that are objects of their own.

use std::path::Path;

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
    pub(super) object: Vec<u8>,
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
        let (after, fitted) = building.add(name, segment).await?;
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

/// After this number of segments that were told from those before them, it is tried whether the next
/// one needs them. Images come back with the next checkpoint: a history is worth nothing before that,
/// and these are 2 GiB.
const TRIED_AFTER: usize = 128;
/// A segment begins anew if that takes less than this, in percent of what it takes otherwise: it can be
/// decoded sooner then, and damage before it does not concern it.
const ANEW_PERCENT_MAX: usize = 120;

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

    /// Says whether the segment found room.
    async fn add(mut self, name: &str, segment: Vec<u8>) -> Result<(Building, bool), ArchiveError> {
        let name = name.to_owned();
        off_the_runtime(move || {
            let encoded = self.encode(&segment);
            let member = encoded.map_err(|source| ArchiveError::Encode {
                name: name.clone(),
                source,
            })?;
            let fitted = self.pack.push(&name, &segment, member);
            Ok((self, fitted))
        })
        .await
    }

    fn encode(&mut self, segment: &[u8]) -> Result<EncodedMember, EncodeError> {
        let bytes = self.encoder.encode(segment)?;
        self.count += 1;
        if self.count > TRIED_AFTER && (self.count - 1).is_multiple_of(TRIED_AFTER) {
            let mut encoder = HistoryEncoder::new(self.level);
            let anew = encoder.encode(segment)?;
            if anew.len() * 100 < bytes.len() * ANEW_PERCENT_MAX {
                (self.encoder, self.count) = (encoder, 1);
                return Ok(EncodedMember {
                    bytes: anew,
                    begins_anew: true,
                });
            }
        }
        Ok(EncodedMember {
            bytes,
            begins_anew: self.count == 1,
        })
    }
}
