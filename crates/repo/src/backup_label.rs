//! The name of a backup: the second in which it began, as a person would read it.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::RepoError;

const TIME_FORMAT: &str = "%Y%m%d-%H%M%S";
const TIME_CHARS: usize = "20261121-220130".len();
/// Marks a full backup; other kinds will have other letters.
const FULL: &str = "F";

/// A backup's label, such as `20261121-220130F`: UTC, and `F` for a full backup.
///
/// Labels sort by the time at which their backups began.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackupLabel(String);

impl BackupLabel {
    /// The label of a full backup that began at this moment.
    pub fn full(started: Timestamp) -> Self {
        let time = started.to_zoned(TimeZone::UTC).strftime(TIME_FORMAT);
        Self(format!("{time}{FULL}"))
    }

    /// The label as it stands in keys.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BackupLabel {
    type Err = RepoError;

    fn from_str(text: &str) -> Result<Self, RepoError> {
        let is_label = text.len() == TIME_CHARS + FULL.len()
            && text.ends_with(FULL)
            && text
                .get(..TIME_CHARS)
                .and_then(|time| DateTime::strptime(TIME_FORMAT, time).ok())
                .is_some_and(|time| text.starts_with(&time.strftime(TIME_FORMAT).to_string()));
        if is_label {
            Ok(Self(text.to_owned()))
        } else {
            Err(RepoError::InvalidName {
                what: "a backup",
                name: text.to_owned(),
                detail: "a label has the form 20261121-220130F",
            })
        }
    }
}

impl fmt::Display for BackupLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
