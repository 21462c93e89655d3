//! A pack of segments that are objects of their own.

use walzip_codec::{HistoryEncoder, Level};
use walzip_repo::{PackName, Repository};

use super::format::PackBuilder;
use super::plan::{Candidate, LEAST_SEGMENTS};
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
) -> Result<Option<EncodedPack>, ArchiveError> {
    let mut building = Building {
        encoder: HistoryEncoder::new(level),
        pack: PackBuilder::new(),
    };
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
    Ok(Some(EncodedPack {
        name: PackName::new(&first.name, count, newest)?,
        object: off_the_runtime(move || building.pack.finish()).await,
    }))
}

struct Building {
    encoder: HistoryEncoder,
    pack: PackBuilder,
}

impl Building {
    /// Says whether the segment found room.
    async fn add(mut self, name: &str, segment: Vec<u8>) -> Result<(Building, bool), ArchiveError> {
        let name = name.to_owned();
        off_the_runtime(move || {
            let encoded = self.encoder.encode(&segment);
            let member = encoded.map_err(|source| ArchiveError::Encode {
                name: name.clone(),
                source,
            })?;
            let fitted = self.pack.push(&name, &segment, &member);
            Ok((self, fitted))
        })
        .await
    }
}
