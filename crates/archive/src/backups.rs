//! Backups in a repository: their record, their files, and the objects that hold them.

pub(crate) mod backup_files;
pub(crate) mod backup_json;
pub(crate) mod backup_objects;
pub(crate) mod backup_record;
pub(crate) mod backup_stream;
pub(crate) mod chunks;
pub(crate) mod pg_manifest;
pub(crate) mod proven_copy;
pub(crate) mod tar_files;
pub(crate) mod unlogged;
