//! Decoded chunks of several backups, some of which are held: for the threads that put files
//! together, and for those that tell changed blocks from what they were.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::runtime::Handle;
use walzip_repo::{BackupLabel, Repository};

use super::index::Chunk;
use super::pack;
use super::pieces::OWN;
use super::sources::{Source, needed};
use crate::error::ArchiveError;
use crate::workers;

/// How many chunks are held beside those that the threads work on.
const HELD: usize = 12;
/// How many a thread works on: a chunk of changed blocks, and what it is told from.
const HELD_BY_THREAD: usize = 3;

/// A backup's number, and a chunk's.
type ChunkId = (u32, usize);
/// Whoever needs it first decodes it; the others wait.
type Slot = Arc<Mutex<Option<Arc<Vec<u8>>>>>;

/// The chunks of a backup and of those that it refers to.
#[derive(Debug)]
pub(crate) struct Decoded {
    repository: Repository,
    runtime: Handle,
    /// The backup that needs the others.
    label: BackupLabel,
    /// By their numbers in pieces; nothing for the backup itself while it is written.
    sources: Vec<Option<Source>>,
    held: Mutex<VecDeque<(ChunkId, Slot)>>,
    held_max: usize,
    /// Packs whose headers were looked at: the numbers of their backups, and their own.
    checked: Mutex<BTreeSet<(u32, u32)>>,
}

impl Decoded {
    /// Nothing is decoded yet. To be called on the runtime.
    pub(crate) fn new(
        repository: &Repository,
        label: &BackupLabel,
        sources: Vec<Option<Source>>,
    ) -> Decoded {
        Decoded {
            repository: repository.clone(),
            runtime: Handle::current(),
            label: label.clone(),
            sources,
            held: Mutex::default(),
            held_max: HELD + HELD_BY_THREAD * workers::processors(),
            checked: Mutex::default(),
        }
    }

    /// A backup by its number.
    pub(crate) fn source(&self, number: u32) -> Result<&Source, ArchiveError> {
        let source = self.sources.get(number as usize).and_then(Option::as_ref);
        source.ok_or_else(|| ArchiveError::Damaged {
            object: format!("backup {}", self.label),
            reason: format!("it refers to {number} backups, which it has not"),
        })
    }

    /// The bytes of a chunk. For threads that may block.
    pub(crate) fn chunk(&self, id: ChunkId) -> Result<Arc<Vec<u8>>, ArchiveError> {
        let slot = self.slot(id);
        // What another thread failed at is tried again.
        let mut decoded = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = decoded.as_ref() {
            return Ok(Arc::clone(bytes));
        }
        let bytes = Arc::new(self.decode(id)?);
        *decoded = Some(Arc::clone(&bytes));
        Ok(bytes)
    }

    fn slot(&self, id: ChunkId) -> Slot {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let known = held.iter().position(|(other, _)| *other == id);
        let entry = known.and_then(|at| held.remove(at));
        let (_, slot) = entry.unwrap_or_else(|| (id, Slot::default()));
        held.push_back((id, Arc::clone(&slot)));
        if held.len() > self.held_max {
            held.pop_front();
        }
        slot
    }

    /// Appends bytes of a backup's stream.
    pub(crate) fn append(
        &self,
        number: u32,
        (mut offset, len): (u64, u64),
        out: &mut Vec<u8>,
    ) -> Result<(), ArchiveError> {
        let source = self.source(number)?;
        let end = offset.saturating_add(len);
        while offset < end {
            let chunk = source.chunk_at(offset);
            let bytes = self.chunk((number, chunk))?;
            let start = source.starts.get(chunk).copied().unwrap_or_default();
            let from = usize::try_from(offset - start).unwrap_or(usize::MAX);
            let rest = bytes.get(from..).unwrap_or_default();
            let len = rest
                .len()
                .min(usize::try_from(end - offset).unwrap_or(usize::MAX));
            let part = rest.get(..len).filter(|part| !part.is_empty());
            let part = part.ok_or_else(|| ArchiveError::Damaged {
                object: format!("backup {}", source.label),
                reason: "its stream ends early".to_owned(),
            })?;
            out.extend_from_slice(part);
            offset += len as u64;
        }
        Ok(())
    }

    fn decode(&self, id: ChunkId) -> Result<Vec<u8>, ArchiveError> {
        let (number, chunk_number) = id;
        let source = self.source(number)?;
        let chunk = source.chunks.get(chunk_number);
        let chunk = chunk.ok_or_else(|| ArchiveError::Damaged {
            object: format!("backup {}", source.label),
            reason: format!("it has no chunk {chunk_number}"),
        })?;
        let fetched = self.runtime.block_on(self.fetch(number, source, chunk));
        let decoded = fetched.and_then(|bytes| {
            let base = self.base(chunk)?;
            let decoded = decode(&bytes, chunk, base.as_deref());
            decoded.map_err(|reason| {
                let pack = pack::name(chunk.pack as usize);
                let label = &source.label;
                ArchiveError::Damaged {
                    object: format!("chunk {chunk_number} of backup {label}, in {pack},"),
                    reason,
                }
            })
        });
        match number {
            OWN => decoded,
            _ => decoded.map_err(|error| needed(self.label.as_str(), source.label.as_str(), error)),
        }
    }

    /// What a chunk is told from.
    pub(crate) fn base(&self, chunk: &Chunk) -> Result<Option<Vec<u8>>, ArchiveError> {
        let runs = chunk.base.as_deref().filter(|runs| !runs.is_empty());
        runs.map(|runs| self.runs(runs)).transpose()
    }

    /// Runs of the stream of the first backup that is referred to.
    pub(crate) fn runs(&self, runs: &[[u64; 2]]) -> Result<Vec<u8>, ArchiveError> {
        let mut bytes = Vec::new();
        for &[offset, len] in runs {
            self.append(OWN + 1, (offset, len), &mut bytes)?;
        }
        Ok(bytes)
    }

    async fn fetch(
        &self,
        number: u32,
        source: &Source,
        chunk: &Chunk,
    ) -> Result<Bytes, ArchiveError> {
        let label = &source.label;
        let object = source.packs.get(chunk.pack as usize);
        let object = object.ok_or_else(|| ArchiveError::Damaged {
            object: format!("backup {label}"),
            reason: "its index names a pack that it has not".to_owned(),
        })?;
        let repository = &self.repository;
        let id = (number, chunk.pack);
        let checked = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if !checked().contains(&id) {
            let header = 0..pack::HEADER_LEN as u64;
            let header = repository
                .read_backup_range(label, &object.name, header)
                .await?;
            pack::check_header(&header).map_err(|reason| ArchiveError::Damaged {
                object: format!("{} of backup {label}", object.name),
                reason,
            })?;
            checked().insert(id);
        }
        let range = chunk.offset..chunk.offset + u64::from(chunk.size_bytes);
        Ok(repository
            .read_backup_range(label, &object.name, range)
            .await?)
    }
}

/// Decodes a chunk, with what it is told from, if it is told from anything.
pub(crate) fn decode(bytes: &[u8], chunk: &Chunk, base: Option<&[u8]>) -> Result<Vec<u8>, String> {
    if blake3::hash(bytes) != chunk.blake3 {
        return Err("its BLAKE3 hash is not the recorded one".to_owned());
    }
    let header = walzip_codec::Header::read(bytes).map_err(|error| error.to_string())?;
    if header.original_len != u64::from(chunk.original_bytes) {
        let (len, said) = (header.original_len, chunk.original_bytes);
        return Err(format!("it holds {len} bytes, {said} in the index"));
    }
    if chunk.original_blake3 != header.original_hash {
        return Err("it holds other bytes than the index says".to_owned());
    }
    let decoded = match base {
        Some(base) => walzip_codec::decode_differences(bytes, base),
        None => walzip_codec::decode(bytes),
    };
    decoded.map_err(|error| error.to_string())
}
