//! Page images that follow from earlier WAL: each page is replayed, and what an image differs from
//! is coded.

mod assembly;
mod forms;
mod history;
mod images;

pub use history::History;
pub use images::ForetoldImages;
