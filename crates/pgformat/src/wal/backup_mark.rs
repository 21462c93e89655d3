//! The records between which a base backup lies.
//!
//! ```text
//! checkpoint          redo u64, and more
//! end of a backup     the backup's start u64
//! ```
//! (catalog/pg_control.h, access/transam/xlog.c; 13 to 18)

use super::record::RecordLayout;
use crate::bytes::read_u64;
use crate::rmgr_id;
use crate::units::Lsn;

const XLOG_TYPE_MASK: u8 = 0xF0;
const CHECKPOINT_SHUTDOWN: u8 = 0x00;
const CHECKPOINT_ONLINE: u8 = 0x10;
const BACKUP_END: u8 = 0x50;

/// What such a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupMark {
    /// A checkpoint: a replay that begins with it begins at `redo`.
    Checkpoint {
        /// Where.
        redo: Lsn,
    },
    /// A backup of a primary ended.
    End {
        /// Where it began.
        start: Lsn,
    },
}

impl BackupMark {
    /// What a record says; nothing for any other record.
    ///
    /// `record` are the bytes that `layout` was read from.
    pub fn read(record: &[u8], layout: &RecordLayout) -> Option<BackupMark> {
        if layout.header.rmid != rmgr_id::XLOG {
            return None;
        }
        let end = layout.main_start.checked_add(layout.main_len)?;
        let main = record.get(layout.main_start..end)?;
        match layout.header.info & XLOG_TYPE_MASK {
            CHECKPOINT_SHUTDOWN | CHECKPOINT_ONLINE => Some(BackupMark::Checkpoint {
                redo: Lsn(read_u64(main, 0)?),
            }),
            BACKUP_END => Some(BackupMark::End {
                start: Lsn(read_u64(main, 0)?),
            }),
            _ => None,
        }
    }
}
