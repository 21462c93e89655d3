//! Proves the WAL of a cluster: the objects of its own files, its packs, and that each segment continues the one before.

use std::collections::BTreeSet;

use futures::StreamExt;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_repo::{RepoError, Repository, WalEntry};

use super::forks;
use super::notes::Note;
use super::seen::{MinimalWal, Seen};
use super::{Choice, Finding, FindingKind, Part, Verification, VerifyOptions, detail_of, packs};
use crate::archived::neighbours::{NotContinued, before_branch};
use crate::archived::stored_wal::StoredWal;
use crate::archived::timelines;
use crate::archived::wal_object::{self, Proven};
use crate::error::ArchiveError;

/// Proves the WAL of one cluster; returns where the server changed to `wal_level = minimal`.
pub(super) async fn verify(
    part: &Part,
    options: &VerifyOptions,
    choice: &Choice,
    note: &mut Note,
    verification: &mut Verification,
) -> Vec<MinimalWal> {
    if let Err(error) = part.repository.check_wal_mark().await {
        let (object, detail) = match error {
            RepoError::Corrupt { key, detail } => (key, detail),
            other => (part.object("the mark of its WAL"), detail_of(other.into())),
        };
        verification.findings.push(Finding {
            kind: FindingKind::WalDamaged,
            object,
            detail,
        });
    }
    let minimal_wal = verify_files(part, options, choice, note, verification).await;
    verification.findings.extend(lost_histories(part));
    minimal_wal
}

/// Timelines that have WAL or descendants in the archive, and no history.
fn lost_histories(part: &Part) -> Vec<Finding> {
    let timelines = &part.timelines;
    let lost = timelines.without_history(timelines::with_wal(&part.listing));
    // What cannot be read is a finding already, as an object that is damaged.
    let absent = lost
        .into_iter()
        .filter(|&timeline| timelines.unreadable(timeline).is_none());
    let finding = |timeline| Finding {
        kind: FindingKind::HistoryLost,
        object: format!("{}{}", part.prefix, WalFileName::History(timeline)),
        detail: format!(
            "it is missing, and WAL of timeline {timeline} or of one after it is there"
        ),
    };
    absent.map(finding).collect()
}

/// Proves its files and packs.
async fn verify_files(
    part: &Part,
    options: &VerifyOptions,
    choice: &Choice,
    note: &mut Note,
    verification: &mut Verification,
) -> Vec<MinimalWal> {
    let single = part.listing.iter().filter(|entry| entry.packed.is_none());
    let taken: Vec<&WalEntry> = single
        .filter(|entry| choice.takes_wal(part, entry, verification))
        .collect();
    let mut seen = Seen::default();
    let checks = taken
        .iter()
        .map(|entry| prove(&part.repository, &entry.name));
    let mut checks = futures::stream::iter(checks).buffered(options.parallel.max(1));
    let mut entries = taken.iter();
    while let (Some(checked), Some(entry)) = (checks.next().await, entries.next()) {
        verification.wal_objects += 1;
        verification.wal_stored_bytes += entry.size_bytes;
        options.progress.add(entry.size_bytes);
        match checked {
            Ok(proven) => {
                verification.wal_original_bytes += proven.original_bytes;
                match part.is_late(entry) {
                    true => seen.add_late(&entry.name, proven),
                    false => seen.add(&entry.name, proven.edges, &proven.minimal_wal),
                }
            }
            Err(error) => verification.findings.push(part.damaged(&entry.name, error)),
        }
    }
    packs::verify(part, (options, choice), &mut seen, verification).await;
    seen.add_those_left();
    let Seen {
        mut whole,
        mut neighbours,
        minimal_wal,
        late: _,
    } = seen;
    let listed: BTreeSet<&str> = part.listing.iter().map(|of| of.name.as_str()).collect();
    let is_listed = |name: &str| listed.contains(name);
    let before = |segment: SegmentName| {
        let history = part.timelines.history(segment.timeline)?;
        let before = before_branch(segment, part.segment_size?, history)?;
        Some(before).filter(|of| is_listed(&of.to_string()))
    };
    if options.sample.is_none() {
        let repository = &part.repository;
        neighbours.read_others(repository, is_listed).await;
        neighbours.compare_branches(repository, before).await;
    }
    // A sample has not read those beside its own, and does not say that they continue one another.
    for segment in neighbours.alone(is_listed, before) {
        whole.remove(&segment.to_string());
    }
    let found = forks::verify(part, options, is_listed, &mut whole).await;
    verification.findings.extend(found);
    for NotContinued {
        segment,
        before,
        why,
    } in neighbours.found()
    {
        let (name, before) = (segment.to_string(), before.to_string());
        // The next verification reads them again: an older note may vouch for one of them.
        whole.remove(&name);
        whole.remove(&before);
        verification.findings.push(Finding {
            kind: FindingKind::WalNotContinued,
            object: part.object(&name),
            detail: format!("it does not continue {before}: {why}"),
        });
    }
    // The next verification has to find them too.
    for MinimalWal { segment, .. } in &minimal_wal {
        whole.remove(&segment.to_string());
    }
    let noted = part.listing.iter();
    let noted = noted.map(|entry| (entry, whole.contains(&entry.name)));
    note.add_wal(part.repository.cluster(), part.segment_size, noted);
    minimal_wal
}

/// Proves one file: its own object, whatever a pack has.
async fn prove(repository: &Repository, name: &str) -> Result<Proven, ArchiveError> {
    let stored = match repository.get_wal(name).await? {
        Some(object) => StoredWal::Single(object),
        None => StoredWal::get_listed(repository, name).await?,
    };
    wal_object::prove(name, stored, repository.cluster()).await
}
