//! Why an experiment could not begin, by what the caller can do about it.
//!
//! Trouble after the first measurement is not an error: what was measured is kept, and the
//! results say why they are incomplete.

use std::io;
use std::path::{Path, PathBuf};

use crate::package::how_to_install;

/// Why an experiment could not begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request itself makes no sense: ask differently.
    #[error("{0}")]
    Usage(String),
    /// A program without which nothing can be measured is not installed.
    #[error("{program} is not installed ({}): {purpose}", how_to_install(package))]
    Missing {
        /// The program's name.
        program: &'static str,
        /// The package that brings it.
        package: &'static str,
        /// What it is needed for.
        purpose: &'static str,
    },
    /// The WAL is not the server's.
    #[error(
        "none of the segments is of this server: it has the system identifier {server}, they have {}",
        segments.join(", ")
    )]
    OtherCluster {
        /// The server's system identifier.
        server: String,
        /// Those of the segments.
        segments: Vec<String>,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that would be written is there already.
    #[error("{} exists", .0.display())]
    Exists(PathBuf),
    /// A directory that would be filled has something in it.
    #[error("{} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// A file appeared while an experiment ran, under the name of one that it writes.
    #[error(
        "{} appeared meanwhile and was not replaced: what was measured is in {}",
        path.display(),
        kept.display()
    )]
    Appeared {
        /// The file that somebody else wrote.
        path: PathBuf,
        /// What was to get its name.
        kept: PathBuf,
    },
    /// Results would be replaced by others that do not contain them.
    #[error(
        "{} has {} that this run would not take over: of {what}",
        path.display(),
        crate::text::counted(*measurements, "measurement")
    )]
    WouldLose {
        /// The results.
        path: PathBuf,
        /// How many would be lost.
        measurements: usize,
        /// What they are of, that this run is not.
        what: &'static str,
    },
    /// Something that is no regular file has the name of a file that would be written.
    #[error("{} is not a regular file, and is not replaced by one", .0.display())]
    NotAFile(PathBuf),
    /// A sample could not be unpacked.
    #[error("cannot unpack {}: {reason}", path.display())]
    Unpack {
        /// The compressed sample.
        path: PathBuf,
        /// What the program said.
        reason: String,
    },
    /// The temporary directory has too little room to begin with.
    #[error(
        "too little space in {}: {available_bytes} bytes are free, {needed_bytes} are needed",
        directory.display()
    )]
    NoSpace {
        /// The temporary directory.
        directory: PathBuf,
        /// What is free there.
        available_bytes: u64,
        /// What the next step needs.
        needed_bytes: u64,
    },
    /// A throw-away server, or a client of it, did not do what it was told.
    #[error("cannot {doing}: {reason}")]
    Server {
        /// What was attempted.
        doing: String,
        /// What went wrong.
        reason: String,
    },
    /// An experiment on which advice depends could not be finished.
    #[error("stopped early: {reason}")]
    Stopped {
        /// Why.
        reason: String,
    },
    /// The caller asked to stop before anything was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
}

impl Error {
    pub(crate) fn file(path: &Path, source: io::Error) -> Error {
        Error::File {
            path: path.to_owned(),
            source,
        }
    }

    /// Why an experiment stopped, in words that may be published: without directories.
    pub(crate) fn reason(&self) -> String {
        match self {
            Error::Interrupted => "interrupted".to_owned(),
            Error::File { path, source } => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                format!("{name}: {source}")
            }
            Error::NoSpace {
                available_bytes,
                needed_bytes,
                ..
            } => format!(
                "too little space in the temporary directory: {available_bytes} bytes are free, \
                 {needed_bytes} are needed"
            ),
            Error::Appeared { .. } => {
                "a file appeared under the name of one that the experiment writes".to_owned()
            }
            other => other.to_string(),
        }
    }
}
