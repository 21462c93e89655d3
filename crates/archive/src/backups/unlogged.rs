//! Unlogged relations that get their initial fork while a backup runs.
//!
//! A server that recovers removes the files of a relation that has an initial fork, and makes them of that at the end
//! of the recovery. Of a relation that is not there yet when it looks, such as an index that is still being built, the
//! other files are in the backup. The replay makes the initial fork, and at its end the server finds a file in its way
//! (`could not create file ...: File exists`). So these files are not restored.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use walzip_pgformat::relation_file::{Fork, RelationFile};

/// `pg_default`, whose databases are in the data directory's `base`.
const DEFAULT_TABLESPACE: u32 = 1663;

/// A relation whose files but the initial fork are not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnloggedRelation {
    /// The OID of its tablespace.
    pub tablespace: u32,
    /// The OID of its database.
    pub database: u32,
    /// The number in the names of its files (`relfilenumber`).
    pub relation: u32,
}

impl UnloggedRelation {
    /// The relation that a file is of, by its name in the manifest, unless that is of its initial fork.
    pub(crate) fn of_file(name: &[u8]) -> Option<UnloggedRelation> {
        let file = RelationFile::of_path(std::str::from_utf8(name).ok()?)?;
        let parts: Vec<&str> = file.directory.split('/').collect();
        let (tablespace, database) = match parts[..] {
            ["base", database] => (DEFAULT_TABLESPACE, database.parse().ok()?),
            ["pg_tblspc", tablespace, _, database] => {
                (tablespace.parse().ok()?, database.parse().ok()?)
            }
            _ => return None,
        };
        (file.fork != Fork::Init).then_some(UnloggedRelation {
            tablespace,
            database,
            relation: file.number,
        })
    }
}

/// Those of the relations of which there are files by these names.
pub(crate) fn with_files<'n>(
    relations: &BTreeSet<UnloggedRelation>,
    names: impl Iterator<Item = &'n Vec<u8>>,
) -> BTreeSet<UnloggedRelation> {
    if relations.is_empty() {
        return BTreeSet::new();
    }
    names
        .filter_map(|name| UnloggedRelation::of_file(name))
        .filter(|relation| relations.contains(relation))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(tablespace: u32, database: u32, relation: u32) -> UnloggedRelation {
        UnloggedRelation {
            tablespace,
            database,
            relation,
        }
    }

    #[test]
    fn all_forks_but_the_initial_one_are_of_their_relation() {
        for (name, expected) in [
            ("base/5/16392", Some(relation(1663, 5, 16392))),
            ("base/5/16392.2", Some(relation(1663, 5, 16392))),
            ("base/5/16392_fsm", Some(relation(1663, 5, 16392))),
            (
                "pg_tblspc/16400/PG_15_202209061/5/7",
                Some(relation(16400, 5, 7)),
            ),
            ("base/5/16392_init", None),
            ("base/5/PG_VERSION", None),
            ("global/1260", None),
        ] {
            assert_eq!(
                UnloggedRelation::of_file(name.as_bytes()),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn only_relations_with_files_matter() {
        let known = [relation(1663, 5, 7), relation(1663, 5, 8)].into();
        let names = ["base/5/7", "base/5/8_init", "base/5/9"].map(|name| name.as_bytes().to_vec());
        let expected = [relation(1663, 5, 7)].into();
        assert_eq!(with_files(&known, names.iter()), expected);
    }
}
