//! Files of any length, compressed, as objects of a backup: written and read in bounded memory.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes};
use futures::TryStreamExt;
use tokio::sync::mpsc;
use walzip_repo::{BackupLabel, BackupObject, BackupWriter, Repository};
use zstd::stream::write::Encoder;

use crate::backup_record::{ArchiveRecord, ObjectRecord};
use crate::error::ArchiveError;

/// Compressed bytes that are collected before they are handed on.
const BATCH_BYTES: usize = 1 << 20;
/// How many pieces of an object wait between the repository and the reading thread.
const PIECES_WAITING: usize = 8;

/// Compresses a file into one object or more.
pub(crate) struct StreamWriter<'w> {
    writer: &'w BackupWriter,
    name: String,
    object_bytes_max: u64,
    encoder: Encoder<'static, Vec<u8>>,
    object: Option<OpenObject>,
    record: ArchiveRecord,
}

struct OpenObject {
    object: BackupObject,
    name: String,
    hasher: blake3::Hasher,
    size_bytes: u64,
}

impl<'w> StreamWriter<'w> {
    /// Objects are named `<name>.zst.0000` and so on, and none is longer than
    /// `object_bytes_max`.
    pub(crate) fn new(
        writer: &'w BackupWriter,
        name: &str,
        tablespace_oid: Option<u32>,
        zstd_level: i32,
        object_bytes_max: u64,
    ) -> Result<StreamWriter<'w>, ArchiveError> {
        let mut encoder = Encoder::new(Vec::new(), zstd_level).map_err(zstd_failed)?;
        encoder.include_checksum(true).map_err(zstd_failed)?;
        Ok(StreamWriter {
            writer,
            name: name.to_owned(),
            object_bytes_max: object_bytes_max.max(1),
            encoder,
            object: None,
            record: ArchiveRecord {
                tablespace_oid,
                original_bytes: 0,
                objects: Vec::new(),
            },
        })
    }

    /// The tablespace whose archive it is.
    pub(crate) fn tablespace_oid(&self) -> Option<u32> {
        self.record.tablespace_oid
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        self.record.original_bytes += bytes.len() as u64;
        self.encoder.write_all(bytes).map_err(zstd_failed)?;
        if self.encoder.get_ref().len() >= BATCH_BYTES {
            let batch = std::mem::take(self.encoder.get_mut());
            self.store(&batch).await?;
        }
        Ok(())
    }

    pub(crate) async fn finish(mut self) -> Result<ArchiveRecord, ArchiveError> {
        self.encoder.do_finish().map_err(zstd_failed)?;
        let last = std::mem::take(self.encoder.get_mut());
        self.store(&last).await?;
        self.close_object().await?;
        Ok(self.record)
    }

    async fn store(&mut self, mut bytes: &[u8]) -> Result<(), ArchiveError> {
        while !bytes.is_empty() {
            let open = match &mut self.object {
                Some(open) => open,
                None => {
                    let opened = self.open_object().await?;
                    self.object.insert(opened)
                }
            };
            let room = usize::try_from(self.object_bytes_max - open.size_bytes);
            let (fits, rest) = bytes.split_at(room.unwrap_or(usize::MAX).min(bytes.len()));
            open.object.write(fits).await?;
            open.hasher.update(fits);
            open.size_bytes += fits.len() as u64;
            bytes = rest;
            if open.size_bytes == self.object_bytes_max {
                self.close_object().await?;
            }
        }
        Ok(())
    }

    async fn open_object(&self) -> Result<OpenObject, ArchiveError> {
        let name = format!("{}.zst.{:04}", self.name, self.record.objects.len());
        let object = self.writer.create_object(&name).await?;
        Ok(OpenObject {
            object,
            name,
            hasher: blake3::Hasher::new(),
            size_bytes: 0,
        })
    }

    async fn close_object(&mut self) -> Result<(), ArchiveError> {
        if let Some(open) = self.object.take() {
            open.object.finish().await?;
            self.record.objects.push(ObjectRecord {
                name: open.name,
                size_bytes: open.size_bytes,
                blake3: open.hasher.finalize().to_hex().to_string(),
            });
        }
        Ok(())
    }
}

/// zstd writes into memory here, so that it can only fail at a defect of its own.
fn zstd_failed(error: io::Error) -> ArchiveError {
    ArchiveError::Internal(format!("zstd failed: {error}"))
}

/// Passes the stored bytes of a file to `sink`, in order, and proves each object's size and hash
/// at its end. What was passed on before that is not proven yet.
pub(crate) async fn read_stored(
    repository: &Repository,
    label: &BackupLabel,
    record: &ArchiveRecord,
    mut sink: impl AsyncFnMut(Bytes) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    for object in &record.objects {
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
    let read = read_stored(repository, label, record, async |piece| {
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
