//! Records: what all of one kind have in common, and which model codes each part of one.

mod block_data;
mod heap_fields;
mod heap_rows;
mod kind;
mod main_data;
mod record;
mod record_type;
mod shape;
mod xid;

pub use record::Model;
