//! The backup with which a new one is compared, and the full one against which changed blocks are
//! told.

use std::collections::HashMap;
use std::sync::Arc;

use walzip_repo::{BackupLabel, BackupType, RepoError, Repository};

use super::block_hashes::{self, HashReader, Key};
use super::changes::{Comparison, HashSource, PriorFile};
use super::decoded::Decoded;
use super::index::Index;
use super::packed::Packed;
use super::pieces::{OWN, Piece, REFERENCES_AT_ONCE};
use super::sources::{Referred, Source, read_referred};
use super::writing::Changes;
use crate::backups::backup_objects;
use crate::backups::backup_record::REFERENCES_MAX;
use crate::backups::backup_record::{BackupRecord, BlockHashFunction, ListedBackup};
use crate::error::ArchiveError;

/// A backup to compare with, and all that may be referred to.
pub(crate) struct Prior {
    pub(crate) label: BackupLabel,
    /// First the full one; last the one that is compared with. Those between have no index: an index has
    /// a line for each file.
    pub(crate) referred: Vec<Referred>,
    /// Where the block hashes of each are.
    hashed: Vec<Hashed>,
}

/// Which bytes of a stream have block hashes.
struct Hashed {
    /// Where the bytes of each file begin in the stream, and the number of its first hash.
    runs: Vec<(u64, u64)>,
    /// How many hashes there are, but for those of changed blocks.
    count: u64,
    changed_start: u64,
    stream_bytes: u64,
}

impl Hashed {
    fn of(index: &Index) -> Hashed {
        let changed_start = index.changed_start();
        let (runs, count) = runs_of(index, changed_start);
        Hashed {
            runs,
            count,
            changed_start,
            stream_bytes: index.chunk_starts().last().copied().unwrap_or_default(),
        }
    }
}

impl Prior {
    /// The newest backup of the cluster that a new one of a type can be compared with, on the server's own history:
    /// one of another branch may have to go with that. Where there is none, that is said, and the new backup is a
    /// full one.
    pub(crate) async fn choose(
        repository: &Repository,
        wanted: BackupType,
        is_own: impl Fn(&BackupRecord) -> bool,
    ) -> Result<Option<Prior>, ArchiveError> {
        if wanted == BackupType::Full {
            return Ok(None);
        }
        let mut listed = ListedBackup::all(repository).await?;
        listed.retain(|backup| {
            let cluster = backup.cluster();
            cluster.is_none() || cluster == Some(repository.cluster())
        });
        listed.retain(|backup| match &backup.read {
            Ok(record) if !is_own(record) => {
                tracing::info!(
                    "backup {} is of another branch than the server",
                    backup.label
                );
                false
            }
            _ => true,
        });
        let is_full = |backup: &ListedBackup| backup.label.backup_type() == BackupType::Full;
        if let Some(newest) = listed.last()
            && wanted == BackupType::Incr
            && newest.references() >= REFERENCES_AT_ONCE
            && listed.iter().any(is_full)
        {
            tracing::warn!(
                "the new backup is compared with the newest full backup, as one of type diff is: {} needs {} \
                 others, and a restore should not need more",
                newest.label,
                newest.references()
            );
            listed.retain(is_full);
        }
        if wanted == BackupType::Diff {
            listed.retain(is_full);
        }
        let reason = match listed.pop() {
            None => "the repository has no backup of this cluster to compare with".to_owned(),
            Some(ListedBackup { label, read }) => {
                match Prior::read(repository, label, read).await {
                    Ok(prior) => return Ok(Some(prior)),
                    Err(error @ (ArchiveError::Damaged { .. } | ArchiveError::NoBackup(_))) => {
                        error.to_string()
                    }
                    Err(ArchiveError::Repository(RepoError::NotFound { key })) => {
                        format!("{key} is missing")
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        tracing::warn!("a full backup is taken, instead of type {wanted}: {reason}");
        Ok(None)
    }

    async fn read(
        repository: &Repository,
        label: BackupLabel,
        read: Result<BackupRecord, ArchiveError>,
    ) -> Result<Prior, ArchiveError> {
        let record = read?;
        let unfit = |why: &str| ArchiveError::NoBackup(format!("backup {label} {why}"));
        let Some(files) = record
            .files
            .as_ref()
            .filter(|_| record.block_hashes.is_some())
        else {
            return Err(unfit(
                "has no block hashes, which older versions did not store",
            ));
        };
        if record.references.len() + 1 >= REFERENCES_MAX {
            return Err(unfit("refers to too many others"));
        }
        let keep = |mut referred: Referred| {
            let hashed = Hashed::of(&referred.index);
            if referred.record.backup_type() != BackupType::Full {
                referred.index = Arc::default();
            }
            (referred, hashed)
        };
        let kept = read_referred(repository, &record, keep).await?;
        let (mut referred, mut hashed): (Vec<_>, Vec<_>) = kept.into_iter().unzip();
        let index = Packed::read(repository, &label, files).await?.index;
        hashed.push(Hashed::of(&index));
        // A chunk of it could be told from itself.
        let is_plain = |full: &Hashed| full.changed_start == full.stream_bytes;
        if !hashed.first().is_some_and(is_plain) {
            return Err(unfit("is told from a full backup that has changed blocks"));
        }
        referred.push(Referred {
            record,
            label: label.clone(),
            index,
        });
        let is_unknown = |of: &Referred| {
            let hashes = of.record.block_hashes.as_ref();
            hashes.is_some_and(|hashes| hashes.function == BlockHashFunction::Unknown)
        };
        if referred.iter().any(is_unknown) {
            return Err(unfit("has block hashes of a later version"));
        }
        for Referred { record, .. } in &referred {
            backup_objects::check(repository, record, record.objects()).await?;
        }
        Ok(Prior {
            label,
            referred,
            hashed,
        })
    }

    /// What the backup with a label finds and tells changed blocks by. To be called on the runtime,
    /// once: what only this needs is let go of.
    pub(crate) fn changes(
        &mut self,
        repository: &Repository,
        label: &BackupLabel,
    ) -> Result<Changes, ArchiveError> {
        let full = self.referred.first().map(Referred::source);
        let prior = self.referred.last().map(|prior| prior.record.clone());
        let prior = prior.ok_or_else(|| ArchiveError::Internal("no prior backup".to_owned()))?;
        let hash_objects = self.referred.iter().map(|of| {
            let objects = of.record.hash_objects().cloned();
            (of.label.clone(), objects.collect())
        });
        let changes = Changes {
            hash_objects: hash_objects.collect(),
            comparison: self.comparison(repository)?,
            full: Arc::new(Decoded::new(repository, label, vec![None, full])),
            prior: Box::new(prior),
        };
        for referred in &mut self.referred {
            referred.index = Arc::default();
        }
        Ok(changes)
    }

    /// What the blocks of a new backup are compared with.
    fn comparison(&self, repository: &Repository) -> Result<Comparison, ArchiveError> {
        let ahead = block_hashes::bytes_ahead(2 * self.referred.len());
        let both = self.referred.iter().zip(&self.hashed);
        let sources = both.map(|(of, hashed)| hash_source(repository, of, hashed, ahead));
        let sources = sources.collect::<Result<Vec<_>, _>>()?;
        let own = self.referred.len() as u32;
        let (mut files, mut full_files) = (HashMap::new(), HashMap::new());
        if let Some(prior) = self.referred.last() {
            for (entry, pieces) in prior.index.located() {
                let renumbered = |piece: &Piece| Piece {
                    backup: if piece.backup == OWN {
                        own
                    } else {
                        piece.backup
                    },
                    ..*piece
                };
                let pieces: Vec<Piece> = pieces.iter().map(renumbered).collect();
                let size_bytes = pieces.iter().map(|piece| piece.len).sum();
                files.insert(entry.name(), PriorFile { size_bytes, pieces });
            }
        }
        if let Some(full) = self.referred.first() {
            for (entry, pieces) in full.index.located() {
                if let [piece] = pieces.as_ref() {
                    full_files.insert(entry.name(), piece.offset..piece.offset + piece.len);
                }
            }
        }
        Ok(Comparison {
            files,
            full_files,
            sources,
        })
    }

    /// The labels of all that may be referred to.
    pub(crate) fn labels(&self) -> Vec<String> {
        let labels = self.referred.iter().map(|of| of.label.to_string());
        labels.collect()
    }

    /// Refuses to refer to what is being expired.
    pub(crate) async fn check_stays(&self, repository: &Repository) -> Result<(), ArchiveError> {
        for Referred { label, .. } in &self.referred {
            if !repository.stays(label).await? {
                return Err(ArchiveError::BeingExpired {
                    label: label.to_string(),
                });
            }
        }
        Ok(())
    }

    /// Refuses to go on where what is referred to is not there any more.
    pub(crate) async fn check_still_there(
        &self,
        repository: &Repository,
        references: &[String],
    ) -> Result<(), ArchiveError> {
        for Referred { record, label, .. } in &self.referred {
            if !references.contains(&record.label) {
                continue;
            }
            backup_objects::check(repository, record, record.objects()).await?;
            if BackupRecord::read(repository, label).await? != *record {
                return Err(ArchiveError::Damaged {
                    object: format!("backup {label}, which the new backup needs,"),
                    reason: "it was replaced".to_owned(),
                });
            }
        }
        Ok(())
    }
}

impl Referred {
    /// Its chunks, and where they are.
    pub(crate) fn source(&self) -> Source {
        let packs = self
            .record
            .files
            .as_ref()
            .map(|files| files.packs.as_slice());
        Source::of(&self.label, packs.unwrap_or_default(), &self.index)
    }
}

fn hash_source(
    repository: &Repository,
    referred: &Referred,
    hashed: &Hashed,
    ahead: u64,
) -> Result<HashSource, ArchiveError> {
    let Referred { record, label, .. } = referred;
    let damaged = |reason: &str| ArchiveError::Damaged {
        object: format!("backup {label}"),
        reason: reason.to_owned(),
    };
    let hashes = record.block_hashes.as_ref();
    let hashes = hashes.ok_or_else(|| damaged("it has no block hashes"))?;
    let key = Key::of(hashes);
    let key = key.ok_or_else(|| damaged("the key of its block hashes is none"))?;
    let plain = HashReader::new(repository, label, (&hashes.objects, key), ahead);
    let changed = HashReader::new(repository, label, (&hashes.changed, key), ahead);
    let changed_count = block_hashes::count(hashed.stream_bytes - hashed.changed_start);
    if (plain.count(), changed.count()) != (hashed.count, changed_count) {
        return Err(damaged("it has more or fewer block hashes than blocks"));
    }
    Ok(HashSource {
        key,
        plain,
        changed,
        changed_start: hashed.changed_start,
        runs: hashed.runs.clone(),
    })
}

/// Where the bytes of each file begin in the stream, with the number of its first hash; and how many
/// hashes there are.
fn runs_of(index: &Index, changed_start: u64) -> (Vec<(u64, u64)>, u64) {
    let (mut runs, mut end, mut count) = (Vec::new(), 0, 0);
    for (_, pieces) in index.located() {
        let is_own = |piece: &&Piece| piece.backup == OWN && piece.offset < changed_start;
        let mut own = pieces.iter().filter(is_own).peekable();
        let start = own.peek().map(|piece| piece.offset);
        let len: u64 = own.map(|piece| piece.len).sum();
        // Of files that share bytes only the first one has hashes.
        if start == Some(end) {
            runs.push((end, count));
            end += len;
            count += block_hashes::count(len);
        }
    }
    (runs, count)
}
