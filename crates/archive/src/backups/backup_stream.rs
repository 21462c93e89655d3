//! Files of any length, compressed, as objects of a backup: written and read in bounded memory.

use std::io::{self, BufRead, BufReader, Read, Write};

use bytes::{Buf, Bytes};
use futures::TryStreamExt;
use tokio::sync::mpsc;
use walzip_repo::{BackupLabel, BackupWriter, Repository};
use zstd::stream::write::Encoder;

use crate::backups::backup_record::{ArchiveRecord, ObjectRecord};
use crate::error::ArchiveError;

/// Of manifests and indexes.
const ZSTD_LEVEL: i32 = 3;
/// Bytes that are compressed at once.
const PIECE_BYTES: usize = 1 << 20;
/// Manifests and indexes have checksums, and do not become smaller than this part by compression.
const EXPANSION_BELIEVED: u64 = 200;
/// No manifest and no index has more bytes.
const STREAM_BYTES_MAX: u64 = 4 << 30;

/// How many pieces of an object wait between the repository and the reading thread.
const PIECES_WAITING: usize = 8;

/// Compresses a file into an object, `NAME.zst.0000`.
pub(crate) async fn write(
    writer: &BackupWriter,
    name: &str,
    content: &[u8],
) -> Result<ArchiveRecord, ArchiveError> {
    let name = writer.name(&format!("{name}.zst.0000"));
    let mut object = writer.create_object(&name).await?;
    let mut hasher = blake3::Hasher::new();
    let mut encoder = Encoder::new(Vec::new(), ZSTD_LEVEL).map_err(zstd_failed)?;
    encoder.include_checksum(true).map_err(zstd_failed)?;
    let mut size_bytes = 0;
    let mut pieces = content.chunks(PIECE_BYTES);
    loop {
        let piece = pieces.next();
        match piece {
            Some(piece) => encoder.write_all(piece).map_err(zstd_failed)?,
            None => encoder.do_finish().map_err(zstd_failed)?,
        }
        let compressed = std::mem::take(encoder.get_mut());
        hasher.update(&compressed);
        size_bytes += compressed.len() as u64;
        object.write(compressed).await?;
        if piece.is_none() {
            break;
        }
    }
    object.finish().await?;
    Ok(ArchiveRecord {
        tablespace_oid: None,
        original_bytes: content.len() as u64,
        objects: vec![ObjectRecord {
            name,
            size_bytes,
            blake3: hasher.finalize().to_hex().to_string(),
        }],
    })
}

/// zstd writes into memory here, so that it can only fail at a defect of its own.
fn zstd_failed(error: io::Error) -> ArchiveError {
    ArchiveError::Internal(format!("zstd failed: {error}"))
}

/// Passes the stored bytes of objects to `sink`, in order, and proves each object's size and hash
/// at its end. What was passed on before that is not proven yet.
pub(crate) async fn read_stored<'o>(
    repository: &Repository,
    label: &BackupLabel,
    objects: impl IntoIterator<Item = &'o ObjectRecord>,
    mut sink: impl AsyncFnMut(Bytes) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    for object in objects {
        let damaged = |reason: String| ArchiveError::Damaged {
            object: format!("{} of backup {label}", object.name),
            reason,
        };
        let mut pieces = repository.open_backup_object(label, &object.name).await?;
        let mut hasher = blake3::Hasher::new();
        let mut size_bytes = 0;
        while let Some(piece) = pieces.try_next().await? {
            hasher.update(&piece);
            size_bytes += piece.len() as u64;
            if size_bytes > object.size_bytes {
                break;
            }
            sink(piece).await?;
        }
        if size_bytes != object.size_bytes {
            let reason = format!("it should have {} bytes", object.size_bytes);
            return Err(damaged(reason));
        }
        if hasher.finalize().to_hex().as_str() != object.blake3 {
            return Err(damaged(
                "its BLAKE3 hash is not the recorded one".to_owned(),
            ));
        }
    }
    Ok(())
}

/// Runs `work` on a thread for blocking work, with the decompressed file to read from, to its
/// end.
///
/// The objects' own errors come first: when one is damaged, what `work` made of it is no news.
pub(crate) async fn read_decompressed<T: Send + 'static>(
    repository: &Repository,
    label: &BackupLabel,
    record: &ArchiveRecord,
    work: impl FnOnce(&mut dyn Read) -> Result<T, ArchiveError> + Send + 'static,
) -> Result<T, ArchiveError> {
    let (sender, receiver) = mpsc::channel::<Bytes>(PIECES_WAITING);
    let object = format!("backup {label}");
    let worker = tokio::task::spawn_blocking(move || {
        let pieces = Pieces {
            receiver,
            current: Bytes::new(),
        };
        let damaged = |error: io::Error| ArchiveError::Damaged {
            object: object.clone(),
            reason: error.to_string(),
        };
        let mut decoder = zstd::stream::read::Decoder::new(pieces).map_err(damaged)?;
        let result = work(&mut decoder)?;
        io::copy(&mut decoder, &mut io::sink()).map_err(damaged)?;
        Ok(result)
    });
    let read = read_stored(repository, label, &record.objects, async |piece| {
        let gone = || ArchiveError::Internal("the reader stopped early".to_owned());
        sender.send(piece).await.map_err(|_| gone())
    });
    let read = read.await;
    drop(sender);
    let worked = match worker.await {
        Ok(worked) => worked,
        Err(failure) => std::panic::resume_unwind(failure.into_panic()),
    };
    match (read, worked) {
        (Ok(()), worked) => worked,
        // The worker stopped reading because it failed: that is the cause.
        (Err(ArchiveError::Internal(_)), Err(cause)) => Err(cause),
        (Err(cause), _) => Err(cause),
    }
}

/// The stored bytes of a file, from the task that fetches them.
struct Pieces {
    receiver: mpsc::Receiver<Bytes>,
    current: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.current.has_remaining() {
            match self.receiver.blocking_recv() {
                Some(piece) => self.current = piece,
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

/// Reads all of a file that is stored as a stream; `what` is for messages.
pub(crate) async fn read_whole<T: Send + 'static>(
    repository: &Repository,
    label: &BackupLabel,
    record: &ArchiveRecord,
    what: String,
    parse: impl FnOnce(&mut dyn BufRead) -> Result<T, String> + Send + 'static,
) -> Result<T, ArchiveError> {
    let size_bytes = record.original_bytes;
    let sizes = record.objects.iter().map(|object| object.size_bytes);
    let stored = sizes.fold(0, u64::saturating_add);
    let damaged = move |reason| ArchiveError::Damaged {
        object: what.clone(),
        reason,
    };
    let believed = stored
        .saturating_mul(EXPANSION_BELIEVED)
        .saturating_add(1 << 20);
    if size_bytes > believed.min(STREAM_BYTES_MAX) {
        let reason = format!("{stored} bytes do not hold {size_bytes}");
        return Err(damaged(reason));
    }
    let read = read_decompressed(repository, label, record, move |content| {
        let mut content = BufReader::new(content.take(size_bytes + 1));
        let parsed = parse(&mut content).map_err(&damaged)?;
        // One byte is left of the limit where it was met exactly.
        match content.into_inner().limit() {
            1 => Ok(parsed),
            _ => Err(damaged(format!("it has not {size_bytes} bytes"))),
        }
    });
    read.await
}
