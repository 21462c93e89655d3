//! The backups in whose streams the files of a backup lie: its own, and those that it refers to.

use std::sync::Arc;

use walzip_repo::{BackupLabel, BackupType, Repository};

use super::index::{Chunk, Index, StoredTable};
use super::packed::Packed;
use super::pieces::Piece;
use crate::backups::backup_objects::needed;
use crate::backups::backup_record::{BackupRecord, ObjectRecord};
use crate::error::ArchiveError;

/// The chunks of a backup, and where they are.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) label: BackupLabel,
    pub(crate) packs: Vec<ObjectRecord>,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) tables: Vec<StoredTable>,
    /// Where the chunks begin in the stream, and where the last one ends.
    pub(crate) starts: Vec<u64>,
    /// Where the changed blocks begin in the stream.
    pub(crate) changed_start: u64,
}

impl Source {
    /// The chunks of an index.
    pub(crate) fn of(label: &BackupLabel, packs: &[ObjectRecord], index: &Index) -> Source {
        Source {
            label: label.clone(),
            packs: packs.to_vec(),
            chunks: index.chunks.clone(),
            tables: index.tables.clone(),
            starts: index.chunk_starts(),
            changed_start: index.changed_start(),
        }
    }

    /// Bytes of the stream.
    pub(crate) fn stream_bytes(&self) -> u64 {
        self.starts.last().copied().unwrap_or_default()
    }

    /// The chunk that has a byte of the stream.
    pub(crate) fn chunk_at(&self, offset: u64) -> usize {
        let behind = self.starts.partition_point(|&start| start <= offset);
        behind.saturating_sub(1)
    }
}

/// A backup that another one refers to.
#[derive(Debug)]
pub(crate) struct Referred {
    pub(crate) record: BackupRecord,
    pub(crate) label: BackupLabel,
    pub(crate) index: Arc<Index>,
}

/// Reads the backups that one refers to, in the order of its references, and keeps of each what `keep`
/// returns: an index has a line for each file.
pub(crate) async fn read_referred<T>(
    repository: &Repository,
    record: &BackupRecord,
    keep: impl Fn(Referred) -> T,
) -> Result<Vec<T>, ArchiveError> {
    let mut kept = Vec::with_capacity(record.references.len());
    for reference in &record.references {
        let referred = read_one(repository, record, reference).await;
        let referred = referred.map_err(|error| needed(&record.label, reference, error))?;
        kept.push(keep(referred));
    }
    Ok(kept)
}

async fn read_one(
    repository: &Repository,
    record: &BackupRecord,
    reference: &str,
) -> Result<Referred, ArchiveError> {
    let label: BackupLabel = reference.parse()?;
    let referred = BackupRecord::read(repository, &label).await?;
    let damaged = |reason: &str| ArchiveError::Damaged {
        object: format!("backup {label}"),
        reason: reason.to_owned(),
    };
    let is_first = record.references.first().map(String::as_str) == Some(reference);
    if is_first != (referred.backup_type() == BackupType::Full) {
        return Err(damaged("it is not the full backup that it is taken for"));
    }
    if !is_first && referred.references.first() != record.references.first() {
        return Err(damaged(
            "its changed blocks are told from another full backup",
        ));
    }
    let Some(files) = &referred.files else {
        return Err(damaged("it has no packs"));
    };
    let index = Packed::read(repository, &label, files).await?.index;
    Ok(Referred {
        record: referred,
        label,
        index,
    })
}

/// Refuses pieces and bases that are not in the streams that they name.
pub(crate) fn check(index: &Index, sources: &[Source]) -> Result<(), String> {
    let bytes: Vec<u64> = sources.iter().map(Source::stream_bytes).collect();
    let is_there = |piece: &Piece| {
        let bytes = bytes.get(piece.backup as usize);
        bytes.is_some_and(|&bytes| piece.end().is_some_and(|end| end <= bytes))
    };
    for (entry, pieces) in index.located() {
        if !pieces.iter().all(is_there) {
            let shown = entry.path.display();
            return Err(format!("{shown} has bytes that no backup has"));
        }
    }
    for source in sources {
        check_bases(source, sources.get(1))?;
    }
    Ok(())
}

fn check_bases(source: &Source, full: Option<&Source>) -> Result<(), String> {
    let bases = source.chunks.iter().filter_map(|chunk| chunk.base.as_ref());
    let mut runs = bases.flatten().peekable();
    if runs.peek().is_none() {
        return Ok(());
    }
    let Some(full) = full.filter(|full| full.label != source.label) else {
        return Err(format!(
            "a chunk of backup {} is told from nothing",
            source.label
        ));
    };
    if full.changed_start != full.stream_bytes() {
        return Err(format!(
            "backup {} has changed blocks, and is full",
            full.label
        ));
    }
    let is_there = |&[offset, len]: &[u64; 2]| {
        let end = offset.checked_add(len);
        end.is_some_and(|end| end <= full.changed_start)
    };
    match runs.all(is_there) {
        true => Ok(()),
        false => Err(format!(
            "a chunk of backup {} is told from bytes that backup {} has not",
            source.label, full.label
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backups::backup_files::Entry;
    use crate::backups::chunks::index::Member;
    use crate::backups::chunks::pieces::OWN;

    const BLOCK: u64 = 8192;

    fn chunk(original_bytes: u64, base: Option<&[[u64; 2]]>) -> Chunk {
        Chunk {
            pack: 0,
            offset: 16,
            size_bytes: 10,
            original_bytes: original_bytes as u32,
            blake3: blake3::hash(b"encoded"),
            original_blake3: blake3::hash(b"original"),
            base: base.map(<[_]>::to_vec),
            index: None,
        }
    }

    fn source(label: &str, chunks: &[Chunk]) -> Source {
        let index = Index {
            chunks: chunks.to_vec(),
            ..Index::default()
        };
        Source::of(&label.parse().expect("a label"), &[], &index)
    }

    /// A backup, the full one of ten blocks, and another one of two changed blocks.
    fn sources(base: &[[u64; 2]], other: &[[u64; 2]]) -> Vec<Source> {
        vec![
            source(
                "20261123-220130I",
                &[chunk(100, None), chunk(BLOCK, Some(base))],
            ),
            source("20261121-220130F", &[chunk(10 * BLOCK, None)]),
            source("20261122-220130I", &[chunk(BLOCK, Some(other))]),
        ]
    }

    fn index(pieces: &[Piece]) -> Index {
        let file = Member::File {
            entry: Entry::new(None, b"base/1", 0o600).expect("a path"),
            size_bytes: pieces.iter().map(|piece| piece.len).sum(),
            shared_at: None,
            pieces: Some(pieces.to_vec()),
        };
        Index {
            members: vec![file],
            ..Index::default()
        }
    }

    fn piece(backup: u32, offset: u64, len: u64) -> Piece {
        Piece {
            backup,
            offset,
            len,
        }
    }

    #[test]
    fn pieces_lie_in_the_streams_that_they_name() {
        let sources = sources(&[[9 * BLOCK, BLOCK]], &[]);
        let check = |pieces: &[Piece]| check(&index(pieces), &sources);
        let there = [
            piece(OWN, 0, 100 + BLOCK),
            piece(1, 0, 10 * BLOCK),
            piece(2, 5, BLOCK - 5),
        ];
        assert_eq!(check(&there), Ok(()));
        // Pieces may overlap: files have bytes in common.
        assert_eq!(check(&[piece(1, 0, 10), piece(1, 5, 10)]), Ok(()));
        for nowhere in [
            piece(OWN, 100, BLOCK + 1),
            piece(1, 10 * BLOCK, 1),
            piece(1, 5, 10 * BLOCK),
            piece(2, BLOCK, 1),
            piece(1, u64::MAX, 1),
            piece(3, 0, 1),
            piece(u32::MAX, 0, 1),
        ] {
            let refused = check(&[there[0], nowhere]);
            assert!(refused.is_err(), "{nowhere:?}");
        }
    }

    #[test]
    fn changed_blocks_are_told_from_blocks_of_the_full_backup() {
        let none = index(&[]);
        let there: &[[u64; 2]] = &[[9 * BLOCK, BLOCK]];
        assert_eq!(check(&none, &sources(there, there)), Ok(()));
        for nowhere in [[9 * BLOCK + 1, BLOCK], [u64::MAX, 1], [0, u64::MAX]] {
            assert!(check(&none, &sources(&[nowhere], there)).is_err());
            assert!(check(&none, &sources(there, &[nowhere])).is_err());
        }
        // Without a full backup, and with one that needs another.
        assert!(check(&none, &sources(there, there)[..1]).is_err());
        let mut told = sources(there, there);
        told[1] = source("20261121-220130F", &[chunk(BLOCK, Some(&[]))]);
        assert!(check(&none, &told).is_err());
        // A full one whose chunk is told from itself.
        let alone = [source("20261121-220130F", &[chunk(BLOCK, Some(there))])];
        assert!(check(&none, &alone).is_err());
    }
}
