//! What a base backup leaves out of a data directory (`excludeFiles`, `excludeDirContents` and
//! `sendDir` in backup/basebackup.c, PostgreSQL 13 to 18).

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use walzip_pgformat::relation_file::{Fork, RelationFile};

use crate::backups::backup_files::{BACKUP_LABEL, CONTROL_FILE};

/// Files that a server makes again, or that say something of this one alone.
const FILES: [&str; 8] = [
    "postgresql.auto.conf.tmp",
    "current_logfiles.tmp",
    BACKUP_LABEL,
    "tablespace_map",
    "backup_manifest",
    "postmaster.pid",
    "postmaster.opts",
    ".DS_Store",
];
/// Beginnings of such names: copies of the catalogs' caches, and temporary files.
const BEGINNINGS: [&str; 2] = ["pg_internal.init", "pgsql_tmp"];
/// Directories in the data directory whose contents no server needs after a crash.
const CONTENTS: [&str; 7] = [
    "pg_stat_tmp",
    "pg_replslot",
    "pg_dynshmem",
    "pg_notify",
    "pg_serial",
    "pg_snapshots",
    "pg_subtrans",
];

/// Whether this directory, by its path in the data directory, is copied without what is in it.
pub(super) fn has_contents_of_no_use(path: &Path) -> bool {
    CONTENTS
        .iter()
        .any(|directory| path == Path::new(directory))
}

/// What is left out of one directory.
pub(crate) struct LeftOut {
    /// The directory's path as the manifest has it, if it has files of relations.
    relations_in: Option<String>,
    is_global: bool,
    /// Numbers of the relations that a crash empties.
    unlogged: HashSet<u32>,
}

impl LeftOut {
    /// Of a directory with this path in the tablespace's or the data directory, and these names in
    /// it.
    pub(super) fn of(tablespace: Option<u32>, below: &Path, names: &[PathBuf]) -> LeftOut {
        let path = match tablespace {
            None => below.to_path_buf(),
            Some(oid) => Path::new("pg_tblspc").join(oid.to_string()).join(below),
        };
        let path = path.to_str().map(str::to_owned);
        let relations_in = path.filter(|path| relation(path, "1").is_some());
        let initial = |name: &PathBuf| {
            let (number, fork) = relation(relations_in.as_deref()?, name.to_str()?)?;
            (fork == Fork::Init).then_some(number)
        };
        LeftOut {
            unlogged: names.iter().filter_map(initial).collect(),
            is_global: tablespace.is_none() && below == Path::new("global"),
            relations_in,
        }
    }

    /// The name of the initial fork that the relation of a file may have got since the directory was listed.
    pub(super) fn initial_fork_of(&self, name: &Path) -> Option<String> {
        let (number, fork) = relation(self.relations_in.as_deref()?, name.to_str()?)?;
        (fork != Fork::Init).then(|| format!("{number}_init"))
    }

    /// The main forks, by their names in the manifest, of relations that have got an initial fork since; `now` is what
    /// is left out by a later listing of the directory.
    pub(super) fn main_forks_unlogged_since(&self, now: &LeftOut) -> Vec<String> {
        let Some(directory) = &self.relations_in else {
            return Vec::new();
        };
        let new = now.unlogged.difference(&self.unlogged);
        new.map(|number| format!("{directory}/{number}")).collect()
    }

    /// Whether the directory may have files of relations.
    pub(super) fn has_relations(&self) -> bool {
        self.relations_in.is_some()
    }

    /// Whether what has this name is left out.
    pub(super) fn has(&self, name: &Path) -> bool {
        let bytes = name.as_os_str().as_bytes();
        let is_file = |file: &&str| bytes == file.as_bytes();
        let begins = |beginning: &&str| bytes.starts_with(beginning.as_bytes());
        if FILES.iter().any(is_file) || BEGINNINGS.iter().any(begins) {
            return true;
        }
        // It is copied last.
        if self.is_global && Path::new("global").join(name) == Path::new(CONTROL_FILE) {
            return true;
        }
        let (Some(directory), Some(name)) = (&self.relations_in, name.to_str()) else {
            return false;
        };
        match relation(directory, name) {
            Some((number, fork)) => fork != Fork::Init && self.unlogged.contains(&number),
            None => is_temporary(directory, name),
        }
    }
}

/// The number and the fork of the relation file of this name in a directory.
fn relation(directory: &str, name: &str) -> Option<(u32, Fork)> {
    let path = format!("{directory}/{name}");
    let file = RelationFile::of_path(&path)?;
    Some((file.number, file.fork))
}

/// Whether it is a file of a temporary relation: `t3_16384`, with a fork and a number as others.
fn is_temporary(directory: &str, name: &str) -> bool {
    let parts = name.strip_prefix('t').and_then(|rest| rest.split_once('_'));
    parts.is_some_and(|(backend, file)| {
        let is_number = !backend.is_empty() && backend.bytes().all(|digit| digit.is_ascii_digit());
        is_number && relation(directory, file).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(tablespace: Option<u32>, below: &str, names: &[&str]) -> Vec<String> {
        let paths: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
        let left_out = LeftOut::of(tablespace, Path::new(below), &paths);
        let names = names.iter().filter(|name| left_out.has(Path::new(name)));
        names.map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn relations_that_a_crash_empties_and_temporary_ones_are_left_out() {
        let names = [
            "16384",
            "16384.1",
            "16384_fsm",
            "16384_init",
            "16385",
            "16385_vm",
            "t3_16386",
            "t12_16387_fsm",
            "t3_x",
            "t_1",
            "pg_filenode.map",
            "pg_internal.init",
            "pg_internal.init.77",
        ];
        let expected = [
            "16384",
            "16384.1",
            "16384_fsm",
            "t3_16386",
            "t12_16387_fsm",
            "pg_internal.init",
            "pg_internal.init.77",
        ];
        assert_eq!(left_out(None, "base/5", &names), expected);
        let in_tablespace = left_out(Some(16400), "PG_15_202209061/5", &names);
        assert_eq!(in_tablespace, expected);
        assert_eq!(left_out(None, "elsewhere/5", &names), expected[5..]);
    }

    #[test]
    fn an_initial_fork_that_comes_later_is_looked_for() {
        let of = |below: &str, names: &[&str]| {
            let names: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
            LeftOut::of(None, Path::new(below), &names)
        };
        let before = of("base/5", &["16384", "16385", "16385_init", "16386"]);
        let looked_for = |name: &str| before.initial_fork_of(Path::new(name));
        assert_eq!(looked_for("16384.1"), Some("16384_init".to_owned()));
        assert_eq!(looked_for("16384_fsm"), Some("16384_init".to_owned()));
        assert_eq!(looked_for("16385_init"), None);
        assert_eq!(looked_for("PG_VERSION"), None);
        let after = of("base/5", &["16384", "16384_init", "16385_init", "16386"]);
        assert_eq!(before.main_forks_unlogged_since(&after), ["base/5/16384"]);
        let elsewhere = of("pg_xact", &["0000"]);
        assert!(before.has_relations() && !elsewhere.has_relations());
    }

    #[test]
    fn what_says_something_of_this_server_alone_is_left_out() {
        let names = [
            "PG_VERSION",
            "postmaster.pid",
            "postmaster.opts",
            "backup_label",
            "tablespace_map",
            "backup_manifest",
            "postgresql.auto.conf",
            "postgresql.auto.conf.tmp",
            "pgsql_tmp",
            "pgsql_tmp12.3",
            "backup_label.old",
        ];
        let expected = [
            "postmaster.pid",
            "postmaster.opts",
            "backup_label",
            "tablespace_map",
            "backup_manifest",
            "postgresql.auto.conf.tmp",
            "pgsql_tmp",
            "pgsql_tmp12.3",
        ];
        assert_eq!(left_out(None, "", &names), expected);
        assert_eq!(
            left_out(None, "global", &["pg_control", "1262"]),
            ["pg_control"]
        );
        assert!(has_contents_of_no_use(Path::new("pg_replslot")));
        assert!(!has_contents_of_no_use(Path::new("base/pg_replslot")));
    }
}
