//! Tablespaces that are made while a backup begins.
//!
//! What is made after the backup's first position is made again by the replay, at its place on the server.
//! The server announces it all the same, if it is there when the copy begins: it would be in the backup, and
//! a restore to another place would be undone. Nothing is copied yet: the backup begins once more.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::ArchiveError;
use crate::server::replication::BackupTablespace;

/// How often a backup begins.
const BEGINNINGS: usize = 3;

/// The beginnings of a backup.
#[derive(Debug, Default)]
pub(super) struct Beginnings {
    so_far: usize,
    /// What was announced at an earlier one was there before this one.
    announced_before: BTreeSet<u32>,
}

impl Beginnings {
    /// Whether every tablespace that is announced was there before the backup began. If not, it is to begin once
    /// more, unless that has been in vain too often.
    ///
    /// A link that no tablespace of the server has is announced too, but not made anew.
    pub(super) fn is_right(
        &mut self,
        announced: &[BackupTablespace],
        known: &BTreeMap<u32, String>,
    ) -> Result<bool, ArchiveError> {
        self.so_far += 1;
        let is_new = |tablespace: &&BackupTablespace| {
            let oid = &tablespace.oid;
            !known.contains_key(oid) && !self.announced_before.contains(oid)
        };
        let new = announced.iter().find(is_new);
        let oids = announced.iter().map(|tablespace| tablespace.oid);
        self.announced_before = oids.collect();
        let Some(BackupTablespace { oid, location }) = new else {
            return Ok(true);
        };
        if self.so_far < BEGINNINGS {
            tracing::info!(
                "tablespace {oid} in {location} was made while the backup began, which begins once more"
            );
            return Ok(false);
        }
        Err(ArchiveError::Request(format!(
            "tablespace {oid} in {location} was made while the backup began, and others the times before: a restore \
             could not move it. Take the backup again"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_begins_again_until_it_has_been_in_vain_too_often() {
        let announced = |oid| {
            [BackupTablespace {
                oid,
                location: format!("/srv/{oid}"),
            }]
        };
        let known = BTreeMap::from([(1663, "pg_default".to_owned())]);
        let mut beginnings = Beginnings::default();
        for oid in [16400, 16401] {
            let is_right = beginnings.is_right(&announced(oid), &known);
            assert!(!is_right.expect("once more"), "{oid}");
        }
        let error = beginnings.is_right(&announced(16402), &known);
        let error = error.expect_err("too often").to_string();
        assert!(error.contains("tablespace 16402 in /srv/16402"), "{error}");

        let known = BTreeMap::from([(16400, "fast".to_owned()), (16401, "gone".to_owned())]);
        let is_right = Beginnings::default().is_right(&announced(16400), &known);
        assert!(is_right.expect("all are known"));
    }

    #[test]
    fn a_link_that_stays_is_no_new_tablespace() {
        let announced = [BackupTablespace {
            oid: 16400,
            location: "/srv/left".to_owned(),
        }];
        let mut beginnings = Beginnings::default();
        let is_right = beginnings.is_right(&announced, &BTreeMap::new());
        assert!(!is_right.expect("once more"));
        let is_right = beginnings.is_right(&announced, &BTreeMap::new());
        assert!(is_right.expect("it was there before"));
    }
}
