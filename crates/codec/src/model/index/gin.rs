//! GIN: entries and posting lists of its pages, and the keys that it takes out of rows.

pub mod entry;
pub mod extracted_key;
pub mod extracted_tuples;
mod extraction;
mod posting_list;
