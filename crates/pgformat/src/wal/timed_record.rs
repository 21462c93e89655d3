//! Records that tell the time: where a recovery can end, and where a timeline begins.
//!
//! ```text
//! commit, abort       time i64 [, flags u32, then by flag: database, tablespace: u32 each;
//!                     subtransactions: count u32, u32 each; files: count u32, 12 bytes each;
//!                     dropped statistics: count u32, 12 or 16 bytes each;
//!                     invalidations: count u32, 16 bytes each; prepared transaction u32]
//! prepare             magic u32, length u32, transaction u32, database u32, time i64, ...
//! restore point       time i64, name 64 bytes, ended by a zero
//! end of recovery     time i64, timeline u32, previous timeline u32
//! checkpoint          redo u64, timeline u32, previous timeline u32, 48 bytes, time i64
//! ```
//! (access/xact.h, access/xlog_internal.h, catalog/pg_control.h; 13 to 18. Times are in
//! microseconds since 2000-01-01, but for a checkpoint's, which is in seconds since 1970.)

use super::record::RecordLayout;
use crate::bytes::{read_u32, read_u64};
use crate::rmgr_id;
use crate::units::TimelineId;

/// Seconds from 1970-01-01 to PostgreSQL's epoch, 2000-01-01.
const POSTGRES_EPOCH_UNIX_S: i64 = 946_684_800;
const MICROS: i64 = 1_000_000;

const XACT_TYPE_MASK: u8 = 0x70;
const COMMIT: u8 = 0x00;
const PREPARE: u8 = 0x10;
const ABORT: u8 = 0x20;
const COMMIT_PREPARED: u8 = 0x30;
const ABORT_PREPARED: u8 = 0x40;
/// Flags follow the time (`XLOG_XACT_HAS_INFO`).
const HAS_FLAGS: u8 = 0x80;

const XLOG_TYPE_MASK: u8 = 0xF0;
const CHECKPOINT_SHUTDOWN: u8 = 0x00;
const CHECKPOINT_ONLINE: u8 = 0x10;
const RESTORE_POINT: u8 = 0x70;
const END_OF_RECOVERY: u8 = 0x90;

/// Where the time of a prepared transaction stands, in 13 to 18.
const PREPARE_TIME: usize = 16;
/// Where the time of a checkpoint stands, in 13 to 18.
const CHECKPOINT_TIME: usize = 64;
/// The last major whose checkpoints are known to be laid out so.
const CHECKPOINT_MAJOR_MAX: u32 = 18;
/// Bytes of a restore point's name (`MAXFNAMELEN`).
const NAME_LEN: usize = 64;

/// A moment in microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixMicros(pub i64);

/// What a record with a time in it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimedRecord {
    /// A transaction ended: `recovery_target_xid` and `recovery_target_time` stop at these.
    TransactionEnd {
        /// The transaction; its top-level number where it has subtransactions.
        xid: u32,
        /// Whether it was committed.
        committed: bool,
        /// When.
        time: UnixMicros,
    },
    /// A transaction was prepared (`PREPARE TRANSACTION`): it outlives the server, and has not ended yet.
    Prepared {
        /// When.
        time: UnixMicros,
    },
    /// `pg_create_restore_point` was called.
    RestorePoint {
        /// The name, without its end.
        name: Vec<u8>,
        /// When.
        time: UnixMicros,
    },
    /// A checkpoint, or the end of a recovery: the records with which a timeline may begin.
    Checkpoint {
        /// The timeline that the record is on.
        timeline: TimelineId,
        /// The timeline of before, equal unless the record begins a timeline.
        previous_timeline: TimelineId,
        /// When, if this major's record is known.
        time: Option<UnixMicros>,
    },
}

impl TimedRecord {
    /// What a record says; nothing for a record without a time.
    ///
    /// `record` are the bytes that `layout` was read from.
    pub fn read(record: &[u8], layout: &RecordLayout, major: u32) -> Option<TimedRecord> {
        let end = layout.main_start.checked_add(layout.main_len)?;
        let main = record.get(layout.main_start..end)?;
        let info = layout.header.info;
        match layout.header.rmid {
            rmgr_id::XACT if info & XACT_TYPE_MASK == PREPARE => Some(TimedRecord::Prepared {
                time: time(main, PREPARE_TIME)?,
            }),
            rmgr_id::XACT => transaction_end(main, info, layout.header.xid, major),
            rmgr_id::XLOG => match info & XLOG_TYPE_MASK {
                RESTORE_POINT => restore_point(main),
                END_OF_RECOVERY => Some(TimedRecord::Checkpoint {
                    timeline: TimelineId(read_u32(main, 8)?),
                    previous_timeline: TimelineId(read_u32(main, 12)?),
                    time: Some(time(main, 0)?),
                }),
                CHECKPOINT_SHUTDOWN | CHECKPOINT_ONLINE => checkpoint(main, major),
                _ => None,
            },
            _ => None,
        }
    }

    /// When it was written.
    pub fn time(&self) -> Option<UnixMicros> {
        match self {
            TimedRecord::TransactionEnd { time, .. }
            | TimedRecord::Prepared { time }
            | TimedRecord::RestorePoint { time, .. } => Some(*time),
            TimedRecord::Checkpoint { time, .. } => *time,
        }
    }
}

fn transaction_end(main: &[u8], info: u8, xid: u32, major: u32) -> Option<TimedRecord> {
    let kind = info & XACT_TYPE_MASK;
    let committed = match kind {
        COMMIT | COMMIT_PREPARED => true,
        ABORT | ABORT_PREPARED => false,
        _ => return None,
    };
    // The record of a prepared transaction's end is written by another one.
    let xid = match kind {
        COMMIT_PREPARED | ABORT_PREPARED => prepared_xid(main, info, major).unwrap_or(xid),
        _ => xid,
    };
    Some(TimedRecord::TransactionEnd {
        xid,
        committed,
        time: time(main, 0)?,
    })
}

/// The number of a prepared transaction, after everything that its flags announce; nothing where the record does not
/// have it.
pub(super) fn prepared_xid(main: &[u8], info: u8, major: u32) -> Option<u32> {
    const HAS_DATABASE: u32 = 1;
    const HAS_PREPARED: u32 = 1 << 4;
    // Flag, and bytes of each item, in the order in which they stand.
    let dropped_statistics_len = if major >= 18 { 16 } else { 12 };
    let lists = [
        (1 << 1, 4),
        (1 << 2, 12),
        (1 << 8, dropped_statistics_len),
        (1 << 3, 16),
    ];
    if info & HAS_FLAGS == 0 {
        return None;
    }
    let flags = read_u32(main, 8)?;
    let mut at = 12_usize;
    if flags & HAS_DATABASE != 0 {
        at += 8;
    }
    for (flag, item_len) in lists {
        if flags & flag != 0 {
            let count = read_u32(main, at)? as usize;
            at = count.checked_mul(item_len)?.checked_add(at + 4)?;
        }
    }
    (flags & HAS_PREPARED != 0)
        .then(|| read_u32(main, at))
        .flatten()
}

fn restore_point(main: &[u8]) -> Option<TimedRecord> {
    let name = main.get(8..8 + NAME_LEN)?;
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    Some(TimedRecord::RestorePoint {
        name: name.to_vec(),
        time: time(main, 0)?,
    })
}

fn checkpoint(main: &[u8], major: u32) -> Option<TimedRecord> {
    let time = (major <= CHECKPOINT_MAJOR_MAX)
        .then(|| read_u64(main, CHECKPOINT_TIME))
        .flatten()
        .and_then(|seconds| seconds.cast_signed().checked_mul(MICROS))
        .map(UnixMicros);
    Some(TimedRecord::Checkpoint {
        timeline: TimelineId(read_u32(main, 8)?),
        previous_timeline: TimelineId(read_u32(main, 12)?),
        time,
    })
}

/// A `TimestampTz`.
fn time(main: &[u8], at: usize) -> Option<UnixMicros> {
    let micros = read_u64(main, at)?.cast_signed();
    micros
        .checked_add(POSTGRES_EPOCH_UNIX_S * MICROS)
        .map(UnixMicros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::RecordHeader;

    /// A record of nothing but its main data.
    fn read(rmid: u8, info: u8, main: &[u8], major: u32) -> Option<TimedRecord> {
        let layout = RecordLayout {
            header: RecordHeader {
                xid: 7,
                info,
                rmid,
                ..RecordHeader::default()
            },
            main_start: 0,
            main_len: main.len(),
            ..RecordLayout::default()
        };
        TimedRecord::read(main, &layout, major)
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn reads_the_time_of_a_commit_since_1970() {
        let main = 1_000_000_u64.to_le_bytes();
        let expected = TimedRecord::TransactionEnd {
            xid: 7,
            committed: true,
            time: UnixMicros(946_684_801_000_000),
        };
        assert_eq!(read(rmgr_id::XACT, COMMIT, &main, 15), Some(expected));
        assert_eq!(read(rmgr_id::XACT, COMMIT, &main[1..], 15), None);
    }

    #[test]
    fn reads_the_time_of_a_prepared_transaction() {
        let mut main = words(&[0x57F9_4534, 200, 7, 5]);
        main.extend(1_000_000_u64.to_le_bytes());
        let expected = TimedRecord::Prepared {
            time: UnixMicros(946_684_801_000_000),
        };
        assert_eq!(read(rmgr_id::XACT, PREPARE, &main, 15), Some(expected));
        assert_eq!(read(rmgr_id::XACT, PREPARE, &main[1..], 15), None);
    }

    #[test]
    fn finds_a_prepared_transaction_behind_every_list() {
        for (major, item_words) in [(17, 3), (18, 4)] {
            let mut main = words(&[0, 0, 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x100]);
            main.extend(words(&[11, 12]));
            for item_len in [1, 3, item_words, 4] {
                main.extend(words(&[2]));
                main.extend(words(&vec![99; 2 * item_len]));
            }
            main.extend(words(&[4711]));
            let info = COMMIT_PREPARED | HAS_FLAGS;
            let read = read(rmgr_id::XACT, info, &main, major);
            assert!(
                matches!(read, Some(TimedRecord::TransactionEnd { xid: 4711, .. })),
                "{major}: {read:?}"
            );
        }
    }

    #[test]
    fn does_not_believe_a_count() {
        let main = words(&[0, 0, 0x12, u32::MAX, 1]);
        let read = read(rmgr_id::XACT, ABORT_PREPARED | HAS_FLAGS, &main, 15);
        assert!(matches!(
            read,
            Some(TimedRecord::TransactionEnd { xid: 7, .. })
        ));
    }

    #[test]
    fn reads_a_checkpoint_that_begins_a_timeline() {
        let mut main = words(&[0, 0, 2, 1]);
        main.resize(CHECKPOINT_TIME, 0);
        main.extend(5_u64.to_le_bytes());
        main.resize(88, 0);
        let expected = |time| TimedRecord::Checkpoint {
            timeline: TimelineId(2),
            previous_timeline: TimelineId(1),
            time,
        };
        let read = |major| read(rmgr_id::XLOG, CHECKPOINT_SHUTDOWN, &main, major);
        assert_eq!(read(18), Some(expected(Some(UnixMicros(5_000_000)))));
        assert_eq!(read(19), Some(expected(None)));
    }
}
