//! The files of a backup that refers to others: put together of the chunks of all of them.
//!
//! Files come in the order of the index, in which the streams of all backups nearly advance. Threads
//! decode what comes next ahead of the one that takes the files; what was decoded is held for a while
//! and decoded anew where it is needed later.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::sync::Arc;

use super::decoded::Decoded;
use super::index::{Index, SHARED_BYTES_MAX};
use super::pieces::{OWN, Piece};
use crate::backups::backup_files::{Entry, FileSink};
use crate::coding::off_the_runtime;
use crate::coding::workers::{Workers, processors};
use crate::error::ArchiveError;

/// Files that consist of the same bytes: one, or some small ones.
struct Wanted {
    entries: Vec<Entry>,
    size_bytes: u64,
    pieces: Vec<Piece>,
}

/// Hands the directories and the wanted files to `sink`, and returns it.
pub(crate) async fn read<S: FileSink + Send + 'static>(
    decoded: Arc<Decoded>,
    index: Arc<Index>,
    is_wanted: impl Fn(&Entry) -> bool,
    mut sink: S,
) -> Result<S, ArchiveError> {
    let wanted = wanted(&index, is_wanted);
    let threads = processors();
    let ahead = Arc::clone(&decoded);
    let workers = Workers::start(threads, || {
        let decoded = Arc::clone(&ahead);
        // Who needs it meets the error again.
        move |ahead| match ahead {
            Ahead::Chunk(id) => drop(decoded.chunk(id)),
            Ahead::Base(id) => drop(decoded.base_chunk(id)),
        }
    })?;
    off_the_runtime(move || {
        for entry in index.directories() {
            sink.directory(entry.clone())?;
        }
        let mut files = Files {
            decoded: &decoded,
            workers,
            ahead: Needs::of(&decoded, &wanted),
            recent: Recent::of(&decoded),
            error: None,
        };
        for _ in 0..threads {
            files.decode_ahead();
        }
        for wanted in &wanted {
            files.hand_on(wanted, &mut sink)?;
        }
        Ok(sink)
    })
    .await
}

/// Those that are wanted, in the order of the index.
fn wanted(index: &Index, is_wanted: impl Fn(&Entry) -> bool) -> Vec<Wanted> {
    let mut found: Vec<Wanted> = Vec::new();
    let mut small: HashMap<Piece, usize> = HashMap::new();
    for (entry, pieces) in index.located().filter(|(entry, _)| is_wanted(entry)) {
        let size_bytes = pieces.iter().map(|piece| piece.len).sum();
        if let (&[piece], true) = (pieces.as_ref(), size_bytes <= SHARED_BYTES_MAX) {
            let number = *small.entry(piece).or_insert(found.len());
            if let Some(same) = found.get_mut(number) {
                same.entries.push(entry.clone());
                continue;
            }
        }
        found.push(Wanted {
            entries: vec![entry.clone()],
            size_bytes,
            pieces: Cow::into_owned(pieces),
        });
    }
    found
}

/// What the threads decode before it is needed.
enum Ahead {
    /// What files consist of.
    Chunk((u32, usize)),
    /// What the blocks of the next chunk are told from.
    Base((u32, usize)),
}

/// The files that are handed on.
struct Files<'d> {
    decoded: &'d Decoded,
    workers: Workers<Ahead, ()>,
    /// What will be needed.
    ahead: Needs<'d>,
    /// What was needed.
    recent: Recent,
    /// Why the last file could not be read.
    error: Option<ArchiveError>,
}

impl Files<'_> {
    /// Lets the threads decode another chunk.
    fn decode_ahead(&mut self) {
        if let Some(id) = self.ahead.next() {
            // Nobody waits for it.
            for base in self.decoded.bases_of(id) {
                drop(self.workers.submit(Ahead::Base(base)));
            }
            drop(self.workers.submit(Ahead::Chunk(id)));
        }
    }

    fn hand_on(&mut self, wanted: &Wanted, sink: &mut dyn FileSink) -> Result<(), ArchiveError> {
        let mut content = Content {
            files: self,
            pieces: wanted.pieces.iter(),
            rest: None,
            chunk: (Arc::default(), 0),
        };
        let size_bytes = wanted.size_bytes;
        let taken = match wanted.entries.as_slice() {
            [entry] => sink.file(entry.clone(), size_bytes, &mut content),
            entries => copies(entries, size_bytes, &mut content, sink),
        };
        taken.map_err(|error| match self.error.take() {
            Some(cause) => cause,
            None => error,
        })
    }
}

/// Files that have the same bytes, which small ones only are looked for.
fn copies(
    entries: &[Entry],
    size_bytes: u64,
    content: &mut Content<'_, '_>,
    sink: &mut dyn FileSink,
) -> Result<(), ArchiveError> {
    let mut bytes = Vec::new();
    let read = content.read_to_end(&mut bytes);
    read.map_err(|error| ArchiveError::Internal(error.to_string()))?;
    for entry in entries {
        sink.file(entry.clone(), size_bytes, &mut bytes.as_slice())?;
    }
    Ok(())
}

/// The content of a file.
struct Content<'f, 'd> {
    files: &'f mut Files<'d>,
    pieces: std::slice::Iter<'f, Piece>,
    /// What is left of a piece.
    rest: Option<Piece>,
    /// A chunk, and where in it the next bytes are.
    chunk: (Arc<Vec<u8>>, usize),
}

impl Content<'_, '_> {
    /// Goes on to bytes that a chunk has, or at the end of the file to none.
    fn next_run(&mut self) -> Result<Option<Piece>, ArchiveError> {
        if let Some(rest) = self.rest.filter(|rest| rest.len > 0)
            && self.chunk.1 < self.chunk.0.len()
        {
            return Ok(Some(rest));
        }
        let rest = self.rest.filter(|rest| rest.len > 0);
        let Some(piece) = rest.or_else(|| self.pieces.next().copied()) else {
            return Ok(None);
        };
        let source = self.files.decoded.source(piece.backup)?;
        let number = source.chunk_at(piece.offset);
        let start = source.starts.get(number).copied().unwrap_or_default();
        let id = (piece.backup, number);
        if self.files.recent.is_new(id) {
            self.files.decode_ahead();
        }
        let chunk = self.files.decoded.chunk(id)?;
        let from = usize::try_from(piece.offset - start).unwrap_or(usize::MAX);
        if from >= chunk.len() {
            return Err(ArchiveError::Damaged {
                object: format!("backup {}", source.label),
                reason: "its stream ends early".to_owned(),
            });
        }
        self.chunk = (chunk, from);
        self.rest = Some(piece);
        Ok(Some(piece))
    }
}

impl Read for Content<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let run = self.next_run().map_err(|error| {
            let shown = error.to_string();
            self.files.error = Some(error);
            io::Error::other(shown)
        })?;
        let Some(mut piece) = run else {
            return Ok(0);
        };
        let (chunk, from) = &mut self.chunk;
        let bytes = chunk.get(*from..).unwrap_or_default();
        let left = usize::try_from(piece.len).unwrap_or(usize::MAX);
        let len = bytes.len().min(buffer.len()).min(left);
        buffer[..len].copy_from_slice(&bytes[..len]);
        *from += len;
        piece.offset += len as u64;
        piece.len -= len as u64;
        if piece.len == 0 {
            self.rest = None;
        } else {
            self.rest = Some(piece);
        }
        Ok(len)
    }
}

/// The chunks that were needed last: those are still held.
struct Recent {
    ids: VecDeque<(u32, usize)>,
    max: usize,
}

impl Recent {
    fn of(decoded: &Decoded) -> Recent {
        Recent {
            ids: VecDeque::new(),
            max: decoded.used_at_once(),
        }
    }

    /// Notes a chunk; whether it is none of the last ones.
    fn is_new(&mut self, id: (u32, usize)) -> bool {
        let known = self.ids.iter().position(|other| *other == id);
        let is_new = known.is_none();
        if let Some(at) = known {
            self.ids.remove(at);
        }
        self.ids.push_back(id);
        if self.ids.len() > self.max {
            self.ids.pop_front();
        }
        is_new
    }
}

/// The chunks that files need, one after the other, without those that were needed just before.
struct Needs<'d> {
    decoded: &'d Decoded,
    pieces: Box<dyn Iterator<Item = Piece> + 'd>,
    current: Option<Piece>,
    recent: Recent,
}

impl<'d> Needs<'d> {
    fn of(decoded: &'d Decoded, wanted: &'d [Wanted]) -> Needs<'d> {
        let pieces = wanted.iter().flat_map(|wanted| wanted.pieces.iter());
        Needs {
            decoded,
            pieces: Box::new(pieces.copied()),
            current: None,
            recent: Recent::of(decoded),
        }
    }
}

impl Iterator for Needs<'_> {
    type Item = (u32, usize);

    fn next(&mut self) -> Option<(u32, usize)> {
        loop {
            let piece = match self.current.take() {
                Some(piece) => piece,
                None => self.pieces.next()?,
            };
            // Who takes the files meets the error.
            let source = self.decoded.source(piece.backup).ok()?;
            let number = source.chunk_at(piece.offset);
            let end = source.starts.get(number + 1).copied()?;
            let step = end.saturating_sub(piece.offset);
            if step < piece.len && step > 0 {
                self.current = Some(Piece {
                    offset: end,
                    len: piece.len - step,
                    ..piece
                });
            }
            if self.recent.is_new((piece.backup, number)) {
                return Some((piece.backup, number));
            }
        }
    }
}

/// Says which of a backup's own chunks cannot be decoded.
pub(crate) async fn damaged(decoded: Arc<Decoded>) -> Vec<ArchiveError> {
    const NAMED_MAX: usize = 100;
    off_the_runtime(move || {
        let chunks = decoded.source(OWN).map_or(0, |source| source.chunks.len());
        let errors = (0..chunks).filter_map(|number| decoded.chunk((OWN, number)).err());
        errors.take(NAMED_MAX).collect()
    })
    .await
}
