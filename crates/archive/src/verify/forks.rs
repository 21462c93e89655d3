//! Whether timelines that part within a segment have the same of it up to there.

use std::collections::BTreeSet;
use std::path::Path;

use walzip_pgformat::wal_file_name::SegmentName;

use super::{Finding, FindingKind, Part, VerifyOptions};
use crate::archived::shared_segment::{SharedSegment, began, difference};
use crate::archived::stable_file::StableFile;
use crate::archived::stored_wal::StoredWal;

/// Two archived files that have a copy of the same WAL.
struct Copies {
    shared: SharedSegment,
    first: String,
    of_parent: String,
}

/// Compares the first segments of timelines with what the timelines that were left in them have of the same. Those are
/// decoded once more if one of the two was read. A sample compares none, and vouches for none.
pub(super) async fn verify(
    part: &Part,
    options: &VerifyOptions,
    is_listed: impl Fn(&str) -> bool,
    whole: &mut BTreeSet<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for copies in copies(part, is_listed) {
        let Copies {
            first, of_parent, ..
        } = &copies;
        if !whole.contains(first) && !whole.contains(of_parent) {
            continue;
        }
        let found = match options.sample {
            None => compare(part, &copies).await,
            Some(_) => None,
        };
        if options.sample.is_some() || found.is_some() {
            whole.remove(first);
            whole.remove(of_parent);
        }
        findings.extend(found.map(|at| Finding {
            kind: FindingKind::WalNotContinued,
            object: part.object(first),
            detail: format!(
                "it does not continue {of_parent}: {}",
                copies.shared.why(at)
            ),
        }));
    }
    findings
}

/// Where two copies differ. What cannot be read is a finding of its own.
async fn compare(part: &Part, copies: &Copies) -> Option<usize> {
    let repository = &part.repository;
    let stored = StoredWal::get(repository, &copies.first).await.ok()??;
    let content = stored.content(&copies.first).await.ok()?;
    let file = StableFile::unpacked(Path::new(&copies.first), content);
    let compared = (&file, copies.shared.end);
    let found = difference(repository, &copies.of_parent, compared).await;
    found.ok()?
}

/// What there is to be compared. A timeline that another one only names is left out: it has nothing of that.
fn copies(part: &Part, is_listed: impl Fn(&str) -> bool) -> Vec<Copies> {
    let Some(size) = part.segment_size else {
        return Vec::new();
    };
    let timelines = &part.timelines;
    let mut found = Vec::new();
    for history in timelines.known().filter_map(|of| timelines.history(of)) {
        let switch = began(history);
        let first =
            switch.and_then(|switch| SegmentName::from_lsn(history.timeline, switch, size).ok());
        let Some(first) = first.filter(|first| is_listed(&first.to_string())) else {
            continue;
        };
        for shared in SharedSegment::all(first, size, history) {
            if !timelines.is_on_way(shared.parent, history.timeline) {
                continue;
            }
            let of_parent = shared.of_parent().map(|name| name.to_string());
            let of_parent = of_parent.into_iter().filter(|name| is_listed(name));
            found.extend(of_parent.map(|of_parent| Copies {
                shared,
                first: first.to_string(),
                of_parent,
            }));
        }
    }
    found
}
