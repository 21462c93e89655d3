//! pgBackRest's backups of a throw-away server, and what restoring them takes.
//!
//! Like pg_basebackup here, it does not wait for the WAL of its backups: there is no archive.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::methods::{PGBACKREST_PROCESSES, PGBACKREST_STANZA, Taker};
use super::on_server::owners_command;
use super::restore::{RESTORED, gone};
use crate::error::Error;
use crate::process::{self, Failure};
use crate::server::{PORT, Server, USER};
use crate::usage::Usage;

/// In the directory of a server.
const REPOSITORY: &str = "pgbackrest";
const CONFIGURATION: &str = "pgbackrest.conf";
/// Names the configuration.
const VARIABLE: &str = "PGBACKREST_CONFIG";

/// pgBackRest beside a server.
pub(super) struct PgBackRest<'a> {
    pub(super) server: &'a Server,
    pub(super) program: &'a Path,
    /// What starts it, where the server's user can run it.
    pub(super) launcher: Option<PathBuf>,
}

impl PgBackRest<'_> {
    /// Takes a full backup; returns its size too.
    pub(super) fn backup(&self) -> Result<(Usage, u64), Failure> {
        self.prepare()?;
        let backups = self.server.host().join(REPOSITORY).join("backup");
        let before = process::stored_bytes(&backups)?;
        let mut backup = self.command(self.launcher.as_deref())?;
        backup.args(Taker::PgBackRest.arguments());
        let usage = self.server.measure(backup)?;
        let bytes = process::stored_bytes(&backups)?.saturating_sub(before);
        Ok((usage, bytes))
    }

    /// Restores the newest backup as often as is asked for.
    pub(super) fn restore(&self, loops: u32) -> Result<Vec<Usage>, Failure> {
        let mut usages = Vec::new();
        for _ in 0..loops {
            let directory = self.server.own_directory(RESTORED).map_err(other)?;
            rustix::fs::sync();
            let mut restore = self.command(self.launcher.as_deref())?;
            restore
                .arg(PGBACKREST_STANZA)
                .arg(PGBACKREST_PROCESSES)
                .arg(format!("--pg1-path={}", directory.display()))
                .args(["--type=none", "restore"]);
            usages.push(self.server.measure(restore)?);
            gone(&directory)?;
        }
        Ok(usages)
    }

    /// Writes its configuration and makes its repository, unless that was done.
    fn prepare(&self) -> Result<(), Failure> {
        let configuration = self.server.host().join(CONFIGURATION);
        if configuration.exists() {
            return Ok(());
        }
        self.server.own_directory(REPOSITORY).map_err(other)?;
        let host = self.server.host().display().to_string();
        fs::write(
            &configuration,
            format!(
                "[global]\nrepo1-path={host}/{REPOSITORY}\nlog-path={host}\nlock-path={host}\n\
                 log-level-file=off\nlog-level-console=off\nlog-level-stderr=warn\n\
                 [bench]\npg1-path={host}/data\npg1-socket-path={host}\npg1-port={PORT}\n\
                 pg1-user={USER}\n"
            ),
        )?;
        let mut create = self.command(None)?;
        create.args([PGBACKREST_STANZA, "--no-online", "stanza-create"]);
        self.server.measure(create).map(drop)
    }

    fn command(&self, launcher: Option<&Path>) -> Result<Command, Failure> {
        let mut command = owners_command(self.server, self.program, launcher)?;
        command.env(VARIABLE, self.server.host().join(CONFIGURATION));
        Ok(command)
    }
}

fn other(error: Error) -> Failure {
    Failure::Io(io::Error::other(error.to_string()))
}
