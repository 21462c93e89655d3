//! What walzip knows of PostgreSQL: which bytes of a record follow from earlier ones, and which
//! streams take the rest.
//!
//! The encoder and the decoder run the same code and keep the same state. Only values that both
//! know change it.

mod foretold;
mod heap;
mod index;
mod pages;
mod records;
mod relations;
mod rows;
pub mod table;
mod values;

pub use foretold::{ForetoldImages, History};
pub use pages::chunk_pages::ChunkPages;
pub use pages::difference::BlockDifferences;
pub use pages::known_relations::KnownRelations;
pub use records::Model;
pub use values::attribute::Attribute;
