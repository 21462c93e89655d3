//! Page images and whole pages, and what stands on them.

pub mod chunk_pages;
pub mod image;
mod item_order;
mod items;
mod page;
mod stale;
mod stale_copies;
