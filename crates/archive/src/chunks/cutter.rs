//! Cuts the files of a backup into chunks, and notes what they are.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};

use walzip_codec::Extent;
use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::relation_file::{Fork, RelationFile};

use super::index::{Member, SHARED_BYTES_MAX};
use crate::backup_files::{BACKUP_LABEL, CONTROL_FILE, Entry, FileSink};
use crate::error::ArchiveError;
use crate::pg_manifest::{Hasher, SentFile};
use crate::replication::ServerError;

/// Bytes of a chunk, before encoding: 512 pages.
const CHUNK_BYTES: usize = 4 << 20;
/// A file that does not fit begins a chunk of its own where the last one has this many bytes.
const CHUNK_BYTES_MIN: usize = CHUNK_BYTES / 4;

/// A part of the stream of files, to be encoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct CutChunk {
    pub(crate) extents: Vec<Extent>,
    pub(crate) bytes: Vec<u8>,
}

/// What passed by.
#[derive(Default)]
pub(crate) struct Cut {
    /// Directories and files, in the order of the stream.
    pub(crate) members: Vec<Member>,
    /// The files, by their names in the manifest.
    pub(crate) seen: HashMap<Vec<u8>, SentFile>,
    /// The locations of all tablespaces whose links were there, by OID.
    pub(crate) links: BTreeMap<u32, String>,
    /// The content of the files that are looked at later, by their names in the manifest.
    pub(crate) kept: HashMap<Vec<u8>, Vec<u8>>,
    /// Bytes of all files.
    pub(crate) original_bytes: u64,
}

/// Files whose content is looked at later, and how long they may be.
const KEPT: [&str; 2] = [BACKUP_LABEL, CONTROL_FILE];
const KEPT_BYTES_MAX: u64 = 64 << 10;

/// Cuts files into chunks.
pub(crate) struct Cutter<F> {
    take: F,
    new_hasher: fn() -> Hasher,
    chunk: CutChunk,
    /// The numbers of the relations that came so far.
    relations: HashMap<(String, u32), u32>,
    /// Where small files are in the stream, by their content.
    small: HashMap<blake3::Hash, u64>,
    /// Bytes of the stream so far.
    stream_bytes: u64,
    cut: Cut,
}

impl<F: FnMut(CutChunk) -> Result<(), ArchiveError>> Cutter<F> {
    /// Hands the chunks to `take`, in their order.
    pub(crate) fn new(new_hasher: fn() -> Hasher, take: F) -> Cutter<F> {
        Cutter {
            take,
            new_hasher,
            chunk: CutChunk::default(),
            relations: HashMap::new(),
            small: HashMap::new(),
            stream_bytes: 0,
            cut: Cut::default(),
        }
    }

    /// Hands over what is left.
    pub(crate) fn finish(mut self) -> Result<Cut, ArchiveError> {
        self.end_chunk()?;
        Ok(self.cut)
    }

    fn end_chunk(&mut self) -> Result<(), ArchiveError> {
        match self.chunk.bytes.is_empty() {
            true => Ok(()),
            false => (self.take)(std::mem::take(&mut self.chunk)),
        }
    }

    /// Adds bytes of a file to the chunk, as many as fit and are left: whole pages, where it has
    /// pages.
    fn fill(
        &mut self,
        content: &mut dyn Read,
        left: u64,
        has_pages: bool,
    ) -> Result<usize, ArchiveError> {
        let unit = if has_pages { PAGE_SIZE } else { 1 };
        if CHUNK_BYTES - self.chunk.bytes.len() < unit {
            self.end_chunk()?;
        }
        let bytes = &mut self.chunk.bytes;
        let room = (CHUNK_BYTES - bytes.len()) / unit * unit;
        let wanted = left.min(room as u64);
        bytes.reserve_exact(wanted as usize);
        let read = content.take(wanted).read_to_end(bytes);
        match read {
            Ok(read) if read as u64 == wanted => Ok(read),
            Ok(_) => Err(unreadable(&io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// Takes the last file out of the chunk again where an earlier one has the same bytes, and says
    /// where. The databases of a cluster have many files in common.
    fn share(&mut self, size_bytes: u64) -> Option<u64> {
        let start = self.stream_bytes;
        self.stream_bytes += size_bytes;
        if size_bytes == 0 || size_bytes > SHARED_BYTES_MAX {
            return None;
        }
        let in_chunk = self.chunk.bytes.len().checked_sub(size_bytes as usize)?;
        let hash = blake3::hash(self.chunk.bytes.get(in_chunk..)?);
        let first = *self.small.entry(hash).or_insert(start);
        if first == start {
            return None;
        }
        self.stream_bytes = start;
        self.chunk.bytes.truncate(in_chunk);
        self.chunk.extents.pop();
        Some(first)
    }

    /// Notes what the last bytes of the chunk are.
    fn extend(&mut self, pages: Option<&Pages>, offset: u64, len: usize) {
        let extent = match pages {
            Some(pages) => {
                let next = self.relations.len() as u32;
                let key = (pages.directory.clone(), pages.number);
                Extent::Pages {
                    relation: *self.relations.entry(key).or_insert(next),
                    first_block: pages.first_block + (offset / PAGE_SIZE as u64) as u32,
                    pages: (len / PAGE_SIZE) as u32,
                }
            }
            None => Extent::Bytes { len: len as u32 },
        };
        self.chunk.extents.push(extent);
    }
}

/// A relation file that consists of pages.
struct Pages {
    directory: String,
    number: u32,
    first_block: u32,
}

impl Pages {
    /// Maps of free space and visibility have no pages of tuples, and files that are no whole
    /// pages are not understood.
    fn of(name: &[u8], size_bytes: u64) -> Option<Pages> {
        let file = RelationFile::of_path(std::str::from_utf8(name).ok()?)?;
        let is_wanted = matches!(file.fork, Fork::Main | Fork::Init)
            && size_bytes.is_multiple_of(PAGE_SIZE as u64);
        let first_block = file.first_block().filter(|_| is_wanted)?;
        let pages = u32::try_from(size_bytes / PAGE_SIZE as u64).ok()?;
        first_block.checked_add(pages)?;
        Some(Pages {
            directory: file.directory.to_owned(),
            number: file.number,
            first_block,
        })
    }
}

impl<F: FnMut(CutChunk) -> Result<(), ArchiveError>> FileSink for Cutter<F> {
    fn directory(&mut self, entry: Entry) -> Result<(), ArchiveError> {
        self.cut.members.push(Member::Directory(entry));
        Ok(())
    }

    fn link(&mut self, oid: u32, location: String) -> Result<(), ArchiveError> {
        self.cut.links.insert(oid, location);
        Ok(())
    }

    fn file(
        &mut self,
        entry: Entry,
        size_bytes: u64,
        content: &mut dyn Read,
    ) -> Result<(), ArchiveError> {
        let name = entry.name();
        let pages = Pages::of(&name, size_bytes);
        let mut hasher = (self.new_hasher)();
        let is_kept =
            KEPT.iter().any(|kept| kept.as_bytes() == name) && size_bytes <= KEPT_BYTES_MAX;
        let mut kept = is_kept.then(Vec::new);
        let chunk_len = self.chunk.bytes.len();
        let fits = size_bytes <= (CHUNK_BYTES - chunk_len) as u64;
        if !fits && chunk_len >= CHUNK_BYTES_MIN {
            self.end_chunk()?;
        }
        let mut offset = 0;
        while offset < size_bytes {
            let len = self.fill(content, size_bytes - offset, pages.is_some())?;
            let start = self.chunk.bytes.len() - len;
            let piece = self.chunk.bytes.get(start..).unwrap_or_default();
            hasher.update(piece);
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(piece);
            }
            self.extend(pages.as_ref(), offset, len);
            offset += len as u64;
        }
        self.cut.original_bytes += size_bytes;
        let shared_at = self.share(size_bytes);
        if let Some(kept) = kept {
            self.cut.kept.insert(name.clone(), kept);
        }
        let seen = SentFile { size_bytes, hasher };
        if self.cut.seen.insert(name, seen).is_some() {
            let reason = format!("{} was sent twice", entry.path.display());
            return Err(ServerError::Protocol(reason).into());
        }
        self.cut.members.push(Member::File {
            entry,
            size_bytes,
            shared_at,
        });
        Ok(())
    }
}

fn unreadable(error: &io::Error) -> ArchiveError {
    ServerError::Protocol(format!("a file ends early: {error}")).into()
}
