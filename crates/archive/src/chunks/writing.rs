//! Files into chunks into packs: the way of a backup.
//!
//! One thread reads the files and cuts them, others encode and prove the chunks, and
//! the task that stores them takes them in their order. What waits between them is bounded.

use blake3::Hash;
use tokio::sync::mpsc;
use walzip_codec::{ChunkEncoder, EncodeError, Level};
use walzip_repo::{BackupObject, BackupWriter};

use super::cutter::{Cut, CutChunk, Cutter};
use super::index::Chunk;
use super::pack;
use crate::backup_files::FileSink;
use crate::backup_record::ObjectRecord;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::pg_manifest::Hasher;
use crate::replication::ManifestChecksums;
use crate::workers::{Pending, Workers};

/// How to encode the chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoding {
    pub(crate) level: Level,
    /// Whether each chunk is decoded again and compared.
    pub(crate) proves: bool,
    pub(crate) threads: usize,
    /// The checksum that the server computes for each file.
    pub(crate) checksums: ManifestChecksums,
    /// A pack that has this many bytes is closed.
    pub(crate) pack_bytes: u64,
}

/// A chunk, encoded.
struct Encoded {
    bytes: Vec<u8>,
    hash: Hash,
    original_bytes: u32,
    original_hash: Hash,
}

/// What was stored.
pub(crate) struct Packed {
    pub(crate) packs: Vec<ObjectRecord>,
    pub(crate) chunks: Vec<Chunk>,
}

/// Stores in packs the files that `feed` hands on, on a thread that may block, while `meanwhile`
/// does its part of the work.
///
/// Where one of those who work together fails, the others stop, and its error is returned.
pub(crate) async fn store<T>(
    writer: &BackupWriter,
    encoding: Encoding,
    feed: impl FnOnce(&mut dyn FileSink) -> Result<(), ArchiveError> + Send + 'static,
    meanwhile: impl AsyncFnOnce() -> Result<T, ArchiveError>,
) -> Result<(T, Cut, Packed), ArchiveError> {
    let (pending_sender, pending) = mpsc::channel(2 * encoding.threads);
    let cutting = off_the_runtime(move || cut(feed, pending_sender, encoding));
    let storing = store_chunks(writer, encoding.pack_bytes, pending);
    let (done, stored, cut) = tokio::join!(meanwhile(), storing, cutting);
    let failures = [
        done.as_ref().err(),
        stored.as_ref().err(),
        cut.as_ref().err(),
    ];
    let cause = failures
        .iter()
        .position(|failure| failure.is_some_and(is_cause));
    match (cause, done, stored, cut) {
        (_, Ok(done), Ok(packed), Ok(cut)) => Ok((done, cut, packed)),
        (Some(1), _, Err(error), _) | (Some(2), _, _, Err(error)) => Err(error),
        (_, Err(error), _, _) | (_, _, Err(error), _) | (_, _, _, Err(error)) => Err(error),
    }
}

/// What a part says that could not go on because another one had stopped.
pub(crate) fn stopped() -> ArchiveError {
    ArchiveError::Internal("another part of the work stopped early".to_owned())
}

fn is_cause(error: &ArchiveError) -> bool {
    !matches!(error, ArchiveError::Internal(_))
}

/// Cuts the files and hands the chunks to the threads that encode them.
fn cut(
    feed: impl FnOnce(&mut dyn FileSink) -> Result<(), ArchiveError>,
    pending: mpsc::Sender<Pending<Result<Encoded, EncodeError>>>,
    encoding: Encoding,
) -> Result<Cut, ArchiveError> {
    let new_work = || {
        let mut encoder = ChunkEncoder::new(encoding.level, encoding.proves);
        move |chunk: CutChunk| encode(&mut encoder, &chunk)
    };
    let workers = Workers::start(encoding.threads, new_work)?;
    let hasher: fn() -> Hasher = match encoding.checksums {
        ManifestChecksums::Crc32c => || Hasher::for_backup(ManifestChecksums::Crc32c),
        ManifestChecksums::Sha256 => || Hasher::for_backup(ManifestChecksums::Sha256),
    };
    let mut cutter = Cutter::new(hasher, |chunk| {
        let sent = pending.blocking_send(workers.submit(chunk));
        sent.map_err(|_| stopped())
    });
    feed(&mut cutter)?;
    cutter.finish()
}

fn encode(encoder: &mut ChunkEncoder, chunk: &CutChunk) -> Result<Encoded, EncodeError> {
    let bytes = encoder.encode(&chunk.extents, &chunk.bytes)?;
    let original_hash = match walzip_codec::Header::read(&bytes) {
        Ok(header) => Hash::from_bytes(header.original_hash),
        Err(_) => blake3::hash(&chunk.bytes),
    };
    Ok(Encoded {
        hash: blake3::hash(&bytes),
        bytes,
        original_bytes: chunk.bytes.len() as u32,
        original_hash,
    })
}

/// Stores the chunks as they are done, in their order.
async fn store_chunks(
    writer: &BackupWriter,
    pack_bytes: u64,
    mut pending: mpsc::Receiver<Pending<Result<Encoded, EncodeError>>>,
) -> Result<Packed, ArchiveError> {
    let mut packs = Packs {
        writer,
        pack_bytes,
        open: None,
        packed: Packed {
            packs: Vec::new(),
            chunks: Vec::new(),
        },
    };
    while let Some(chunk) = pending.recv().await {
        let encoded = chunk.result().await?.map_err(|source| {
            let name = format!("chunk {}", packs.packed.chunks.len());
            ArchiveError::Encode { name, source }
        })?;
        packs.write(&encoded).await?;
    }
    packs.close().await?;
    Ok(packs.packed)
}

struct Packs<'w> {
    writer: &'w BackupWriter,
    pack_bytes: u64,
    open: Option<OpenPack>,
    packed: Packed,
}

struct OpenPack {
    object: BackupObject,
    hasher: blake3::Hasher,
    size_bytes: u64,
}

impl OpenPack {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        self.object.write(bytes).await?;
        self.hasher.update(bytes);
        self.size_bytes += bytes.len() as u64;
        Ok(())
    }
}

impl Packs<'_> {
    async fn write(&mut self, chunk: &Encoded) -> Result<(), ArchiveError> {
        let number = self.packed.packs.len();
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let mut open = OpenPack {
                    object: self.writer.create_object(&pack::name(number)).await?,
                    hasher: blake3::Hasher::new(),
                    size_bytes: 0,
                };
                open.write(&pack::header()).await?;
                self.open.insert(open)
            }
        };
        self.packed.chunks.push(Chunk {
            pack: number as u32,
            offset: open.size_bytes,
            size_bytes: chunk.bytes.len() as u32,
            original_bytes: chunk.original_bytes,
            blake3: chunk.hash,
            original_blake3: chunk.original_hash,
        });
        open.write(&chunk.bytes).await?;
        match open.size_bytes < self.pack_bytes {
            true => Ok(()),
            false => self.close().await,
        }
    }

    async fn close(&mut self) -> Result<(), ArchiveError> {
        if let Some(open) = self.open.take() {
            open.object.finish().await?;
            self.packed.packs.push(ObjectRecord {
                name: pack::name(self.packed.packs.len()),
                size_bytes: open.size_bytes,
                blake3: open.hasher.finalize().to_hex().to_string(),
            });
        }
        Ok(())
    }
}
