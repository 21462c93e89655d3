//! Whether archived WAL is of the server at hand.
//!
//! A copy of a server has its system identifier, and may archive under the names that the original
//! comes to. That a segment is there says nothing then: its records do.

use jiff::{SignedDuration, Timestamp};
use walzip_pgformat::backup_label::{BackupLabel as BackupLabelFile, BackupSource};
use walzip_pgformat::control_file::ControlFile;
use walzip_pgformat::wal::{BackupMark, ReadRecord, Records, TimedRecord};
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::Repository;

use crate::archived::wal_times::{read_segment, timestamp};
use crate::backups::backup_record::BackupRecord;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;

/// No record that is looked for is longer, with the page headers in it.
const RECORD_BYTES_MAX: u64 = 512;

/// In how many segments the end of the last transaction is looked for.
const REPLAYED_SEGMENTS: usize = 2;

/// A place in the WAL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) timeline: TimelineId,
    pub(crate) segment_size_bytes: u32,
}

impl Place {
    /// The segment of the last byte before a position.
    pub(crate) fn segment_before(self, end: Lsn) -> Result<SegmentName, ArchiveError> {
        let last = Lsn(end.0.saturating_sub(1));
        Ok(SegmentName::from_lsn(
            self.timeline,
            last,
            self.segment_size_bytes,
        )?)
    }

    /// The segments of a short record, of which one byte is at this position.
    fn around(self, begin: Lsn, end: Lsn) -> Result<Vec<SegmentName>, ArchiveError> {
        let (of, size) = (self.timeline, self.segment_size_bytes);
        let first = SegmentName::from_lsn(of, begin, size)?;
        let last = SegmentName::from_lsn(of, end, size)?;
        Ok(match first == last {
            true => vec![first],
            false => vec![first, last],
        })
    }
}

/// How far a standby had replayed, and when the last transaction in that had ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replayed {
    pub(crate) lsn: Lsn,
    pub(crate) last_end: Timestamp,
}

/// A restore point that this server has written, which ends at `end`, is in the archived WAL.
pub(crate) async fn check_restore_point(
    repository: &Repository,
    place: Place,
    (name, end): (&str, Lsn),
) -> Result<(), ArchiveError> {
    let last = Lsn(end.0.saturating_sub(1));
    let segments = place.around(Lsn(last.0.saturating_sub(RECORD_BYTES_MAX)), last)?;
    let wanted = name.as_bytes().to_vec();
    let is_there = has(repository, &segments, move |record| {
        let major = record.version.major;
        let read = TimedRecord::read(record.bytes, record.layout, major);
        matches!(read, Some(TimedRecord::RestorePoint { name, .. }) if name == wanted)
    });
    let lacks = || format!("the restore point that it wrote up to {end}");
    foreign_unless(is_there.await?, &segments, lacks)
}

/// The archived WAL has the records with which a backup began and, if it is a primary's, ended.
pub(crate) async fn check_backup(
    repository: &Repository,
    record: &BackupRecord,
    (label, control_file, replayed): (&BackupLabelFile, &ControlFile, &[Replayed]),
) -> Result<(), ArchiveError> {
    let (start, stop) = (record.start, record.stop);
    let place = |timeline| Place {
        timeline,
        segment_size_bytes: record.segment_size_bytes,
    };
    let checkpoint = label.checkpoint;
    // On a standby, the record may be on a later timeline than the start.
    let required = record.required_segments()?;
    let mut begins_in = place(start.timeline).around(
        checkpoint,
        Lsn(checkpoint.0.saturating_add(RECORD_BYTES_MAX)),
    )?;
    begins_in.retain(|segment| required.contains(segment));
    let last = Lsn(stop.lsn.0.saturating_sub(1));
    let end_from = Lsn(last.0.saturating_sub(RECORD_BYTES_MAX)).max(start.lsn);
    let ends_in = place(stop.timeline).around(end_from, last)?;
    let mark = move |record: &ReadRecord<'_>| match BackupMark::read(record.bytes, record.layout)? {
        BackupMark::Checkpoint { redo } => {
            (record.lsn == checkpoint && redo == start.lsn).then_some(Mark::Begin)
        }
        BackupMark::End { start: of } => {
            (record.lsn >= end_from && of == start.lsn).then_some(Mark::End)
        }
    };
    let mut found = collect(repository, &begins_in, mark).await?;
    if !begins_in.is_empty() {
        let lacks = || format!("the checkpoint at {checkpoint} with which the backup began");
        foreign_unless(found.contains(&Mark::Begin), &begins_in, lacks)?;
    }
    if label.from == BackupSource::Standby {
        for &replayed in replayed {
            check_replayed(repository, place(stop.timeline), &required, replayed).await?;
        }
        return Ok(());
    }
    check_latest_checkpoint(repository, place(stop.timeline), control_file).await?;
    // Of a short backup it is the same segment, which is decoded once.
    if ends_in != begins_in {
        found = collect(repository, &ends_in, mark).await?;
    }
    let lacks = || format!("the end of the backup at {}", stop.lsn);
    foreign_unless(found.contains(&Mark::End), &ends_in, lacks)
}

/// The latest checkpoint of a primary's control file is in the archived WAL, of the same second: what another
/// server has archived, or this one before it was set back, may have a checkpoint at the same position.
async fn check_latest_checkpoint(
    repository: &Repository,
    place: Place,
    control_file: &ControlFile,
) -> Result<(), ArchiveError> {
    let (at, redo) = (control_file.checkpoint, control_file.redo);
    let segments = place.around(at, Lsn(at.0.saturating_add(RECORD_BYTES_MAX)))?;
    let written = control_file.checkpoint_time_unix_s;
    let is_there = has(repository, &segments, move |record| {
        let mark = BackupMark::read(record.bytes, record.layout);
        let read = TimedRecord::read(record.bytes, record.layout, record.version.major);
        // Of a major whose record is not known there is no time.
        let time = read.and_then(|read| read.time());
        let is_same = time.is_none_or(|time| time.0.div_euclid(1_000_000) == written);
        record.lsn == at && mark == Some(BackupMark::Checkpoint { redo }) && is_same
    });
    let lacks = || format!("the checkpoint at {at} that the server's control file has");
    foreign_unless(is_there.await?, &segments, lacks)
}

/// A record that only this backup has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Its checkpoint.
    Begin,
    /// Its end.
    End,
}

/// A standby writes nothing by which its WAL could be told. The last transaction whose end it has
/// replayed is in the archived WAL up to there, if the end of any is.
async fn check_replayed(
    repository: &Repository,
    place: Place,
    required: &[SegmentName],
    Replayed { lsn, last_end }: Replayed,
) -> Result<(), ArchiveError> {
    let last = place.segment_before(lsn)?;
    let Some(at) = required.iter().position(|segment| *segment == last) else {
        return Ok(());
    };
    let segments = &required[at.saturating_sub(REPLAYED_SEGMENTS - 1)..=at];
    let ends = collect(repository, segments, |record| {
        let major = record.version.major;
        match TimedRecord::read(record.bytes, record.layout, major)? {
            TimedRecord::TransactionEnd { time, .. } => Some((record.lsn, timestamp(time)?)),
            _ => None,
        }
    });
    let ends = ends.await?;
    let has_any = ends.iter().any(|(at, _)| *at < lsn);
    let is_last =
        |end: Timestamp| end.duration_since(last_end).abs() <= SignedDuration::from_micros(1);
    let has_last = ends.iter().any(|(_, end)| is_last(*end));
    let lacks = || format!("the transaction that this standby replayed last, of {last_end}");
    foreign_unless(has_last || !has_any, segments, lacks)
}

/// Whether a record of archived segments is wanted.
async fn has(
    repository: &Repository,
    segments: &[SegmentName],
    is_wanted: impl Fn(&ReadRecord<'_>) -> bool + Send + 'static,
) -> Result<bool, ArchiveError> {
    let found = collect(repository, segments, move |record| {
        is_wanted(record).then_some(())
    });
    Ok(!found.await?.is_empty())
}

/// What is wanted of the records of archived segments. What cannot be read has none.
async fn collect<T: Send + 'static>(
    repository: &Repository,
    segments: &[SegmentName],
    wanted: impl Fn(&ReadRecord<'_>) -> Option<T> + Send + 'static,
) -> Result<Vec<T>, ArchiveError> {
    let mut reading = (Records::default(), Vec::new(), wanted);
    for &segment in segments {
        // The one before the first that was ever archived is not there.
        if repository.find_wal(&segment.to_string()).await?.is_none() {
            continue;
        }
        // One at a time: each may have a gigabyte.
        let content = read_segment(repository, segment).await?;
        reading = off_the_runtime(move || {
            let (mut records, mut found, wanted) = reading;
            let _ = records.read(&content, |record| found.extend(wanted(&record)));
            (records, found, wanted)
        })
        .await;
    }
    Ok(reading.1)
}

fn foreign_unless(
    is_there: bool,
    segments: &[SegmentName],
    lacks: impl FnOnce() -> String,
) -> Result<(), ArchiveError> {
    match (is_there, segments.last()) {
        (false, Some(segment)) => Err(ArchiveError::ForeignWal {
            segment: segment.to_string(),
            lacks: lacks(),
        }),
        _ => Ok(()),
    }
}
