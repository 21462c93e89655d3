//! What does `wal_compression` cost an insert?
//!
//! The insert benchmark, on a new server for each method: rows in the order of their key
//! (l.i0), three secondary indexes (l.x), further rows under all of them (l.i1); once with a
//! database that fits shared_buffers and once with one that does not; where it is asked for, a third
//! time with a server whose memory and page cache are limited to a part of the database. Several runs are
//! interleaved, and each begins with another method.

mod compared;
mod csv;
mod options;
mod published;
mod report;
mod results;
mod resume;
mod run;
mod text;

pub(crate) use options::BYTES_PER_ROW;
pub use options::{MemoryLimit, Options};
pub use published::{PROCESSOR_TIME_OF_PGLZ, PUBLISHED, Published, Relation, SOURCE};
pub use results::{Measurement, Memory, Results, Step, Work};
pub use run::run;
