//! What does archiving take: a call for each segment, by walzip and by other archivers?
//!
//! A directory is laid out as a stopped server's, with given segments that wait to be archived. Each
//! archiver pushes them, gets them back one after the other, and gets them again with a pause between
//! the calls, in which a server would replay. Every file that is got is compared with the original.

mod archivers;
mod csv;
mod kind;
mod measure;
mod options;
mod place;
mod report;
mod results;
mod resume;
mod run;
mod text;

pub use archivers::{ARCHIVERS, Archiver};
pub use kind::Kind;
pub use options::{MakeRepository, Options};
pub(crate) use place::Place;
pub use place::Wal;
pub use results::{Action, Failed, Figures, Measurement, Missing, Results, Row, Settings};
pub(crate) use run::inputs;
pub use run::run;
