//! The numbers of the built-in resource managers (access/rmgrlist.h), the same in 13 to 19.

/// `RM_XLOG_ID`
pub const XLOG: u8 = 0;
/// `RM_XACT_ID`
pub const XACT: u8 = 1;
/// `RM_HEAP2_ID`
pub const HEAP2: u8 = 9;
/// `RM_HEAP_ID`
pub const HEAP: u8 = 10;
/// `RM_BTREE_ID`
pub const BTREE: u8 = 11;
/// `RM_GIN_ID`
pub const GIN: u8 = 13;
