//! Records: what all of one kind have in common, and which model codes each part of one.

pub mod block_data;
pub mod heap_rows;
pub mod kind;
pub mod main_data;
pub mod record;
pub mod xid;
