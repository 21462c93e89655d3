//! `archive-push` and `archive-get` with a worker in the background: `archive-async`.
//!
//! A call is short-lived, and PostgreSQL waits for it; the worker is the same command again, started
//! by a call, and goes on after it. They meet in the spool.

pub mod get;
pub mod push;
mod worker;

pub use worker::THIS_PROGRAM;

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use rustix::fs::Access;
use walzip_archive::spool;
use walzip_repo::Location;

use crate::config::{Config, PROCESS_MAX};
use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::repo_args::Place;
use crate::{running_as_root, store_args};

/// Where the Debian package makes a directory for it.
const DEFAULT_SPOOL_PATH: &str = "/var/spool/walzip";

/// Beside a server that writes, more would be in its way.
const USUAL_PROCESSES: usize = 2;

/// The flags of commands that may have a worker.
#[derive(Debug, clap::Args)]
pub struct AsyncArgs {
    /// Work ahead in the background
    #[arg(long, env = "WALZIP_ARCHIVE_ASYNC", hide_env_values = true)]
    #[arg(value_parser = BoolishValueParser::new(), value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(help_heading = "In the background")]
    archive_async: Option<bool>,

    /// Where calls and worker meet: a directory of this user's [default: /var/spool/walzip]
    #[arg(
        long,
        env = "WALZIP_SPOOL_PATH",
        hide_env_values = true,
        value_name = "DIR"
    )]
    #[arg(help_heading = "In the background")]
    spool_path: Option<PathBuf>,

    /// How many files are worked on at a time [default: 2, or 1 on a single processor]
    #[arg(
        long,
        env = "WALZIP_PROCESS_MAX",
        hide_env_values = true,
        value_name = "N"
    )]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(PROCESS_MAX)))]
    #[arg(help_heading = "In the background")]
    process_max: Option<u16>,

    /// This process is the worker, and its standard input the lock
    #[arg(long, hide = true)]
    worker: bool,
}

/// A worker that may not work: it has nothing else to do.
pub fn no_work() -> CommandError {
    let message = "the worker ends: its spool or the cluster cannot be used any more";
    CommandError::new(Kind::Problems, message)
}

impl AsyncArgs {
    /// Where to work in the background, if at all.
    pub fn spool_path(&self, config: &Config) -> Result<Option<PathBuf>, CommandError> {
        if !self.archive_async.or(config.archive_async).unwrap_or(false) {
            return Ok(None);
        }
        let path = self.spool_path.as_ref().or(config.spool_path.as_ref());
        let path = path.cloned().unwrap_or_else(|| DEFAULT_SPOOL_PATH.into());
        if !path.is_dir() {
            let problem = match path.exists() {
                true => "is no directory",
                false => "does not exist",
            };
            let message = format!("the spool directory {} {problem}", path.display());
            return Err(CommandError::new(Kind::FileMissing, message).hint(
                "Make it, for the user that runs PostgreSQL, or name another one: spool-path.",
            ));
        }
        running_as_root::refuse_foreign_directory(&path)?;
        Ok(Some(path))
    }

    /// Where calls leave something for later ones, and meet a worker in a pack, without anybody having asked
    /// for one: the directory of the background if there is one that this user may write in, or else one of
    /// its own for temporary files.
    pub fn usual_spool_path(&self, config: &Config) -> Option<PathBuf> {
        let path = self.spool_path.as_ref().or(config.spool_path.as_ref());
        let path = path.cloned().unwrap_or_else(|| DEFAULT_SPOOL_PATH.into());
        let is_usable = rustix::fs::access(&path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
            && running_as_root::refuse_foreign_directory(&path).is_ok();
        match is_usable {
            true => Some(path),
            false => spool::of_this_user(&env::temp_dir()),
        }
    }

    /// Whether this process is the worker.
    pub fn is_worker(&self) -> bool {
        self.worker
    }

    /// How many files are worked on at a time.
    pub fn process_max(&self, config: &Config) -> Result<usize, CommandError> {
        let count = match self.process_max {
            Some(count) => Some(count),
            None => config.process_max()?,
        };
        Ok(count.map_or_else(
            || {
                let processors = thread::available_parallelism().map_or(1, usize::from);
                processors.min(USUAL_PROCESSES)
            },
            usize::from,
        ))
    }
}

/// The flags with which another process works in the background as the configuration file says.
pub fn flags(config: &Config) -> Vec<(&'static str, String)> {
    if config.archive_async != Some(true) {
        return Vec::new();
    }
    let spool_path = config.spool_path.clone();
    let spool_path = spool_path.unwrap_or_else(|| DEFAULT_SPOOL_PATH.into());
    let spool_path = std::path::absolute(&spool_path).unwrap_or(spool_path);
    let process_max = config.process_max.map(|count| count.to_string());
    let all = [
        ("archive-async", Some("true".to_owned())),
        ("spool-path", Some(spool_path.display().to_string())),
        ("process-max", process_max),
    ];
    let given = all.into_iter();
    given
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// What a call and a worker have to agree on: the program, the repositories, what leads to them, and
/// the rest. A local repository that was made anew is another one. Nothing of it can be read again.
fn settings<'p>(
    places: impl IntoIterator<Item = &'p Place>,
    rest: &impl std::fmt::Debug,
) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |text: String| {
        hasher.update(text.as_bytes());
        hasher.update(b"\n");
    };
    add(format!("{} {rest:?}", env!("WALZIP_VERSION")));
    for place in places {
        let flags = store_args::flags(&place.settings);
        let record = match &**place {
            Location::Local(path) => facts_of(&path.join("repository.json")),
            _ => None,
        };
        let key_file = place.settings.key_file.as_deref().and_then(facts_of);
        let key_file = key_file.map(|(_, _, changed)| changed);
        add(format!(
            "{:?} {place} {flags:?} {record:?} {key_file:?}",
            place.number
        ));
    }
    for (name, value) in store_args::variables_of_services() {
        add(format!("{name}={value}"));
    }
    if let Some(home) = std::env::home_dir() {
        for file in ["config", "credentials"] {
            add(format!(
                "{home:?} {:?}",
                facts_of(&home.join(".aws").join(file))
            ));
        }
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// What tells a file from another one of its name.
fn facts_of(path: &Path) -> Option<(u64, u64, (i64, i64))> {
    let metadata = fs::metadata(path).ok()?;
    let changed = (metadata.mtime(), metadata.mtime_nsec());
    Some((metadata.dev(), metadata.ino(), changed))
}

/// How long a call sleeps before it looks again.
fn pause() {
    thread::sleep(Duration::from_millis(2));
}

/// The data directory of a file in `pg_wal`. PostgreSQL runs its commands in that directory, and %p
/// is relative to it.
pub fn data_directory_of(path: &Path) -> Option<PathBuf> {
    let pg_wal = path.parent()?;
    if pg_wal.file_name()? != "pg_wal" {
        return None;
    }
    match pg_wal.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => Some(directory.to_owned()),
        _ => Some(PathBuf::from(".")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_data_directory_of_what_archive_command_names() {
        let found = |path| data_directory_of(Path::new(path));
        assert_eq!(found("pg_wal/00000002.history"), Some(PathBuf::from(".")));
        assert_eq!(
            found("/d/pg_wal/00000002.history"),
            Some(PathBuf::from("/d"))
        );
        assert_eq!(found("/d/00000002.history"), None);
        assert_eq!(found("00000002.history"), None);
    }
}
