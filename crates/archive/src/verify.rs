//! `verify`: can everything in the repository be used?
//!
//! Every object is read and proven: WAL by decoding it, which checks its hash, and by comparing
//! its content with its name and cluster; backups by unpacking them into nothing, every file
//! compared with the manifest's checksum. Then the WAL is followed from each backup onwards. What is wrong is a finding; an error is only
//! what keeps us from looking.

mod expired;
mod forks;
mod notes;
mod packs;
mod promised;
mod seen;
mod wal;

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use walzip_repo::encryption::KeyError;
use walzip_repo::layout::CLUSTER_PREFIX;
use walzip_repo::{BackupLabel, RepoError, Repository, WalEntry, WalPack};

use crate::archived::archived_wal::ArchivedWal;
use crate::archived::timelines::Timelines;
use crate::archived::wal_index;
use crate::backups::backup_objects;
use crate::backups::backup_record::{BackupRecord, ListedBackup, of_another};
use crate::backups::backup_stream;
use crate::error::ArchiveError;
use crate::progress::{Phase, Progress};
use crate::restore;
use crate::verify::promised::Promised;
use expired::without_expired;
pub(crate) use notes::LastVerified;
use notes::{Note, Notes};
use seen::MinimalWal;

/// How to verify.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// How many WAL objects are decoded at the same time, each in the memory of a segment.
    pub parallel: usize,
    /// What was found whole within this time is not read again.
    pub verified_within: Option<SignedDuration>,
    /// Read only so many WAL objects and backups of a hundred, chosen at random.
    pub sample: Option<u8>,
    /// Note in the repository what was found whole, for later verifications.
    pub notes: bool,
    /// Where to leave how far it has come.
    pub progress: Progress,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        VerifyOptions {
            parallel: 2,
            verified_within: None,
            sample: None,
            notes: false,
            progress: Progress::default(),
        }
    }
}

/// What was looked at, and what is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// WAL objects that were read.
    pub wal_objects: u64,
    /// Their size before encoding.
    pub wal_original_bytes: u64,
    /// Their size in the repository.
    pub wal_stored_bytes: u64,
    /// Finished backups that were read.
    pub backups: u64,
    /// Their size in the repository.
    pub backup_stored_bytes: u64,
    /// WAL objects and backups that were found whole before, and were not read again.
    pub verified_before: u64,
    /// WAL objects and backups that were not chosen for the sample.
    pub not_in_sample: u64,
    /// What is wrong, empty when all is well.
    pub findings: Vec<Finding>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// What kind of thing.
    pub kind: FindingKind,
    /// The WAL file's name, the backup's label, or the key of a cluster's record.
    pub object: String,
    /// What exactly.
    pub detail: String,
}

/// The kinds of findings, by what they cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// What the repository records of a cluster is missing or damaged, or its WAL is not there:
    /// nothing of it can be used.
    ClusterDamaged,
    /// A backup object is missing or damaged: the backup cannot be restored.
    BackupDamaged,
    /// A segment that a backup needs is missing: the backup cannot be restored.
    BackupWalMissing,
    /// A WAL object is damaged, or is not what its name says: no recovery gets past it.
    WalDamaged,
    /// An object of a segment's own came after a pack that has the segment, and is not the same: it was put late, and is
    /// not read.
    WalPutLate,
    /// A segment does not continue the one before it: one of them is another server's, or
    /// `pg_resetwal` began the WAL anew. No recovery gets from the one into the other.
    WalNotContinued,
    /// A timeline has lost its history: no recovery can follow it, and the next promotion takes
    /// its number.
    HistoryLost,
    /// Segments are missing after a backup: recovery from it gets no further.
    WalGap,
    /// The server changed to `wal_level = minimal` after a backup: recovery from it gets no further.
    WalMinimal,
}

/// Reads and proves everything in the repository.
pub async fn verify(
    repository: &Repository,
    options: &VerifyOptions,
) -> Result<Verification, ArchiveError> {
    let mut verification = Verification::default();
    // Before the WAL is, which takes hours to read.
    let mut labels = repository.list_backups().await?;
    let mut parts = list_parts(repository, &mut verification).await?;
    let progress = &options.progress;
    let choice = Choice::new(repository, options).await?;
    let mut note = Note::new(choice.began);
    let entries = parts.iter().flat_map(|part| &part.listing);
    progress.begin(
        Phase::VerifyingWal,
        entries.map(|entry| entry.size_bytes).sum(),
    );
    for part in &mut parts {
        let found = &mut verification;
        part.minimal_wal = wal::verify(part, options, &choice, &mut note, found).await;
    }
    let listed = ListedBackup::all(repository).await?;
    labels.extend(listed.iter().map(|backup| backup.label.clone()));
    let records = listed.iter().filter_map(|backup| backup.read.as_ref().ok());
    let backup_bytes = records.clone().map(BackupRecord::original_bytes).sum();
    let needed = required(records.clone());
    let promised = Promised::read(repository, records).await?;
    progress.begin(Phase::VerifyingBackups, backup_bytes);
    let mut known = KnownBackups::default();
    for ListedBackup { label, read } in listed {
        let references = read.as_ref().map_or(&[][..], |record| &record.references);
        let is_read = choice
            .takes_backup(
                repository,
                &label,
                references,
                &mut known,
                &mut verification,
            )
            .await?;
        let found = &mut verification;
        let progress = is_read.then_some(progress);
        let findings = verify_label((&parts, &promised), &label, read, found, progress).await;
        if is_read && findings.is_empty() {
            note.add_backup(&label);
        }
        if findings
            .iter()
            .any(|(kind, _)| *kind == FindingKind::BackupDamaged)
        {
            known.damaged.insert(label.to_string());
        }
        let findings = findings.into_iter().map(|(kind, detail)| Finding {
            kind,
            object: label.to_string(),
            detail,
        });
        verification.findings.extend(findings);
    }
    let findings = std::mem::take(&mut verification.findings);
    verification.findings =
        without_expired(repository, (&parts, &labels), &needed, findings).await?;
    verification.findings.sort();
    if options.notes
        && let Err(error) = note.put(verification.findings.len(), repository).await
    {
        match error {
            ArchiveError::Repository(RepoError::Key(KeyError::ReadsOnly)) => {
                tracing::info!("nothing is noted of what was verified: {error}");
            }
            error => tracing::warn!("what was verified could not be noted: {error}"),
        }
    }
    Ok(verification)
}

/// The segments without which some backup cannot be restored.
fn required<'r>(records: impl Iterator<Item = &'r BackupRecord>) -> BTreeSet<String> {
    let segments = records.filter_map(|record| record.required_segments().ok());
    segments
        .flatten()
        .map(|segment| segment.to_string())
        .collect()
}

/// What is read.
struct Choice {
    began: Timestamp,
    notes: Notes,
    sample: Option<u8>,
}

impl Choice {
    async fn new(repository: &Repository, options: &VerifyOptions) -> Result<Choice, ArchiveError> {
        let began = Timestamp::now();
        let notes = match options.verified_within {
            Some(within) => Notes::read(repository, began, within).await?,
            None => Notes::default(),
        };
        Ok(Choice {
            began,
            notes,
            sample: options.sample,
        })
    }

    fn takes_wal(&self, part: &Part, entry: &WalEntry, verification: &mut Verification) -> bool {
        let is_known = self.notes.has_wal(part.repository.cluster(), entry);
        self.takes(is_known, &entry.name, verification)
    }

    /// A backup is worth what those are that it refers to: a note vouches for it only as long as none
    /// of them is damaged, or has changed.
    async fn takes_backup(
        &self,
        repository: &Repository,
        label: &BackupLabel,
        references: &[String],
        known: &mut KnownBackups,
        verification: &mut Verification,
    ) -> Result<bool, ArchiveError> {
        let mut newest = match self.notes.is_empty() {
            true => None,
            false => known.modified(repository, label.as_str()).await?,
        };
        for reference in references {
            if newest.is_none() {
                break;
            }
            let modified = match known.damaged.contains(reference) {
                true => None,
                false => known.modified(repository, reference).await?,
            };
            newest = newest.zip(modified).map(|(one, other)| one.max(other));
        }
        let is_known = self.notes.has_backup(label, newest);
        Ok(self.takes(is_known, label.as_str(), verification))
    }

    fn takes(&self, is_known: bool, name: &str, verification: &mut Verification) -> bool {
        if is_known {
            verification.verified_before += 1;
            return false;
        }
        let is_in_sample = self.sample.is_none_or(|hundredths| {
            // Each run chooses others.
            let mut hasher = blake3::Hasher::new();
            hasher.update(&self.began.as_nanosecond().to_le_bytes());
            hasher.update(name.as_bytes());
            let random = hasher.finalize();
            let random = random.as_bytes().first_chunk().copied().unwrap_or_default();
            u64::from_le_bytes(random) % 100 < u64::from(hundredths)
        });
        verification.not_in_sample += u64::from(!is_in_sample);
        is_in_sample
    }
}

/// What was seen of backups to which later ones may refer.
#[derive(Default)]
struct KnownBackups {
    damaged: BTreeSet<String>,
    modified: BTreeMap<String, Option<SystemTime>>,
}

impl KnownBackups {
    /// When the newest object of a backup was made, if there is one.
    async fn modified(
        &mut self,
        repository: &Repository,
        label: &str,
    ) -> Result<Option<SystemTime>, ArchiveError> {
        if let Some(modified) = self.modified.get(label) {
            return Ok(*modified);
        }
        let modified = match label.parse() {
            Ok(of) => repository.backup_modified(&of).await?,
            Err(_) => None,
        };
        self.modified.insert(label.to_owned(), modified);
        Ok(modified)
    }
}

/// One of the repository's clusters.
struct Part {
    repository: Repository,
    listing: Vec<WalEntry>,
    packs: Vec<WalPack>,
    timelines: Timelines,
    /// The size of its segments, where one tells.
    segment_size: Option<u32>,
    /// Tells its objects from other clusters' of the same name.
    prefix: String,
    /// Where the server changed to `wal_level = minimal`, as far as its WAL was read.
    minimal_wal: Vec<MinimalWal>,
}

impl Part {
    /// What findings call one of its files or packs.
    fn object(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Whether a file's own object came after a pack that has the file.
    fn is_late(&self, single: &WalEntry) -> bool {
        let mut packs = self.packs.iter();
        packs.any(|pack| {
            pack.name.index_of(&single.name).is_some() && pack.precedes(single.modified)
        })
    }

    fn damaged(&self, name: &str, error: ArchiveError) -> Finding {
        let kind = match error {
            ArchiveError::PutLate { .. } => FindingKind::WalPutLate,
            _ => FindingKind::WalDamaged,
        };
        Finding {
            kind,
            object: self.object(name),
            detail: detail_of(error),
        }
    }
}

/// Lists what there is of each cluster. Those that cannot be found are findings, unless it is the
/// only one.
async fn list_parts(
    repository: &Repository,
    verification: &mut Verification,
) -> Result<Vec<Part>, ArchiveError> {
    let clusters = repository.read_clusters().await?;
    let is_sole = clusters.parts.len() == 1;
    let mut faults = clusters.faults;
    let mut parts = Vec::new();
    for repository in clusters.parts {
        let (listing, packs) = match repository.list_wal_objects().await {
            Ok(listing) => (listing.entries(), listing.packs),
            Err(error @ RepoError::NotInPlace { .. }) if !is_sole => {
                faults.push(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let prefix = match is_sole {
            true => String::new(),
            false => repository.cluster().name() + "/",
        };
        parts.push(Part {
            timelines: Timelines::read(&repository, &listing).await,
            segment_size: segment_size(&repository, &listing).await,
            repository,
            listing,
            packs,
            prefix,
            minimal_wal: Vec::new(),
        });
    }
    let findings = faults.into_iter().map(|fault| match fault {
        RepoError::Corrupt { key, detail } => (key, detail),
        RepoError::NotInPlace { place, detail } => (place, detail),
        other => (CLUSTER_PREFIX.to_owned(), other.to_string()),
    });
    let kind = FindingKind::ClusterDamaged;
    let findings = findings.map(|(object, detail)| Finding {
        kind,
        object,
        detail,
    });
    verification.findings.extend(findings);
    Ok(parts)
}

/// The size of a cluster's segments. Where no segment tells, the listing's damage will.
async fn segment_size(repository: &Repository, listing: &[WalEntry]) -> Option<u32> {
    let size = wal_index::segment_size(repository, listing).await;
    size.unwrap_or_default()
}

/// What is wrong with a backup and the WAL after it. Without `progress`, its objects are not read:
/// they have to be there, with their sizes.
async fn verify_label(
    (parts, promised): (&[Part], &Promised),
    label: &BackupLabel,
    read: Result<BackupRecord, ArchiveError>,
    verification: &mut Verification,
    progress: Option<&Progress>,
) -> Vec<(FindingKind, String)> {
    let damaged = |error| (FindingKind::BackupDamaged, detail_of(error));
    let record = match read {
        Ok(record) => record,
        Err(error) => return vec![damaged(error)],
    };
    let own = |part: &&Part| record.cluster() == Some(part.repository.cluster());
    let Some(part) = parts.iter().find(own) else {
        return vec![damaged(of_another(label))];
    };
    let Part {
        repository,
        listing,
        timelines,
        ..
    } = part;
    let wrong = match progress {
        Some(progress) => {
            verification.backups += 1;
            verification.backup_stored_bytes += record.stored_bytes();
            verify_backup(repository, label, &record, progress).await
        }
        None => verify_sizes(repository, &record).await,
    };
    let of_backup = |detail| (FindingKind::BackupDamaged, detail);
    let mut findings: Vec<_> = wrong.into_iter().map(of_backup).collect();
    let wal = ArchivedWal::of(listing, record.segment_size_bytes);
    match missing(repository, &record, &wal).await {
        Ok(missing) => findings.extend(missing.into_iter().map(|name| {
            let detail = format!("{name} is missing");
            (FindingKind::BackupWalMissing, detail)
        })),
        Err(error) => findings.push(damaged(error)),
    }
    match promised.gaps(&record, &wal, timelines) {
        Ok(gaps) => findings.extend(gaps.into_iter().map(|name| {
            let detail = format!("{name} is missing, and later WAL is there");
            (FindingKind::WalGap, detail)
        })),
        Err(error) => findings.push(damaged(error)),
    }
    let minimal = promised.minimal_wal(&record, &wal, part);
    findings.extend(minimal.map(|MinimalWal { segment, lsn }| {
        let detail = format!(
            "the server changed to wal_level = minimal at {lsn}, in {segment}: what it changed from there on is not all \
             in the WAL, and a recovery from this backup ends there. Restores to later moments need a backup that was \
             taken after it"
        );
        (FindingKind::WalMinimal, detail)
    }));
    findings
}

/// The objects of a backup that are not there, or have other sizes.
async fn verify_sizes(repository: &Repository, record: &BackupRecord) -> Vec<String> {
    match backup_objects::damaged_of(repository, record, record.objects()).await {
        Ok(damaged) => {
            let damaged = damaged.into_iter();
            damaged
                .map(|damaged| format!("{} {}", damaged.object, damaged.problem))
                .collect()
        }
        Err(error) => vec![detail_of(error)],
    }
}

/// What is wrong with the objects of a backup.
///
/// Unpacking ends at the first fault. What else there is to say of the objects is found by their
/// sizes and hashes.
async fn verify_backup(
    repository: &Repository,
    label: &BackupLabel,
    record: &BackupRecord,
    progress: &Progress,
) -> Vec<String> {
    // No restore needs them, and the next backup does.
    let hashes = record.hash_objects();
    let read = backup_stream::read_stored(repository, label, hashes, async |_| Ok(()));
    let mut wrong: Vec<String> = read.await.err().map(detail_of_hashes).into_iter().collect();
    let proven = async {
        // Unpacking a pack does not see what lies behind its last chunk. A restore refuses it.
        backup_objects::check(repository, record, record.restored_objects()).await?;
        restore::prove(repository, record, progress).await
    };
    let Err(fault) = proven.await else {
        return wrong;
    };
    let before = wrong.len();
    for stream in record.streams() {
        let objects = &stream.objects;
        let read = backup_stream::read_stored(repository, label, objects, async |_| Ok(()));
        wrong.extend(read.await.err().map(detail_of));
    }
    if let Some(files) = &record.files {
        let damaged = restore::damaged_packs(repository, label, record, files).await;
        wrong.extend(damaged.iter().map(ToString::to_string));
    }
    if wrong.len() == before {
        wrong.push(detail_of(fault));
    }
    wrong
}

/// What is wrong with block hashes, which keeps no backup from being restored.
fn detail_of_hashes(error: ArchiveError) -> String {
    let detail = detail_of(error);
    format!("its block hashes, which only the next backup needs: {detail}")
}

/// The required segments that are not archived. Of a backup that was finished after the WAL was listed, they may
/// have come since.
async fn missing(
    repository: &Repository,
    record: &BackupRecord,
    wal: &ArchivedWal,
) -> Result<Vec<String>, ArchiveError> {
    let mut missing = Vec::new();
    for segment in wal.missing(&record.required_segments()?)? {
        let name = segment.to_string();
        if repository.find_wal(&name).await?.is_none() {
            missing.push(name);
        }
    }
    Ok(missing)
}

/// What is wrong with an object, without its name where the finding has it.
fn detail_of(error: ArchiveError) -> String {
    match error {
        ArchiveError::Damaged { reason, .. } => reason,
        ArchiveError::Undecodable { source, .. } => source.to_string(),
        ArchiveError::Repository(RepoError::NotFound { key }) => format!("{key} is missing"),
        ArchiveError::Repository(
            error @ (RepoError::Permission { .. } | RepoError::Unavailable { .. }),
        ) => chain(&error),
        other => other.to_string(),
    }
}

/// An error and what the storage said.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
