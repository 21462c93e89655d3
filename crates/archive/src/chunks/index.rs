//! The index of a backup: its chunks and its files, as lines of JSON.
//!
//! The files of a backup lie one behind the other in a stream of bytes, in the order of the index,
//! and so do the chunks that the stream was cut into. Where each begins follows from the lengths
//! of those before it.

use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::ops::Range;

use blake3::Hash;
use serde::{Deserialize, Serialize};

use crate::backup_files::Entry;
use crate::text;

/// Bytes of a chunk before encoding, at most.
pub(crate) const CHUNK_BYTES_MAX: u32 = 16 << 20;
/// More bytes than a chunk of that length is ever encoded to.
const ENCODED_BYTES_MAX: u32 = CHUNK_BYTES_MAX + (1 << 20);

/// Longer files do not share the bytes of another one: those that do are held in memory.
pub(crate) const SHARED_BYTES_MAX: u64 = 1 << 20;
/// No line is longer: PostgreSQL's paths have at most 1024 bytes.
const LINE_BYTES_MAX: u64 = 16 << 10;

/// A line of the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Line {
    /// A chunk.
    Chunk(Chunk),
    /// A directory.
    Directory(Directory),
    /// A file.
    File(File),
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
            } => Line::File(File {
                place: Place::of(entry),
                size_bytes: *size_bytes,
                offset: *shared_at,
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
    pub(crate) members: Vec<Member>,
}

impl Index {
    /// Its lines.
    pub(crate) fn write(&self) -> Result<Vec<u8>, serde_json::Error> {
        let chunks = self.chunks.iter().cloned().map(Line::Chunk);
        let members = self.members.iter().map(Member::line);
        let mut text = Vec::new();
        for line in chunks.chain(members) {
            serde_json::to_writer(&mut text, &line)?;
            text.push(b'\n');
        }
        Ok(text)
    }

    /// Reads the lines, and checks what no reader could do without.
    pub(crate) fn read(text: &mut dyn BufRead) -> Result<Index, String> {
        let mut index = Index::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut limited = Read::take(&mut *text, LINE_BYTES_MAX);
            let read = limited.read_until(b'\n', &mut line);
            match read.map_err(|error| error.to_string())? {
                0 => break,
                _ if line.ends_with(b"\n") => index.add(&line)?,
                _ => return Err("a line of it has no end".to_owned()),
            }
        }
        index.check()?;
        Ok(index)
    }

    fn add(&mut self, line: &[u8]) -> Result<(), String> {
        match serde_json::from_slice(line).map_err(|error| error.to_string())? {
            Line::Chunk(chunk) => self.chunks.push(chunk),
            Line::Directory(directory) => {
                self.members
                    .push(Member::Directory(directory.place.entry()?));
            }
            Line::File(file) => {
                self.members.push(Member::File {
                    entry: file.place.entry()?,
                    size_bytes: file.size_bytes,
                    shared_at: file.offset,
                });
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let mut end = (0, 0);
        for (number, chunk) in self.chunks.iter().enumerate() {
            let lengths = [
                (chunk.size_bytes, ENCODED_BYTES_MAX),
                (chunk.original_bytes, CHUNK_BYTES_MAX),
            ];
            if lengths.iter().any(|&(len, max)| len == 0 || len > max) {
                return Err(format!("chunk {number} has an impossible length"));
            }
            if (chunk.pack, chunk.offset) < end {
                return Err(format!("chunk {number} is not behind the one before it"));
            }
            let chunk_end = chunk.offset.checked_add(chunk.size_bytes.into());
            let impossible = || format!("chunk {number} has an impossible offset");
            end = (chunk.pack, chunk_end.ok_or_else(impossible)?);
        }
        match self.check_files()? == self.stream_bytes() {
            true => Ok(()),
            false => Err("the chunks have more or fewer bytes than the files".to_owned()),
        }
    }

    /// The length of the stream, by its files: those that share bytes do so with an earlier one.
    fn check_files(&self) -> Result<u64, String> {
        let mut ends = HashMap::new();
        let mut end = 0u64;
        for member in &self.members {
            let Member::File {
                entry,
                size_bytes,
                shared_at,
            } = member
            else {
                continue;
            };
            if let Some(start) = shared_at {
                if *size_bytes > SHARED_BYTES_MAX || ends.get(start) != Some(size_bytes) {
                    let shown = entry.path.display();
                    return Err(format!("{shown} shares bytes with no file before it"));
                }
                continue;
            }
            if *size_bytes > 0 && *size_bytes <= SHARED_BYTES_MAX {
                ends.insert(end, *size_bytes);
            }
            let next = end.checked_add(*size_bytes);
            end = next.ok_or_else(|| "its files have an impossible length".to_owned())?;
        }
        Ok(end)
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
        let lens = self.located().map(|(_, range)| range.end - range.start);
        lens.fold(0, u64::saturating_add)
    }

    /// The files, and where the bytes of each are in the stream.
    fn located(&self) -> impl Iterator<Item = (&Entry, Range<u64>)> {
        let mut end = 0;
        self.members.iter().filter_map(move |member| match member {
            Member::Directory(_) => None,
            Member::File {
                entry,
                size_bytes,
                shared_at,
            } => {
                let start = shared_at.unwrap_or(end);
                if shared_at.is_none() {
                    end += size_bytes;
                }
                Some((entry, start..start + size_bytes))
            }
        })
    }

    /// The files, and their lengths.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Entry, u64)> {
        self.located()
            .map(|(entry, range)| (entry, range.end - range.start))
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
        let files = self.located().filter(|(_, file)| overlap(file, &range));
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

    /// The files that are wanted, in the order in which their bytes are in the stream.
    pub(crate) fn selected(&self, is_wanted: impl Fn(&Entry) -> bool) -> Vec<Selected> {
        let mut selected: Vec<Selected> = Vec::new();
        let mut small = HashMap::new();
        for (entry, range) in self.located().filter(|(entry, _)| is_wanted(entry)) {
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

    /// The numbers of the chunks that have bytes of these files, in their order.
    pub(crate) fn chunks_of(&self, selected: &[Selected]) -> Vec<usize> {
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
mod tests {
    use super::*;

    fn chunk(pack: u32, offset: u64, original_bytes: u32) -> Chunk {
        Chunk {
            pack,
            offset,
            size_bytes: 10,
            original_bytes,
            blake3: blake3::hash(b"encoded"),
            original_blake3: blake3::hash(b"original"),
        }
    }

    fn entry(path: &[u8]) -> Entry {
        Entry::new(None, path, 0o600).expect("a path")
    }

    fn file(path: &[u8], size_bytes: u64, shared_at: Option<u64>) -> Member {
        Member::File {
            entry: entry(path),
            size_bytes,
            shared_at,
        }
    }

    fn index() -> Index {
        Index {
            chunks: vec![chunk(0, 16, 100), chunk(0, 26, 50), chunk(1, 16, 60)],
            members: vec![
                Member::Directory(entry(b"base")),
                file(b"base/a", 120, None),
                file(b"base/empty", 0, None),
                file(b"base/\xff", 90, None),
                file(b"base/same", 120, Some(0)),
            ],
        }
    }

    #[test]
    fn is_read_as_it_was_written() {
        let text = index().write().expect("JSON");
        assert_eq!(Index::read(&mut text.as_slice()), Ok(index()));
    }

    #[test]
    fn the_example_of_the_specification_is_read() {
        let specification = include_str!("../../../../docs/format/backup.md");
        let (_, rest) = specification.split_once("## The index").expect("a heading");
        let (_, rest) = rest.split_once("```json\n").expect("an example");
        let (example, _) = rest.split_once("```").expect("its end");
        let index = Index::read(&mut example.as_bytes()).expect("as it is written");
        assert_eq!(index.write().expect("JSON"), example.as_bytes());
    }

    #[test]
    fn names_the_files_of_a_chunk() {
        assert_eq!(index().files_of(0), ["base/a", "base/same"]);
        assert_eq!(
            index().files_of(1),
            ["base/a", "base/\u{fffd}", "base/same"]
        );
        assert_eq!(index().files_of(2), ["base/\u{fffd}"]);
        assert_eq!(index().files_of(3), Vec::<String>::new());
    }

    #[test]
    fn files_with_the_same_bytes_come_together() {
        let selected = index().selected(|_| true);
        let names = selected.iter().map(|of| of.entries.len());
        assert_eq!(names.collect::<Vec<_>>(), [2, 1, 1]);
        assert_eq!(index().original_bytes(), 330);
    }

    #[test]
    fn says_which_chunks_have_the_files_that_are_wanted() {
        let chunks = |names: &[&[u8]]| {
            let is_wanted = |entry: &Entry| names.contains(&entry.name().as_slice());
            index().chunks_of(&index().selected(is_wanted))
        };
        assert_eq!(chunks(&[]), Vec::<usize>::new());
        assert_eq!(chunks(&[b"base/empty"]), Vec::<usize>::new());
        assert_eq!(chunks(&[b"base/a"]), [0, 1]);
        assert_eq!(chunks(&[b"base/same"]), [0, 1]);
        assert_eq!(chunks(&[b"base/\xff"]), [1, 2]);
        assert_eq!(chunks(&[b"base/a", b"base/\xff"]), [0, 1, 2]);
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let refused = |change: fn(&mut Index)| {
            let mut changed = index();
            change(&mut changed);
            let text = changed.write().expect("JSON");
            assert!(Index::read(&mut text.as_slice()).is_err());
        };
        refused(|index| index.chunks.truncate(2));
        refused(|index| index.members.truncate(3));
        refused(|index| index.chunks.swap(0, 1));
        refused(|index| index.chunks[1].offset = 25);
        refused(|index| index.chunks[1].size_bytes = 0);
        refused(|index| index.chunks[2].original_bytes = CHUNK_BYTES_MAX + 1);
        refused(|index| index.members[1] = file(b"base/a", u64::MAX, None));
        refused(|index| index.members[4] = file(b"base/same", 119, Some(0)));
        refused(|index| index.members[4] = file(b"base/same", 120, Some(1)));
        refused(|index| index.members.swap(1, 4));
        let long = format!("{{\"file\":{{\"path\":\"{}\"", "x".repeat(1 << 20));
        for text in [
            "{\n",
            "{\"chunk\":{}}\n",
            "{\"file\":{\"path\":\"../x\",\"mode\":1,\"size_bytes\":0}}\n",
            "{\"file\":{\"path\":\"x\",\"mode\":1,\"size_bytes\":0}}",
            &long,
        ] {
            assert!(Index::read(&mut text.as_bytes()).is_err(), "{text}");
        }
    }
}
