//! GIN: entry tuples, posting lists, and the keys that it extracts from rows.

pub mod entry;
pub mod entry_fields;
pub mod extracted_key;
pub mod extracted_tuples;
mod extraction;
pub mod page_entries;
mod posting_list;
