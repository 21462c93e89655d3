//! Packs into chunks into files: the way of a restore.
//!
//! One task fetches the packs, threads decode the chunks, and the thread that takes the files gets
//! the chunks in their order. What waits between them is bounded.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use tokio::sync::mpsc;
use walzip_repo::BackupLabel;

use super::decoded::ToldFrom;
use super::index::{Chunk, Index, Selected};
use super::packed::Packed;
use super::sources::{self, Source, read_referred};
use super::tables::{Role, Roles};
use super::{decoded, pack, referring};
use crate::backups::backup_files::{Entry, FileSink};
use crate::backups::backup_record::{self, BackupRecord, ObjectRecord};
use crate::coding::off_the_runtime;
use crate::coding::workers::{Pending, Workers, processors};
use crate::error::ArchiveError;

/// Chunks that are less than this part of their pack are read alone, each with a request.
const ALONE_BELOW_PART: u64 = 2;
/// How many damaged chunks are named.
const CHUNKS_NAMED_MAX: usize = 100;
/// How many of a damaged chunk's files are named.
const FILES_SHOWN: usize = 3;

/// A chunk, as it is stored.
struct Fetched {
    number: usize,
    chunk: Chunk,
    bytes: Bytes,
    role: Role,
}

/// The bytes of a chunk, or what is wrong with it.
type Decoded = Result<Vec<u8>, String>;

/// Hands the directories and the wanted files of a backup to `sink`, and returns it. Only chunks
/// that have bytes of those files are read, of the backups that it refers to as well.
pub(crate) async fn read<S: FileSink + Send + 'static>(
    packed: Packed<'_>,
    record: &BackupRecord,
    is_wanted: impl Fn(&Entry) -> bool,
    sink: S,
) -> Result<S, ArchiveError> {
    match with_referred(&packed, record).await? {
        None => read_alone(packed, is_wanted, sink).await,
        Some(decoded) => referring::read(decoded, packed.index, is_wanted, sink).await,
    }
}

/// The chunks of a backup and of all that it refers to, if it refers to any: they are there, and have
/// what it names.
pub(crate) async fn with_referred(
    packed: &Packed<'_>,
    record: &BackupRecord,
) -> Result<Option<Arc<decoded::Decoded>>, ArchiveError> {
    let (repository, label) = (packed.repository, packed.label);
    let mut all = vec![Source::of(label, packed.packs, &packed.index)];
    let referred = read_referred(repository, record, |referred| referred.source());
    all.extend(referred.await?);
    sources::check(&packed.index, &all).map_err(|reason| ArchiveError::Damaged {
        object: format!("the index of backup {label}"),
        reason,
    })?;
    if record.references.is_empty() {
        return Ok(None);
    }
    let all = all.into_iter().map(Some).collect();
    let decoded = decoded::Decoded::new(repository, label, all);
    Ok(Some(Arc::new(decoded)))
}

/// The same of a backup that refers to no other.
async fn read_alone<S: FileSink + Send + 'static>(
    packed: Packed<'_>,
    is_wanted: impl Fn(&Entry) -> bool,
    mut sink: S,
) -> Result<S, ArchiveError> {
    let threads = processors();
    let (pending_sender, pending) = mpsc::channel(2 * threads);
    let workers = Workers::start(threads, || |fetched: Fetched| decode(&fetched))?;
    let selected = packed.index.selected(is_wanted);
    let numbers = packed.index.chunks_of(&selected);
    let mut content = Content {
        label: packed.label.clone(),
        packs: packed.packs.to_vec(),
        starts: packed.index.chunk_starts(),
        index: Arc::clone(&packed.index),
        pending,
        numbers: numbers.clone().into_iter(),
        current: Vec::new(),
        start: 0,
        at: 0,
        damage: None,
    };
    let taking = off_the_runtime(move || content.files(&selected, &mut sink).map(|()| sink));
    let fetching = async {
        // The sender is dropped at the end, whatever it is.
        let (sender, workers) = (pending_sender, workers);
        let sink = async |fetched| {
            let permit = sender.reserve().await.map_err(|_| gone())?;
            permit.send(workers.submit(fetched));
            Ok(())
        };
        let mut roles = Roles::of(&packed.index);
        fetch(&packed, &numbers, &mut roles, sink).await
    };
    let (fetched, taken) = tokio::join!(fetching, taking);
    match (fetched, taken) {
        (Ok(()), taken) => taken,
        // It stopped because the files were not taken any more: that is the cause.
        (Err(ArchiveError::Internal(_)), Err(cause)) => Err(cause),
        (Err(cause), _) => Err(cause),
    }
}

fn gone() -> ArchiveError {
    ArchiveError::Internal("the files were not taken any more".to_owned())
}

/// Says which chunks are damaged, with the files that each is of, and which packs cannot be read.
pub(crate) async fn damaged(packed: &Packed<'_>, record: &BackupRecord) -> Vec<ArchiveError> {
    match with_referred(packed, record).await {
        Ok(None) => {}
        Ok(Some(decoded)) => return referring::damaged(decoded).await,
        Err(error) => return vec![error],
    }
    let mut found = Vec::new();
    let mut roles = Roles::of(&packed.index);
    let all: Vec<usize> = (0..packed.index.chunks.len()).collect();
    for of_pack in all.chunk_by(|&one, &other| packed.pack_of(one) == packed.pack_of(other)) {
        let fetched = fetch(packed, of_pack, &mut roles, async |fetched| {
            let number = fetched.number;
            // One chunk comes after the other: no more rows will come.
            if let Role::Index(table, _) = &fetched.role {
                table.fail("a chunk of its table cannot be read");
            }
            if let Err(reason) = off_the_runtime(move || decode(&fetched)).await {
                if found.len() == CHUNKS_NAMED_MAX {
                    return Err(too_many(packed.label));
                }
                found.push(damage(
                    packed.label,
                    packed.packs,
                    &packed.index,
                    (number, &reason),
                ));
            }
            Ok(())
        });
        let fetched = fetched.await;
        found.extend(fetched.err());
        if found.len() > CHUNKS_NAMED_MAX {
            break;
        }
    }
    found
}

fn too_many(label: &BackupLabel) -> ArchiveError {
    ArchiveError::Damaged {
        object: format!("backup {label}"),
        reason: "more of its chunks are damaged".to_owned(),
    }
}

impl Packed<'_> {
    fn pack_of(&self, chunk: usize) -> Option<usize> {
        let chunk = self.index.chunks.get(chunk)?;
        Some(chunk.pack as usize)
    }
}

/// Passes chunks to `sink`, in their order, as they are stored.
async fn fetch(
    packed: &Packed<'_>,
    numbers: &[usize],
    roles: &mut Roles<'_>,
    mut sink: impl AsyncFnMut(Fetched) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let mut sink = async |(number, chunk, bytes)| {
        let role = roles.of_chunk(number);
        sink(Fetched {
            number,
            chunk,
            bytes,
            role,
        })
        .await
    };
    for of_pack in numbers.chunk_by(|&one, &other| packed.pack_of(one) == packed.pack_of(other)) {
        let number = of_pack.first().and_then(|&first| packed.pack_of(first));
        let object = number.and_then(|number| packed.packs.get(number));
        let object = object.ok_or_else(|| ArchiveError::Damaged {
            object: format!("backup {}", packed.label),
            reason: "its index names a pack that it has not".to_owned(),
        })?;
        let chunk = |&number: &usize| Some((number, packed.index.chunks.get(number)?));
        let chunks: Vec<(usize, &Chunk)> = of_pack.iter().filter_map(chunk).collect();
        fetch_from(packed, object, &chunks, &mut sink).await?;
    }
    Ok(())
}

/// Passes chunks of a pack to `sink`: those of a pack that is read from its beginning, or each
/// alone, where that saves much.
async fn fetch_from(
    packed: &Packed<'_>,
    object: &ObjectRecord,
    chunks: &[(usize, &Chunk)],
    sink: &mut impl AsyncFnMut((usize, Chunk, Bytes)) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let Packed {
        repository, label, ..
    } = *packed;
    let wanted: u64 = chunks
        .iter()
        .map(|(_, chunk)| u64::from(chunk.size_bytes))
        .sum();
    if wanted < object.size_bytes / ALONE_BELOW_PART {
        let header_len = pack::HEADER_LEN as u64;
        let header = repository
            .read_backup_range(label, &object.name, 0..header_len)
            .await?;
        pack::check_header(&header).map_err(|reason| damaged_pack(label, object, reason))?;
        for &(number, chunk) in chunks {
            let range = chunk.offset..chunk.offset + u64::from(chunk.size_bytes);
            let bytes = repository
                .read_backup_range(label, &object.name, range)
                .await?;
            sink((number, chunk.clone(), bytes)).await?;
        }
        return Ok(());
    }
    let mut pieces = PackPieces {
        object,
        label,
        stream: repository.open_backup_object(label, &object.name).await?,
        waiting: BytesMut::new(),
        at: 0,
    };
    let header = pieces.take(pack::HEADER_LEN).await?;
    pack::check_header(&header).map_err(|reason| damaged_pack(label, object, reason))?;
    for &(number, chunk) in chunks {
        pieces.skip_to(chunk.offset).await?;
        let bytes = pieces.take(chunk.size_bytes as usize).await?;
        sink((number, chunk.clone(), bytes)).await?;
    }
    Ok(())
}

fn damaged_pack(label: &BackupLabel, object: &ObjectRecord, reason: String) -> ArchiveError {
    ArchiveError::Damaged {
        object: format!("{} of backup {label}", object.name),
        reason,
    }
}

/// The bytes of a pack, from its beginning.
struct PackPieces<'p, S> {
    object: &'p ObjectRecord,
    label: &'p BackupLabel,
    stream: S,
    waiting: BytesMut,
    /// Where the waiting bytes begin in the pack.
    at: u64,
}

impl<S> PackPieces<'_, S>
where
    S: futures::Stream<Item = Result<Bytes, walzip_repo::RepoError>> + Unpin,
{
    async fn take(&mut self, len: usize) -> Result<Bytes, ArchiveError> {
        while self.waiting.len() < len {
            match self.stream.try_next().await? {
                Some(piece) => self.waiting.extend_from_slice(&piece),
                None => {
                    let size_bytes = self.object.size_bytes;
                    let reason = format!("it should have {size_bytes} bytes");
                    return Err(damaged_pack(self.label, self.object, reason));
                }
            }
        }
        self.at += len as u64;
        Ok(self.waiting.split_to(len).freeze())
    }

    async fn skip_to(&mut self, offset: u64) -> Result<(), ArchiveError> {
        let gap = offset.checked_sub(self.at);
        let overlap = || damaged_pack(self.label, self.object, "its chunks overlap".to_owned());
        let mut left = gap.ok_or_else(overlap)?;
        while left > 0 {
            let part = left.min(1 << 20);
            self.take(part as usize).await?;
            left -= part;
        }
        Ok(())
    }
}

fn decode(fetched: &Fetched) -> Decoded {
    let Fetched {
        number,
        chunk,
        bytes,
        role,
    } = fetched;
    match role {
        Role::None => decoded::decode(bytes, chunk, ToldFrom::Nothing),
        Role::Rows(table, part) => {
            let part = table.part(*part);
            let decoded = decoded::decode(bytes, chunk, ToldFrom::Nothing);
            match &decoded {
                Ok(pages) => part.take(pages),
                Err(reason) => part.fail(&format!("chunk {number}, which it needs: {reason}")),
            }
            decoded
        }
        Role::Index(table, index) => {
            let in_use = table.entries(*index)?;
            decoded::decode(bytes, chunk, ToldFrom::Entries(&in_use.entries))
        }
    }
}

/// Names a damaged chunk by its pack, and the files that it is of.
fn damage(
    label: &BackupLabel,
    packs: &[ObjectRecord],
    index: &Index,
    (number, reason): (usize, &str),
) -> ArchiveError {
    let files = index.files_of(number);
    let shown = files.iter().take(FILES_SHOWN).map(String::as_str);
    let mut shown = shown.collect::<Vec<_>>().join(", ");
    if files.len() > FILES_SHOWN {
        shown.push_str(&format!(" and {} other files", files.len() - FILES_SHOWN));
    }
    let pack = index.chunks.get(number).map_or(0, |chunk| chunk.pack);
    let pack = backup_record::name_of(packs, pack);
    ArchiveError::Damaged {
        object: format!("chunk {number} of backup {label}, in {pack} and of {shown},"),
        reason: reason.to_owned(),
    }
}

/// The stream of files, decoded, as far as it was asked for.
struct Content {
    label: BackupLabel,
    packs: Vec<ObjectRecord>,
    index: Arc<Index>,
    /// Where the chunks begin in the stream.
    starts: Vec<u64>,
    pending: mpsc::Receiver<Pending<Decoded>>,
    /// The numbers of the chunks that are still to come.
    numbers: std::vec::IntoIter<usize>,
    current: Vec<u8>,
    /// Where the current chunk begins in the stream.
    start: u64,
    /// What is read next, in the stream.
    at: u64,
    /// What is wrong with a chunk that could not be read.
    damage: Option<ArchiveError>,
}

impl Content {
    fn files(
        &mut self,
        selected: &[Selected],
        sink: &mut dyn FileSink,
    ) -> Result<(), ArchiveError> {
        for entry in Arc::clone(&self.index).directories() {
            sink.directory(entry.clone())?;
        }
        for Selected { entries, range } in selected {
            self.at = range.start;
            let size_bytes = range.end - range.start;
            let taken = match entries.as_slice() {
                [entry] => {
                    let mut content = Read::take(&mut *self, size_bytes);
                    sink.file(entry.clone(), size_bytes, &mut content)
                }
                entries => self.copies(entries, size_bytes, sink),
            };
            taken.map_err(|error| self.damage.take().unwrap_or(error))?;
        }
        Ok(())
    }

    /// Files that have the same bytes, which the index allows small ones only.
    fn copies(
        &mut self,
        entries: &[Entry],
        size_bytes: u64,
        sink: &mut dyn FileSink,
    ) -> Result<(), ArchiveError> {
        let mut content = Vec::new();
        let read = Read::take(&mut *self, size_bytes).read_to_end(&mut content);
        read.map_err(|error| ArchiveError::Internal(error.to_string()))?;
        for entry in entries {
            sink.file(entry.clone(), size_bytes, &mut content.as_slice())?;
        }
        Ok(())
    }

    /// What the current chunk has from where the next byte is read.
    fn rest(&self) -> &[u8] {
        let offset = self.at.checked_sub(self.start);
        let offset = offset.and_then(|offset| usize::try_from(offset).ok());
        offset
            .and_then(|offset| self.current.get(offset..))
            .unwrap_or_default()
    }

    /// Goes on to the next chunk, or after the last one to none.
    fn go_on(&mut self) -> io::Result<bool> {
        let (Some(number), Some(pending)) = (self.numbers.next(), self.pending.blocking_recv())
        else {
            return Ok(false);
        };
        let decoded = pending.blocking_result().map_err(io::Error::other)?;
        self.current = decoded.map_err(|reason| {
            self.damage = Some(damage(
                &self.label,
                &self.packs,
                &self.index,
                (number, &reason),
            ));
            io::Error::other(reason)
        })?;
        self.start = self.starts.get(number).copied().unwrap_or_default();
        Ok(true)
    }
}

impl Read for Content {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest().is_empty() {
            if !self.go_on()? {
                return Ok(0);
            }
        }
        let rest = self.rest();
        let length = buffer.len().min(rest.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.at += length as u64;
        Ok(length)
    }
}
