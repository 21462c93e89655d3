//! Paths of relation files below a data directory (common/relpath.c, storage/md.c; PostgreSQL 13
//! to 18).
//!
//! A fork of a relation is a sequence of files: `16384`, `16384.1`, `16384.2`. Other forks have a
//! name: `16384_fsm`, `16384_vm.1`, `16384_init`.

/// Blocks in each file of a fork but the last: `RELSEG_SIZE`, 1 GB of pages of 8 KB.
pub const BLOCKS_PER_FILE: u32 = 131_072;

/// A fork of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fork {
    /// Its rows or index entries.
    Main,
    /// The free space map.
    FreeSpaceMap,
    /// The visibility map.
    VisibilityMap,
    /// What an unlogged relation is reset to.
    Init,
}

/// What the path of a relation file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationFile<'p> {
    /// The directory of its database and tablespace: `base/5`, `global`,
    /// `pg_tblspc/16400/PG_15_202209061/5`.
    pub directory: &'p str,
    /// The number in its name (`relfilenumber`).
    pub number: u32,
    /// The fork.
    pub fork: Fork,
    /// The number of the file within the fork, from 0 on.
    pub segment: u32,
}

impl<'p> RelationFile<'p> {
    /// Reads a path below the data directory. `None` if it is no relation file, or a file of a
    /// temporary relation (`t3_16384`).
    pub fn of_path(path: &'p str) -> Option<RelationFile<'p>> {
        let (directory, name) = path.rsplit_once('/')?;
        let parts: Vec<&str> = directory.split('/').collect();
        let is_relations_place = match parts[..] {
            ["global"] => true,
            ["base", database] => number(database).is_some(),
            ["pg_tblspc", tablespace, version, database] => {
                number(tablespace).is_some()
                    && version.starts_with("PG_")
                    && number(database).is_some()
            }
            _ => false,
        };
        if !is_relations_place {
            return None;
        }
        let (name, segment) = match name.split_once('.') {
            Some((name, segment)) => (name, number(segment).filter(|&segment| segment > 0)?),
            None => (name, 0),
        };
        let (digits, fork) = match name.split_once('_') {
            None => (name, Fork::Main),
            Some((digits, "fsm")) => (digits, Fork::FreeSpaceMap),
            Some((digits, "vm")) => (digits, Fork::VisibilityMap),
            Some((digits, "init")) => (digits, Fork::Init),
            Some(_) => return None,
        };
        Some(RelationFile {
            directory,
            number: number(digits)?,
            fork,
            segment,
        })
    }

    /// The number of the file's first block, `None` if no relation has that many.
    pub fn first_block(&self) -> Option<u32> {
        self.segment.checked_mul(BLOCKS_PER_FILE)
    }
}

/// A number as PostgreSQL writes it: decimal, without a sign or leading zeros.
fn number(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    let is_shortest = text.starts_with(|first: char| ('1'..='9').contains(&first)) || text == "0";
    is_shortest.then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_paths_that_postgresql_makes() {
        let file = |path| RelationFile::of_path(path).expect(path);
        let tablespace = "pg_tblspc/16400/PG_15_202209061/5";
        let in_tablespace = format!("{tablespace}/7_init");
        for (path, directory, number, fork, segment) in [
            ("base/5/16384", "base/5", 16384, Fork::Main, 0),
            ("base/5/16384.12", "base/5", 16384, Fork::Main, 12),
            ("global/1262_fsm", "global", 1262, Fork::FreeSpaceMap, 0),
            ("base/1/2_vm.1", "base/1", 2, Fork::VisibilityMap, 1),
            (&in_tablespace, tablespace, 7, Fork::Init, 0),
        ] {
            let expected = RelationFile {
                directory,
                number,
                fork,
                segment,
            };
            assert_eq!(file(path), expected, "{path}");
        }
        assert_eq!(file("base/5/16384.2").first_block(), Some(262_144));
    }

    #[test]
    fn passes_over_all_other_paths() {
        for path in [
            "PG_VERSION",
            "16384",
            "base/16384",
            "base/5/PG_VERSION",
            "base/5/pg_filenode.map",
            "base/5/t3_16384",
            "base/5/016384",
            "base/5/16384.0",
            "base/5/16384.x",
            "base/5/16384_xyz",
            "base/5/+1",
            "base/pgsql_tmp/16384",
            "pg_wal/000000010000000000000001",
            "pg_tblspc/16400/16384",
            "global/pg_control",
        ] {
            assert_eq!(RelationFile::of_path(path), None, "{path}");
        }
    }
}
