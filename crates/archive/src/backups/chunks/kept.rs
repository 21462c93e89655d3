//! Chunks that earlier attempts at a backup have stored. A later attempt that comes to the same bytes
//! takes them as they are.
//!
//! Whenever an attempt has closed a full pack, it notes in an object beside it what is in there:
//! lines of JSON, of the pack and of its chunks. The notes of a backup are removed when it is
//! finished.

use std::collections::HashMap;

use blake3::Hash;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use walzip_codec::Level;
use walzip_repo::{BackupWriter, Interrupted, Repository};

use super::cutter::CutChunk;
use super::index::Chunk;
use super::pack::{HEADER_LEN, PACK};
use super::tables::Role;
use crate::backups::backup_record::ObjectRecord;
use crate::error::ArchiveError;
use crate::wal::text;

/// How the names of notes begin; the number of the pack follows.
const NOTES: &str = "chunks.";

/// More chunks are not kept: they are held in memory, and are of 4 TB.
const CHUNKS_MAX: usize = 1 << 20;

/// A line of notes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    /// Comes first.
    Pack(PackLine),
    /// A chunk of that pack. Its own number of a pack means nothing.
    Chunk(Chunk),
    /// Comes last: the hash of the lines before. Without it, nothing of them counts.
    Blake3(#[serde(with = "text")] Hash),
}

#[derive(Debug, Serialize, Deserialize)]
struct PackLine {
    #[serde(flatten)]
    object: ObjectRecord,
    /// The level of its chunks.
    level: u8,
    /// Whether they were decoded and compared.
    proven: bool,
}

/// How chunks were encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct How {
    pub(crate) level: Level,
    pub(crate) proves: bool,
}

/// Notes what is in a pack, which is stored.
pub(crate) async fn note(
    writer: &BackupWriter,
    number: usize,
    (object, how): (&ObjectRecord, How),
    chunks: &[&Chunk],
) -> Result<(), ArchiveError> {
    let mut text = Vec::new();
    let pack = Line::Pack(PackLine {
        object: object.clone(),
        level: how.level.get(),
        proven: how.proves,
    });
    let chunks = chunks.iter().map(|&chunk| Line::Chunk(chunk.clone()));
    for line in std::iter::once(pack).chain(chunks) {
        write_line(&mut text, &line)?;
    }
    let hash = blake3::hash(&text);
    write_line(&mut text, &Line::Blake3(hash))?;
    let name = writer.name(&format!("{NOTES}{number:04}"));
    let mut notes = writer.create_object(&name).await?;
    notes.write(text).await?;
    notes.finish().await?;
    Ok(())
}

fn write_line(text: &mut Vec<u8>, line: &Line) -> Result<(), ArchiveError> {
    serde_json::to_writer(&mut *text, line)
        .map_err(|error| ArchiveError::Internal(error.to_string()))?;
    text.push(b'\n');
    Ok(())
}

/// The lines of notes, if they are as they were written.
fn read_lines(notes: &[u8]) -> Option<Vec<Line>> {
    let text = notes.strip_suffix(b"\n")?;
    let end = text.iter().rposition(|&byte| byte == b'\n')? + 1;
    let (lines, last) = text.split_at(end);
    match serde_json::from_slice(last).ok()? {
        Line::Blake3(hash) if hash == blake3::hash(lines) => {}
        _ => return None,
    }
    let lines = lines.split_inclusive(|&byte| byte == b'\n');
    lines
        .map(|line| serde_json::from_slice(line).ok())
        .collect()
}

/// A pack of an earlier attempt.
#[derive(Clone, Debug)]
struct KeptPack {
    object: ObjectRecord,
    /// Where the last chunk that was taken ends.
    taken_to: u64,
}

/// A chunk of an earlier attempt, and the pack that it is in.
#[derive(Clone, Debug)]
pub(crate) struct KeptChunk {
    pub(crate) object: ObjectRecord,
    /// Its number of a pack is that of the earlier attempt's notes.
    pub(crate) chunk: Chunk,
}

/// What earlier attempts have stored.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    packs: Vec<KeptPack>,
    /// By the hash of the bytes before encoding.
    chunks: HashMap<Hash, Chunk>,
}

impl Kept {
    /// What can be taken; `None` if that is nothing. What cannot be read counts for nothing.
    pub(crate) async fn read(
        repository: &Repository,
        interrupted: &Interrupted,
        how: How,
    ) -> Option<Kept> {
        let mut kept = Kept::default();
        for name in interrupted.objects.keys().filter(|name| is_notes(name)) {
            match repository
                .read_backup_object(&interrupted.label, name)
                .await
            {
                Ok(Some(notes)) => kept.add(&notes, interrupted, how),
                Ok(None) => {}
                Err(error) => tracing::debug!("{name} of an earlier attempt: {error}"),
            }
        }
        (!kept.chunks.is_empty()).then_some(kept)
    }

    /// Takes the chunks of a pack that is there, if they are encoded as this attempt would.
    fn add(&mut self, notes: &Bytes, interrupted: &Interrupted, how: How) {
        let mut lines = read_lines(notes).unwrap_or_default().into_iter();
        let Some(Line::Pack(pack)) = lines.next() else {
            return;
        };
        let stored = interrupted.objects.get(&pack.object.name);
        let is_wanted = stored == Some(&pack.object.size_bytes)
            && pack.level == how.level.get()
            && (pack.proven || !how.proves);
        if !is_wanted {
            return;
        }
        let number = self.packs.len() as u32;
        let chunks = lines.map_while(|line| match line {
            Line::Chunk(chunk) => Some(Chunk {
                pack: number,
                ..chunk
            }),
            _ => None,
        });
        let chunks: Vec<Chunk> = chunks.collect();
        let mut end = HEADER_LEN as u64;
        let is_possible = |chunk: &Chunk| {
            chunk.base.is_none() && chunk.index.is_none() && chunk.check(&mut end).is_ok()
        };
        if !chunks.iter().all(is_possible)
            || end > pack.object.size_bytes
            || self.chunks.len() + chunks.len() > CHUNKS_MAX
        {
            return;
        }
        self.packs.push(KeptPack {
            object: pack.object,
            taken_to: 0,
        });
        for chunk in chunks {
            self.chunks.entry(chunk.original_blake3).or_insert(chunk);
        }
    }

    /// The chunk that has the bytes of another one, once, unless it is of changed blocks or one that
    /// stands behind it in its pack was taken before.
    pub(crate) fn take(&mut self, wanted: &CutChunk) -> Option<KeptChunk> {
        // A chunk of an index is told from rows that are others by now.
        if wanted.base.is_some() || matches!(wanted.role, Role::Index(..)) {
            return None;
        }
        let chunk = self.chunks.get(&blake3::hash(&wanted.bytes))?;
        let pack = self.packs.get_mut(chunk.pack as usize)?;
        let is_behind = chunk.offset >= pack.taken_to;
        if !is_behind || chunk.original_bytes as usize != wanted.bytes.len() {
            return None;
        }
        pack.taken_to = chunk.offset.checked_add(chunk.size_bytes.into())?;
        Some(KeptChunk {
            object: pack.object.clone(),
            chunk: chunk.clone(),
        })
    }
}

/// The name of the notes of a pack of any attempt.
pub(crate) fn notes_of(pack: &str) -> Option<String> {
    let begin = pack.rfind(PACK)?;
    let (attempt, number) = (&pack[..begin], &pack[begin + PACK.len()..]);
    Some(format!("{attempt}{NOTES}{number}"))
}

/// Whether an object of any attempt is notes.
pub(crate) fn is_notes(name: &str) -> bool {
    let own = name.rsplit_once('/').map_or(name, |(_, own)| own);
    own.starts_with(NOTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notes_of_a_pack_have_its_number_and_attempt() {
        let notes = |pack| notes_of(pack);
        assert_eq!(notes("pack.0003").as_deref(), Some("chunks.0003"));
        assert_eq!(notes("12/pack.0103").as_deref(), Some("12/chunks.0103"));
        assert_eq!(notes("2/index.zst.0000"), None);
    }

    #[test]
    fn notes_that_are_not_as_they_were_written_count_for_nothing() {
        let mut text = Vec::new();
        let chunk = |offset| {
            Line::Chunk(Chunk {
                pack: 0,
                offset,
                size_bytes: 10,
                original_bytes: 8192,
                blake3: blake3::hash(b"stored"),
                original_blake3: blake3::hash(b"original"),
                base: None,
                index: None,
            })
        };
        for offset in [16, 26] {
            write_line(&mut text, &chunk(offset)).expect("JSON");
        }
        let hash = blake3::hash(&text);
        write_line(&mut text, &Line::Blake3(hash)).expect("JSON");
        assert_eq!(read_lines(&text).expect("whole").len(), 2);
        for at in 0..text.len() {
            let mut changed = text.clone();
            changed[at] ^= 1;
            assert!(read_lines(&changed).is_none(), "byte {at}");
            assert!(read_lines(&text[..at]).is_none(), "{at} bytes");
        }
    }
}
