//! What a server's WAL summaries say of the blocks that have changed since an earlier backup.
//!
//! They cover the WAL from the start of the earlier backup to that of the new one. What changes after
//! that comes whole from the WAL. Free space and visibility maps are not asked for: the records that
//! clear a bit of the latter do not name its block, and those of the former are no records at all.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use roaring::RoaringBitmap;
use walzip_pgformat::relation_file::{Fork, RelationFile};
use walzip_pgformat::wal_summary::{self, ChangedFork, WalSummaryName};
use walzip_pgformat::{Lsn, PAGE_SIZE, TimelineId};

use crate::files::regular_file;

/// Where they are.
const DIRECTORY: &str = "pg_wal/summaries";
/// How long the server may take for the next one.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);
/// A wait of this length is told.
const NOTABLE: Duration = Duration::from_secs(2);
/// The OIDs of the tablespaces whose files lie in the data directory (`pg_default`, `pg_global`).
const DEFAULT_TABLESPACE: u32 = 1663;
const GLOBAL_TABLESPACE: u32 = 1664;

/// WAL from the start of a backup to the start of the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summarized {
    pub(crate) timeline: TimelineId,
    pub(crate) start: Lsn,
    pub(crate) end: Lsn,
}

/// The blocks that some WAL has changed.
#[derive(Debug, Default)]
pub(crate) struct ChangedBlocks {
    /// By tablespace, database and file number.
    relations: HashMap<(u32, u32, u32), ChangedRelation>,
    /// Databases all of whose files in a tablespace are new.
    databases: HashSet<(u32, u32)>,
}

/// Those of a relation's main fork.
#[derive(Debug)]
struct ChangedRelation {
    limit_block: u32,
    blocks: RoaringBitmap,
}

/// Those of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangedInFile<'c> {
    first_block: u32,
    relation: Option<&'c ChangedRelation>,
}

impl ChangedInFile<'_> {
    /// Whether the block at an offset of the file is as it was.
    pub(super) fn is_unchanged(&self, offset: u64) -> bool {
        let block = u32::try_from(offset / PAGE_SIZE as u64).ok();
        let block = block.and_then(|block| self.first_block.checked_add(block));
        block.is_some_and(|block| {
            self.relation.is_none_or(|relation| {
                block < relation.limit_block && !relation.blocks.contains(block)
            })
        })
    }
}

impl ChangedBlocks {
    /// Reads the summaries of a data directory. Waits for the last one, which the server writes when
    /// the new backup has begun; or says why they cannot be used.
    pub(crate) fn read(data_directory: &Path, wal: Summarized) -> Result<ChangedBlocks, String> {
        let directory = data_directory.join(DIRECTORY);
        let mut changed = ChangedBlocks::default();
        for path in wait(&directory, wal)? {
            let unusable = |reason: String| format!("{}: {reason}", path.display());
            let content = regular_file::open(&path).and_then(|(mut file, _)| {
                let mut content = Vec::new();
                file.read_to_end(&mut content).map(|_| content)
            });
            let content = content.map_err(|error| unusable(error.to_string()))?;
            wal_summary::read(&content, |fork| changed.add(fork))
                .map_err(|error| unusable(error.to_string()))?;
        }
        Ok(changed)
    }

    fn add(&mut self, fork: ChangedFork) {
        let database = (fork.tablespace, fork.database);
        if fork.relation == 0 {
            self.databases.insert(database);
            return;
        }
        if fork.fork != Fork::Main {
            return;
        }
        let key = (fork.tablespace, fork.database, fork.relation);
        let relation = self.relations.entry(key).or_insert(ChangedRelation {
            limit_block: u32::MAX,
            blocks: RoaringBitmap::new(),
        });
        relation.limit_block = relation.limit_block.min(fork.limit_block);
        relation.blocks.extend(fork.blocks);
    }

    /// Those of the file with this name in the manifest; nothing where summaries say nothing of it.
    pub(crate) fn of_file(&self, name: &[u8], size_bytes: u64) -> Option<ChangedInFile<'_>> {
        let file = RelationFile::of_path(str::from_utf8(name).ok()?)?;
        let is_whole = size_bytes.is_multiple_of(PAGE_SIZE as u64);
        let first_block = file.first_block()?;
        let (tablespace, database) = place(file.directory)?;
        let is_new = self.databases.contains(&(tablespace, database));
        if file.fork != Fork::Main || !is_whole || is_new {
            return None;
        }
        let relation = self.relations.get(&(tablespace, database, file.number));
        Some(ChangedInFile {
            first_block,
            relation,
        })
    }
}

/// The tablespace and the database of a directory of relation files.
fn place(directory: &str) -> Option<(u32, u32)> {
    let parts: Vec<&str> = directory.split('/').collect();
    match parts.as_slice() {
        ["global"] => Some((GLOBAL_TABLESPACE, 0)),
        ["base", database] => Some((DEFAULT_TABLESPACE, database.parse().ok()?)),
        ["pg_tblspc", tablespace, _, database] => {
            Some((tablespace.parse().ok()?, database.parse().ok()?))
        }
        _ => None,
    }
}

/// The files of the summaries that cover the WAL, once they are there.
fn wait(directory: &Path, wal: Summarized) -> Result<Vec<PathBuf>, String> {
    let (mut reached, mut since, mut is_told) = (Lsn(0), Instant::now(), false);
    loop {
        let unreadable = |error| format!("{}: {error}", directory.display());
        let mut names = Vec::new();
        for entry in fs::read_dir(directory).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            names.extend(name.to_str().and_then(WalSummaryName::read));
        }
        names.retain(|name| name.timeline == wal.timeline);
        let newest = names.iter().map(|name| name.end).max();
        let newest = newest.unwrap_or_default();
        if newest >= wal.end {
            let files = covering(names, wal)?;
            let path = |name| directory.join(format!("{name}"));
            return Ok(files.into_iter().map(path).collect());
        }
        if newest > reached {
            (reached, since) = (newest, Instant::now());
        }
        if since.elapsed() > NOTABLE && !is_told {
            is_told = true;
            tracing::info!(
                "waiting for the server to summarize its WAL up to {}",
                wal.end
            );
        }
        if since.elapsed() > PATIENCE {
            let end = wal.end;
            return Err(format!(
                "the server has not summarized its WAL up to {end} yet"
            ));
        }
        thread::sleep(PAUSE);
    }
}

/// Those that cover the WAL, without gaps. Both ends are positions of checkpoints, with which a server
/// begins a summary: one whose WAL was another does not have both.
fn covering(
    mut names: Vec<WalSummaryName>,
    wal: Summarized,
) -> Result<Vec<WalSummaryName>, String> {
    names.retain(|name| name.end > wal.start && name.start < wal.end);
    names.sort_by_key(|name| name.start);
    let mut at = wal.start;
    for name in &names {
        if name.start != at {
            break;
        }
        at = name.end;
    }
    match at == wal.end {
        true => Ok(names),
        false => Err(format!(
            "the server has no summaries of its WAL from {at} to {}",
            wal.end
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAL: Summarized = Summarized {
        timeline: TimelineId(2),
        start: Lsn(100),
        end: Lsn(400),
    };

    fn names(ranges: &[(u32, u64, u64)]) -> Vec<WalSummaryName> {
        let name = |&(timeline, start, end): &(u32, u64, u64)| WalSummaryName {
            timeline: TimelineId(timeline),
            start: Lsn(start),
            end: Lsn(end),
        };
        ranges.iter().map(name).collect()
    }

    #[test]
    fn summaries_cover_all_of_the_wal_or_are_not_used() {
        let covering = |ranges: &[_]| covering(names(ranges), WAL);
        let all = [(2, 250, 400), (2, 100, 250)];
        assert_eq!(covering(&all), Ok(names(&[(2, 100, 250), (2, 250, 400)])));
        let with_others = [(2, 40, 100), (2, 100, 250), (2, 250, 400), (2, 400, 500)];
        assert_eq!(covering(&with_others), Ok(names(&[all[1], all[0]])));
        for (lacking, from) in [
            (&[(2, 100, 250), (2, 260, 400)][..], "0/FA"),
            (&[(2, 250, 400)], "0/64"),
            (&[(2, 100, 250)], "0/FA"),
            (&[], "0/64"),
            // The beginnings and ends are those of other WAL.
            (&[(2, 90, 250), (2, 250, 400)], "0/64"),
            (&[(2, 100, 250), (2, 250, 410)], "0/19A"),
        ] {
            let told = covering(lacking).expect_err("a gap");
            assert!(told.contains(&format!("from {from} to 0/190")), "{told}");
        }
    }

    #[test]
    fn those_of_other_timelines_do_not_count() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in names(&[(1, 100, 400), (2, 100, 250), (2, 250, 400)]) {
            fs::write(directory.path().join(name.to_string()), "").expect("written");
        }
        fs::write(directory.path().join("temp.summary"), "").expect("written");
        let found = wait(directory.path(), WAL).expect("covered");
        let expected = names(&[(2, 100, 250), (2, 250, 400)]);
        let expected = expected
            .iter()
            .map(|name| directory.path().join(name.to_string()));
        assert_eq!(found, expected.collect::<Vec<_>>());
    }

    fn fork(
        (tablespace, database, relation): (u32, u32, u32),
        limit_block: u32,
        blocks: &[u32],
    ) -> ChangedFork {
        ChangedFork {
            tablespace,
            database,
            relation,
            fork: Fork::Main,
            limit_block,
            blocks: blocks.to_vec(),
        }
    }

    #[test]
    fn blocks_of_a_file_are_those_of_its_relation() {
        let mut changed = ChangedBlocks::default();
        changed.add(fork((1663, 5, 7), 131_080, &[3, 131_074]));
        changed.add(fork((1663, 5, 7), u32::MAX, &[4]));
        changed.add(fork((1664, 0, 7), 1, &[]));
        changed.add(fork((1700, 6, 0), 0, &[]));
        changed.add(ChangedFork {
            fork: Fork::VisibilityMap,
            ..fork((1663, 5, 8), 0, &[])
        });
        let unchanged = |name: &str, blocks: u64| -> Option<Vec<u64>> {
            let file = changed.of_file(name.as_bytes(), blocks * 8192)?;
            let is_unchanged = |block: &u64| file.is_unchanged(block * 8192);
            Some((0..blocks).filter(is_unchanged).collect())
        };
        assert_eq!(unchanged("base/5/7", 7), Some(vec![0, 1, 2, 5, 6]));
        // What is new from block 131,080 on is so in the second file.
        assert_eq!(unchanged("base/5/7.1", 10), Some(vec![0, 1, 3, 4, 5, 6, 7]));
        assert_eq!(unchanged("global/7", 3), Some(vec![0]));
        // A relation of another database, and one without a main fork in the summaries.
        assert_eq!(unchanged("base/6/7", 2), Some(vec![0, 1]));
        assert_eq!(unchanged("base/5/8", 2), Some(vec![0, 1]));
        assert_eq!(unchanged("pg_tblspc/1700/PG_18_1/5/7", 1), Some(vec![0]));
        for of_nothing in [
            "base/5/7_vm",
            "base/5/7_fsm",
            "base/5/7_init",
            "base/5/PG_VERSION",
            "pg_xact/0000",
            // All of the database is new.
            "pg_tblspc/1700/PG_18_1/6/7",
        ] {
            assert_eq!(unchanged(of_nothing, 1), None, "{of_nothing}");
        }
        assert!(changed.of_file(b"base/5/7", 8192 + 1).is_none());
    }
}
