//! Does the segment size matter for archiving?
//!
//! The same number of bytes is archived as many small segments and as few large ones, in every
//! way that people use: a process for each segment, as archive_command starts it. Afterwards
//! every file is compared with what it was made from.

mod csv;
mod measure;
mod methods;
mod options;
mod published;
mod report;
mod results;
mod resume;
mod run;
mod sets;
mod sshd;
mod stores;
mod target;
mod text;

pub use methods::{Kind, METHODS, Method};
pub use options::{MakeRepository, Options};
pub use published::{PUBLISHED, Published, SOURCE, Timed};
pub use results::{Caches, Failed, Figures, Measurement, Results, Row, Settings};
pub use run::run;
pub use sets::{Content, Set};
pub use stores::Stores;
pub use target::Target;
