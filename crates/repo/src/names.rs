//! Names of what lies in a repository: each is written in one way only.

pub(crate) mod aside_label;
pub(crate) mod backup_label;
pub(crate) mod pack_name;
pub(crate) mod wal_name;
