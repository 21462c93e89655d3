//! What does `wal_compression` do?
//!
//! Each method gets a new server, which loads data and then runs transactions. What it writes
//! is read from its WAL, what it takes from the kernel; then programs compress some segments of
//! each step, as they would in `archive_command`. Several runs are interleaved, and each begins
//! with another method.
//!
//! Compression changes how much WAL there is and so how often the server makes a checkpoint,
//! and after each checkpoint there are more images. With a fixed number of checkpoints, the
//! methods are compared on the same images.

mod csv;
mod estimate;
mod options;
mod published;
mod report;
mod results;
mod resume;
mod run;
mod text;

pub use options::Options;
pub use published::{PUBLISHED, Published, READERS_ROWS};
pub use results::{Archived, Measurement, Results, Stage, Work};
pub use run::run;
