//! The name of a backup: the second in which it began, as a person would read it.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::error::RepoError;

const TIME_FORMAT: &str = "%Y%m%d-%H%M%S";
const TIME_CHARS: usize = "20261121-220130".len();

/// What a backup holds, by pgBackRest's words and letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackupType {
    /// All files.
    Full,
    /// What changed since a full backup.
    Diff,
    /// What changed since any backup.
    Incr,
}

impl BackupType {
    const ALL: [BackupType; 3] = [BackupType::Full, BackupType::Diff, BackupType::Incr];

    /// The last character of its labels.
    fn letter(self) -> char {
        match self {
            BackupType::Full => 'F',
            BackupType::Diff => 'D',
            BackupType::Incr => 'I',
        }
    }
}

impl fmt::Display for BackupType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            BackupType::Full => "full",
            BackupType::Diff => "diff",
            BackupType::Incr => "incr",
        })
    }
}

/// A backup's label, such as `20261121-220130F`: UTC, and a letter for its type: `F` for a full
/// backup, `D` for a differential one, `I` for an incremental one.
///
/// Labels sort by the time at which their backups began.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackupLabel(String);

impl BackupLabel {
    /// The label of a full backup that began at this moment.
    pub fn full(started: Timestamp) -> Self {
        Self::new(BackupType::Full, started)
    }

    /// The label of a backup that began at this moment.
    pub fn new(backup_type: BackupType, started: Timestamp) -> Self {
        let time = started.to_zoned(TimeZone::UTC).strftime(TIME_FORMAT);
        Self(format!("{time}{}", backup_type.letter()))
    }

    /// The labels of the same second that backups of other types would have.
    pub(crate) fn siblings(&self) -> impl Iterator<Item = BackupLabel> {
        let time = self.0.get(..TIME_CHARS).unwrap_or_default();
        let own = self.backup_type();
        let others = BackupType::ALL.iter().filter(move |of| **of != own);
        others.map(move |of| Self(format!("{time}{}", of.letter())))
    }

    /// The type that its letter stands for.
    pub fn backup_type(&self) -> BackupType {
        let is_of = |of: &&BackupType| self.0.ends_with(of.letter());
        let found = BackupType::ALL.iter().find(is_of);
        found.copied().unwrap_or(BackupType::Full)
    }

    /// The second that it names.
    pub fn time(&self) -> Timestamp {
        let time = self.0.get(..TIME_CHARS).unwrap_or_default();
        let time = DateTime::strptime(TIME_FORMAT, time).ok();
        let time = time.and_then(|time| time.to_zoned(TimeZone::UTC).ok());
        // Every label was read or made of one.
        time.map_or(Timestamp::MIN, |time| time.timestamp())
    }

    /// Whether its second is that of this moment, or earlier.
    pub fn began_by(&self, moment: Timestamp) -> bool {
        let other = Self::full(moment);
        self.0.get(..TIME_CHARS) <= other.0.get(..TIME_CHARS)
    }

    /// The label as it stands in keys.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BackupLabel {
    type Err = RepoError;

    fn from_str(text: &str) -> Result<Self, RepoError> {
        let is_label = text.len() == TIME_CHARS + 1
            && BackupType::ALL.iter().any(|of| text.ends_with(of.letter()))
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
