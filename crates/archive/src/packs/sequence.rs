//! One segment of a pack: whoever asks for it may have asked for the one before.
//!
//! A decoder takes hundreds of megabytes, and a segment needs all before it in the pack. So the
//! process keeps the decoder of the pack that was read last, and goes on with it where it can. There is
//! one at a time; others wait for it. Who fetches several segments at a time may come to a later one
//! first: the last few that were passed over are kept too.

use std::io::Write;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::packs::format::Member;
use crate::packs::reading::{Decoding, PackReader, Undecoded, check_bytes, is_damage};

/// So many segments that were passed over are kept, unless they have more bytes.
const PASSED_MAX: usize = 4;
const PASSED_BYTES_MAX: usize = 64 << 20;

/// How to go past what lies before a segment in its pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// Only what the segments after it need is made.
    Passed,
    /// Each segment is made and compared with its hash, as the proof of the pack did. It takes longer.
    Decoded,
}

/// The decoder of a pack, which is told by all that its index says.
#[derive(Debug, Default)]
struct Sequence {
    pack: [u8; 32],
    decoding: Decoding,
    /// Segments that nobody has asked for yet, with their numbers in the pack.
    passed: Vec<(usize, Bytes)>,
}

type Slot = Option<Sequence>;

static LAST: LazyLock<Arc<Mutex<Slot>>> = LazyLock::new(Arc::default);

/// A segment of a pack before which everything was decoded.
#[derive(Debug)]
pub(crate) struct ReadySegment {
    slot: OwnedMutexGuard<Slot>,
    reader: PackReader,
    index: usize,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// As it is stored: it is the one that is decoded next.
    Encoded(Bytes),
    /// It was passed over.
    Decoded(Bytes),
}

impl ReadySegment {
    /// Decodes what lies before a segment in its pack, unless that was done.
    pub(crate) async fn prepare(
        reader: PackReader,
        index: usize,
        before: Before,
    ) -> Result<ReadySegment, ArchiveError> {
        let mut slot = Arc::clone(&LAST).lock_owned().await;
        // Taken out: after a failure there is none.
        let last = slot.take().filter(|last| last.pack == reader.hash());
        let last = last.filter(|_| before == Before::Passed);
        let mut last = last.unwrap_or_default();
        let passed = last.passed.iter().position(|(at, _)| *at == index);
        let content = match passed {
            Some(at) => Content::Decoded(last.passed.remove(at).1),
            None => {
                let begins = reader
                    .members()
                    .get(index)
                    .map_or(0, |member| member.begins);
                if last.decoding.next > index || last.decoding.next < begins {
                    last = Sequence {
                        decoding: Decoding::at(begins),
                        ..Sequence::default()
                    };
                }
                while last.decoding.next < index {
                    let skipped = skip(&reader, last, index, before).await;
                    last = skipped.map_err(|error| needs(&reader, index, error))?;
                }
                let read = reader.read(index..index + 1).await?.into_iter().next();
                let member = reader.members().get(index).zip(read);
                let (member, read) = member.ok_or_else(|| missing(&reader, index))?;
                // Another pack may have it too.
                check_bytes(reader.name(), member, &read)?;
                Content::Encoded(read)
            }
        };
        last.pack = reader.hash();
        *slot = Some(last);
        Ok(ReadySegment {
            slot,
            reader,
            index,
            content,
        })
    }

    fn member(&self) -> Option<&Member> {
        self.reader.members().get(self.index)
    }

    /// Its size as it is stored.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.member().map_or(0, |member| member.len)
    }

    /// How many segments follow it in its pack.
    pub(crate) fn following(&self) -> usize {
        let count = self.reader.members().len();
        count.saturating_sub(self.index + 1)
    }

    /// Decodes it.
    pub(crate) fn decode_to(mut self, output: &mut dyn Write) -> Result<(), Undecoded> {
        let bytes = match &self.content {
            Content::Decoded(segment) => {
                return output.write_all(segment).map_err(Undecoded::Write);
            }
            Content::Encoded(bytes) => bytes,
        };
        let (Some(mut last), Some(member)) = (self.slot.take(), self.member()) else {
            return Err(Undecoded::damaged(missing(&self.reader, self.index)));
        };
        last.decoding
            .decode(self.reader.name(), member, bytes, output)?;
        // Nothing follows the last one, and a service would keep the decoder's memory for ever.
        if last.decoding.next == self.reader.members().len() {
            last.decoding = Decoding::at(last.decoding.next);
        }
        *self.slot = Some(last);
        Ok(())
    }
}

/// The key says how many segments there are, and the index has as many.
fn missing(reader: &PackReader, index: usize) -> ArchiveError {
    ArchiveError::Internal(format!("pack {} has no segment {index}", reader.name()))
}

/// What is wrong with a segment is wrong with all that follow it.
fn needs(reader: &PackReader, index: usize, error: ArchiveError) -> ArchiveError {
    match reader.members().get(index) {
        _ if matches!(error, ArchiveError::PackGone(_)) => error,
        Some(member) if is_damage(&error) => ArchiveError::Damaged {
            object: member.name.clone(),
            reason: format!("it cannot be decoded, since {error}"),
        },
        _ => error,
    }
}

/// Decodes some segments before `index`, and keeps the last few.
async fn skip(
    reader: &PackReader,
    mut last: Sequence,
    index: usize,
    before: Before,
) -> Result<Sequence, ArchiveError> {
    let from = last.decoding.next;
    let read = reader.read(from..index).await?;
    let wanted: Range<usize> = from..from + read.len();
    let members = reader.members().get(wanted).unwrap_or_default().to_vec();
    let pack = reader.name().clone();
    off_the_runtime(move || {
        for (member, bytes) in members.iter().zip(&read) {
            let at = last.decoding.next;
            let is_kept = member.original_len <= PASSED_BYTES_MAX as u64;
            let is_wanted = is_kept && index - at <= PASSED_MAX;
            if !is_wanted && before == Before::Passed {
                last.decoding.pass(&pack, member, bytes)?;
                continue;
            }
            let (mut passed, mut nobody) = (Vec::new(), std::io::sink());
            let output: &mut dyn Write = if is_wanted { &mut passed } else { &mut nobody };
            let decoded = last.decoding.decode(&pack, member, bytes, output);
            decoded.map_err(|failed| failed.into_archive(&member.name))?;
            if is_wanted {
                last.keep(at, passed.into());
            }
        }
        Ok(last)
    })
    .await
}

impl Sequence {
    fn keep(&mut self, at: usize, segment: Bytes) {
        self.passed.push((at, segment));
        let too_many = |passed: &[(usize, Bytes)]| {
            let bytes: usize = passed.iter().map(|(_, segment)| segment.len()).sum();
            passed.len() > PASSED_MAX || bytes > PASSED_BYTES_MAX
        };
        while too_many(&self.passed) {
            self.passed.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::get::{GetOptions, Got, get};
    use crate::pack::pack;
    use crate::packs::testing::{Spoiling, archive, name, options, segment};

    /// A pack is proven by decoding it, and segments before the one that is asked for are passed. Where
    /// passing them does harm, it is decoded as it was proven.
    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_passed_is_decoded() {
        let directory = tempfile::tempdir().expect("a directory");
        let repository = archive(directory.path(), 1..9).await;
        pack(&repository, &options()).await.expect("packed");
        for spoiling in [Spoiling::Itself, Spoiling::Next, Spoiling::Nothing] {
            spoiling.set();
            let destination = directory.path().join("RECOVERYXLOG");
            let got = get(&repository, &name(8), &destination, &GetOptions::default()).await;
            assert!(matches!(got.expect("got"), Got::Found { .. }));
            assert!(std::fs::read(&destination).expect("a file") == segment(8, 0));
        }
    }
}
