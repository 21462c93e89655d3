//! What a cluster is not whole without, so that no backup may leave it out.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Directories of the data directory without whose contents a cluster is not whole.
const NEEDED: [&str; 7] = [
    "base",
    "global",
    "pg_commit_ts",
    "pg_logical",
    "pg_multixact",
    "pg_twophase",
    "pg_xact",
];

/// Whether a cluster is not whole without what has this path in its data directory, or is below a link of
/// a tablespace.
pub(crate) fn is_needed(path: &[u8]) -> bool {
    let path = Path::new(OsStr::from_bytes(path));
    let mut parts = path.components().map(Component::as_os_str);
    let first = parts.next().and_then(OsStr::to_str).unwrap_or_default();
    NEEDED.contains(&first) || (first == "pg_tblspc" && parts.count() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_of_relations_and_transactions_are_needed() {
        for needed in [
            "base/16384",
            "base/5/16385_fsm",
            "global/1262",
            "pg_xact",
            "pg_tblspc/16384/PG_16_202307071",
        ] {
            assert!(is_needed(needed.as_bytes()), "{needed}");
        }
        for other in [
            "",
            "log",
            "pg_tblspc",
            "pg_tblspc/16384",
            "server.crt",
            "database",
        ] {
            assert!(!is_needed(other.as_bytes()), "{other}");
        }
    }
}
