//! How much would it save, at what speed, and what should one choose?
//!
//! An experiment runs real programs on real write-ahead log, as whole processes, and compares
//! what the round trip gives back with the original in each single measurement. See README.md
//! for the model and for what makes a comparison honest.
//!
//! The library neither prints nor reads the environment nor exits: options come in,
//! [`wal::Results`] go out, and a [`Progress`] hears what happens in between.

pub mod activity;
pub mod advise;
pub mod archive;
pub mod basebackup;
mod cancel;
mod clock;
pub mod contender;
pub mod contents;
mod ending;
mod error;
pub mod generate;
pub mod index;
mod input;
pub mod insert;
pub mod launcher;
pub mod new_file;
mod output;
mod package;
pub mod packs;
mod process;
mod progress;
mod provenance;
mod random;
mod record_facts;
pub mod report;
mod resume;
mod sample;
mod scratch;
pub mod segments;
pub mod server;
mod spread;
mod table;
mod text;
mod usage;
pub mod verdict;
pub mod wal;
pub mod wal_compression;
pub mod workload;

pub use cancel::Cancel;
pub use error::Error;
pub use input::Input;
pub use output::{Files, Ours};
pub use progress::{Progress, Silent, Step};
pub use provenance::{Program, Provenance};
pub use resume::Resumed;
pub use sample::{Sample, Sampled};
pub use scratch::Scratch;
pub use table::write_table;
pub use usage::{Counts, Usage};
