//! Where an object lives, and whether it is safe there.
//!
//! A repository keeps the archive of one database cluster, through its upgrades: its WAL, its
//! timeline histories and its base backups, as objects that are written once under names
//! that never change their meaning. The layout is specified in
//! `docs/format/repository.md`; this crate is the only code that knows it, and it
//! never looks inside an object.
//!
//! What a caller may rely on:
//!
//! * An object under its final name is complete. There is no moment, not even after
//!   a power cut, at which part of one can be read.
//! * A put that returned success is on stable storage, and so is every directory
//!   entry that leads to it.
//! * An object is never overwritten: puts create, or report that the name is taken.
//!
//! [`Repository`] works on any [`object_store::ObjectStore`]; [`open_store`] makes one
//! from a path or URL. [`LocalStore`] is the implementation for local disks; those for other hosts
//! are `object_store`'s behind HTTP, and one of ours over SFTP.

mod as_files;
mod backup;
pub mod browse;
mod claim;
mod cluster;
mod cluster_identity;
mod clusters;
mod copy;
pub mod encryption;
mod error;
mod interrupted;
mod json;
mod last_failure;
pub mod layout;
mod local;
mod location;
mod names;
mod open;
mod patient;
mod pin;
mod probe;
mod put_outcome;
mod remote;
mod removal;
mod repository;
mod set_aside;
mod sftp;
mod store_error;
mod store_settings;
#[cfg(feature = "testing")]
pub mod testing;
mod verified;
mod wal;
mod wal_mark;
mod wal_packs;

pub use backup::{BackupObject, BackupWriter, MAX_OBJECT_BYTES};
pub use cluster_identity::ClusterIdentity;
pub use clusters::Clusters;
pub use copy::{CopiedRepository, CopyRepositoryOptions, CopyStep, copy_repository};
pub use error::RepoError;
pub use interrupted::Interrupted;
pub use layout::PART_BYTES;
pub use local::LocalStore;
pub use location::{BucketLocation, Location, Service, SftpLocation};
pub use names::aside_label::AsideLabel;
pub use names::backup_label::{BackupLabel, BackupType};
pub use names::pack_name::PackName;
pub use object_store::ObjectStore;
pub use open::{begin_encryption, open_epochs, open_store};
pub use pin::Pin;
pub use probe::probe_store;
pub use put_outcome::PutOutcome;
pub use removal::{LabelObject, remove_below};
pub use repository::{Initialised, Repository};
pub use store_settings::{DEFAULT_TIMEOUT, Environment, StoreSettings, UriStyle};
pub use wal::{DatedWal, WalEntry, WalListing, WalSurvey};
pub use wal_mark::WalMark;
pub use wal_packs::{WalPack, WalPacks};
