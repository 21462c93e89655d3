//! One segment of a pack: whoever asks for it may have asked for the one before.
//!
//! A decoder takes hundreds of megabytes, and a segment needs all before it in the pack. So the
//! process keeps the decoder of the pack that was read last, and goes on with it where it can. There is
//! one at a time; others wait for it.

use std::io::Write;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::format::Member;
use super::reading::{Decoding, PackReader, Undecoded, is_damage};
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;

/// The decoder of a pack, which is told by all that its index says.
#[derive(Debug)]
struct Sequence {
    pack: [u8; 32],
    decoding: Decoding,
}

type Slot = Option<Sequence>;

static LAST: LazyLock<Arc<Mutex<Slot>>> = LazyLock::new(Arc::default);

/// A segment of a pack before which everything was decoded.
#[derive(Debug)]
pub(crate) struct ReadySegment {
    slot: OwnedMutexGuard<Slot>,
    reader: PackReader,
    member: Member,
    bytes: Bytes,
}

impl ReadySegment {
    /// Decodes what lies before a segment in its pack, unless that was done.
    pub(crate) async fn prepare(
        reader: PackReader,
        index: usize,
    ) -> Result<ReadySegment, ArchiveError> {
        let mut slot = Arc::clone(&LAST).lock_owned().await;
        let goes_on = |last: &Sequence| last.pack == reader.hash() && last.decoding.next <= index;
        // Taken out: after a failure there is none.
        let mut decoding = match slot.take().filter(goes_on) {
            Some(last) => last.decoding,
            None => Decoding::default(),
        };
        while decoding.next < index {
            let skipped = skip(&reader, decoding, index).await;
            decoding = skipped.map_err(|error| before(&reader, index, error))?;
        }
        let bytes = reader.read(index..index + 1).await?;
        let member = reader.members().get(index).cloned();
        let (Some(bytes), Some(member)) = (bytes.into_iter().next(), member) else {
            return Err(ArchiveError::Internal(format!(
                "pack {} has no segment {index}",
                reader.name()
            )));
        };
        *slot = Some(Sequence {
            pack: reader.hash(),
            decoding,
        });
        Ok(ReadySegment {
            slot,
            reader,
            member,
            bytes,
        })
    }

    /// Its size as it is stored.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.member.len
    }

    /// BLAKE3 of the segment.
    pub(crate) fn hash(&self) -> [u8; 32] {
        self.member.original_hash
    }

    /// Decodes it.
    pub(crate) fn decode_to(mut self, output: &mut dyn Write) -> Result<(), Undecoded> {
        let Some(mut last) = self.slot.take() else {
            let message = "a prepared segment has no decoder".to_owned();
            return Err(Undecoded::Damaged(ArchiveError::Internal(message)));
        };
        let (pack, member) = (self.reader.name(), &self.member);
        last.decoding.decode(pack, member, &self.bytes, output)?;
        *self.slot = Some(last);
        Ok(())
    }
}

/// What is wrong with a segment is wrong with all that follow it.
fn before(reader: &PackReader, index: usize, error: ArchiveError) -> ArchiveError {
    match reader.members().get(index) {
        Some(member) if is_damage(&error) => ArchiveError::Damaged {
            object: member.name.clone(),
            reason: format!("it cannot be decoded, since {error}"),
        },
        _ => error,
    }
}

/// Decodes some segments before `index` into nothing.
async fn skip(
    reader: &PackReader,
    mut decoding: Decoding,
    index: usize,
) -> Result<Decoding, ArchiveError> {
    let from = decoding.next;
    let read = reader.read(from..index).await?;
    let wanted: Range<usize> = from..from + read.len();
    let members = reader.members().get(wanted).unwrap_or_default().to_vec();
    let pack = reader.name().clone();
    off_the_runtime(move || {
        for (member, bytes) in members.iter().zip(&read) {
            let decoded = decoding.decode(&pack, member, bytes, &mut std::io::sink());
            decoded.map_err(|failed| failed.into_archive(&member.name))?;
        }
        Ok(decoding)
    })
    .await
}
