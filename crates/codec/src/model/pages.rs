//! Pages of relations, and the images of them that records carry.

pub mod image;
mod item_order;
mod items;
mod page;
