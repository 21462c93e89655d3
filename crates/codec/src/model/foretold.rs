//! Page images that follow from earlier WAL: each page is replayed, and what an image differs from
//! is coded.

mod assembly;
mod forms;
mod history;
mod images;
mod rests;

pub use history::{History, is_leaf_insertion};
pub use images::ForetoldImages;
