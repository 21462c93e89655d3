//! Which segments are measured on, and which are only looked at.
//!
//! Measuring takes seconds a segment, so it is done on a few that are spread evenly over what
//! there is. Looking is cheap, and the distance of checkpoints shows only where segments follow
//! one another, so the newest are looked at as well.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::Error;
use crate::input::{self, complete_segments, is_segment_name, segment_name, sorted_entries};
use crate::process::Surroundings;
use crate::progress::Progress;

/// How many of the newest segments are looked at when that costs only reading.
const NEIGHBOURS: usize = 48;

/// Segments of one source, oldest first, as files.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Where they come from, for a person.
    pub source: String,
    /// How many there are to choose from.
    pub available: usize,
    /// From the file times of the oldest and the newest of them.
    pub times: Option<FileTimes>,
    /// What is measured on.
    pub measured: Vec<PathBuf>,
    /// What is looked at.
    pub looked_at: Vec<PathBuf>,
}

/// How long it took to fill some segments, by the times of their files.
#[derive(Clone, Copy, Debug)]
pub struct FileTimes {
    /// How many segments were filled.
    pub segments: u64,
    /// In how many seconds.
    pub seconds: f64,
}

impl FileTimes {
    /// From when each segment was written, oldest first.
    pub fn new(times: impl IntoIterator<Item = SystemTime>) -> Option<FileTimes> {
        let times: Vec<SystemTime> = times.into_iter().collect();
        let (first, last) = (times.first()?, times.last()?);
        let seconds = last.duration_since(*first).ok()?.as_secs_f64();
        let segments = times.len() as u64 - 1;
        (segments > 0 && seconds >= 1.0).then_some(FileTimes { segments, seconds })
    }
}

/// Indexes into a list of segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What is measured on.
    pub measured: Vec<usize>,
    /// What is looked at: the same, and the newest.
    pub looked_at: Vec<usize>,
}

/// Chooses `measured` segments spread evenly over those that are available, and the newest
/// `neighbours` beside them.
pub fn choose(available: usize, measured: usize, neighbours: usize) -> Choice {
    let count = measured.min(available);
    let spread = |at: usize| match count {
        // The middle is as good as any.
        0 | 1 => available / 2,
        _ => at * (available - 1) / (count - 1),
    };
    let measured: Vec<usize> = (0..count).map(spread).collect();
    let mut looked_at = measured.clone();
    looked_at.extend(available.saturating_sub(neighbours)..available);
    looked_at.sort_unstable();
    looked_at.dedup();
    Choice {
        measured,
        looked_at,
    }
}

fn pick(paths: &[PathBuf], indexes: &[usize]) -> Vec<PathBuf> {
    let picked = indexes.iter().filter_map(|index| paths.get(*index));
    picked.cloned().collect()
}

/// Chooses out of a server's pg_wal. What is measured on is copied, because the server may
/// rename its segments at any moment.
pub(super) fn of_pg_wal(
    directory: &Path,
    measured: usize,
    surroundings: Surroundings<'_>,
) -> Result<Sample, Error> {
    let complete = complete_segments(directory)?;
    let choice = choose(complete.len(), measured, NEIGHBOURS);
    let copies = surroundings.temp_dir.join("pg_wal");
    fs::create_dir(&copies).map_err(|source| Error::file(&copies, source))?;
    let mut measured = Vec::new();
    for path in pick(&complete, &choice.measured) {
        if surroundings.cancel.is_requested() {
            return Err(Error::Interrupted);
        }
        let copy = copies.join(segment_name(&path));
        fs::copy(&path, &copy).map_err(|source| Error::file(&path, source))?;
        measured.push(copy);
    }
    Ok(Sample {
        source: "pg_wal".to_owned(),
        available: complete.len(),
        times: file_times(&complete),
        measured,
        looked_at: pick(&complete, &choice.looked_at),
    })
}

/// Chooses out of files, and of the segments in directories and their directories.
pub(super) fn of_files(
    paths: &[PathBuf],
    measured: usize,
    surroundings: Surroundings<'_>,
    progress: &mut impl Progress,
) -> Result<Sample, Error> {
    let mut found = Vec::new();
    for path in paths {
        find(path, true, &mut found)?;
    }
    let choice = choose(found.len(), measured, NEIGHBOURS);
    // Compressed samples are unpacked.
    let mut unpacked = |indexes: &[usize], name: &str| {
        let directory = surroundings.temp_dir.join(name);
        fs::create_dir(&directory).map_err(|source| Error::file(&directory, source))?;
        let within = Surroundings {
            temp_dir: &directory,
            ..surroundings
        };
        let inputs = input::gather(&pick(&found, indexes), None, within, progress)?;
        Ok(inputs.into_iter().map(|input| input.path).collect())
    };
    Ok(Sample {
        source: "the files named".to_owned(),
        available: found.len(),
        times: None,
        measured: unpacked(&choice.measured, "measured")?,
        looked_at: unpacked(&choice.looked_at, "looked-at")?,
    })
}

fn find(path: &Path, into_folders: bool, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    let metadata = fs::metadata(path).map_err(|source| Error::file(path, source))?;
    if !metadata.is_dir() {
        found.push(path.to_owned());
        return Ok(());
    }
    for entry in sorted_entries(path)? {
        let is_segment = entry.is_file() && is_segment_name(&segment_name(&entry));
        if is_segment || (into_folders && entry.is_dir()) {
            find(&entry, false, found)?;
        }
    }
    Ok(())
}

/// Only where the segments follow one another: else nobody knows how many lie between.
fn file_times(paths: &[PathBuf]) -> Option<FileTimes> {
    let modified = |path: &PathBuf| fs::metadata(path).and_then(|metadata| metadata.modified());
    let times: Result<Vec<SystemTime>, _> = paths.iter().map(modified).collect();
    FileTimes::new(times.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn segments_are_spread_from_the_first_to_the_last() {
        assert_eq!(choose(100, 3, 2).measured, [0, 49, 99]);
        assert_eq!(choose(100, 3, 2).looked_at, [0, 49, 98, 99]);
        assert_eq!(choose(3, 8, 1).measured, [0, 1, 2]);
        assert_eq!(choose(9, 1, 0).measured, [4]);
        assert_eq!(choose(0, 4, 4).looked_at, Vec::<usize>::new());
    }

    #[test]
    fn times_tell_how_long_it_took_to_fill_all_but_the_first() {
        let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let times = FileTimes::new([100, 160, 400].map(time)).unwrap();
        assert_eq!((times.segments, times.seconds), (2, 300.0));
        assert!(FileTimes::new([100].map(time)).is_none());
        assert!(FileTimes::new([100, 100].map(time)).is_none());
        assert!(FileTimes::new([100, 90].map(time)).is_none());
    }
}
