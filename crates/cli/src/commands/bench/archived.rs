//! Segments out of a repository's archive, to measure on.
//!
//! The experiments know nothing of repositories: they get a folder of segments.

use std::path::{Path, PathBuf};

use walzip_archive::get::{GetOptions, Got, get};
use walzip_bench::{Cancel, Error, Progress, Scratch};
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::Repository;

use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::repo_args::Place;
use crate::{cluster_args, runtime};

/// The folder's name: what results call the workload.
const FOLDER: &str = "archive";

/// Which segments, and where to put them.
pub struct Sample<'a> {
    /// At most so many.
    pub count: usize,
    /// Evenly over the whole archive, not its newest.
    pub spread: bool,
    /// Where a temporary directory is made.
    pub temp_dir: &'a Path,
    /// Asked before each segment.
    pub cancel: &'a Cancel,
}

/// Fetched segments, which are gone when this is dropped.
pub struct Fetched(Scratch);

impl Fetched {
    /// The folder with the segments.
    pub fn folder(&self) -> PathBuf {
        self.0.join(FOLDER)
    }
}

/// Fetches complete segments of the repository at `location`.
pub fn fetch(
    location: &str,
    sample: &Sample<'_>,
    progress: &mut impl Progress,
) -> Result<Fetched, CommandError> {
    let location = Place::named(location)?;
    let fetched = Fetched(Scratch::new_in(sample.temp_dir, "walzip-bench-")?);
    let folder = fetched.folder();
    std::fs::create_dir(&folder).map_err(|error| CommandError::write(&folder, &error))?;
    runtime::block_on(async {
        let repository = cluster_args::open(&location, None).await?;
        let names = segments(&repository).await?;
        if names.is_empty() {
            let message = format_args!("the archive in {location} has no segment yet");
            return Err(CommandError::new(Kind::FileMissing, message));
        }
        let chosen = choose(&names, sample.count, sample.spread);
        let which = match sample.spread {
            true => "spread over the archive",
            false => "the newest",
        };
        let (count, all) = (chosen.len(), names.len());
        progress.note(&format!(
            "{location}: fetching {count} of {all} segments, {which}"
        ));
        for name in chosen {
            if sample.cancel.is_requested() {
                return Err(Error::Interrupted.into());
            }
            let to = folder.join(name);
            let got = get(&repository, name, &to, &GetOptions::default()).await?;
            if got == Got::NotFound {
                progress.note(&format!("{name} has just been removed, and is left out"));
            }
        }
        Ok(())
    })?;
    Ok(fetched)
}

/// The names of complete segments, in their order: no partial one, no history.
async fn segments(repository: &Repository) -> Result<Vec<String>, CommandError> {
    let entries = repository.list_wal().await?;
    let names = entries.into_iter().map(|entry| entry.name);
    Ok(names
        .filter(|name| name.parse::<SegmentName>().is_ok())
        .collect())
}

/// The last `count`, or `count` at equal distances, the first and the last among them.
fn choose(names: &[String], count: usize, spread: bool) -> Vec<&str> {
    let count = count.min(names.len());
    let index = |number: usize| match (spread, count) {
        (true, 2..) => number * (names.len() - 1) / (count - 1),
        _ => names.len() - count + number,
    };
    (0..count)
        .map(|number| names[index(number)].as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_taken_or_some_at_equal_distances() {
        let names: Vec<String> = (0..10).map(|number| number.to_string()).collect();
        assert_eq!(choose(&names, 3, false), ["7", "8", "9"]);
        assert_eq!(choose(&names, 4, true), ["0", "3", "6", "9"]);
        assert_eq!(choose(&names, 1, true), ["9"]);
        assert_eq!(choose(&names, 20, true).len(), 10);
        assert_eq!(choose(&names, 20, false).len(), 10);
    }
}
