//! The index of a backup: its chunks and its files, as lines of JSON.
//!
//! The files of a backup lie one behind the other in a stream of bytes, in the order of the index,
//! and so do the chunks that the stream was cut into. Where each begins follows from the lengths
//! of those before it. Of a backup that refers to others, a file may consist of pieces
//! ([`super::pieces`]), and chunks of changed blocks stand behind all others.

mod lines;
mod table_line;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, Read};
use std::ops::Range;

use blake3::Hash;
use serde::{Deserialize, Serialize};

pub(crate) use table_line::StoredTable;

use super::pieces::{Expected, LINE_PIECES_MAX, OWN, PIECES_MAX, Piece, PieceLine};
use crate::backups::backup_files::Entry;
use crate::wal::text;

/// Bytes of a chunk before encoding, at most.
pub(crate) const CHUNK_BYTES_MAX: u32 = 16 << 20;
/// More bytes than a chunk of that length is ever encoded to.
const ENCODED_BYTES_MAX: u32 = CHUNK_BYTES_MAX + (1 << 20);

/// Longer files do not share the bytes of another one: those that do are held in memory.
pub(crate) const SHARED_BYTES_MAX: u64 = 1 << 20;
/// A backup has no more files and directories: a restore holds their names in memory.
const MEMBERS_MAX: usize = 1 << 23;
/// No line is longer: PostgreSQL's paths have at most 1024 bytes.
const LINE_BYTES_MAX: u64 = 16 << 10;

/// A line of the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Line {
    /// A chunk.
    Chunk(Chunk),
    /// A table.
    Table(StoredTable),
    /// A directory.
    Directory(Directory),
    /// A file.
    File(File),
    /// Pieces of the last file.
    Pieces(Vec<PieceLine>),
}

/// A part of the stream, encoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chunk {
    /// The pack's number in `backup.json`, from 0 on.
    pub(crate) pack: u32,
    /// Where it begins in the pack.
    pub(crate) offset: u64,
    /// Its length there.
    pub(crate) size_bytes: u32,
    /// Its length before encoding.
    pub(crate) original_bytes: u32,
    /// BLAKE3 of its bytes in the pack.
    #[serde(with = "text")]
    pub(crate) blake3: Hash,
    /// BLAKE3 of its bytes before encoding: who has them already need not read the chunk.
    #[serde(with = "text")]
    pub(crate) original_blake3: Hash,
    /// Of a chunk of changed blocks: the runs of bytes that it is told from, in the stream of the
    /// first backup that is referred to, as offsets and lengths. None if it is told from nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<Vec<[u64; 2]>>,
    /// Of a chunk of an index that is told from the rows of its table: the numbers of the table and of
    /// the index in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<[u32; 2]>,
}

/// A directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Directory {
    #[serde(flatten)]
    place: Place,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct File {
    #[serde(flatten)]
    place: Place,
    /// Its length.
    size_bytes: u64,
    /// Where its bytes are in the stream, if an earlier file has the same ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    /// Whether it consists of pieces, which follow.
    #[serde(default, skip_serializing_if = "is_false")]
    in_pieces: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Where an entry lies, and its permissions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tablespace_oid: Option<u32>,
    /// Below the tablespace's directory or the data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The bytes of a path that is no UTF-8, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encoded_path: Option<String>,
    /// The permissions.
    mode: u32,
}

impl Place {
    fn of(entry: &Entry) -> Place {
        use std::os::unix::ffi::OsStrExt;
        let bytes = entry.path.as_os_str().as_bytes();
        let path = entry.path.to_str().map(str::to_owned);
        let encoded = || bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Place {
            tablespace_oid: entry.tablespace,
            encoded_path: path.is_none().then(encoded),
            path,
            mode: entry.mode,
        }
    }

    fn entry(&self) -> Result<Entry, String> {
        let decoded = self.encoded_path.as_deref().map(unhex);
        let bytes = match (&self.path, &decoded) {
            (Some(path), None) => path.as_bytes(),
            (None, Some(Some(bytes))) => bytes,
            _ => return Err("an entry without a path".to_owned()),
        };
        Entry::new(self.tablespace_oid, bytes, self.mode)
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs.collect()
}

/// What is in a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    /// A directory.
    Directory(Entry),
    /// A file.
    File {
        /// What it is called.
        entry: Entry,
        /// Its length.
        size_bytes: u64,
        /// Where its bytes are in the stream, if an earlier file has the same ones.
        shared_at: Option<u64>,
        /// What it consists of, unless that is bytes of this backup's stream.
        pieces: Option<Vec<Piece>>,
    },
}

impl Member {
    fn line(&self) -> Line {
        match self {
            Member::Directory(entry) => Line::Directory(Directory {
                place: Place::of(entry),
            }),
            Member::File {
                entry,
                size_bytes,
                shared_at,
                pieces,
            } => Line::File(File {
                place: Place::of(entry),
                size_bytes: *size_bytes,
                offset: *shared_at,
                in_pieces: pieces.is_some(),
            }),
        }
    }
}

/// The index of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    /// In the order of the stream.
    pub(crate) chunks: Vec<Chunk>,
    /// In the order of the stream.
    pub(crate) tables: Vec<StoredTable>,
    /// In the order of the stream.
    pub(crate) members: Vec<Member>,
}

impl Index {
    /// Its lines.
    pub(crate) fn write(&self) -> Result<Vec<u8>, String> {
        let mut text = Vec::new();
        for chunk in &self.chunks {
            write_line(&mut text, &Line::Chunk(chunk.clone()))?;
        }
        for table in &self.tables {
            write_line(&mut text, &Line::Table(table.clone()))?;
        }
        let changed = self.changed_start();
        let mut expected = Expected::new(changed);
        let mut count = 0;
        for member in &self.members {
            write_line(&mut text, &member.line())?;
            let Member::File {
                size_bytes,
                shared_at,
                pieces,
                ..
            } = member
            else {
                continue;
            };
            match pieces {
                Some(pieces) => {
                    count += pieces.len();
                    if count > PIECES_MAX {
                        return Err("its files have too many pieces".to_owned());
                    }
                    for pieces in pieces.chunks(LINE_PIECES_MAX) {
                        let lines = pieces.iter().map(|&piece| expected.line(piece, changed));
                        let lines = lines.collect::<Result<_, _>>()?;
                        write_line(&mut text, &Line::Pieces(lines))?;
                    }
                }
                None if shared_at.is_none() => expected.step_over(*size_bytes)?,
                None => {}
            }
        }
        Ok(text)
    }

    /// Reads the lines, and checks what no reader could do without.
    pub(crate) fn read(text: &mut dyn BufRead) -> Result<Index, String> {
        let mut reading = lines::Reading::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut limited = Read::take(&mut *text, LINE_BYTES_MAX);
            let read = limited.read_until(b'\n', &mut line);
            match read.map_err(|error| error.to_string())? {
                0 => break,
                _ if line.ends_with(b"\n") => reading.add(&line)?,
                _ => return Err("a line of it has no end".to_owned()),
            }
        }
        let (index, expected) = reading.finish()?;
        index.check(&expected)?;
        Ok(index)
    }

    /// Leaves out those of the backups that may be referred to that are not, but for the first one;
    /// returns the others.
    pub(crate) fn without_unused(&mut self, labels: Vec<String>) -> Vec<String> {
        let mut numbers = vec![OWN; labels.len() + 1];
        self.each_reference(|piece| {
            if let Some(number) = numbers.get_mut(piece.backup as usize) {
                *number = piece.backup;
            }
        });
        let mut kept = Vec::new();
        for (at, (label, number)) in labels.into_iter().zip(&mut numbers[1..]).enumerate() {
            if at == 0 || *number != OWN {
                kept.push(label);
                *number = kept.len() as u32;
            }
        }
        self.each_reference(|piece| {
            piece.backup = numbers.get(piece.backup as usize).copied().unwrap_or(OWN);
        });
        kept
    }

    fn each_reference(&mut self, mut action: impl FnMut(&mut Piece)) {
        for member in &mut self.members {
            if let Member::File {
                pieces: Some(pieces),
                ..
            } = member
            {
                let others = pieces.iter_mut().filter(|piece| piece.backup != OWN);
                others.for_each(&mut action);
            }
        }
    }

    /// Where the chunks of changed blocks begin in the stream.
    pub(crate) fn changed_start(&self) -> u64 {
        let plain = self.chunks.iter().filter(|chunk| chunk.base.is_none());
        plain.map(|chunk| u64::from(chunk.original_bytes)).sum()
    }

    fn check(&self, expected: &Expected) -> Result<(), String> {
        // Where the last chunk ends in each pack, of those of changed blocks and of the others.
        let mut ends = HashMap::new();
        let mut has_changed = false;
        for (number, chunk) in self.chunks.iter().enumerate() {
            let is_changed = chunk.base.is_some();
            if has_changed && !is_changed {
                return Err(format!("chunk {number} stands behind changed blocks"));
            }
            has_changed = is_changed;
            chunk
                .check(ends.entry((is_changed, chunk.pack)).or_default())
                .map_err(|wrong| format!("chunk {number} {wrong}"))?;
        }
        self.check_shared()?;
        self.check_tables()?;
        // Nothing was expected of the changed blocks before their beginning was known.
        let plain = self.changed_start();
        let changed = self.stream_bytes() - plain;
        match expected.plain_end() == plain && expected.changed_end() == plain + changed {
            true => Ok(()),
            false => Err("the chunks have more or fewer bytes than the files".to_owned()),
        }
    }

    /// Those that share bytes do so with an earlier file.
    fn check_shared(&self) -> Result<(), String> {
        let changed = self.changed_start();
        let mut ends = HashMap::new();
        let mut end = 0u64;
        for member in &self.members {
            let Member::File {
                entry,
                size_bytes,
                shared_at,
                pieces,
            } = member
            else {
                continue;
            };
            if let Some(start) = shared_at {
                let is_there = ends.get(start) == Some(size_bytes) && pieces.is_none();
                if *size_bytes > SHARED_BYTES_MAX || !is_there {
                    let shown = entry.path.display();
                    return Err(format!("{shown} shares bytes with no file before it"));
                }
                continue;
            }
            let own = own_bytes(*size_bytes, pieces.as_deref(), changed);
            if pieces.is_none() && *size_bytes > 0 && *size_bytes <= SHARED_BYTES_MAX {
                ends.insert(end, *size_bytes);
            }
            end = end.saturating_add(own);
        }
        Ok(())
    }

    fn stream_bytes(&self) -> u64 {
        let lens = self
            .chunks
            .iter()
            .map(|chunk| u64::from(chunk.original_bytes));
        lens.sum()
    }

    /// Bytes of all files.
    pub(crate) fn original_bytes(&self) -> u64 {
        let lens = self.members.iter().map(|member| match member {
            Member::Directory(_) => 0,
            Member::File { size_bytes, .. } => *size_bytes,
        });
        lens.fold(0, u64::saturating_add)
    }

    /// The files, and the pieces that each consists of.
    pub(crate) fn located(&self) -> impl Iterator<Item = (&Entry, Cow<'_, [Piece]>)> {
        let changed = self.changed_start();
        let mut end = 0;
        self.members.iter().filter_map(move |member| match member {
            Member::Directory(_) => None,
            Member::File {
                entry,
                size_bytes,
                shared_at,
                pieces,
            } => {
                let start = shared_at.unwrap_or(end);
                if shared_at.is_none() {
                    end += own_bytes(*size_bytes, pieces.as_deref(), changed);
                }
                let own = Piece {
                    backup: OWN,
                    offset: start,
                    len: *size_bytes,
                };
                let pieces = match pieces {
                    Some(pieces) => Cow::Borrowed(pieces.as_slice()),
                    None if *size_bytes == 0 => Cow::Borrowed([].as_slice()),
                    None => Cow::Owned(vec![own]),
                };
                Some((entry, pieces))
            }
        })
    }

    /// The files, and their lengths.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Entry, u64)> {
        self.located()
            .map(|(entry, pieces)| (entry, pieces.iter().map(|piece| piece.len).sum()))
    }

    /// The directories.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &Entry> {
        self.members.iter().filter_map(|member| match member {
            Member::Directory(entry) => Some(entry),
            Member::File { .. } => None,
        })
    }

    /// The names of the files of which a chunk has bytes.
    pub(crate) fn files_of(&self, chunk: usize) -> Vec<String> {
        let starts = self.chunk_starts();
        let range = match starts.get(chunk..) {
            Some(&[start, end, ..]) => start..end,
            _ => return Vec::new(),
        };
        let has_bytes = |pieces: &[Piece]| {
            let own = pieces.iter().filter(|piece| piece.backup == OWN);
            let mut ranges = own.map(|piece| piece.offset..piece.offset + piece.len);
            ranges.any(|piece| overlap(&piece, &range))
        };
        let files = self.located().filter(|(_, pieces)| has_bytes(pieces));
        files
            .map(|(entry, _)| String::from_utf8_lossy(&entry.name()).into_owned())
            .collect()
    }

    /// Where the chunks begin in the stream, and where the last one ends.
    pub(crate) fn chunk_starts(&self) -> Vec<u64> {
        let mut starts = vec![0];
        let mut end = 0;
        for chunk in &self.chunks {
            end += u64::from(chunk.original_bytes);
            starts.push(end);
        }
        starts
    }

    /// The files that are wanted of a backup that refers to no other, in the order in which their
    /// bytes are in the stream.
    pub(crate) fn selected(&self, is_wanted: impl Fn(&Entry) -> bool) -> Vec<Selected> {
        let mut selected: Vec<Selected> = Vec::new();
        let mut small = HashMap::new();
        for (entry, pieces) in self.located().filter(|(entry, _)| is_wanted(entry)) {
            let range = match pieces.first() {
                Some(piece) => piece.offset..piece.offset + piece.len,
                None => 0..0,
            };
            let len = range.end - range.start;
            if len > 0 && len <= SHARED_BYTES_MAX {
                let number = *small.entry(range.start).or_insert(selected.len());
                if let Some(same) = selected.get_mut(number) {
                    same.entries.push(entry.clone());
                    continue;
                }
            }
            let entries = vec![entry.clone()];
            selected.push(Selected { entries, range });
        }
        selected.sort_by_key(|selected| selected.range.start);
        selected
    }

    /// The numbers of the chunks that are needed for these files, in their order: those that have
    /// bytes of them, and those of the tables from which those are told.
    pub(crate) fn chunks_of(&self, selected: &[Selected]) -> Vec<usize> {
        let numbers = self.chunks_with_bytes(selected);
        let table = |&number: &usize| {
            let [table, _] = self.chunks.get(number)?.index?;
            self.tables.get(table as usize)
        };
        let of_tables: BTreeSet<usize> = numbers
            .iter()
            .filter_map(table)
            .flat_map(StoredTable::chunks)
            .collect();
        if of_tables.is_empty() {
            return numbers;
        }
        let all: BTreeSet<usize> = numbers.into_iter().chain(of_tables).collect();
        all.into_iter().collect()
    }

    /// The numbers of the chunks that have bytes of these files.
    fn chunks_with_bytes(&self, selected: &[Selected]) -> Vec<usize> {
        let starts = self.chunk_starts();
        let mut numbers: Vec<usize> = Vec::new();
        for Selected { range, .. } in selected.iter().filter(|of| !of.range.is_empty()) {
            let first = starts.partition_point(|&start| start <= range.start) - 1;
            let first = numbers.last().map_or(first, |&last| first.max(last + 1));
            let end = starts.partition_point(|&start| start < range.end);
            numbers.extend(first..end);
        }
        numbers
    }
}

impl Chunk {
    /// Says what cannot be; `end` is where the chunk before it in its pack ends.
    pub(super) fn check(&self, end: &mut u64) -> Result<(), String> {
        let lengths = [
            (self.size_bytes, ENCODED_BYTES_MAX),
            (self.original_bytes, CHUNK_BYTES_MAX),
        ];
        if lengths.iter().any(|&(len, max)| len == 0 || len > max) {
            return Err("has an impossible length".to_owned());
        }
        if self.offset < *end {
            return Err("is not behind the one before it in its pack".to_owned());
        }
        let chunk_end = self.offset.checked_add(self.size_bytes.into());
        let impossible = || "has an impossible offset".to_owned();
        *end = chunk_end.ok_or_else(impossible)?;
        let Some(base) = self.base.as_deref().filter(|base| !base.is_empty()) else {
            return Ok(());
        };
        let lens = base.iter().map(|&[_, len]| len);
        let is_possible = |&[offset, len]: &[u64; 2]| len > 0 && offset.checked_add(len).is_some();
        let has_all = lens.fold(0, u64::saturating_add) == u64::from(self.original_bytes);
        match has_all && base.iter().all(is_possible) {
            true => Ok(()),
            false => Err("is told from more or fewer bytes than it has".to_owned()),
        }
    }
}

/// Bytes that a file has in the part of the stream before the changed blocks.
fn own_bytes(size_bytes: u64, pieces: Option<&[Piece]>, changed: u64) -> u64 {
    match pieces {
        None => size_bytes,
        Some(pieces) => {
            let own = pieces.iter().filter(|piece| piece.backup == OWN);
            let plain = own.filter(|piece| piece.offset < changed);
            plain.map(|piece| piece.len).fold(0, u64::saturating_add)
        }
    }
}

fn write_line(text: &mut Vec<u8>, line: &Line) -> Result<(), String> {
    serde_json::to_writer(&mut *text, line).map_err(|error| error.to_string())?;
    text.push(b'\n');
    Ok(())
}

/// Bytes of the stream, and the files that consist of them: one, or some small ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selected {
    pub(crate) entries: Vec<Entry>,
    pub(crate) range: Range<u64>,
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start.max(other.start) < one.end.min(other.end)
}

#[cfg(test)]
mod tests;
