//! Segments out of a repository's archive, spread over the whole of it.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use walzip_archive::get::{GetOptions, Got, get};
use walzip_bench::advise::{FileTimes, Sample, choose};
use walzip_bench::{Cancel, Error, Progress};
use walzip_pgformat::wal_file_name::SegmentName;

use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::repo_args::Place;
use crate::{cluster_args, runtime};

/// How many of the newest segments are only looked at: each has to be decoded.
const NEIGHBOURS: usize = 12;

/// Fetches segments of the repository at `location` into a directory.
pub fn fetch(
    location: &str,
    segments: usize,
    directory: &Path,
    cancel: &Cancel,
    progress: &mut impl Progress,
) -> Result<Sample, CommandError> {
    let location = Place::named(location)?;
    let folder = directory.join("archive");
    std::fs::create_dir(&folder).map_err(|error| CommandError::write(&folder, &error))?;
    runtime::block_on(async {
        let repository = cluster_args::open(&location, None).await?;
        let entries = repository.list_wal().await?;
        let archived: Vec<(String, SystemTime)> = entries
            .into_iter()
            .filter(|entry| entry.name.parse::<SegmentName>().is_ok())
            .map(|entry| (entry.name, entry.modified))
            .collect();
        if archived.is_empty() {
            let message = format_args!("the archive in {location} has no segment yet");
            return Err(CommandError::new(Kind::FileMissing, message));
        }
        let choice = choose(archived.len(), segments, NEIGHBOURS);
        progress.note(&format!(
            "{location}: fetching {} of {} segments",
            choice.looked_at.len(),
            archived.len()
        ));
        let mut sample = Sample {
            source: "the archive".to_owned(),
            available: archived.len(),
            times: FileTimes::new(archived.iter().map(|(_, modified)| *modified)),
            measured: Vec::new(),
            looked_at: Vec::new(),
        };
        for index in choice.looked_at {
            if cancel.is_requested() {
                return Err(Error::Interrupted.into());
            }
            let name = &archived[index].0;
            let to: PathBuf = folder.join(name);
            if get(&repository, name, &to, &GetOptions::default()).await? == Got::NotFound {
                progress.note(&format!("{name} has just been removed, and is left out"));
                continue;
            }
            if choice.measured.contains(&index) {
                sample.measured.push(to.clone());
            }
            sample.looked_at.push(to);
        }
        Ok(sample)
    })
}
