//! What walzip knows of PostgreSQL: how each byte of a record follows from others, and which
//! streams take what does not follow.
//!
//! One state serves both directions and is changed only by what both know.

mod attribute;
mod attribute_guess;
mod attribute_inference;
mod attribute_price;
mod attribute_search;
mod block_data;
mod block_number;
mod column;
mod column_choice;
mod different;
mod extracted_key;
mod extracted_tuples;
mod extraction;
mod gin;
mod heap_body;
mod heap_tuple;
mod image;
mod index_tuple;
mod item_order;
mod json;
mod key_recipe;
mod kind;
mod main_data;
mod new_rows;
mod page;
mod page_items;
mod posting_list;
mod recency;
mod recent_rows;
mod record;
mod relation;
mod row_change;
mod row_copies;
mod row_versions;
mod rows_by_len;
mod scale;
mod tid_run;
mod word_choice;
mod words;
mod xid;

pub use record::Model;
