//! What to measure, and where.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::methods::Method;
use super::sets::Content;
use super::stores::Stores;
use super::target::Target;
use crate::cancel::Cancel;
use crate::error::Error;
use crate::output::Files;

/// The sizes that were published.
const SIZES_MEGABYTES: &[u32] = &[16, 64];
/// What was published: 100 segments of 16 MB.
const TOTAL_MEGABYTES: u32 = 1600;
/// A little of everything.
const QUICK_MEGABYTES: u32 = 128;
/// How often each measurement is repeated unless the caller says otherwise.
const RUNS: u32 = 3;

/// Makes a repository in a directory for a cluster: its system identifier and major.
pub type MakeRepository = fn(&Path, u64, u32) -> Result<(), String>;

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Real WAL; without any, a throw-away server writes it.
    pub inputs: Vec<PathBuf>,
    /// The sizes of segments in MB (2^20 bytes); none for 16 and 64.
    pub sizes_megabytes: Vec<u32>,
    /// The size of each set of segments in MB.
    pub total_megabytes: Option<u32>,
    /// The contents; none for both.
    pub contents: Vec<Content>,
    /// Where archives are made instead.
    pub target: Option<Target>,
    /// The SSH client's configuration for a host; without one, the user's.
    pub ssh_config: Option<PathBuf>,
    /// The methods; none for all.
    pub methods: Vec<&'static Method>,
    /// Little data, one run.
    pub quick: bool,
    /// How often each measurement is repeated.
    pub runs: Option<u32>,
    /// Leave what files contain in memory.
    pub warm: bool,
    /// Where the programs of PostgreSQL are, if not where a distribution puts them.
    pub pg_bin: Option<PathBuf>,
    /// The program that starts what is measured (see [`crate::launcher`]): without one, peaks of
    /// memory are at least this process's own.
    pub launcher: Option<PathBuf>,
    /// The walzip program to measure.
    pub walzip: PathBuf,
    /// How to make a repository for it, which is not measured.
    pub make_repository: MakeRepository,
    /// The same for repositories in a store.
    pub stores: Stores,
    /// Where the other programs are looked for: the value of PATH.
    pub search_path: OsString,
    /// Where a temporary directory is made; it is gone when [`run`] returns.
    pub temp_dir: PathBuf,
    /// What is written.
    pub files: Files,
    /// Asked before each process; kills the one that is running.
    pub cancel: Cancel,
}

impl Options {
    /// What was published, and walzip.
    pub fn new(
        walzip: PathBuf,
        make_repository: MakeRepository,
        search_path: OsString,
        temp_dir: PathBuf,
    ) -> Options {
        Options {
            inputs: Vec::new(),
            sizes_megabytes: Vec::new(),
            total_megabytes: None,
            contents: Vec::new(),
            target: None,
            ssh_config: None,
            methods: Vec::new(),
            quick: false,
            runs: None,
            warm: false,
            pg_bin: None,
            launcher: None,
            walzip,
            make_repository,
            stores: Stores::default(),
            search_path,
            temp_dir,
            files: Files::default(),
            cancel: Cancel::default(),
        }
    }

    pub(super) fn sizes(&self) -> Result<Vec<u64>, Error> {
        let mut sizes = match self.sizes_megabytes.is_empty() {
            true => SIZES_MEGABYTES.to_vec(),
            false => self.sizes_megabytes.clone(),
        };
        sizes.sort_unstable();
        sizes.dedup();
        let is_possible = |size: &u32| size.is_power_of_two() && *size <= 1024;
        if let Some(wrong) = sizes.iter().find(|size| !is_possible(size)) {
            return Err(Error::Usage(format!(
                "segments cannot have {wrong} MB: PostgreSQL has the powers of two from 1 to 1024"
            )));
        }
        Ok(sizes.iter().map(|size| u64::from(*size) << 20).collect())
    }

    pub(super) fn total_bytes(&self) -> u64 {
        let usual = match self.quick {
            true => QUICK_MEGABYTES,
            false => TOTAL_MEGABYTES,
        };
        u64::from(self.total_megabytes.unwrap_or(usual)) << 20
    }

    /// How often each measurement is repeated.
    pub(super) fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { 1 } else { RUNS })
    }

    pub(super) fn wants(&self, content: Content) -> bool {
        self.contents.is_empty() || self.contents.contains(&content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_postgresqls_and_the_published_ones_unless_named() {
        let mut options = Options::new(
            PathBuf::new(),
            |_, _, _| Ok(()),
            OsString::new(),
            PathBuf::new(),
        );
        assert_eq!(options.sizes().unwrap(), [16 << 20, 64 << 20]);
        assert_eq!(options.total_bytes(), 100 * (16 << 20));
        options.sizes_megabytes = vec![1024, 1, 1];
        assert_eq!(options.sizes().unwrap(), [1 << 20, 1 << 30]);
        options.sizes_megabytes = vec![3];
        let error = options.sizes().unwrap_err().to_string();
        assert!(error.contains("cannot have 3 MB"), "{error}");
    }
}
