//! What single records say that many ask for: checkpoints, and ends of transactions.

use walzip_pgformat::bytes::read_u64;
use walzip_pgformat::rmgr_id;
use walzip_pgformat::wal::RecordLayout;

/// `XLOG_XACT_OPMASK` and what it leaves of a commit and of an abort.
const XACT_OPERATION: u8 = 0x70;
const XACT_COMMIT: u8 = 0x00;
const XACT_ABORT: u8 = 0x20;
/// Of the resource manager XLOG.
const CHECKPOINT_SHUTDOWN: u8 = 0x00;
const CHECKPOINT_ONLINE: u8 = 0x10;
/// What the resource manager has of `xl_info`.
const RMGR_INFO: u8 = 0xF0;

/// Whether a record is of a kind.
pub(crate) fn is(layout: &RecordLayout, rmid: u8, info: u8) -> bool {
    layout.header.rmid == rmid && layout.header.info & RMGR_INFO == info
}

/// Whether it is the record of a checkpoint.
pub(crate) fn is_checkpoint(layout: &RecordLayout) -> bool {
    is(layout, rmgr_id::XLOG, CHECKPOINT_ONLINE) || is(layout, rmgr_id::XLOG, CHECKPOINT_SHUTDOWN)
}

/// Whether it ends a transaction.
pub(crate) fn is_end_of_transaction(layout: &RecordLayout) -> bool {
    let operation = layout.header.info & XACT_OPERATION;
    layout.header.rmid == rmgr_id::XACT && [XACT_COMMIT, XACT_ABORT].contains(&operation)
}

/// The first number of the main data: of a checkpoint its redo position, of a transaction's end its
/// time.
pub(crate) fn first_number(layout: &RecordLayout, record: &[u8]) -> Option<u64> {
    read_u64(record, layout.main_start)
}
