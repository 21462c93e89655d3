//! Records: their kinds, and the model that codes each part of a record.

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
