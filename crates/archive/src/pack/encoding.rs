//! A pack of segments that are objects of their own.

use std::collections::BTreeSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use bytes::Bytes;
use walzip_codec::{EncodeError, HistoryEncoder, Level};
use walzip_repo::{PackName, Repository};

use crate::archived::settling::OwnPack;
use crate::archived::wal_object;
use crate::coding::{self, Beginning, off_the_runtime};
use crate::error::ArchiveError;
use crate::pack::plan::{Candidate, LEAST_SEGMENTS};
use crate::packs::format::{EncodedMember, PackBuilder, read_index};
use crate::packs::reading::Decoding;
use crate::packs::scratch::Scratch;
#[cfg(test)]
use crate::packs::testing;
use crate::wal::segment_times::SegmentTimes;

/// A pack that is not stored yet, of which every segment was decoded and compared.
pub(super) struct EncodedPack {
    pub(super) name: PackName,
    /// In pieces.
    pub(super) object: Vec<Bytes>,
    /// By which it is known again.
    pub(super) own: OwnPack,
}

/// Encodes segments, as many from the first one on as a pack can hold. Nothing if they are too few,
/// or if one is gone: it expired, was set aside, or somebody else has packed it.
///
/// All of it is decoded then, as a reader does. A segment that does not come back is encoded without those before
/// it in another attempt.
pub(super) async fn encode(
    part: &Repository,
    candidates: &[Candidate],
    level: Level,
    scratch: &Path,
) -> Result<Option<EncodedPack>, ArchiveError> {
    let mut alone = Alone::default();
    loop {
        let building = Building::new(level, scratch, alone.clone());
        let Some((name, building)) = encode_once(part, candidates, building).await? else {
            return Ok(None);
        };
        let Building { pack, objects, .. } = building;
        let proven = off_the_runtime(move || {
            let unproven = first_unproven(&pack, &name)?;
            Ok((name, pack, unproven))
        });
        let proven = proven.await;
        let failed = |error| ArchiveError::file("read", scratch, error);
        let (name, pack, unproven) = proven.map_err(failed)?;
        let Some(unproven) = unproven else {
            let object = off_the_runtime(move || pack.finish()).await;
            return EncodedPack::new(name, object.map_err(failed)?, objects).map(Some);
        };
        let segment = name.segment(unproven).unwrap_or_default();
        tracing::warn!("{segment} does not come back out of pack {name}: it is encoded by itself");
        if !alone.add(unproven) {
            return Err(ArchiveError::Encode {
                name: segment,
                source: EncodeError::NotProven,
            });
        }
    }
}

impl EncodedPack {
    fn new(
        name: PackName,
        object: Vec<Bytes>,
        objects: Vec<[u8; 32]>,
    ) -> Result<EncodedPack, ArchiveError> {
        let size = object.iter().map(|piece| piece.len() as u64).sum();
        let end = object.last().map_or(&[][..], |end| end);
        let index = read_index(&name, size, end).map_err(|reason| {
            ArchiveError::Internal(format!("pack {name} cannot be read: {reason}"))
        })?;
        Ok(EncodedPack {
            name,
            object,
            own: OwnPack {
                index_hash: index.hash,
                objects,
            },
        })
    }
}

/// The number of the first segment that does not come back.
fn first_unproven(pack: &PackBuilder, name: &PackName) -> io::Result<Option<usize>> {
    let mut decoding = Decoding::default();
    for (number, member) in pack.members().iter().enumerate() {
        let bytes = pack.read(number)?;
        // After a panic nothing that it could leave half done is used again.
        let decoded = catch_unwind(AssertUnwindSafe(|| {
            decoding.decode(name, member, &bytes, &mut io::sink())
        }));
        if !matches!(decoded, Ok(Ok(()))) {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// Which segments are encoded without those before them, by their numbers in the pack.
#[derive(Clone, Debug, Default)]
struct Alone {
    numbers: BTreeSet<usize>,
}

/// When more segments than these have not come back, all that follow are encoded by themselves.
const UNPROVEN_MAX: usize = 4;

impl Alone {
    /// Adds one; says whether it was not among them.
    fn add(&mut self, number: usize) -> bool {
        !self.has(number) && self.numbers.insert(number)
    }

    fn has(&self, number: usize) -> bool {
        let are_many = self.numbers.len() > UNPROVEN_MAX;
        let is_after = self.numbers.last().is_some_and(|last| number > *last);
        self.numbers.contains(&number) || (are_many && is_after)
    }
}

/// Encodes segments, and proves nothing.
async fn encode_once(
    part: &Repository,
    candidates: &[Candidate],
    mut building: Building,
) -> Result<Option<(PackName, Building)>, ArchiveError> {
    for candidate in candidates {
        let name = &candidate.name;
        let Some(object) = part.get_wal(name).await? else {
            warn_of_gone(name);
            return Ok(None);
        };
        building.objects.push(blake3::hash(&object).into());
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
    // Its memory goes before a decoder takes as much.
    building.encoder = HistoryEncoder::new(building.level);
    let count = building.pack.members().len();
    let packed = candidates.get(..count).unwrap_or_default();
    let newest = packed.iter().map(|candidate| candidate.archived).max();
    let (Some(first), Some(newest)) = (packed.first(), newest) else {
        return Ok(None);
    };
    if count < LEAST_SEGMENTS {
        return Ok(None);
    }
    Ok(Some((PackName::new(&first.name, count, newest)?, building)))
}

/// That a segment is gone that was there when it was planned what to pack.
pub(super) fn warn_of_gone(name: &str) {
    tracing::warn!(
        "{name} and what follows it are not packed now: it has expired, was set aside, or was packed by another \
         walzip pack meanwhile"
    );
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
    /// BLAKE3 of the objects from which segments were taken.
    objects: Vec<[u8; 32]>,
    alone: Alone,
}

impl Building {
    fn new(level: Level, scratch: &Path, alone: Alone) -> Building {
        Building {
            level,
            encoder: HistoryEncoder::new(level),
            count: 0,
            pack: PackBuilder::new(Scratch::new(scratch)),
            objects: Vec::new(),
            alone,
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
            #[cfg(test)]
            let member = testing::encoded(&name, member);
            let times = SegmentTimes::of(&segment).in_brief();
            let fitted = self.pack.push(&name, (&segment, times), member);
            Ok((self, fitted))
        })
        .await
    }

    fn encode(&mut self, segment: &[u8], alone: u64) -> Result<EncodedMember, EncodeError> {
        if self.alone.has(self.pack.members().len()) {
            self.count = 1;
            return Ok(EncodedMember {
                bytes: self.encoder.encode_alone(segment)?,
                begins_anew: true,
            });
        }
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
    use crate::get::{GetOptions, Got, get};
    use crate::pack::pack;
    use crate::packs::testing::{DAMAGED, STUBBORN, archive, name, options, segment};

    /// Nothing is put that does not come back.
    #[tokio::test(start_paused = true)]
    async fn a_segment_that_does_not_come_back_is_encoded_by_itself() {
        let directory = tempfile::tempdir().expect("a directory");
        let repository = archive(directory.path(), DAMAGED - 3..DAMAGED + 3).await;
        let packed = pack(&repository, &options()).await.expect("packed");
        assert_eq!(packed[0].problems, []);
        assert_eq!(packed[0].packs[0].segments, 6);
        for number in DAMAGED - 3..DAMAGED + 3 {
            let single = repository.find_single(&name(number)).await;
            assert!(single.expect("asked").is_none());
            let destination = directory.path().join("RECOVERYXLOG");
            let options = GetOptions::default();
            let got = get(&repository, &name(number), &destination, &options).await;
            assert!(matches!(got.expect("got"), Got::Found { .. }));
            assert!(std::fs::read(&destination).expect("a file") == segment(number, 0));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn where_that_is_in_vain_all_stays_as_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let repository = archive(directory.path(), STUBBORN - 2..STUBBORN + 2).await;
        let packed = pack(&repository, &options()).await.expect("done");
        assert_eq!(packed[0].packs, []);
        assert_eq!(packed[0].problems.len(), 1);
        assert!(packed[0].problems[0].detail.contains(&name(STUBBORN)));
        let listing = repository.list_wal_objects().await.expect("listed");
        assert_eq!(listing.packs.len(), 0);
        assert_eq!(listing.entries().len(), 4);
    }

    #[test]
    fn after_many_failures_all_that_follow_are_encoded_by_themselves() {
        let mut alone = Alone::default();
        for number in [3, 5, 7, 9] {
            assert!(alone.add(number));
        }
        assert!(!alone.add(5) && !alone.has(10));
        assert!(alone.add(11));
        assert!(alone.has(12) && !alone.has(10) && !alone.add(12));
    }

    /// The numbers of the segments that begin anew, of 258 of which each takes so many bytes by itself.
    fn begins_anew(alone: u64) -> Vec<usize> {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let mut building = Building::new(Level::default(), scratch.path(), Alone::default());
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
