//! Tables whose indexes are told from their rows.
//!
//! [`TableRows`] takes the rows out of the pages of a table, and [`Entries`] sorts them as an index
//! does. With these, [`ChunkEncoder::encode_index`](crate::chunk_encoder::ChunkEncoder::encode_index) encodes chunks
//! of the index and [`decode_index_chunk`](crate::decode_index_chunk) decodes them.

pub use crate::model::Attribute;
pub use crate::model::table::entries::Entries;
pub use crate::model::table::row_order::in_row_order;
pub use crate::model::table::rows::TableRows;
pub use crate::model::table::shape::{
    ALL_KEY_ATTRIBUTES_MAX, ATTRIBUTES_MAX, KEPT_MAX, KEY_ATTRIBUTES_MAX, KeyAttribute, KeyShape,
    Order, TableShape,
};
pub use crate::model::table::sort_key::SORT_KEY_LEN_MAX;
