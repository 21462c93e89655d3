//! Parts of messages.

use std::path::PathBuf;

use jiff::Timestamp;
use walzip_pgformat::TimelineId;

use crate::wal::wal_end::shown;

/// So many files are named in a message.
const FILES_SHOWN: usize = 5;

pub(super) fn shown_files(files: &[PathBuf]) -> String {
    let shown = files.iter().take(FILES_SHOWN);
    let shown: Vec<String> = shown.map(|path| path.display().to_string()).collect();
    match files.len().checked_sub(FILES_SHOWN + 1) {
        None => shown.join(", "),
        Some(more) => format!("{} and {} more", shown.join(", "), more + 1),
    }
}

pub(super) fn until(last: &Option<Timestamp>) -> String {
    match last {
        Some(last) => format!(", until {} at least,", shown(*last)),
        None => String::new(),
    }
}

pub(super) fn because(failure: &Option<String>) -> String {
    failure
        .as_ref()
        .map(|failure| format!("; {failure}"))
        .unwrap_or_default()
}

pub(super) fn born_at(born: &Option<Timestamp>) -> String {
    match born {
        Some(born) => format!(", born at {},", shown(*born)),
        None => String::new(),
    }
}

pub(super) fn numbers(timelines: &[TimelineId]) -> String {
    let timelines: Vec<String> = timelines.iter().map(TimelineId::to_string).collect();
    timelines.join(", ")
}

pub(super) fn missing(first: &str, last: &str, segments: u64) -> String {
    match segments {
        1 => first.to_owned(),
        _ => format!("{first} to {last} ({segments} segments)"),
    }
}
