//! Which compression is best for base backups?
//!
//! Each data set lives on a throw-away server, which is backed up with pg_basebackup by every
//! method and level in turn, loop by loop, into a counter; and by walzip, and pgBackRest where it is
//! installed, into a repository.

mod csv;
mod data_sets;
mod manifest;
mod measure;
mod measurement;
mod methods;
mod on_server;
mod options;
mod pgbackrest;
mod probe;
mod published;
mod ranks;
mod report;
mod restore;
mod results;
mod resume;
mod run;
mod text;

pub use data_sets::Source;
pub use manifest::{Downloaded, Rows, manifest};
pub use measurement::{DataSet, Failed, Measurement, Row};
pub use methods::Taker;
pub use options::Options;
pub use published::{PUBLISHED, PUBLISHED_SETS, PublishedBackup, PublishedSet, SOURCE};
pub use ranks::{Average, Ranks, Score};
pub use results::{Results, Settings};
pub use run::run;
