//! Hashes of blocks: they tell, without the blocks, which of them have changed.
//!
//! They are keyed with random bytes that are made for each backup, so that nobody who writes blocks
//! can choose two that have the same one.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use highway::{HighwayHash, HighwayHasher};
use walzip_pgformat::PAGE_SIZE;
use walzip_repo::{BackupLabel, BackupObject, BackupWriter, Repository};

use super::blocking_reads::BlockingReads;
use crate::backups::backup_record::{BlockHashFunction, BlockHashesRecord, ObjectRecord};
use crate::error::ArchiveError;

/// Bytes of a hash, and of a CRC that may follow it.
const HASH_LEN: usize = 8;
const CRC_LEN: usize = 4;
/// Bytes of hashes that are read ahead, at most and at least; and by all readers together.
const AHEAD_MAX: u64 = 1 << 20;
const AHEAD_MIN: u64 = 8 << 10;
const AHEAD_OF_ALL: u64 = 32 << 20;
/// Bytes at which an object is closed.
const OBJECT_BYTES: u64 = 64 << 20;

/// How the hashes of a backup are made.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    function: BlockHashFunction,
    bytes: [u8; 32],
}

impl Key {
    /// Random bytes, for the function that takes the least time, with CRCs or without.
    pub(crate) fn random(has_crcs: bool) -> Result<Key, ArchiveError> {
        let source = Path::new("/dev/urandom");
        let mut key = [0; 32];
        let read = File::open(source).and_then(|mut file| file.read_exact(&mut key));
        read.map_err(|error| ArchiveError::file("read", source, error))?;
        Ok(Key {
            function: match has_crcs {
                true => BlockHashFunction::HighwayHash64Crc32c,
                false => BlockHashFunction::HighwayHash64,
            },
            bytes: key,
        })
    }

    /// That of a record, unless the record's function is not known or its key is none.
    pub(crate) fn of(record: &BlockHashesRecord) -> Option<Key> {
        let bytes = *blake3::Hash::from_hex(&record.key).ok()?.as_bytes();
        match record.function {
            BlockHashFunction::Unknown => None,
            function => Some(Key { function, bytes }),
        }
    }

    /// A record of hashes that were made with it.
    pub(crate) fn record(
        self,
        objects: Vec<ObjectRecord>,
        changed: Vec<ObjectRecord>,
    ) -> BlockHashesRecord {
        BlockHashesRecord {
            function: self.function,
            key: blake3::Hash::from_bytes(self.bytes).to_hex().to_string(),
            objects,
            changed,
        }
    }

    /// Whether a CRC follows each hash.
    fn has_crcs(&self) -> bool {
        self.function == BlockHashFunction::HighwayHash64Crc32c
    }

    /// Bytes that are stored of a block.
    fn stored_len(&self) -> usize {
        match self.has_crcs() {
            true => HASH_LEN + CRC_LEN,
            false => HASH_LEN,
        }
    }

    /// The hash of a block, which is shorter where a file ends.
    pub(crate) fn hash(&self, block: &[u8]) -> [u8; HASH_LEN] {
        match self.function {
            BlockHashFunction::HighwayHash64 | BlockHashFunction::HighwayHash64Crc32c => {
                let (words, _) = self.bytes.as_chunks();
                let words = words.iter().copied().map(u64::from_le_bytes);
                let mut key = highway::Key::default();
                key.0
                    .iter_mut()
                    .zip(words)
                    .for_each(|(to, word)| *to = word);
                HighwayHasher::new(key).hash64(block).to_le_bytes()
            }
            BlockHashFunction::Blake3 | BlockHashFunction::Unknown => {
                let hash = blake3::keyed_hash(&self.bytes, block);
                hash.as_bytes().first_chunk().copied().unwrap_or_default()
            }
        }
    }

    /// What is stored of the blocks of runs, each of which begins with a block.
    pub(crate) fn hashes(&self, mut bytes: &[u8], runs: &[usize]) -> Vec<u8> {
        let mut hashes = Vec::new();
        for &len in runs {
            let (run, rest) = bytes.split_at_checked(len).unwrap_or((bytes, &[]));
            bytes = rest;
            for block in run.chunks(PAGE_SIZE) {
                hashes.extend_from_slice(&self.hash(block));
                if self.has_crcs() {
                    hashes.extend_from_slice(&crc32c::crc32c(block).to_le_bytes());
                }
            }
        }
        hashes
    }
}

/// How many hashes a run of bytes has.
pub(crate) fn count(len: u64) -> u64 {
    len.div_ceil(PAGE_SIZE as u64)
}

/// Stores hashes, in objects of a name with a number behind it.
pub(crate) struct HashWriter<'w> {
    writer: &'w BackupWriter,
    name: &'static str,
    open: Option<(BackupObject, blake3::Hasher)>,
    objects: Vec<ObjectRecord>,
}

impl<'w> HashWriter<'w> {
    /// Nothing is stored yet.
    pub(crate) fn new(writer: &'w BackupWriter, name: &'static str) -> HashWriter<'w> {
        HashWriter {
            writer,
            name,
            open: None,
            objects: Vec::new(),
        }
    }

    fn object_name(&self) -> String {
        let name = format!("{}.{:04}", self.name, self.objects.len());
        self.writer.name(&name)
    }

    /// Stores the next hashes.
    pub(crate) async fn write(&mut self, hashes: Vec<u8>) -> Result<(), ArchiveError> {
        if hashes.is_empty() {
            return Ok(());
        }
        if self.open.is_none() {
            let object = self.writer.create_object(&self.object_name()).await?;
            self.open = Some((object, blake3::Hasher::new()));
        }
        if let Some((object, hasher)) = &mut self.open {
            hasher.update(&hashes);
            object.write(hashes).await?;
            if hasher.count() >= OBJECT_BYTES {
                self.close().await?;
            }
        }
        Ok(())
    }

    async fn close(&mut self) -> Result<(), ArchiveError> {
        if let Some((object, hasher)) = self.open.take() {
            object.finish().await?;
            self.objects.push(ObjectRecord {
                name: self.object_name(),
                size_bytes: hasher.count(),
                blake3: hasher.finalize().to_hex().to_string(),
            });
        }
        Ok(())
    }

    /// All objects.
    pub(crate) async fn finish(mut self) -> Result<Vec<ObjectRecord>, ArchiveError> {
        self.close().await?;
        Ok(self.objects)
    }
}

/// How many bytes each of so many readers reads ahead.
pub(crate) fn bytes_ahead(readers: usize) -> u64 {
    let share = AHEAD_OF_ALL / (readers as u64).max(1);
    share.clamp(AHEAD_MIN, AHEAD_MAX)
}

/// What is stored of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredHash {
    pub(crate) hash: [u8; HASH_LEN],
    pub(crate) crc32c: Option<u32>,
}

/// Reads hashes by their numbers, ahead. For threads that may block.
pub(crate) struct HashReader {
    reads: BlockingReads,
    label: BackupLabel,
    /// Bytes of each, with what follows it.
    stored_len: usize,
    objects: Vec<ObjectRecord>,
    /// Bytes that are read at once.
    ahead: u64,
    window: Bytes,
    /// The number of the first hash of the window.
    first: u64,
}

impl HashReader {
    /// Nothing is read yet. To be called on the runtime.
    pub(crate) fn new(
        repository: &Repository,
        label: &BackupLabel,
        (objects, key): (&[ObjectRecord], Key),
        ahead: u64,
    ) -> HashReader {
        HashReader {
            reads: BlockingReads::of(repository),
            label: label.clone(),
            stored_len: key.stored_len(),
            objects: objects.to_vec(),
            ahead,
            window: Bytes::new(),
            first: 0,
        }
    }

    /// How many there are, by what is recorded of them.
    pub(crate) fn count(&self) -> u64 {
        let sizes = self.objects.iter().map(|object| object.size_bytes);
        sizes.fold(0, u64::saturating_add) / self.stored_len as u64
    }

    /// The hash with this number.
    pub(crate) fn get(&mut self, number: u64) -> Result<StoredHash, ArchiveError> {
        if let Some(hash) = self.in_window(number) {
            return Ok(hash);
        }
        self.fill(number)?;
        self.in_window(number).ok_or_else(|| ArchiveError::Damaged {
            object: format!("backup {}", self.label),
            reason: format!("it has no hash of block {number} of its stream"),
        })
    }

    fn in_window(&self, number: u64) -> Option<StoredHash> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let start = at.checked_mul(self.stored_len)?;
        let stored = self.window.get(start..)?.get(..self.stored_len)?;
        let (hash, crc) = stored.split_first_chunk()?;
        Some(StoredHash {
            hash: *hash,
            crc32c: crc.first_chunk().copied().map(u32::from_le_bytes),
        })
    }

    fn fill(&mut self, number: u64) -> Result<(), ArchiveError> {
        let at = number.saturating_mul(self.stored_len as u64);
        let mut start = 0u64;
        for object in &self.objects {
            let end = start.saturating_add(object.size_bytes);
            if (start..end).contains(&at) {
                let range = at - start..(at - start + self.ahead).min(object.size_bytes);
                self.window = self.reads.range(&self.label, &object.name, range)?;
                self.first = number;
                return Ok(());
            }
            start = end;
        }
        self.window = Bytes::new();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(function: BlockHashFunction) -> Key {
        let bytes = std::array::from_fn(|at| at as u8);
        Key { function, bytes }
    }

    #[test]
    fn highwayhash_is_that_of_its_authors() {
        // kExpected64 in c/highwayhash_test.c of github.com/google/highwayhash.
        let expected = [
            0x907A_56DE_22C2_6E53_u64,
            0x7EAB_43AA_C7CD_DD78,
            0xB8D0_569A_B0B5_3D62,
        ];
        let key = key(BlockHashFunction::HighwayHash64);
        for (len, expected) in expected.iter().enumerate() {
            let block = &[0, 1, 2][..len];
            assert_eq!(key.hash(block), expected.to_le_bytes(), "{len} bytes");
        }
    }

    #[test]
    fn a_crc_follows_each_hash_where_the_function_says_so() {
        let bytes = [7; PAGE_SIZE + 100];
        let (first, rest) = bytes.split_at(PAGE_SIZE);
        let plain = key(BlockHashFunction::HighwayHash64);
        let hashes = plain.hashes(&bytes, &[bytes.len()]);
        assert_eq!(hashes, [plain.hash(first), plain.hash(rest)].concat());
        let with_crcs = key(BlockHashFunction::HighwayHash64Crc32c);
        let crc = |block| crc32c::crc32c(block).to_le_bytes();
        let of_block = |block| [plain.hash(block).as_slice(), &crc(block)].concat();
        let hashes = with_crcs.hashes(&bytes, &[bytes.len()]);
        assert_eq!(hashes, [of_block(first), of_block(rest)].concat());
        assert_eq!((plain.stored_len(), with_crcs.stored_len()), (8, 12));
    }

    #[test]
    fn a_record_without_a_function_has_blake3_and_one_of_another_function_no_key() {
        let of = |function: &str| {
            let key = "00".repeat(32);
            let text = format!(r#"{{ {function} "key": "{key}", "objects": [] }}"#);
            Key::of(&serde_json::from_str(&text).expect("a record"))
        };
        let hash = |key: Option<Key>| key.map(|key| key.hash(b"block"));
        let blake3 = blake3::keyed_hash(&[0; 32], b"block");
        assert_eq!(hash(of("")), blake3.as_bytes().first_chunk().copied());
        let highway = hash(of(r#""function": "highwayhash64","#));
        assert!(highway.is_some() && highway != hash(of("")));
        assert!(of(r#""function": "sha3","#).is_none());
    }
}
