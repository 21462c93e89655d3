//! In which order what is set aside leaves the archive.

use std::fmt;

use walzip_pgformat::wal_file_name::WalFileName;
use walzip_repo::{PackName, WalEntry};

/// What is removed from the archive.
pub(super) enum Removed<'m> {
    Object(&'m str),
    Pack(&'m PackName),
}

impl fmt::Display for Removed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Removed::Object(name) => f.write_str(name),
            Removed::Pack(name) => name.fmt(f),
        }
    }
}

/// The last ones first. Whoever waits to archive the first one waits until all have gone, so what
/// is left after an interruption is what was to be moved.
pub(super) fn last_first<'m>(objects: Vec<&'m String>, packs: &'m [PackName]) -> Vec<Removed<'m>> {
    let objects = objects.into_iter();
    let mut all: Vec<(String, Removed<'m>)> = objects
        .map(|name| (name.clone(), Removed::Object(name)))
        .collect();
    for pack in packs {
        all.push((pack.segment(0).unwrap_or_default(), Removed::Pack(pack)));
    }
    all.sort_by(|(one, _), (other, _)| other.cmp(one));
    all.into_iter().map(|(_, one)| one).collect()
}

/// The names of objects, histories last and the newest timeline's before the others.
pub(super) fn histories_last(entries: &[WalEntry]) -> Vec<String> {
    let names = entries.iter().map(|entry| entry.name.clone());
    let (mut histories, mut names): (Vec<String>, Vec<String>) = names.partition(|n| is_history(n));
    histories.sort();
    names.sort();
    names.extend(histories.into_iter().rev());
    names
}

pub(super) fn is_history(name: &str) -> bool {
    matches!(name.parse(), Ok(WalFileName::History(_)))
}
