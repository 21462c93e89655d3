//! Page images and whole pages, and what stands on them.

mod alike;
pub mod chunk_pages;
pub mod difference;
mod difference_copies;
pub mod image;
mod item_order;
mod items;
pub mod known_relations;
mod page;
pub mod recreation;
mod stale;
mod stale_copies;
