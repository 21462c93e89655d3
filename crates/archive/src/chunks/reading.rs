//! Packs into chunks into files: the way of a restore.
//!
//! One task fetches the packs, threads decode the chunks, and the thread that takes the files gets
//! the chunks in their order. What waits between them is bounded.

use std::io::{self, Read};

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use tokio::sync::mpsc;
use walzip_repo::{BackupLabel, Repository};

use super::index::{Chunk, Index, Member};
use super::pack;
use crate::backup_files::FileSink;
use crate::backup_record::ObjectRecord;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::workers::{Pending, Workers, processors};

/// How many of a damaged chunk's files are named.
const FILES_SHOWN: usize = 3;

/// A chunk, as it is stored.
struct Fetched {
    chunk: Chunk,
    bytes: Bytes,
}

/// The bytes of a chunk, or what is wrong with it.
type Decoded = Result<Vec<u8>, String>;

/// Hands all files of a backup to `sink`, and returns it.
pub(crate) async fn read<S: FileSink + Send + 'static>(
    repository: &Repository,
    label: &BackupLabel,
    packs: &[ObjectRecord],
    index: Index,
    mut sink: S,
) -> Result<S, ArchiveError> {
    let threads = processors();
    let (pending_sender, pending) = mpsc::channel(2 * threads);
    let workers = Workers::start(threads, |fetched: Fetched| decode(&fetched))?;
    let chunks = index.chunks.clone();
    let of_label = label.clone();
    let taking = off_the_runtime(move || {
        let mut content = Content {
            label: of_label,
            index: &index,
            pending,
            number: 0,
            current: Vec::new(),
            at: 0,
            damage: None,
        };
        content.files(&mut sink).map(|()| sink)
    });
    let fetching = async {
        // The sender is dropped at the end, whatever it is.
        let (sender, workers) = (pending_sender, workers);
        let sink = async |fetched| {
            let permit = sender.reserve().await.map_err(|_| gone())?;
            permit.send(workers.submit(fetched));
            Ok(())
        };
        fetch(repository, label, packs, &chunks, sink).await
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
pub(crate) async fn damaged(
    repository: &Repository,
    label: &BackupLabel,
    packs: &[ObjectRecord],
    index: &Index,
) -> Vec<ArchiveError> {
    let mut found = Vec::new();
    let mut number = 0;
    for (pack, object) in packs.iter().enumerate() {
        let chunks = chunks_of(&index.chunks, pack);
        let first = number;
        number += chunks.len();
        let mut next = first;
        let fetched = fetch_pack(repository, label, object, chunks, async |fetched| {
            if let Err(reason) = off_the_runtime(move || decode(&fetched)).await {
                found.push(damage(label, index, next, &reason));
            }
            next += 1;
            Ok(())
        });
        let fetched = fetched.await;
        found.extend(fetched.err());
    }
    found
}

/// Passes the chunks to `sink`, in order, as they are stored.
async fn fetch(
    repository: &Repository,
    label: &BackupLabel,
    packs: &[ObjectRecord],
    chunks: &[Chunk],
    mut sink: impl AsyncFnMut(Fetched) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let last = chunks.last().map_or(0, |chunk| chunk.pack as usize);
    if last >= packs.len() && !chunks.is_empty() {
        return Err(ArchiveError::Damaged {
            object: format!("backup {label}"),
            reason: format!("its index names pack {last}, which it has not"),
        });
    }
    for (number, object) in packs.iter().enumerate() {
        let chunks = chunks_of(chunks, number);
        fetch_pack(repository, label, object, chunks, &mut sink).await?;
    }
    Ok(())
}

/// The chunks in a pack, of chunks in the order of the packs.
fn chunks_of(chunks: &[Chunk], pack: usize) -> &[Chunk] {
    let start = chunks.partition_point(|chunk| (chunk.pack as usize) < pack);
    let end = chunks.partition_point(|chunk| chunk.pack as usize <= pack);
    chunks.get(start..end).unwrap_or_default()
}

/// Passes the chunks of a pack to `sink`. Its bytes that belong to no chunk are stepped over.
async fn fetch_pack(
    repository: &Repository,
    label: &BackupLabel,
    object: &ObjectRecord,
    chunks: &[Chunk],
    mut sink: impl AsyncFnMut(Fetched) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let mut pieces = PackPieces {
        object,
        label,
        stream: repository.open_backup_object(label, &object.name).await?,
        waiting: BytesMut::new(),
        at: 0,
    };
    let header = pieces.take(pack::HEADER_LEN).await?;
    pack::check_header(&header).map_err(|reason| pieces.damaged(reason))?;
    for chunk in chunks {
        let gap = chunk.offset.checked_sub(pieces.at);
        let gap = gap.ok_or_else(|| pieces.damaged("its chunks overlap".to_owned()))?;
        pieces.skip(gap).await?;
        let bytes = pieces.take(chunk.size_bytes as usize).await?;
        let chunk = chunk.clone();
        sink(Fetched { chunk, bytes }).await?;
    }
    Ok(())
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
                    return Err(self.damaged(format!("it should have {size_bytes} bytes")));
                }
            }
        }
        self.at += len as u64;
        Ok(self.waiting.split_to(len).freeze())
    }

    async fn skip(&mut self, mut len: u64) -> Result<(), ArchiveError> {
        while len > 0 {
            let part = len.min(1 << 20);
            self.take(part as usize).await?;
            len -= part;
        }
        Ok(())
    }

    fn damaged(&self, reason: String) -> ArchiveError {
        ArchiveError::Damaged {
            object: format!("{} of backup {}", self.object.name, self.label),
            reason,
        }
    }
}

fn decode(fetched: &Fetched) -> Decoded {
    let Fetched { chunk, bytes } = fetched;
    if blake3::hash(bytes).to_hex().as_str() != chunk.blake3 {
        return Err("its BLAKE3 hash is not the recorded one".to_owned());
    }
    let header = walzip_codec::Header::read(bytes).map_err(|error| error.to_string())?;
    if header.original_len != u64::from(chunk.original_bytes) {
        let (len, said) = (header.original_len, chunk.original_bytes);
        return Err(format!("it holds {len} bytes, {said} in the index"));
    }
    walzip_codec::decode(bytes).map_err(|error| error.to_string())
}

/// Names a damaged chunk by its pack, and the files that it is of.
fn damage(label: &BackupLabel, index: &Index, number: usize, reason: &str) -> ArchiveError {
    let files = index.files_of(number);
    let shown = files.iter().take(FILES_SHOWN).map(String::as_str);
    let mut shown = shown.collect::<Vec<_>>().join(", ");
    if files.len() > FILES_SHOWN {
        shown.push_str(&format!(" and {} other files", files.len() - FILES_SHOWN));
    }
    let pack = index.chunks.get(number).map_or(0, |chunk| chunk.pack);
    let pack = pack::name(pack as usize);
    ArchiveError::Damaged {
        object: format!("chunk {number} of backup {label}, in {pack} and of {shown},"),
        reason: reason.to_owned(),
    }
}

/// The stream of files, decoded.
struct Content<'i> {
    label: BackupLabel,
    index: &'i Index,
    pending: mpsc::Receiver<Pending<Decoded>>,
    /// The number of the next chunk.
    number: usize,
    current: Vec<u8>,
    at: usize,
    /// What is wrong with a chunk that could not be read.
    damage: Option<ArchiveError>,
}

impl Content<'_> {
    fn files(&mut self, sink: &mut dyn FileSink) -> Result<(), ArchiveError> {
        for member in &self.index.members {
            let taken = match member {
                Member::Directory(entry) => sink.directory(entry.clone()),
                Member::File(entry, size_bytes) => {
                    let mut content = Read::take(&mut *self, *size_bytes);
                    sink.file(entry.clone(), *size_bytes, &mut content)
                }
            };
            taken.map_err(|error| self.damage.take().unwrap_or(error))?;
        }
        Ok(())
    }

    /// `None` after the last chunk.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(pending) = self.pending.blocking_recv() else {
            return Ok(None);
        };
        let decoded = pending.blocking_result().map_err(io::Error::other)?;
        let number = self.number;
        self.number += 1;
        decoded.map(Some).map_err(|reason| {
            self.damage = Some(damage(&self.label, self.index, number, &reason));
            io::Error::other(reason)
        })
    }
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.current.len() {
            match self.next()? {
                Some(chunk) => self.current = chunk,
                None => return Ok(0),
            }
            self.at = 0;
        }
        let rest = self.current.get(self.at..).unwrap_or_default();
        let length = buffer.len().min(rest.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.at += length;
        Ok(length)
    }
}
