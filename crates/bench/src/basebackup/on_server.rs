//! The server of a data set, and how programs run beside it as its owner.

use std::io;
use std::path::Path;
use std::process::Command;

use crate::process::Failure;
use crate::server::{self, Server};

/// Of its own, so that no configuration of the machine has a say.
pub(super) const NO_CONFIGURATION: (&str, &str) = ("WALZIP_CONFIG", "/dev/null");

/// A server that takes backups, without an archive at first: with one, pg_basebackup would wait
/// a second for the WAL of each backup, which nobody did for what was published.
pub(super) fn server_settings() -> server::Settings {
    server::Settings::volatile()
        .set("wal_level", "replica")
        .set("max_wal_senders", 4)
        .set("archive_mode", "off")
}

/// A program that runs as the owner of the server.
pub(super) fn owners_command(
    server: &Server,
    program: &Path,
    launcher: Option<&Path>,
) -> Result<Command, Failure> {
    server
        .owners_command(program, launcher)
        .map_err(|error| Failure::Io(io::Error::other(error.to_string())))
}
