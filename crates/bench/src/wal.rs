//! Which program and level is best for archived segments?
//!
//! Each measurement compresses one segment with one program at one level, decompresses the
//! result, and compares: a figure exists only when the round trip gave back every byte. The
//! runs are interleaved (each run visits every segment with every contender, in another order
//! than the round before), so that a slow minute of the machine, or a program that leaves it
//! slow, hits all alike.

mod as_published;
mod csv;
mod dominance;
mod dominance_text;
#[cfg(test)]
pub(crate) mod fixture;
mod options;
mod paired_runs;
mod published;
mod report;
mod results;
mod resume;
mod round_trip;
mod run;
mod schedule;
mod summary;
mod text;

pub use as_published::{AsPublished, PublishedHere};
pub use dominance::{Answer, Dominance, Level, Verdict};
pub use options::Options;
pub use published::{PUBLISHED, Published, SOURCE, TIMED_EXAMPLE, TimedExample};
pub use results::{
    Failed, Figures, FolderFigures, Measurement, Missing, Results, Row, Settings, Summary,
};
pub use run::run;
