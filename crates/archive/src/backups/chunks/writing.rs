//! Files into chunks into packs: the way of a backup.
//!
//! One thread reads the files and cuts them, others encode and prove the chunks, and
//! the task that stores them takes them in their order. What waits between them is bounded.

use std::sync::Arc;

use blake3::Hash;
use tokio::sync::{mpsc, oneshot};
use walzip_codec::{ChunkEncoder, EncodeError, Level};
use walzip_repo::{BackupLabel, BackupWriter};

use super::block_hashes::{HashWriter, Key};
use super::buffers::Buffers;
use super::changes::Comparison;
use super::cutter::{Cut, CutChunk, Cutter};
use super::decoded::Decoded;
use super::index::{Chunk, StoredTable};
use super::kept::{How, Kept, KeptChunk};
use super::pack_writer::{Encoded, PackWriter, Stored};
use super::tables::{Role, Table};
use crate::backups::backup_files::FileSink;
use crate::backups::backup_record::{BackupRecord, BlockHashesRecord, ObjectRecord};
use crate::backups::pg_manifest::Hasher;
use crate::coding::off_the_runtime;
use crate::coding::workers::{Pending, Workers};
use crate::error::ArchiveError;
use crate::server::replication::ManifestChecksums;

/// Changed blocks that become more than this part of their bytes may be smaller by themselves.
const DOUBTFUL_PART: usize = 8;

/// Changed blocks are told from the full backup where they are at least this part of what has to be fetched and
/// decoded for it, at levels for which time matters most and at the others. Told from nothing, a block takes
/// about 1 KB more, and less time.
const CHANGED_PART_FAST: u64 = 8;
const CHANGED_PART_SMALL: u64 = 32;

/// Encoded chunks that wait in memory until they may be stored have no more bytes than this, but for the
/// last.
const EARLY_BYTES_MAX: usize = 32 << 20;

/// What changed blocks are found and told by.
pub(crate) struct Changes {
    pub(crate) comparison: Comparison,
    /// The full backup's chunks.
    pub(crate) full: Arc<Decoded>,
    /// The description of the backup that the new one is compared with.
    pub(crate) prior: Box<BackupRecord>,
    /// The block hashes that it is compared by, by the backup that has them.
    pub(crate) hash_objects: Vec<(BackupLabel, Vec<ObjectRecord>)>,
}

/// What changed blocks are told from, and from which part of it on that is done.
#[derive(Clone)]
struct Base {
    full: Arc<Decoded>,
    changed_part: u64,
}

impl Base {
    /// The bytes of runs, if a large enough part of what is decoded for them is wanted.
    fn runs(&self, runs: &[[u64; 2]], len: usize) -> Result<Option<Vec<u8>>, ArchiveError> {
        let decoded = self.full.decoded_for(runs)?;
        match decoded <= self.changed_part * len as u64 {
            true => self.full.runs(runs).map(Some),
            false => Ok(None),
        }
    }
}

/// What is in the repository already.
pub(crate) enum Earlier {
    /// Nothing that a full backup can use.
    Nothing,
    /// Other backups.
    Backups(Changes),
    /// What earlier attempts at the same backup have stored.
    Attempts(Kept),
}

/// How to encode the chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoding {
    pub(crate) level: Level,
    /// Whether each chunk is decoded again and compared.
    pub(crate) proves: bool,
    pub(crate) threads: usize,
    /// The checksum that the server computes for each file.
    pub(crate) checksums: ManifestChecksums,
    /// Whether CRCs of blocks are stored, so that the next backup need not read all of them.
    pub(crate) has_block_crcs: bool,
    /// A pack that has this many bytes is closed.
    pub(crate) pack_bytes: u64,
}

impl Encoding {
    fn how(&self) -> How {
        How {
            level: self.level,
            proves: self.proves,
        }
    }
}

/// The chunk, unless what it is told from cannot be had, or it cannot be encoded.
type EncodedOr = Result<Result<Encoded, EncodeError>, ArchiveError>;

/// What was stored.
pub(crate) struct Packed {
    pub(crate) packs: Vec<ObjectRecord>,
    /// First those of no changed blocks.
    pub(crate) chunks: Vec<Chunk>,
    /// Tables whose indexes are told from their rows.
    pub(crate) tables: Vec<StoredTable>,
    pub(crate) block_hashes: BlockHashesRecord,
}

/// Stores in packs the files that `feed` hands on, on a thread that may block, while `meanwhile`
/// does its part of the work. Nothing is stored before `may_store` sends.
///
/// Where one of those who work together fails, the others stop, and its error is returned.
pub(crate) async fn store<T>(
    writer: &BackupWriter,
    encoding: Encoding,
    (earlier, may_store): (Earlier, oneshot::Receiver<()>),
    feed: impl FnOnce(&mut dyn FileSink) -> Result<(), ArchiveError> + Send + 'static,
    meanwhile: impl AsyncFnOnce() -> Result<T, ArchiveError>,
) -> Result<(T, Cut, Packed), ArchiveError> {
    let (pending_sender, pending) = mpsc::channel(2 * encoding.threads);
    let key = Key::random(encoding.has_block_crcs)?;
    let (changes, mut kept) = match earlier {
        Earlier::Nothing => (None, None),
        Earlier::Backups(changes) => (Some(changes), None),
        Earlier::Attempts(kept) => (None, Some(kept)),
    };
    let full = changes.as_ref().map(|changes| Base {
        full: Arc::clone(&changes.full),
        changed_part: match encoding.level.tells_indexes() {
            true => CHANGED_PART_SMALL,
            false => CHANGED_PART_FAST,
        },
    });
    let comparison = changes.map(|changes| changes.comparison);
    let work = Work {
        level: encoding.level,
        proves: encoding.proves,
        key,
        full,
    };
    let buffers = Buffers::default();
    let cutting = off_the_runtime(move || {
        let workers = Workers::start(encoding.threads, || {
            let mut work = work.clone();
            let mut encoder = ChunkEncoder::new(work.level, work.proves);
            let used = buffers.clone();
            move |(mut chunk, kept): (CutChunk, Option<KeptChunk>)| {
                if let Role::Rows(table, part) = &chunk.role {
                    table.part(*part).take(&chunk.bytes);
                }
                let encoded = match kept {
                    Some(kept) => Ok(Ok(work.keep(kept, &chunk))),
                    None => work.encode(&mut encoder, &mut chunk),
                };
                used.give_back(chunk.bytes);
                encoded
            }
        })?;
        let take = |chunk| {
            let kept = kept.as_mut().and_then(|kept| kept.take(&chunk));
            let sent = pending_sender.blocking_send(workers.submit((chunk, kept)));
            sent.map_err(|_| stopped())
        };
        let mut cutter = Cutter::new(hasher(encoding.checksums), comparison, buffers, take);
        feed(&mut cutter)?;
        cutter.finish()
    });
    let storing = store_chunks(writer, (encoding, key), may_store, pending);
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

fn hasher(checksums: ManifestChecksums) -> fn() -> Hasher {
    match checksums {
        ManifestChecksums::Crc32c => || Hasher::for_backup(ManifestChecksums::Crc32c),
        ManifestChecksums::Sha256 => || Hasher::for_backup(ManifestChecksums::Sha256),
    }
}

/// How a thread encodes chunks.
#[derive(Clone)]
struct Work {
    level: Level,
    proves: bool,
    /// Of the block hashes.
    key: Key,
    /// What changed blocks are told from.
    full: Option<Base>,
}

impl Work {
    fn encode(&mut self, encoder: &mut ChunkEncoder, chunk: &mut CutChunk) -> EncodedOr {
        if let Role::Index(table, index) = &chunk.role
            && let Some((member, is_told)) = of_index(encoder, chunk, table, *index)
        {
            let role = if is_told {
                chunk.role.clone()
            } else {
                Role::None
            };
            return Ok(Ok(self.encoded(member, chunk, None, role)));
        }
        let mut base = chunk.base.take();
        let CutChunk { extents, bytes, .. } = &*chunk;
        let mut told = None;
        if let (Some(runs), Some(full)) = (&base, &self.full)
            && let Some(base) = full.runs(runs, bytes.len())?
        {
            let (level, proves) = (self.level, self.proves);
            match walzip_codec::encode_differences(extents, bytes, &base, level, proves) {
                Ok(member) => told = member,
                // What fails at this is carried without it.
                Err(error) => tracing::debug!("changed blocks are coded by themselves: {error}"),
            }
        }
        let is_small = |member: &Vec<u8>| member.len() <= bytes.len() / DOUBTFUL_PART;
        let encoded = match told {
            Some(member) if is_small(&member) => member,
            told => match encoder.encode(extents, bytes) {
                Err(error) => return Ok(Err(error)),
                Ok(member) => match told.filter(|told| told.len() < member.len()) {
                    Some(told) => told,
                    None => {
                        base = base.map(|_| Vec::new());
                        member
                    }
                },
            },
        };
        let role = match &chunk.role {
            Role::Index(..) => Role::None,
            role => role.clone(),
        };
        Ok(Ok(self.encoded(encoded, chunk, base, role)))
    }

    fn encoded(
        &self,
        member: Vec<u8>,
        chunk: &CutChunk,
        base: Option<Vec<[u64; 2]>>,
        role: Role,
    ) -> Encoded {
        let original_hash = match walzip_codec::Header::read(&member) {
            Ok(header) => Hash::from_bytes(header.original_hash),
            Err(_) => blake3::hash(&chunk.bytes),
        };
        let hash = blake3::hash(&member);
        Encoded {
            stored: Stored::New(member, hash),
            original_bytes: chunk.bytes.len() as u32,
            original_hash,
            hashes: self.key.hashes(&chunk.bytes, &chunk.runs),
            base,
            role,
        }
    }

    /// A chunk that an earlier attempt has stored.
    fn keep(&self, kept: KeptChunk, chunk: &CutChunk) -> Encoded {
        Encoded {
            original_bytes: kept.chunk.original_bytes,
            original_hash: kept.chunk.original_blake3,
            stored: Stored::Kept(kept),
            hashes: self.key.hashes(&chunk.bytes, &chunk.runs),
            base: None,
            role: chunk.role.clone(),
        }
    }
}

/// The chunk of an index, and whether it is told from the rows of its table; nothing where those cannot
/// be had, or it cannot be encoded.
fn of_index(
    encoder: &mut ChunkEncoder,
    chunk: &CutChunk,
    table: &Table,
    index: usize,
) -> Option<(Vec<u8>, bool)> {
    let in_use = table.entries(index);
    let in_use = in_use.inspect_err(|reason| {
        tracing::debug!("an index is stored by itself: {reason}");
    });
    let in_use = in_use.ok()?;
    encoder
        .encode_index(&chunk.extents, &chunk.bytes, &in_use.entries)
        .ok()
}

/// The chunks that are done before anything may be stored. Where they are many, the others wait for that.
async fn encoded_early(
    mut may_store: oneshot::Receiver<()>,
    pending: &mut mpsc::Receiver<Pending<EncodedOr>>,
) -> Result<Vec<Result<Encoded, EncodeError>>, ArchiveError> {
    let (mut early, mut bytes) = (Vec::new(), 0);
    while bytes < EARLY_BYTES_MAX {
        let chunk = tokio::select! {
            may = &mut may_store => return may.map(|()| early).map_err(|_| stopped()),
            chunk = pending.recv() => chunk,
        };
        let Some(chunk) = chunk else {
            break;
        };
        let encoded = chunk.result().await??;
        bytes += encoded.as_ref().map_or(0, Encoded::bytes_in_memory);
        early.push(encoded);
    }
    may_store.await.map_err(|_| stopped())?;
    Ok(early)
}

/// Stores the chunks as they are done, in their order.
async fn store_chunks(
    writer: &BackupWriter,
    (encoding, key): (Encoding, Key),
    may_store: oneshot::Receiver<()>,
    mut pending: mpsc::Receiver<Pending<EncodedOr>>,
) -> Result<Packed, ArchiveError> {
    let mut early = encoded_early(may_store, &mut pending).await?.into_iter();
    let mut packs = PackWriter::new(writer, encoding.pack_bytes, encoding.how());
    let mut hashes = HashWriter::new(writer, "block_hashes");
    let mut hashes_of_changed = HashWriter::new(writer, "changed_hashes");
    loop {
        let encoded = match early.next() {
            Some(encoded) => encoded,
            None => match pending.recv().await {
                Some(chunk) => chunk.result().await??,
                None => break,
            },
        };
        let mut encoded = encoded.map_err(|source| {
            let name = format!("chunk {}", packs.count());
            ArchiveError::Encode { name, source }
        })?;
        match encoded.base {
            None => hashes.write(std::mem::take(&mut encoded.hashes)).await?,
            Some(_) => {
                let hashes = std::mem::take(&mut encoded.hashes);
                hashes_of_changed.write(hashes).await?;
            }
        }
        packs.write(encoded).await?;
    }
    let (stored, objects, changed) =
        tokio::try_join!(packs.finish(), hashes.finish(), hashes_of_changed.finish())?;
    let (packs, chunks, tables) = stored;
    Ok(Packed {
        packs,
        chunks,
        tables,
        block_hashes: key.record(objects, changed),
    })
}
