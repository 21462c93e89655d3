//! A pack in a store: its index, and its segments in their order.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::ops::Range;

use bytes::Bytes;
use walzip_codec::{DecodeToError, HistoryDecoder};
use walzip_pgformat::Lsn;
use walzip_pgformat::wal::SegmentEdges;
use walzip_repo::{PackName, RepoError, WalPack, WalPacks};

use crate::coding::pack_header::{self, Content, HEADER_LEN};
use crate::coding::{self, Beginning, Proof, off_the_runtime};
use crate::error::ArchiveError;
use crate::packs::format::{END_LEN_MAX, Index, Member, check_size, read_index};
#[cfg(test)]
use crate::packs::testing::Spoiling;
use crate::wal::segment_times::SegmentTimes;
use crate::wal::times_in_brief::TimesInBrief;

/// So much of a pack is read at once, unless a segment has more.
const READ_BYTES: u64 = 8 << 20;

/// A pack whose index was read and checked.
#[derive(Clone, Debug)]
pub(crate) struct PackReader {
    packs: WalPacks,
    pack: WalPack,
    index: Index,
}

impl PackReader {
    /// Reads the index; nothing where the pack is not there any more.
    pub(crate) async fn open(
        packs: &WalPacks,
        pack: &WalPack,
    ) -> Result<Option<PackReader>, ArchiveError> {
        let size = pack.size_bytes;
        // Nothing of another length is asked for.
        if let Err(reason) = check_size(size) {
            // What is no file says so when it is read.
            return match packs.read_range(&pack.name, 0..1).await {
                Ok(None) => Ok(None),
                Ok(Some(_)) => Err(damaged(&pack.name, reason)),
                Err(RepoError::Corrupt { detail, .. }) => Err(damaged(&pack.name, detail)),
                Err(error) => Err(error.into()),
            };
        }
        let from = size.saturating_sub(END_LEN_MAX as u64);
        let Some(end) = packs.read_range(&pack.name, from..size).await? else {
            return Ok(None);
        };
        let index = read_index(&pack.name, size, &end);
        let index = index.map_err(|reason| damaged(&pack.name, reason))?;
        Ok(Some(PackReader {
            packs: packs.clone(),
            pack: pack.clone(),
            index,
        }))
    }

    pub(crate) fn name(&self) -> &PackName {
        &self.pack.name
    }

    /// What tells it from every other pack.
    pub(crate) fn hash(&self) -> [u8; 32] {
        self.index.hash
    }

    /// Its segments.
    pub(crate) fn members(&self) -> &[Member] {
        &self.index.members
    }

    /// BLAKE3 of a segment of it, before it was encoded.
    pub(crate) fn original_hash(&self, index: usize) -> Option<[u8; 32]> {
        Some(self.members().get(index)?.original_hash)
    }

    /// What a segment of it says of time, if the pack says so.
    pub(crate) fn times(&self, index: usize) -> Option<TimesInBrief> {
        self.members().get(index)?.times
    }

    /// The size of its segments.
    pub(crate) fn segment_size(&self) -> u64 {
        let first = self.index.members.first();
        first.map_or(0, |member| member.original_len)
    }

    /// Reads consecutive segments as they are stored, from the first one wanted on: as many as are
    /// read at once, at least one. With the first one of all, the header is checked.
    pub(crate) async fn read(&self, wanted: Range<usize>) -> Result<Vec<Bytes>, ArchiveError> {
        let members = self.index.members.get(wanted.clone()).unwrap_or_default();
        let Some(first) = members.first() else {
            return Ok(Vec::new());
        };
        let is_near = |member: &&Member| member.end() - first.offset <= READ_BYTES.max(first.len);
        let members: Vec<&Member> = members.iter().take_while(is_near).collect();
        let end = members.last().map_or(first.end(), |last| last.end());
        // The header lies right before the first segment.
        let lead = if wanted.start == 0 { HEADER_LEN } else { 0 };
        let range = first.offset - lead as u64..end;
        let name = self.name();
        let Some(mut bytes) = self.packs.read_range(name, range).await? else {
            return Err(gone(name));
        };
        if lead > 0 {
            let header = bytes.split_to(lead);
            let checked = pack_header::check_header(&header, Content::Wal);
            let is_same = checked.and_then(|version| self.index.check_version(version));
            is_same.map_err(|reason| damaged(name, reason))?;
        }
        let lengths = members.iter().map(|member| member.len as usize);
        Ok(lengths.map(|len| bytes.split_to(len)).collect())
    }
}

/// Decodes the segments of a pack, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Decoding {
    decoder: HistoryDecoder,
    /// Which segment is decoded next.
    pub(crate) next: usize,
    #[cfg(test)]
    is_spoiled: bool,
}

impl Decoding {
    /// Nothing before this segment is needed.
    pub(crate) fn at(next: usize) -> Decoding {
        Decoding {
            next,
            ..Decoding::default()
        }
    }

    /// What a segment that begins anew does not need is not known.
    fn begin(&mut self, member: &Member) {
        if member.begins == self.next {
            self.decoder = HistoryDecoder::new();
        }
    }

    /// Decodes the next segment. After a failure nothing that follows can be decoded.
    pub(crate) fn decode(
        &mut self,
        pack: &PackName,
        member: &Member,
        bytes: &[u8],
        output: &mut dyn Write,
    ) -> Result<(), Undecoded> {
        let wrong = |reason: &str| Undecoded::damaged(wrong(pack, member, reason));
        check_bytes(pack, member, bytes).map_err(Undecoded::damaged)?;
        self.begin(member);
        #[cfg(test)]
        if self.is_spoiled {
            return Err(wrong("what was passed before it has spoiled it"));
        }
        let mut checked = Checked {
            output,
            hasher: blake3::Hasher::new(),
            left: member.original_len,
            is_too_long: false,
        };
        match self.decoder.decode(bytes, &mut checked) {
            Ok(()) => {}
            Err(_) if checked.is_too_long => {
                return Err(wrong("it is longer than its index says"));
            }
            Err(DecodeToError::Decode(source)) => {
                return Err(Undecoded::damaged(coding::undecodable(
                    &member.name,
                    source,
                )));
            }
            Err(DecodeToError::Write(error)) => return Err(Undecoded::Write(error)),
        }
        if checked.left > 0 || *checked.hasher.finalize().as_bytes() != member.original_hash {
            return Err(wrong("it is not the segment that was packed"));
        }
        self.next += 1;
        Ok(())
    }

    /// Goes past the next segment, which takes less time. Whether it can be decoded to what was
    /// packed is not known then; what follows from it is compared with its own hash.
    pub(crate) fn pass(
        &mut self,
        pack: &PackName,
        member: &Member,
        bytes: &[u8],
    ) -> Result<(), ArchiveError> {
        check_bytes(pack, member, bytes)?;
        self.begin(member);
        #[cfg(test)]
        match Spoiling::get() {
            Spoiling::Nothing => {}
            Spoiling::Next => self.is_spoiled = true,
            Spoiling::Itself => return Err(wrong(pack, member, "it is spoiled")),
        }
        match self.decoder.pass(bytes) {
            Ok(()) => {}
            Err(DecodeToError::Decode(source)) => {
                return Err(coding::undecodable(&member.name, source));
            }
            Err(DecodeToError::Write(error)) => {
                return Err(ArchiveError::file("decode", member.name.as_ref(), error));
            }
        }
        self.next += 1;
        Ok(())
    }
}

fn wrong(pack: &PackName, member: &Member, reason: &str) -> ArchiveError {
    ArchiveError::Damaged {
        object: member.name.clone(),
        reason: format!("{reason} (pack {pack})"),
    }
}

pub(crate) fn check_bytes(
    pack: &PackName,
    member: &Member,
    bytes: &[u8],
) -> Result<(), ArchiveError> {
    match *blake3::hash(bytes).as_bytes() == member.hash {
        true => Ok(()),
        false => Err(wrong(pack, member, "its bytes in the pack are damaged")),
    }
}

/// Why a segment was not decoded.
#[derive(Debug)]
pub(crate) enum Undecoded {
    /// It is not what it has to be.
    Damaged(Box<ArchiveError>),
    /// It could not be written.
    Write(io::Error),
}

impl Undecoded {
    /// It is not what it has to be.
    pub(crate) fn damaged(error: ArchiveError) -> Undecoded {
        Undecoded::Damaged(Box::new(error))
    }

    /// What it means where nothing can fail to be written.
    pub(crate) fn into_archive(self, name: &str) -> ArchiveError {
        match self {
            Undecoded::Damaged(error) => *error,
            Undecoded::Write(error) => ArchiveError::file("decode", name.as_ref(), error),
        }
    }
}

/// Passes on no more than is expected, and hashes it.
struct Checked<'o> {
    output: &'o mut dyn Write,
    hasher: blake3::Hasher,
    left: u64,
    is_too_long: bool,
}

impl Write for Checked<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            self.is_too_long = true;
            return Err(io::Error::other("too long"));
        }
        let written = self.output.write(bytes)?;
        let passed = bytes.get(..written).unwrap_or_default();
        self.hasher.update(passed);
        self.left -= passed.len() as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// A segment of a pack that was decoded whole.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// Its first page, and how long it is.
    pub(crate) beginning: Beginning,
    /// How it begins and ends.
    pub(crate) edges: Option<SegmentEdges>,
    /// Where the server changed to `wal_level = minimal`.
    pub(crate) minimal_wal: Vec<Lsn>,
}

/// Longer segments are not kept to be compared with what the index says of their records.
const COMPARED_BYTES_MAX: u64 = 64 << 20;

/// Takes a segment that is decoded whole.
struct Whole {
    proof: Proof,
    /// All of it, where it is to be compared with what the index says of its records.
    content: Option<Vec<u8>>,
}

impl Whole {
    fn of(member: &Member) -> Whole {
        let is_compared = member.times.is_some() && member.original_len <= COMPARED_BYTES_MAX;
        Whole {
            proof: Proof::default(),
            content: is_compared.then(Vec::new),
        }
    }

    /// Refuses what the index says something else of.
    fn finish(self, pack: &PackName, member: &Member) -> Result<Decoded, ArchiveError> {
        let is_wrong = self.content.is_some_and(|content| {
            let mut read = [SegmentTimes::of, SegmentTimes::with_remains].into_iter();
            !read.any(|read| Some(read(&content).in_brief()) == member.times)
        });
        if is_wrong {
            return Err(wrong(
                pack,
                member,
                "the index of its pack says other times of it",
            ));
        }
        Ok(Decoded {
            beginning: self.proof.beginning,
            edges: self.proof.edges.finish(),
            minimal_wal: self.proof.records.finish().minimal_wal,
        })
    }
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.proof.write(bytes)?;
        if let (Some(content), Some(bytes)) = (&mut self.content, bytes.get(..written)) {
            content.extend_from_slice(bytes);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PackReader {
    /// Decodes all segments in their order, and hands each over, or why it cannot be decoded: then
    /// those after it cannot be either, up to one that begins anew.
    pub(crate) async fn decode_all(
        &self,
        mut take: impl AsyncFnMut(&Member, Result<Decoded, ArchiveError>) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let mut decoding = Some(Decoding::default());
        let mut read = VecDeque::new();
        for (at, member) in self.members().iter().enumerate() {
            if decoding.is_none() && member.begins == at {
                decoding = Some(Decoding::at(at));
            }
            if decoding.is_some() && read.is_empty() {
                match self.read(at..self.members().len()).await {
                    Ok(some) => read.extend(some.into_iter().map(Ok)),
                    Err(error) if is_damage(&error) => read.push_back(Err(error)),
                    Err(error) => return Err(error),
                }
            }
            let decoded = match (decoding.take(), read.pop_front()) {
                (Some(before), Some(Ok(bytes))) => {
                    let (after, decoded) = self.decode_one(before, member, bytes).await;
                    decoding = after;
                    decoded
                }
                (Some(_), Some(Err(error))) => Err(error),
                _ => Err(self.after_damage(&member.name)),
            };
            take(member, decoded).await?;
        }
        Ok(())
    }

    /// Fails where a segment's bytes are not as they were stored. What lies before it is not looked at.
    pub(crate) async fn check(&self, index: usize) -> Result<(), ArchiveError> {
        let read = self.read(index..index + 1).await?;
        match self.members().get(index).zip(read.first()) {
            Some((member, bytes)) => check_bytes(self.name(), member, bytes),
            None => Ok(()),
        }
    }

    /// Reads all segments as they are stored, and compares them with their hashes.
    pub(crate) async fn check_all(&self) -> Result<(), ArchiveError> {
        let mut at = 0;
        while let Some(rest) = self.members().get(at..).filter(|rest| !rest.is_empty()) {
            let read = self.read(at..self.members().len()).await?;
            at += read.len();
            let (pack, members) = (self.name().clone(), rest.to_vec());
            off_the_runtime(move || {
                let mut read = members.iter().zip(&read);
                read.try_for_each(|(member, bytes)| check_bytes(&pack, member, bytes))
            })
            .await?;
        }
        Ok(())
    }

    async fn decode_one(
        &self,
        mut decoding: Decoding,
        member: &Member,
        bytes: Bytes,
    ) -> (Option<Decoding>, Result<Decoded, ArchiveError>) {
        let (pack, member) = (self.name().clone(), member.clone());
        off_the_runtime(move || {
            let mut whole = Whole::of(&member);
            let decoded = decoding.decode(&pack, &member, &bytes, &mut whole);
            match decoded {
                Ok(()) => (Some(decoding), whole.finish(&pack, &member)),
                Err(failed) => (None, Err(failed.into_archive(&member.name))),
            }
        })
        .await
    }

    fn after_damage(&self, name: &str) -> ArchiveError {
        ArchiveError::Damaged {
            object: name.to_owned(),
            reason: format!(
                "a segment before it in pack {} cannot be decoded, and it may depend on that",
                self.name()
            ),
        }
    }
}

/// Whether an error says something of what was read, and nothing of the store.
pub(crate) fn is_damage(error: &ArchiveError) -> bool {
    matches!(
        error,
        ArchiveError::Damaged { .. }
            | ArchiveError::PackGone(_)
            | ArchiveError::Undecodable { .. }
            | ArchiveError::Repository(RepoError::Corrupt { .. })
    )
}

pub(crate) fn damaged(pack: &PackName, reason: String) -> ArchiveError {
    ArchiveError::Damaged {
        object: format!("pack {pack}"),
        reason,
    }
}

/// It was there a moment ago.
pub(crate) fn gone(pack: &PackName) -> ArchiveError {
    ArchiveError::PackGone(pack.to_string())
}
