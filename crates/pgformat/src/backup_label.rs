//! Backup labels: the text that says where a base backup begins, and where it ends.
//!
//! A server writes it twice. `backup_label` lies in the backup itself and is where recovery
//! starts; the backup history file (`….backup`) goes into the archive when the backup has
//! ended and has the end as well. Both are lines of `KEY: value` in a fixed order
//! (`build_backup_content` in access/transam/xlogbackup.c; 13 and 14 write the same text),
//! and are read in that order: a label text with line feeds in it, which a server
//! accepts, must not be taken for other lines.

use std::fmt;
use std::str::FromStr;

use crate::units::{Lsn, TimelineId};
use crate::wal_file_name::SegmentName;

/// Where a base backup begins: the content of `backup_label`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupLabel {
    /// The position from which on the backup needs WAL.
    pub start: Lsn,
    /// The segment that holds this position.
    pub start_file: SegmentName,
    /// The position of the checkpoint record with which the backup began.
    pub checkpoint: Lsn,
    /// How it was made: `streamed`, or up to 14 `pg_start_backup`.
    pub method: String,
    /// Which kind of server it was taken from.
    pub from: BackupSource,
    /// When it began, as the server printed it in its own time zone.
    pub start_time: String,
    /// The name that its maker gave it.
    pub label: String,
    /// The timeline on which it began.
    pub start_timeline: TimelineId,
    /// For an incremental backup (from 17): the start of the backup on which it is based.
    pub incremental_from: Option<IncrementalFrom>,
}

/// The kind of server that a backup was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupSource {
    /// A server that accepts writes.
    Primary,
    /// A server in recovery.
    Standby,
}

/// The start of the backup that an incremental one is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncrementalFrom {
    /// Its position.
    pub start: Lsn,
    /// Its timeline.
    pub timeline: TimelineId,
}

/// Where a base backup begins and ends: the content of a backup history file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupHistory {
    /// What `backup_label` says as well.
    pub label: BackupLabel,
    /// The position up to which the backup needs WAL.
    pub stop: Lsn,
    /// The segment that holds the byte before this position, or from 17 on the position
    /// itself, so that from 17 on it may be a segment which the backup does not need.
    pub stop_file: SegmentName,
    /// When it ended, as the server printed it.
    pub stop_time: String,
    /// The timeline on which it ended.
    pub stop_timeline: TimelineId,
}

/// Why the text is no backup label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupLabelError {
    /// The line is absent, or not where it belongs.
    #[error("the backup label has no line \"{0}\" where it belongs")]
    Missing(&'static str),
    /// The value on the line is not of its form.
    #[error("the backup label's {key} is not valid: \"{value}\"")]
    Invalid {
        /// The line's key.
        key: &'static str,
        /// What stands there.
        value: String,
    },
    /// The timeline of the start's file and that of the start differ.
    #[error("the backup label names timeline {line} and a WAL file on timeline {file}")]
    Timeline {
        /// The timeline on its own line.
        line: TimelineId,
        /// The timeline in the WAL file's name.
        file: TimelineId,
    },
    /// Text follows the last line.
    #[error("the backup label goes on after its last line: \"{0}\"")]
    TrailingText(String),
}

const START: &str = "START WAL LOCATION";
const STOP: &str = "STOP WAL LOCATION";
const CHECKPOINT: &str = "CHECKPOINT LOCATION";
const METHOD: &str = "BACKUP METHOD";
const FROM: &str = "BACKUP FROM";
const START_TIME: &str = "START TIME";
const LABEL: &str = "LABEL";
const START_TIMELINE: &str = "START TIMELINE";
const STOP_TIME: &str = "STOP TIME";
const STOP_TIMELINE: &str = "STOP TIMELINE";
const INCREMENTAL_LSN: &str = "INCREMENTAL FROM LSN";
const INCREMENTAL_TLI: &str = "INCREMENTAL FROM TLI";

impl BackupLabel {
    /// Reads the content of `backup_label`.
    pub fn read(content: &[u8]) -> Result<Self, BackupLabelError> {
        let (label, stop) = read_lines(content, false)?;
        debug_assert!(stop.is_none());
        Ok(label)
    }
}

impl BackupHistory {
    /// Reads the content of a backup history file.
    pub fn read(content: &[u8]) -> Result<Self, BackupLabelError> {
        let (label, stop) = read_lines(content, true)?;
        let Stop {
            location: (stop, stop_file),
            time,
            timeline,
        } = stop.ok_or(BackupLabelError::Missing(STOP))?;
        Ok(Self {
            label,
            stop,
            stop_file,
            stop_time: time,
            stop_timeline: timeline,
        })
    }
}

/// What only a backup history file has.
struct Stop {
    location: (Lsn, SegmentName),
    time: String,
    timeline: TimelineId,
}

fn read_lines(
    content: &[u8],
    is_history: bool,
) -> Result<(BackupLabel, Option<Stop>), BackupLabelError> {
    // The label may be in any server encoding; every other line is ASCII.
    let text = String::from_utf8_lossy(content);
    let mut lines = Lines { rest: &text };
    let (start, start_file) = lines.location(START)?;
    let stop_location = if is_history {
        Some(lines.location(STOP)?)
    } else {
        None
    };
    let checkpoint = lines.parse(CHECKPOINT)?;
    let method = lines.take(METHOD)?.to_owned();
    let from = lines.parse(FROM)?;
    let start_time = lines.take(START_TIME)?.to_owned();
    let label = lines.take_up_to(LABEL, START_TIMELINE)?.to_owned();
    let start_timeline = lines.timeline(START_TIMELINE)?;
    let stop = match stop_location {
        Some(location) => Some(Stop {
            location,
            time: lines.take(STOP_TIME)?.to_owned(),
            timeline: lines.timeline(STOP_TIMELINE)?,
        }),
        None => None,
    };
    let incremental_from = if lines.has(INCREMENTAL_LSN) {
        let start = lines.parse(INCREMENTAL_LSN)?;
        Some(IncrementalFrom {
            start,
            timeline: lines.timeline(INCREMENTAL_TLI)?,
        })
    } else {
        None
    };
    lines.end()?;
    if start_timeline != start_file.timeline {
        return Err(BackupLabelError::Timeline {
            line: start_timeline,
            file: start_file.timeline,
        });
    }
    let label = BackupLabel {
        start,
        start_file,
        checkpoint,
        method,
        from,
        start_time,
        label,
        start_timeline,
        incremental_from,
    };
    Ok((label, stop))
}

/// The lines that were not read yet.
struct Lines<'a> {
    rest: &'a str,
}

impl<'a> Lines<'a> {
    fn value(&self, key: &str) -> Option<&'a str> {
        self.rest.strip_prefix(key)?.strip_prefix(": ")
    }

    fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// The value of the next line, which must have this key.
    fn take(&mut self, key: &'static str) -> Result<&'a str, BackupLabelError> {
        let value = self.value(key).ok_or(BackupLabelError::Missing(key))?;
        let (value, rest) = value.split_once('\n').unwrap_or((value, ""));
        self.rest = rest;
        Ok(value.strip_suffix('\r').unwrap_or(value))
    }

    /// The value of the next line and of all that follow up to the line with the key `end`.
    fn take_up_to(
        &mut self,
        key: &'static str,
        end: &'static str,
    ) -> Result<&'a str, BackupLabelError> {
        let value = self.value(key).ok_or(BackupLabelError::Missing(key))?;
        // The last such line: what a label imitates comes before the real one.
        let (index, _) = value
            .rmatch_indices(end)
            .find(|(index, _)| {
                let (before, line) = value.split_at(*index);
                before.ends_with('\n') && Lines { rest: line }.has(end)
            })
            .ok_or(BackupLabelError::Missing(end))?;
        let (value, rest) = value.split_at(index);
        self.rest = rest;
        let value = value.strip_suffix('\n').unwrap_or(value);
        Ok(value.strip_suffix('\r').unwrap_or(value))
    }

    fn parse<T: FromStr>(&mut self, key: &'static str) -> Result<T, BackupLabelError> {
        let value = self.take(key)?;
        value.parse().map_err(|_| invalid(key, value))
    }

    fn timeline(&mut self, key: &'static str) -> Result<TimelineId, BackupLabelError> {
        let value = self.take(key)?;
        let digits_only = value.bytes().all(|byte| byte.is_ascii_digit());
        match value.parse() {
            Ok(timeline) if digits_only && timeline != 0 => Ok(TimelineId(timeline)),
            _ => Err(invalid(key, value)),
        }
    }

    /// `0/2000028 (file 000000010000000000000002)`.
    fn location(&mut self, key: &'static str) -> Result<(Lsn, SegmentName), BackupLabelError> {
        let value = self.take(key)?;
        let parsed = || {
            let (lsn, file) = value.split_once(" (file ")?;
            let name = file.strip_suffix(')')?;
            Some((lsn.parse().ok()?, name.parse().ok()?))
        };
        parsed().ok_or_else(|| invalid(key, value))
    }

    fn end(&self) -> Result<(), BackupLabelError> {
        match self.rest.trim() {
            "" => Ok(()),
            text => Err(BackupLabelError::TrailingText(text.to_owned())),
        }
    }
}

fn invalid(key: &'static str, value: &str) -> BackupLabelError {
    BackupLabelError::Invalid {
        key,
        value: value.to_owned(),
    }
}

impl FromStr for BackupSource {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            // 13 still says "master".
            "primary" | "master" => Ok(Self::Primary),
            "standby" => Ok(Self::Standby),
            _ => Err(()),
        }
    }
}

impl fmt::Display for BackupSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Primary => "primary",
            Self::Standby => "standby",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PostgreSQL 15 wrote.
    const LABEL_FILE: &str = "START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\n\
        CHECKPOINT LOCATION: 0/2000060\n\
        BACKUP METHOD: streamed\n\
        BACKUP FROM: primary\n\
        START TIME: 2026-11-21 22:13:46 UTC\n\
        LABEL: pg_basebackup base backup\n\
        START TIMELINE: 1\n";

    const HISTORY_FILE: &str = "START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\n\
        STOP WAL LOCATION: 0/2000100 (file 000000010000000000000002)\n\
        CHECKPOINT LOCATION: 0/2000060\n\
        BACKUP METHOD: streamed\n\
        BACKUP FROM: primary\n\
        START TIME: 2026-11-21 22:13:46 UTC\n\
        LABEL: pg_basebackup base backup\n\
        START TIMELINE: 1\n\
        STOP TIME: 2026-11-21 22:13:47 UTC\n\
        STOP TIMELINE: 1\n";

    fn label(text: &str) -> Result<BackupLabel, BackupLabelError> {
        BackupLabel::read(text.as_bytes())
    }

    #[test]
    fn reads_the_label_that_a_server_wrote() {
        let file = "000000010000000000000002"
            .parse()
            .expect("a segment's name");
        let expected = BackupLabel {
            start: Lsn(0x200_0028),
            start_file: file,
            checkpoint: Lsn(0x200_0060),
            method: "streamed".to_owned(),
            from: BackupSource::Primary,
            start_time: "2026-11-21 22:13:46 UTC".to_owned(),
            label: "pg_basebackup base backup".to_owned(),
            start_timeline: TimelineId(1),
            incremental_from: None,
        };
        assert_eq!(label(LABEL_FILE), Ok(expected.clone()));
        let history = BackupHistory::read(HISTORY_FILE.as_bytes());
        let stop = BackupHistory {
            label: expected,
            stop: Lsn(0x200_0100),
            stop_file: file,
            stop_time: "2026-11-21 22:13:47 UTC".to_owned(),
            stop_timeline: TimelineId(1),
        };
        assert_eq!(history, Ok(stop));
    }

    #[test]
    fn reads_what_other_majors_write() {
        let of_13 = LABEL_FILE.replace("FROM: primary", "FROM: master");
        assert_eq!(
            label(&of_13).map(|label| label.from),
            Ok(BackupSource::Primary)
        );
        let standby = LABEL_FILE.replace("FROM: primary", "FROM: standby");
        assert_eq!(
            label(&standby).map(|label| label.from),
            Ok(BackupSource::Standby)
        );
        let of_14 = LABEL_FILE.replace("streamed", "pg_start_backup");
        assert_eq!(
            label(&of_14).map(|label| label.method).as_deref(),
            Ok("pg_start_backup")
        );
        let of_19 = LABEL_FILE.replace("0/2000028", "0/02000028");
        assert_eq!(label(&of_19).map(|label| label.start), Ok(Lsn(0x200_0028)));
        let of_17 =
            format!("{LABEL_FILE}INCREMENTAL FROM LSN: 0/1000028\nINCREMENTAL FROM TLI: 1\n");
        assert_eq!(
            label(&of_17).map(|label| label.incremental_from),
            Ok(Some(IncrementalFrom {
                start: Lsn(0x100_0028),
                timeline: TimelineId(1)
            }))
        );
    }

    #[test]
    fn takes_no_line_out_of_the_name_that_a_person_chose() {
        let name = "x\nSTART TIMELINE: 7\n\nSTOP TIMELINE: 9";
        let text = LABEL_FILE.replace("pg_basebackup base backup", name);
        let read = label(&text).expect("a label");
        assert_eq!(
            (read.label.as_str(), read.start_timeline),
            (name, TimelineId(1))
        );
        let in_another_encoding = LABEL_FILE.replace("base backup", "#").into_bytes();
        let bytes: Vec<u8> = in_another_encoding
            .iter()
            .map(|b| if *b == b'#' { 0xE9 } else { *b })
            .collect();
        let read = BackupLabel::read(&bytes).expect("a label");
        assert_eq!(read.label, "pg_basebackup \u{FFFD}");
    }

    #[test]
    fn refuses_a_label_with_a_line_missing() {
        for key in [
            START,
            CHECKPOINT,
            METHOD,
            FROM,
            START_TIME,
            LABEL,
            START_TIMELINE,
        ] {
            let lines = LABEL_FILE
                .lines()
                .filter(|line| !line.starts_with(&format!("{key}:")));
            let text = lines.map(|line| format!("{line}\n")).collect::<String>();
            assert_eq!(label(&text), Err(BackupLabelError::Missing(key)));
        }
        assert_eq!(
            BackupHistory::read(LABEL_FILE.as_bytes()),
            Err(BackupLabelError::Missing(STOP))
        );
        assert_eq!(
            label(HISTORY_FILE),
            Err(BackupLabelError::Missing(CHECKPOINT))
        );
    }

    #[test]
    fn refuses_values_that_are_not_of_their_form() {
        for (right, wrong, key) in [
            ("0/2000028 (", "2000028 (", START),
            ("(file 0", "(file x", START),
            ("0/2000060", "0/", CHECKPOINT),
            ("primary", "nowhere", FROM),
            ("TIMELINE: 1", "TIMELINE: 0", START_TIMELINE),
            ("TIMELINE: 1", "TIMELINE: +1", START_TIMELINE),
            ("TIMELINE: 1", "TIMELINE: 4294967296", START_TIMELINE),
        ] {
            let error = label(&LABEL_FILE.replace(right, wrong)).expect_err(wrong);
            assert!(
                matches!(&error, BackupLabelError::Invalid { key: found, .. } if *found == key),
                "{error}"
            );
        }
    }

    #[test]
    fn refuses_a_start_file_on_another_timeline() {
        let text = LABEL_FILE.replace("TIMELINE: 1", "TIMELINE: 2");
        assert_eq!(
            label(&text),
            Err(BackupLabelError::Timeline {
                line: TimelineId(2),
                file: TimelineId(1)
            })
        );
    }

    #[test]
    fn refuses_text_after_the_last_line() {
        let text = format!("{LABEL_FILE}STOP TIMELINE: 1\n");
        assert_eq!(
            label(&text),
            Err(BackupLabelError::TrailingText(
                "STOP TIMELINE: 1".to_owned()
            ))
        );
    }
}
