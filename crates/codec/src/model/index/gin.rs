//! GIN: entry tuples, posting lists, and the keys that it extracts from rows.

pub mod entry;
pub mod entry_fields;
pub mod extracted_tuples;
pub mod extraction;
pub mod page_entries;
mod posting_list;
