//! Backups that were named to be expired.

use std::collections::BTreeSet;

use walzip_repo::BackupType;

use super::ExpireRequest;
use super::decision::Decision;
use super::facts::{Inventory, LabelFacts, LabelState};
use super::plan::Reason;
use crate::error::ArchiveError;

/// Keeps everything else, unless a name is none of a backup that may go.
pub(super) fn decide(
    inventory: &Inventory,
    request: &ExpireRequest,
) -> Result<Decision, ArchiveError> {
    let named: BTreeSet<String> = request.set.iter().map(ToString::to_string).collect();
    for name in &named {
        let Some(label) = inventory.labels.iter().find(|of| of.name() == *name) else {
            return Err(refusal(format!("the repository has no backup {name}")));
        };
        check(label)?;
    }
    let mut needing = BTreeSet::new();
    for other in &inventory.labels {
        if !named.contains(&other.name()) && named.iter().any(|name| may_need(other, name)) {
            needing.insert(other.name());
        }
    }
    if !needing.is_empty() {
        let needing: Vec<String> = needing.into_iter().collect();
        return Err(refusal(format!(
            "other backups need what is to be expired, or may need it: {}; name them with --set too",
            needing.join(", ")
        )));
    }
    let mut decision = Decision::of_named();
    for label in &inventory.labels {
        let is_left_over = matches!(label.state, LabelState::HalfExpired(_));
        if !is_left_over && !named.contains(&label.name()) {
            decision.add(&label.name(), Reason::NotNamed);
        }
    }
    Ok(decision)
}

fn check(label: &LabelFacts) -> Result<(), ArchiveError> {
    let name = &label.label;
    match label.state {
        LabelState::Unfinished(_) => Err(refusal(format!(
            "{name} is not finished: it still runs, or was given up; then it is removed when it is \
             older than --unfinished-age"
        ))),
        _ if label.is_pinned => Err(refusal(format!(
            "{name} is pinned: \"walzip unpin {name}\" first"
        ))),
        _ => Ok(()),
    }
}

/// Whether a backup refers to another one, or may do so.
fn may_need(label: &LabelFacts, needed: &String) -> bool {
    let is_later = label.name() > *needed;
    let is_full = label.label.backup_type() == BackupType::Full;
    match &label.state {
        LabelState::Finished(finished) => finished.references.contains(needed),
        LabelState::Unfinished(Some(references)) => references.contains(needed),
        LabelState::Unfinished(None) | LabelState::Unreadable(_) => is_later && !is_full,
        LabelState::HalfExpired(_) => false,
    }
}

fn refusal(reason: String) -> ArchiveError {
    ArchiveError::Request(reason)
}
