//! Proves packs of WAL: every segment, in the order in which each may need those before it.

use std::collections::BTreeMap;

use walzip_repo::{WalEntry, WalPack};

use super::seen::Seen;
use super::{Choice, Finding, FindingKind, Part, Verification, VerifyOptions, detail_of};
use crate::archived::settling;
use crate::archived::wal_object;
use crate::error::ArchiveError;
use crate::packs::PackReader;

/// Proves the packs of a cluster. What is whole of the segments that are only in packs is added.
pub(super) async fn verify(
    part: &Part,
    (options, choice): (&VerifyOptions, &Choice),
    seen: &mut Seen,
    verification: &mut Verification,
) {
    let entries = part.listing.iter();
    let packed: BTreeMap<&str, &WalEntry> = entries
        .filter(|entry| entry.packed.is_some())
        .map(|entry| (entry.name.as_str(), entry))
        .collect();
    for pack in &part.packs {
        let own = pack.name.segments();
        let own: Vec<&WalEntry> = own
            .filter_map(|name| packed.get(name.as_str()).copied())
            .collect();
        if !takes(part, choice, (pack, &own), verification) {
            continue;
        }
        verification.wal_stored_bytes += pack.size_bytes;
        options
            .progress
            .add(own.iter().map(|of| of.size_bytes).sum());
        let is_single = |name: &str| !packed.contains_key(name);
        if let Err(error) = verify_pack(part, pack, is_single, seen, verification).await {
            // It could not be read at all, or no further.
            let detail = detail_of(error);
            let unproven = pack
                .name
                .segments()
                .filter(|name| !seen.whole.contains(name));
            let mut objects: Vec<String> = unproven.collect();
            if objects.is_empty() {
                // Each of its segments is also stored by itself.
                objects.push(pack.name.to_string());
            }
            let findings = objects.into_iter().map(|object| Finding {
                kind: FindingKind::WalDamaged,
                object: part.object(&object),
                detail: format!("pack {}: {detail}", pack.name),
            });
            verification.findings.extend(findings);
        }
    }
}

/// A pack is read whole or not at all.
fn takes(
    part: &Part,
    choice: &Choice,
    (pack, own): (&WalPack, &[&WalEntry]),
    verification: &mut Verification,
) -> bool {
    let cluster = part.repository.cluster();
    let is_known = !own.is_empty() && own.iter().all(|entry| choice.notes.has_wal(cluster, entry));
    let others = (own.len() as u64).saturating_sub(1);
    let before = (verification.verified_before, verification.not_in_sample);
    let takes = choice.takes(is_known, &pack.name.to_string(), verification);
    // Each of its segments counts.
    if verification.verified_before > before.0 {
        verification.verified_before += others;
    }
    if verification.not_in_sample > before.1 {
        verification.not_in_sample += others;
    }
    takes
}

async fn verify_pack(
    part: &Part,
    pack: &WalPack,
    is_single: impl Fn(&str) -> bool,
    seen: &mut Seen,
    verification: &mut Verification,
) -> Result<(), ArchiveError> {
    let repository = &part.repository;
    let Some(reader) = PackReader::open(&repository.packs(), pack).await? else {
        if pack.name.segments().all(|name| seen.whole.contains(&name)) {
            // Packing again or expiry has removed what is stored elsewhere.
            return Ok(());
        }
        return Err(ArchiveError::Damaged {
            object: format!("pack {}", pack.name),
            reason: "it disappeared after it was listed".to_owned(),
        });
    };
    reader
        .decode_all(async |member, decoded| {
            let name = &member.name;
            verification.wal_objects += 1;
            let mut decoded = match decoded {
                Ok(decoded) => decoded,
                Err(error) if seen.whole.contains(name) => {
                    let detail = detail_of(error);
                    verification.findings.push(Finding {
                        kind: FindingKind::WalDamaged,
                        object: part.object(&pack.name.to_string()),
                        detail: format!("{name}: {detail}; its own object is whole, and is read"),
                    });
                    return Ok(());
                }
                Err(error) => {
                    verification.findings.push(part.damaged(name, error));
                    return Ok(());
                }
            };
            // The edges of one that is stored by itself as well are known, unless it came after the pack.
            let is_late = seen.late.remove(name).is_some();
            let edges = decoded.edges.take();
            let edges = edges.filter(|_| is_late || !is_single(name));
            let proven =
                wal_object::prove_beginning(name, &decoded.beginning, repository.cluster());
            let checked = match is_single(name) {
                true => settling::compare(repository, pack, member)
                    .await
                    .and(proven),
                false => proven,
            };
            match checked {
                Ok(original_bytes) => {
                    verification.wal_original_bytes += original_bytes;
                    seen.add(name, edges, &decoded.minimal_wal);
                }
                Err(error) => {
                    // The next verification has to find it again.
                    seen.whole.remove(name);
                    seen.neighbours.add(name, edges.filter(|_| is_late));
                    verification.findings.push(part.damaged(name, error));
                }
            }
            Ok(())
        })
        .await
}
