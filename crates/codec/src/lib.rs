//! How few bytes can carry a WAL segment, exactly and fast.

mod level;

pub use level::Level;
