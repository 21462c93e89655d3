//! Segments out of a repository's archive, to measure on.
//!
//! The experiments know nothing of repositories: they get a folder of segments.

use std::path::{Path, PathBuf};

use walzip_archive::get::{GetOptions, Got, get};
use walzip_bench::{Cancel, Error, Progress, Sample, Sampled, Scratch};
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_repo::Repository;

use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::repo_args::Place;
use crate::{cluster_args, runtime};

/// The folder's name: what results call the workload.
const FOLDER: &str = "archive";

/// Which of the archive's segments.
#[derive(Clone, Copy)]
pub enum Choice {
    /// The newest, so many.
    Newest(usize),
    /// So many at equal distances over the whole archive.
    Spread(usize),
    /// Some at random.
    AtRandom(Sample),
}

/// Which segments, and where to put them.
pub struct Wanted<'a> {
    /// Which ones.
    pub choice: Choice,
    /// Where a temporary directory is made.
    pub temp_dir: &'a Path,
    /// Asked before each segment.
    pub cancel: &'a Cancel,
}

/// Fetched segments, which are gone when this is dropped.
pub struct Fetched(Scratch, Option<Sampled>);

impl Fetched {
    /// The folder with the segments.
    pub fn folder(&self) -> PathBuf {
        self.0.join(FOLDER)
    }

    /// Of how many they are a random sample.
    pub fn sampled(&self) -> Option<Sampled> {
        self.1
    }
}

/// Fetches complete segments of the repository at `location`.
pub fn fetch(
    location: &str,
    wanted: &Wanted<'_>,
    progress: &mut impl Progress,
) -> Result<Fetched, CommandError> {
    let location = Place::named(location)?;
    let mut fetched = Fetched(Scratch::new_in(wanted.temp_dir, "walzip-bench-")?, None);
    let folder = fetched.folder();
    std::fs::create_dir(&folder).map_err(|error| CommandError::write(&folder, &error))?;
    fetched.1 = runtime::block_on(async {
        let repository = cluster_args::open(&location, None).await?;
        let names = segments(&repository).await?;
        if names.is_empty() {
            let message = format_args!("the archive in {location} has no segment yet");
            return Err(CommandError::new(Kind::FileMissing, message));
        }
        let (all, which) = (names.len(), wanted.choice.words());
        let (chosen, sampled) = choose(names, wanted.choice);
        let count = chosen.len();
        progress.note(&format!(
            "{location}: fetching {count} of {all} segments, {which}"
        ));
        for name in chosen {
            if wanted.cancel.is_requested() {
                return Err(Error::Interrupted.into());
            }
            let to = folder.join(&name);
            let got = get(&repository, &name, &to, &GetOptions::default()).await?;
            if got == Got::NotFound {
                progress.note(&format!("{name} has just been removed, and is left out"));
            }
        }
        Ok(sampled)
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

impl Choice {
    fn words(self) -> &'static str {
        match self {
            Choice::Newest(_) => "the newest",
            Choice::Spread(_) => "spread over the archive",
            Choice::AtRandom(_) => "at random",
        }
    }
}

/// Some of the names, in their order; of those at equal distances, the first and the last are two.
fn choose(names: Vec<String>, choice: Choice) -> (Vec<String>, Option<Sampled>) {
    let all = names.len();
    let step = |at: usize, count: usize| match count {
        0 | 1 => all - count + at,
        _ => at * (all - 1) / (count - 1),
    };
    let places: Vec<usize> = match choice {
        Choice::AtRandom(sample) => {
            let (chosen, sampled) = sample.take(names);
            return (chosen, Some(sampled));
        }
        Choice::Newest(count) => (all.saturating_sub(count)..all).collect(),
        Choice::Spread(count) => {
            let count = count.min(all);
            (0..count).map(|at| step(at, count)).collect()
        }
    };
    let chosen = names.into_iter().enumerate();
    let chosen = chosen.filter(|(place, _)| places.contains(place));
    (chosen.map(|(_, name)| name).collect(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_taken_or_some_at_equal_distances() {
        let names: Vec<String> = (0..10).map(|number| number.to_string()).collect();
        let chosen = |choice| choose(names.clone(), choice).0;
        assert_eq!(chosen(Choice::Newest(3)), ["7", "8", "9"]);
        assert_eq!(chosen(Choice::Spread(4)), ["0", "3", "6", "9"]);
        assert_eq!(chosen(Choice::Spread(1)), ["9"]);
        assert_eq!(chosen(Choice::Spread(20)).len(), 10);
        assert_eq!(chosen(Choice::Newest(20)).len(), 10);
        let sample = Sample {
            segments: 4,
            seed: 1,
        };
        let (some, sampled) = choose(names.clone(), Choice::AtRandom(sample));
        assert_eq!((some.len(), sampled.unwrap().of), (4, 10));
    }
}
