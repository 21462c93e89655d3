//! Streams: what a model puts into them, and takes out of them again, in the order of its calls.

pub mod bins;
pub mod coder;
pub mod directory;
pub mod filled;
pub mod kind;
pub mod laid_out;
pub mod layout;
mod layout_choice;
mod lists;
pub mod parts;
mod reader;
pub mod recency;
pub mod rows_by_len;
mod unpacking;
mod writer;

pub use reader::StreamReader;
pub use writer::StreamWriter;
