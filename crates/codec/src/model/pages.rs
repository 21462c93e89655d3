//! Pages of relations: full-page images in records.

pub mod image;
mod item_order;
mod items;
mod page;
