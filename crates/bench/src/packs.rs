//! What do packs of WAL save, and what do they take?
//!
//! Segments are archived one by one, as a server's are, and packed in packs of each length, in a
//! repository of its own each. Beside them stands what `zstd -3` makes of each segment. All segments of
//! each repository are decoded, and some are got by a call each and compared with the original.

mod csv;
mod measure;
mod options;
mod report;
mod results;
mod run;
mod text;

pub use options::Options;
pub use results::{Figures, Kept, Results, Row, Settings};
pub use run::run;
