//! Encoded chunks into packs.

use std::collections::HashMap;

use blake3::Hash;
use walzip_repo::{BackupObject, BackupType, BackupWriter};

use super::index::{Chunk, StoredTable};
use super::kept::{self, How, KeptChunk};
use super::pack;
use super::stored_tables::StoredTables;
use super::tables::Role;
use crate::backups::backup_record::ObjectRecord;
use crate::error::ArchiveError;

/// A chunk, encoded.
pub(crate) struct Encoded {
    pub(crate) stored: Stored,
    pub(crate) original_bytes: u32,
    pub(crate) original_hash: Hash,
    /// The hashes of its blocks.
    pub(crate) hashes: Vec<u8>,
    /// What it is told from, if it is of changed blocks.
    pub(crate) base: Option<Vec<[u64; 2]>>,
    /// What it has to do with a table.
    pub(crate) role: Role,
}

impl Encoded {
    /// Bytes of it that wait for being stored.
    pub(crate) fn bytes_in_memory(&self) -> usize {
        let stored = match &self.stored {
            Stored::New(bytes, _) => bytes.len(),
            Stored::Kept(_) => 0,
        };
        stored + self.hashes.len()
    }
}

/// The bytes that are stored of a chunk.
pub(crate) enum Stored {
    /// These, with their hash.
    New(Vec<u8>, Hash),
    /// Those of an earlier attempt.
    Kept(KeptChunk),
}

/// Stores the packs of a backup.
pub(crate) struct PackWriter<'w> {
    writer: &'w BackupWriter,
    /// A pack that has this many bytes is closed.
    pack_bytes: u64,
    how: How,
    open: Option<OpenPack>,
    /// The number of chunks before those of the open pack, or of the one that was closed last.
    first_of_open: usize,
    /// Packs that this attempt has begun.
    begun: usize,
    /// All packs; nothing stands for the open one.
    packs: Vec<Option<ObjectRecord>>,
    /// The numbers of those of earlier attempts, by their names.
    kept: HashMap<String, u32>,
    chunks: Vec<Chunk>,
    /// Chunks of changed blocks.
    changed: Vec<Chunk>,
    tables: StoredTables,
}

struct OpenPack {
    object: BackupObject,
    name: String,
    /// Its number among all packs.
    number: u32,
    hasher: blake3::Hasher,
    size_bytes: u64,
}

impl OpenPack {
    async fn write(&mut self, bytes: Vec<u8>) -> Result<(), ArchiveError> {
        self.hasher.update(&bytes);
        self.size_bytes += bytes.len() as u64;
        Ok(self.object.write(bytes).await?)
    }
}

impl<'w> PackWriter<'w> {
    /// Nothing is stored yet.
    pub(crate) fn new(writer: &'w BackupWriter, pack_bytes: u64, how: How) -> PackWriter<'w> {
        PackWriter {
            writer,
            pack_bytes,
            how,
            open: None,
            first_of_open: 0,
            begun: 0,
            packs: Vec::new(),
            kept: HashMap::new(),
            chunks: Vec::new(),
            changed: Vec::new(),
            tables: StoredTables::default(),
        }
    }

    /// Chunks so far.
    pub(crate) fn count(&self) -> usize {
        self.chunks.len() + self.changed.len()
    }

    /// Stores the next chunk.
    pub(crate) async fn write(&mut self, encoded: Encoded) -> Result<(), ArchiveError> {
        let index = self.tables.include(&encoded.role, self.chunks.len());
        let (bytes, hash) = match encoded.stored {
            Stored::New(bytes, hash) => (bytes, hash),
            Stored::Kept(kept) => {
                self.keep(kept);
                return Ok(());
            }
        };
        if self.open.is_none() {
            self.open = Some(self.begin().await?);
        }
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let chunks = match encoded.base {
            None => &mut self.chunks,
            Some(_) => &mut self.changed,
        };
        chunks.push(Chunk {
            pack: open.number,
            offset: open.size_bytes,
            size_bytes: bytes.len() as u32,
            original_bytes: encoded.original_bytes,
            blake3: hash,
            original_blake3: encoded.original_hash,
            base: encoded.base,
            index,
        });
        open.write(bytes).await?;
        if open.size_bytes >= self.pack_bytes {
            let full = self.close().await?;
            self.note(full).await?;
        }
        Ok(())
    }

    async fn begin(&mut self) -> Result<OpenPack, ArchiveError> {
        let name = self.writer.name(&pack::name(self.begun));
        self.begun += 1;
        self.first_of_open = self.chunks.len();
        let mut open = OpenPack {
            object: self.writer.create_object(&name).await?,
            name,
            number: self.packs.len() as u32,
            hasher: blake3::Hasher::new(),
            size_bytes: 0,
        };
        self.packs.push(None);
        open.write(pack::header().to_vec()).await?;
        Ok(open)
    }

    /// Names a chunk of an earlier attempt, whose pack is there.
    fn keep(&mut self, KeptChunk { object, chunk }: KeptChunk) {
        let number = match self.kept.get(&object.name) {
            Some(&number) => number,
            None => {
                let number = self.packs.len() as u32;
                self.writer.keep(&object.name, object.size_bytes);
                self.kept.insert(object.name.clone(), number);
                self.packs.push(Some(object));
                number
            }
        };
        self.chunks.push(Chunk {
            pack: number,
            ..chunk
        });
    }

    /// Closes the open pack; returns its number.
    async fn close(&mut self) -> Result<Option<u32>, ArchiveError> {
        let Some(open) = self.open.take() else {
            return Ok(None);
        };
        open.object.finish().await?;
        if let Some(closed) = self.packs.get_mut(open.number as usize) {
            *closed = Some(ObjectRecord {
                name: open.name,
                size_bytes: open.size_bytes,
                blake3: open.hasher.finalize().to_hex().to_string(),
            });
        }
        Ok(Some(open.number))
    }

    /// Notes what is in a pack, for a later attempt at a full backup.
    async fn note(&self, number: Option<u32>) -> Result<(), ArchiveError> {
        let is_full = self.writer.label().backup_type() == BackupType::Full;
        let Some(number) = number.filter(|_| is_full) else {
            return Ok(());
        };
        if let Some(Some(object)) = self.packs.get(number as usize) {
            let since = self.chunks.get(self.first_of_open..).unwrap_or_default();
            let chunks: Vec<&Chunk> = since
                .iter()
                .filter(|of| of.pack == number && of.index.is_none())
                .collect();
            kept::note(self.writer, self.begun - 1, (object, self.how), &chunks).await?;
        }
        Ok(())
    }

    /// Closes the last pack; returns all packs, all chunks, first those of no changed blocks, and the
    /// tables from which some of them are told.
    pub(crate) async fn finish(
        mut self,
    ) -> Result<(Vec<ObjectRecord>, Vec<Chunk>, Vec<StoredTable>), ArchiveError> {
        self.close().await?;
        self.chunks.append(&mut self.changed);
        let tables = self.tables.finish(&mut self.chunks);
        Ok((
            self.packs.into_iter().flatten().collect(),
            self.chunks,
            tables,
        ))
    }
}
