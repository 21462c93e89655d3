//! Decoded chunks of several backups, some of which are held: for the threads that put files
//! together, and for those that tell changed blocks from what they were.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use walzip_codec::limits::ROWS_MEMORY_MAX;
use walzip_codec::table::{Entries, TableRows};
use walzip_pgformat::PAGE_SIZE;
use walzip_repo::{BackupLabel, Repository};

use super::blocking_reads::BlockingReads;
use super::buffers::CHUNK_BYTES;
use super::index::{Chunk, StoredTable};
use super::pack;
use super::pieces::{OWN, REFERENCES_AT_ONCE};
use super::sources::Source;
use crate::backups::backup_objects::needed;
use crate::backups::backup_record;
use crate::coding::two_threads::run_both;
use crate::coding::workers;
use crate::error::ArchiveError;

/// A backup's stream is used in two places at a time: at new blocks, and at changed ones.
const PLACES: usize = 2;
/// In how many places the streams of all backups are used at a time, at least and at most: so many chunks
/// are held for it, 264 MiB of them at most.
const USED_MIN: usize = 8;
const USED_MAX: usize = PLACES * (REFERENCES_AT_ONCE + 1);
/// How many chunks are held beside those that are used, and those that the threads decode.
const SPARE: usize = 4;
/// How many others a thread has that are decoded for a chunk of changed blocks.
const BASES_BY_THREAD: usize = 2;
/// Changed blocks are told from so many chunks at most, by what a backup takes for worth it. The next
/// blocks of the same files are mostly in those chunks. They are held as far as there are few backups: all
/// that is held together does not grow by it.
const BASES_USED: usize = 32;

/// A backup's number, and a chunk's.
type ChunkId = (u32, usize);
/// Whoever needs it first decodes it; the others wait.
type Slot = Arc<Mutex<Option<Arc<Vec<u8>>>>>;

/// The chunks that were used last, and those that are in use.
#[derive(Debug)]
struct Held {
    /// The one that was used last is at the end.
    slots: VecDeque<(ChunkId, Slot)>,
    max: usize,
}

impl Held {
    fn new(max: usize) -> Held {
        Held {
            slots: VecDeque::new(),
            max,
        }
    }

    fn has(&self, id: ChunkId) -> bool {
        self.slots.iter().any(|(other, _)| *other == id)
    }

    /// The slot of a chunk, which is there or is to be filled. One that somebody has stays: it is being
    /// filled, and others may have come meanwhile.
    fn slot(&mut self, id: ChunkId) -> Slot {
        let known = self.slots.iter().position(|(other, _)| *other == id);
        let entry = known.and_then(|at| self.slots.remove(at));
        let (_, slot) = entry.unwrap_or_else(|| (id, Slot::default()));
        self.slots.push_back((id, Arc::clone(&slot)));
        self.let_go();
        slot
    }

    /// A slot for a chunk that has none.
    fn put(&mut self, id: ChunkId, slot: Slot) {
        if !self.has(id) {
            self.slots.push_back((id, slot));
            self.let_go();
        }
    }

    fn take(&mut self, id: ChunkId) -> Option<Slot> {
        let known = self.slots.iter().position(|(other, _)| *other == id)?;
        self.slots.remove(known).map(|(_, slot)| slot)
    }

    /// Lets go of what nobody has and was not used for the longest time.
    fn let_go(&mut self) {
        while self.slots.len() > self.max {
            let is_free = |(_, slot): &(ChunkId, Slot)| Arc::strong_count(slot) == 1;
            let Some(oldest) = self.slots.iter().position(is_free) else {
                return;
            };
            self.slots.remove(oldest);
        }
    }
}

fn locked(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bases_used(backups: usize) -> usize {
    match backups {
        // Nothing is told from another backup.
        ..2 => 0,
        _ => BASES_USED.min(USED_MAX - used_at_once(backups)),
    }
}

fn used_at_once(backups: usize) -> usize {
    (PLACES * backups).clamp(USED_MIN, USED_MAX)
}

/// A table: the numbers of its backup, and its own; and an index of it.
type TableId = (u32, u32);
type IndexId = (u32, u32, u32);

/// The rows of the table, and the entries of the indexes, that were used last.
#[derive(Debug, Default)]
struct HeldTables {
    rows: Option<(TableId, Arc<TableRows>)>,
    entries: VecDeque<(IndexId, Arc<Entries>)>,
}

impl HeldTables {
    /// How many indexes are used at a time.
    const ENTRIES_MAX: usize = 2;

    fn rows_of(&self, id: TableId) -> Option<Arc<TableRows>> {
        let rows = self.rows.as_ref().filter(|(of, _)| *of == id);
        rows.map(|(_, rows)| Arc::clone(rows))
    }

    fn entries_of(&mut self, id: IndexId) -> Option<Arc<Entries>> {
        let at = self.entries.iter().position(|(of, _)| *of == id)?;
        let (_, entries) = self.entries.remove(at)?;
        self.keep(id, Arc::clone(&entries));
        Some(entries)
    }

    fn keep(&mut self, id: IndexId, entries: Arc<Entries>) {
        self.entries.push_back((id, entries));
        if self.entries.len() > Self::ENTRIES_MAX {
            self.entries.pop_front();
        }
    }
}

/// The chunks of a backup and of those that it refers to.
#[derive(Debug)]
pub(crate) struct Decoded {
    reads: BlockingReads,
    /// The backup that needs the others.
    label: BackupLabel,
    /// By their numbers in pieces; nothing for the backup itself while it is written.
    sources: Vec<Option<Source>>,
    held: Mutex<Held>,
    /// What changed blocks are told from. A chunk of them may need more than are held, which would have to
    /// go for it.
    bases: Mutex<Held>,
    tables: Mutex<HeldTables>,
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
        let threads = workers::processors();
        let held = used_at_once(sources.len()) + SPARE + threads;
        let bases = bases_used(sources.len()) + SPARE + BASES_BY_THREAD * threads;
        Decoded {
            reads: BlockingReads::of(repository),
            label: label.clone(),
            sources,
            held: Mutex::new(Held::new(held)),
            bases: Mutex::new(Held::new(bases)),
            tables: Mutex::default(),
            checked: Mutex::default(),
        }
    }

    /// How many chunks the files of all backups are in at a time, of those that are held.
    pub(crate) fn used_at_once(&self) -> usize {
        used_at_once(self.sources.len())
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
        let of_base = locked(&self.bases).take(id);
        if let Some(slot) = of_base {
            locked(&self.held).put(id, slot);
        }
        self.decoded(&self.held, id)
    }

    /// The same for what a chunk of changed blocks is told from.
    pub(crate) fn base_chunk(&self, id: ChunkId) -> Result<Arc<Vec<u8>>, ArchiveError> {
        let is_held = locked(&self.held).has(id);
        self.decoded(if is_held { &self.held } else { &self.bases }, id)
    }

    fn decoded(&self, held: &Mutex<Held>, id: ChunkId) -> Result<Arc<Vec<u8>>, ArchiveError> {
        let slot = locked(held).slot(id);
        // What another thread failed at is tried again.
        let mut decoded = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = decoded.as_ref() {
            return Ok(Arc::clone(bytes));
        }
        let bytes = Arc::new(self.decode(id)?);
        *decoded = Some(Arc::clone(&bytes));
        Ok(bytes)
    }

    /// Appends bytes of the stream of a backup that blocks are told from.
    fn append(
        &self,
        number: u32,
        (mut offset, len): (u64, u64),
        out: &mut Vec<u8>,
    ) -> Result<(), ArchiveError> {
        let source = self.source(number)?;
        let end = offset.saturating_add(len);
        while offset < end {
            let chunk = source.chunk_at(offset);
            let bytes = self.base_chunk((number, chunk))?;
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
        let fetched = self.fetch(number, source, chunk);
        let decoded = fetched.and_then(|bytes| {
            let base = self.base(chunk)?;
            let entries = self.entries(id, chunk)?;
            let told_from = match (&base, &entries) {
                (Some(base), _) => ToldFrom::Base(base),
                (None, Some(entries)) => ToldFrom::Entries(entries),
                (None, None) => ToldFrom::Nothing,
            };
            let decoded = decode(&bytes, chunk, told_from);
            decoded.map_err(|reason| {
                let pack = backup_record::name_of(&source.packs, chunk.pack);
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

    /// The entries of the index that a chunk is told from.
    fn entries(&self, id: ChunkId, chunk: &Chunk) -> Result<Option<Arc<Entries>>, ArchiveError> {
        let Some([table, index]) = chunk.index else {
            return Ok(None);
        };
        let (number, _) = id;
        let source = self.source(number)?;
        let stored = source.tables.get(table as usize);
        let key = stored.and_then(|stored| stored.shape.indexes.get(index as usize));
        let (stored, key) = stored.zip(key).ok_or_else(|| ArchiveError::Damaged {
            object: format!("backup {}", source.label),
            reason: format!("it has no table {table} with an index {index}"),
        })?;
        let mut held = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entries) = held.entries_of((number, table, index)) {
            return Ok(Some(entries));
        }
        let rows = match held.rows_of((number, table)) {
            Some(rows) => rows,
            None => {
                // Those of one table may take half a gigabyte.
                *held = HeldTables::default();
                let rows = Arc::new(self.rows_of(number, source, stored)?);
                held.rows = Some(((number, table), Arc::clone(&rows)));
                rows
            }
        };
        let entries = Arc::new(Entries::sort(rows, &stored.shape, key, run_both));
        held.keep((number, table, index), Arc::clone(&entries));
        Ok(Some(entries))
    }

    /// The rows of a table.
    fn rows_of(
        &self,
        number: u32,
        source: &Source,
        stored: &StoredTable,
    ) -> Result<TableRows, ArchiveError> {
        let mut rows = TableRows::new(&stored.shape, ROWS_MEMORY_MAX);
        let mut block = 0;
        for chunk in stored.chunks() {
            let bytes = self.base_chunk((number, chunk))?;
            rows.add_pages(&stored.shape, block, &bytes);
            block += (bytes.len() / PAGE_SIZE) as u32;
            if rows.are_too_many() {
                return Err(ArchiveError::Damaged {
                    object: format!("backup {}", source.label),
                    reason: "a table from which indexes are told has too many rows".to_owned(),
                });
            }
        }
        Ok(rows)
    }

    /// What a chunk is told from.
    pub(crate) fn base(&self, chunk: &Chunk) -> Result<Option<Vec<u8>>, ArchiveError> {
        let runs = chunk.base.as_deref().filter(|runs| !runs.is_empty());
        runs.map(|runs| self.runs(runs)).transpose()
    }

    /// Runs of the stream of the first backup that is referred to.
    pub(crate) fn runs(&self, runs: &[[u64; 2]]) -> Result<Vec<u8>, ArchiveError> {
        let lens = runs.iter().map(|&[_, len]| len);
        let len = lens.fold(0, u64::saturating_add);
        let mut bytes = Vec::with_capacity(len.min(CHUNK_BYTES as u64) as usize);
        for &[offset, len] in runs {
            self.append(OWN + 1, (offset, len), &mut bytes)?;
        }
        Ok(bytes)
    }

    /// How many bytes have to be decoded for runs of that stream: whole chunks, and the tables from
    /// which those are told.
    pub(crate) fn decoded_for(&self, runs: &[[u64; 2]]) -> Result<u64, ArchiveError> {
        let source = self.source(OWN + 1)?;
        let chunks = chunks_of(source, runs);
        let table = |&chunk: &usize| {
            let [table, _] = source.chunks.get(chunk)?.index?;
            source.tables.get(table as usize)
        };
        let of_tables = chunks
            .iter()
            .filter_map(table)
            .flat_map(StoredTable::chunks);
        let all: BTreeSet<usize> = chunks.iter().copied().chain(of_tables).collect();
        let lens = all
            .iter()
            .filter_map(|&chunk| source.chunks.get(chunk))
            .map(|chunk| u64::from(chunk.original_bytes));
        Ok(lens.sum())
    }

    /// The chunks from which the changed blocks of a chunk are told, as many as are held.
    pub(crate) fn bases_of(&self, (number, chunk): ChunkId) -> Vec<ChunkId> {
        let of_chunk = || self.source(number).ok()?.chunks.get(chunk)?.base.as_deref();
        match (of_chunk(), self.source(OWN + 1)) {
            (Some(runs), Ok(source)) => {
                let chunks = chunks_of(source, runs).into_iter();
                let held = bases_used(self.sources.len());
                chunks.map(|chunk| (OWN + 1, chunk)).take(held).collect()
            }
            _ => Vec::new(),
        }
    }

    fn fetch(&self, number: u32, source: &Source, chunk: &Chunk) -> Result<Bytes, ArchiveError> {
        let label = &source.label;
        let object = source.packs.get(chunk.pack as usize);
        let object = object.ok_or_else(|| ArchiveError::Damaged {
            object: format!("backup {label}"),
            reason: "its index names a pack that it has not".to_owned(),
        })?;
        let id = (number, chunk.pack);
        let checked = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if !checked().contains(&id) {
            let header = 0..pack::HEADER_LEN as u64;
            let header = self.reads.range(label, &object.name, header)?;
            pack::check_header(&header).map_err(|reason| ArchiveError::Damaged {
                object: format!("{} of backup {label}", object.name),
                reason,
            })?;
            checked().insert(id);
        }
        let range = chunk.offset..chunk.offset + u64::from(chunk.size_bytes);
        self.reads.range(label, &object.name, range)
    }
}

/// The chunks in which runs of a stream are.
fn chunks_of(source: &Source, runs: &[[u64; 2]]) -> BTreeSet<usize> {
    let runs = runs.iter().filter(|[_, len]| *len > 0);
    let chunks = runs.flat_map(|&[offset, len]| {
        let last = offset.saturating_add(len - 1);
        source.chunk_at(offset)..=source.chunk_at(last)
    });
    chunks.collect()
}

/// What a chunk is told from.
#[derive(Clone, Copy)]
pub(crate) enum ToldFrom<'t> {
    Nothing,
    /// Blocks of the first backup that is referred to.
    Base(&'t [u8]),
    /// The entries that an index has for the rows of its table.
    Entries(&'t Arc<Entries>),
}

/// Decodes a chunk, with what it is told from.
pub(crate) fn decode(
    bytes: &[u8],
    chunk: &Chunk,
    told_from: ToldFrom<'_>,
) -> Result<Vec<u8>, String> {
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
    let decoded = match told_from {
        ToldFrom::Base(base) => walzip_codec::decode_differences(bytes, base),
        ToldFrom::Entries(entries) => walzip_codec::decode_index_chunk(bytes, entries),
        ToldFrom::Nothing => walzip_codec::decode(bytes),
    };
    decoded.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(slot: &Slot, byte: u8) {
        *slot.lock().expect("whole") = Some(Arc::new(vec![byte]));
    }

    fn is_filled(held: &mut Held, id: ChunkId) -> bool {
        held.slot(id).lock().expect("whole").is_some()
    }

    #[test]
    fn what_was_used_last_is_held() {
        let mut held = Held::new(2);
        for chunk in 0..3 {
            fill(&held.slot((0, chunk)), 1);
        }
        assert!(is_filled(&mut held, (0, 2)));
        assert!(is_filled(&mut held, (0, 1)));
        assert!(!is_filled(&mut held, (0, 0)));
    }

    #[test]
    fn a_chunk_is_held_while_more_than_can_be_held_are_decoded_for_it() {
        let mut held = Held::new(2);
        let changed = held.slot((0, 7));
        for chunk in 0..10 {
            fill(&held.slot((1, chunk)), 1);
        }
        fill(&changed, 2);
        assert!(is_filled(&mut held, (0, 7)));
        drop(changed);
        fill(&held.slot((1, 10)), 1);
        assert!(is_filled(&mut held, (0, 7)));
        assert_eq!(held.slots.len(), 2);
    }

    #[test]
    fn who_waits_for_a_chunk_gets_what_another_one_decodes() {
        let mut held = Held::new(1);
        let first = held.slot((0, 1));
        drop(held.slot((0, 2)));
        let second = held.slot((0, 1));
        assert!(Arc::ptr_eq(&first, &second));
    }
}
