//! PostgreSQL as a server: its replication protocol, and what it says of itself.

pub mod archive_command;
pub(crate) mod archiver;
pub(crate) mod indexed_tables;
pub(crate) mod needed_paths;
pub mod replication;
pub(crate) mod tablespace_record;
pub(crate) mod tablespaces;
