//! Cuts the files of a backup into chunks, and notes what they are.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io::{self, Read};

use walzip_codec::Extent;
use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::relation_file::{Fork, RelationFile};

use super::buffers::{Buffer, Buffers, CHUNK_BYTES};
use super::changes::{Compared, Comparison};
use super::cut_tables::CutTables;
use super::index::{Member, SHARED_BYTES_MAX};
use super::pieces::{self, OWN, Piece, Spread};
use super::tables::Role;
use crate::backups::backup_files::{
    BACKUP_LABEL, CONTROL_FILE, Entry, FileSink, LEFT_OUT, PartlyRead, WhollyRead,
};
use crate::backups::pg_manifest::{Hasher, SentFile};
use crate::error::ArchiveError;
use crate::server::indexed_tables::IndexedTable;
use crate::server::replication::ServerError;

/// A file that does not fit begins a chunk of its own where the last one has this many bytes.
const CHUNK_BYTES_MIN: usize = CHUNK_BYTES / 4;

/// A part of the stream of files, to be encoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct CutChunk {
    pub(crate) extents: Vec<Extent>,
    pub(crate) bytes: Buffer,
    /// Lengths of the runs of the bytes that are of one file each. They begin with a block.
    pub(crate) runs: Vec<usize>,
    /// Of changed blocks: what they are told from, in the stream of the full backup.
    pub(crate) base: Option<Vec<[u64; 2]>>,
    /// What it has to do with a table.
    pub(crate) role: Role,
}

/// In the offset of a piece: it is of changed blocks, and counts from their beginning, which is not
/// known yet.
const CHANGED: u64 = 1 << 63;

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
    /// Those of them that were not read, since the server says that they have not changed.
    pub(crate) unread_bytes: u64,
}

impl Cut {
    /// Puts the changed blocks where they are in the stream.
    pub(crate) fn place_changed(&mut self, start: u64) {
        for member in &mut self.members {
            if let Member::File {
                pieces: Some(pieces),
                ..
            } = member
            {
                let changed = pieces
                    .iter_mut()
                    .filter(|piece| piece.backup == OWN && piece.offset & CHANGED != 0);
                changed.for_each(|piece| piece.offset = (piece.offset & !CHANGED) + start);
            }
        }
    }
}

/// Files whose content is looked at later, and how long they may be.
const KEPT: [&str; 2] = [BACKUP_LABEL, CONTROL_FILE];
const KEPT_BYTES_MAX: u64 = 64 << 10;

/// Cuts files into chunks.
pub(crate) struct Cutter<F> {
    take: F,
    new_hasher: fn() -> Hasher,
    /// For the bytes of chunks.
    buffers: Buffers,
    chunk: CutChunk,
    /// Changed blocks.
    changed: CutChunk,
    /// Bytes of all of them so far.
    changed_bytes: u64,
    /// Whether the last run of a chunk is of this file: of the chunk of changed blocks, and of the
    /// other one.
    has_run: [bool; 2],
    comparison: Option<Comparison>,
    /// Pieces of all files so far.
    pieces: usize,
    /// The numbers of the relations that came so far.
    relations: HashMap<(String, u32), u32>,
    /// Where small files are in the stream, by their content.
    small: HashMap<blake3::Hash, u64>,
    /// Bytes of the stream so far.
    stream_bytes: u64,
    cut: Cut,
    tables: CutTables,
}

impl<F: FnMut(CutChunk) -> Result<(), ArchiveError>> Cutter<F> {
    /// Hands the chunks to `take`, in their order.
    pub(crate) fn new(
        new_hasher: fn() -> Hasher,
        comparison: Option<Comparison>,
        buffers: Buffers,
        take: F,
    ) -> Cutter<F> {
        Cutter {
            take,
            new_hasher,
            buffers,
            chunk: CutChunk::default(),
            changed: CutChunk::default(),
            changed_bytes: 0,
            has_run: [false; 2],
            comparison,
            pieces: 0,
            relations: HashMap::new(),
            small: HashMap::new(),
            stream_bytes: 0,
            cut: Cut::default(),
            tables: CutTables::default(),
        }
    }

    /// Hands over what is left.
    pub(crate) fn finish(mut self) -> Result<Cut, ArchiveError> {
        self.end_chunk()?;
        self.end_changed()?;
        Ok(self.cut)
    }

    fn end_chunk(&mut self) -> Result<(), ArchiveError> {
        self.has_run[0] = false;
        if self.chunk.bytes.is_empty() {
            return Ok(());
        }
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.role = self.tables.role(&chunk.extents);
        (self.take)(chunk)
    }

    fn end_changed(&mut self) -> Result<(), ArchiveError> {
        self.has_run[1] = false;
        match self.changed.bytes.is_empty() {
            true => Ok(()),
            false => (self.take)(std::mem::take(&mut self.changed)),
        }
    }

    /// Adds bytes of a file to the chunk, as many as fit and are left: whole blocks, unless the file
    /// ends.
    fn fill(&mut self, content: &mut dyn PartlyRead, left: u64) -> Result<usize, ArchiveError> {
        self.make_room(left.min(PAGE_SIZE as u64) as usize)?;
        let bytes = &mut self.chunk.bytes;
        let room = (CHUNK_BYTES - bytes.len()) as u64;
        let wanted = match left <= room {
            true => left,
            false => room / PAGE_SIZE as u64 * PAGE_SIZE as u64,
        };
        let bytes = bytes.grow(wanted as usize);
        match content.read_exact(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => Err(unreadable(&error)),
        }
    }

    fn make_room(&mut self, len: usize) -> Result<(), ArchiveError> {
        if CHUNK_BYTES - self.chunk.bytes.len() < len {
            self.end_chunk()?;
        }
        if self.chunk.bytes.is_empty() {
            self.chunk.bytes = self.buffers.take();
        }
        Ok(())
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
        self.chunk.runs.pop();
        Some(first)
    }

    /// What bytes of a file are.
    fn extent(&mut self, pages: Option<&Pages>, offset: u64, len: usize) -> Extent {
        match pages {
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
        }
    }

    /// Cuts a file; of one that an earlier backup has, returns where its bytes are.
    fn cut_file(
        &mut self,
        (name, size_bytes): (&[u8], u64),
        pages: Option<&Pages>,
        content: &mut dyn PartlyRead,
        seen: &mut Seen,
    ) -> Result<Option<Vec<Piece>>, ArchiveError> {
        self.has_run = [false; 2];
        // The cutter is used while it is compared.
        let mut comparison = self.comparison.take();
        let compared = comparison.as_mut().and_then(|known| known.open(name));
        let found = match compared.filter(|_| size_bytes > 0) {
            Some(mut compared) => {
                let wanted = (pages, size_bytes);
                Some(self.cut_compared(wanted, &mut compared, content, seen)?)
            }
            None => {
                self.cut_whole(pages, size_bytes, content, seen)?;
                None
            }
        };
        self.comparison = comparison;
        Ok(found)
    }

    /// Cuts a file that an earlier backup has; returns where its bytes are.
    fn cut_compared(
        &mut self,
        (pages, size_bytes): (Option<&Pages>, u64),
        compared: &mut Compared<'_>,
        content: &mut dyn PartlyRead,
        seen: &mut Seen,
    ) -> Result<Vec<Piece>, ArchiveError> {
        let mut block = [0; PAGE_SIZE];
        let (mut found, mut offset, mut plain_bytes) = (Vec::new(), 0, 0);
        let mut spread = Spread::of(self.pieces);
        while offset < size_bytes {
            let len = (size_bytes - offset).min(PAGE_SIZE as u64);
            if content.is_unchanged()
                && !spread.would_take_for_changed(found.len())
                && let Some((piece, crc)) = compared.unread(offset, len)?
                && seen.step_over(crc, len)
            {
                content.step_over(len);
                spread.is_taken_for_changed(found.len(), false);
                pieces::push(&mut found, piece);
                offset += len;
                continue;
            }
            let block = block.get_mut(..len as usize).unwrap_or_default();
            let read = content.read_exact(block);
            read.map_err(|error| unreadable(&error))?;
            seen.bytes(block);
            let own = |offset| Piece {
                backup: OWN,
                offset,
                len,
            };
            let unchanged = compared.unchanged(offset, block)?;
            let base = compared.base(offset).filter(|_| block.len() == PAGE_SIZE);
            let is_taken = spread.is_taken_for_changed(found.len(), unchanged.is_none());
            let piece = match unchanged.filter(|_| base.is_none() || !is_taken) {
                Some(piece) => piece,
                None => {
                    let extent = self.extent(pages, offset, block.len());
                    match base {
                        Some(base) => own(CHANGED | self.add_changed(block, extent, base)?),
                        None => {
                            self.add_plain(block, extent)?;
                            plain_bytes += len;
                            own(self.stream_bytes + plain_bytes - len)
                        }
                    }
                }
            };
            pieces::push(&mut found, piece);
            offset += len;
        }
        self.pieces += found.len();
        Ok(found)
    }

    /// Adds a block to the chunk.
    fn add_plain(&mut self, block: &[u8], extent: Extent) -> Result<(), ArchiveError> {
        self.make_room(block.len())?;
        self.chunk.add(block, extent, &mut self.has_run[0]);
        Ok(())
    }

    /// Adds a block to the changed ones; returns where it is among them.
    fn add_changed(
        &mut self,
        block: &[u8],
        extent: Extent,
        base: u64,
    ) -> Result<u64, ArchiveError> {
        if CHUNK_BYTES - self.changed.bytes.len() < block.len() {
            self.end_changed()?;
        }
        if self.changed.bytes.is_empty() {
            self.changed.bytes = self.buffers.take();
        }
        self.changed.add(block, extent, &mut self.has_run[1]);
        let len = block.len() as u64;
        let runs = self.changed.base.get_or_insert_default();
        match runs.last_mut() {
            Some([start, run]) if *start + *run == base => *run += len,
            _ => runs.push([base, len]),
        }
        self.changed_bytes += len;
        Ok(self.changed_bytes - len)
    }

    /// Cuts a file that no earlier backup has.
    fn cut_whole(
        &mut self,
        pages: Option<&Pages>,
        size_bytes: u64,
        content: &mut dyn PartlyRead,
        seen: &mut Seen,
    ) -> Result<(), ArchiveError> {
        let chunk_len = self.chunk.bytes.len();
        let fits = size_bytes <= (CHUNK_BYTES - chunk_len) as u64;
        if !fits && chunk_len >= CHUNK_BYTES_MIN {
            self.end_chunk()?;
        }
        let mut offset = 0;
        while offset < size_bytes {
            let len = self.fill(content, size_bytes - offset)?;
            let start = self.chunk.bytes.len() - len;
            seen.bytes(self.chunk.bytes.get(start..).unwrap_or_default());
            let extent = self.extent(pages, offset, len);
            self.chunk.extents.push(extent);
            self.chunk.runs.push(len);
            offset += len as u64;
        }
        Ok(())
    }
}

impl CutChunk {
    /// Adds a block; `has_run` says whether the last run is of the same file.
    fn add(&mut self, block: &[u8], extent: Extent, has_run: &mut bool) {
        let last = match has_run {
            true => self.runs.last_mut().zip(self.extents.last_mut()),
            false => None,
        };
        match last {
            Some((run, last)) => {
                *run += block.len();
                if !last.include(extent) {
                    self.extents.push(extent);
                }
            }
            None => {
                self.runs.push(block.len());
                self.extents.push(extent);
            }
        }
        self.bytes.extend_from_slice(block);
        *has_run = true;
    }
}

/// What was seen of a file.
struct Seen {
    hasher: Hasher,
    /// Its content, where that is looked at later.
    kept: Option<Vec<u8>>,
    /// Bytes that were not read.
    stepped_over: u64,
}

impl Seen {
    fn bytes(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(bytes);
        }
    }

    /// Steps over a block of which only its CRC is known; whether that can be done.
    fn step_over(&mut self, crc: u32, len: u64) -> bool {
        let is_stepped = self.kept.is_none() && self.hasher.step_over(crc, len as usize);
        self.stepped_over += if is_stepped { len } else { 0 };
        is_stepped
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
    fn tables(&mut self, tables: &[IndexedTable]) {
        self.tables = CutTables::of(tables);
    }

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
        self.partly_read_file(entry, size_bytes, &mut WhollyRead(content))
    }

    fn partly_read_file(
        &mut self,
        entry: Entry,
        size_bytes: u64,
        content: &mut dyn PartlyRead,
    ) -> Result<(), ArchiveError> {
        let name = entry.name();
        if entry.path.file_name() == Some(OsStr::new(LEFT_OUT)) {
            let path = String::from_utf8_lossy(&name).into_owned();
            return Err(ArchiveError::LeftOutDatabase(path));
        }
        let pages = Pages::of(&name, size_bytes);
        let is_kept =
            KEPT.iter().any(|kept| kept.as_bytes() == name) && size_bytes <= KEPT_BYTES_MAX;
        let mut seen = Seen {
            hasher: (self.new_hasher)(),
            kept: is_kept.then(Vec::new),
            stepped_over: 0,
        };
        let wanted = (name.as_slice(), size_bytes);
        // Of a file that an earlier backup has, only the blocks that changed become chunks.
        let is_compared = self.comparison.as_ref().is_some_and(|of| of.has(&name));
        let file = self
            .tables
            .find(wanted)
            .filter(|_| pages.is_some() && !is_compared);
        if let Some(file) = file {
            // Its chunks have nothing else.
            self.end_chunk()?;
            self.tables.begin(file);
        }
        let found = self.cut_file(wanted, pages.as_ref(), content, &mut seen)?;
        if file.is_some() {
            self.end_chunk()?;
            self.tables.end();
        }
        self.cut.original_bytes += size_bytes;
        let found = found.filter(|pieces| !is_whole(pieces));
        let shared_at = match &found {
            None => self.share(size_bytes),
            Some(pieces) => {
                let plain = pieces.iter().filter(|piece| is_plain(piece));
                self.stream_bytes += plain.map(|piece| piece.len).sum::<u64>();
                None
            }
        };
        if let Some(kept) = seen.kept {
            self.cut.kept.insert(name.clone(), kept);
        }
        self.cut.unread_bytes += seen.stepped_over;
        let hasher = seen.hasher;
        let seen = SentFile { size_bytes, hasher };
        if self.cut.seen.insert(name, seen).is_some() {
            let reason = format!("{} was sent twice", entry.path.display());
            return Err(ServerError::Protocol(reason).into());
        }
        self.cut.members.push(Member::File {
            entry,
            size_bytes,
            shared_at,
            pieces: found,
        });
        Ok(())
    }
}

fn is_plain(piece: &Piece) -> bool {
    piece.backup == OWN && piece.offset & CHANGED == 0
}

/// Nothing of the file is anywhere else: it is as one that no earlier backup has.
fn is_whole(pieces: &[Piece]) -> bool {
    matches!(pieces, [piece] if is_plain(piece))
}

fn unreadable(error: &io::Error) -> ArchiveError {
    ServerError::Protocol(format!("a file ends early: {error}")).into()
}
