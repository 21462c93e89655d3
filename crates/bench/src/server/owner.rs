//! What has to be done as the user that the server runs as, and starting it anew.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use super::account::Account;
use super::{PATIENCE, Server, Settings};
use crate::error::Error;
use crate::process::{self, Surroundings};
use crate::usage::Usage;

impl Server {
    /// A directory that belongs to the server's user and goes when the server goes.
    pub(crate) fn own_directory(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.host().join(name);
        fs::create_dir(&path).map_err(|source| Error::file(&path, source))?;
        if let Some(account) = Account::choose()? {
            account
                .own(&path)
                .map_err(|source| Error::file(&path, source))?;
        }
        Ok(path)
    }

    /// A copy of a program where the server's user can run it, since the original may lie in a
    /// directory that is closed to that user.
    pub(crate) fn own_program(&self, program: &Path, name: &str) -> Result<PathBuf, Error> {
        let copy = self.host().join(name);
        fs::copy(program, &copy).map_err(|source| Error::file(program, source))?;
        Ok(copy)
    }

    /// A program that runs as the server's user and finds this server. Where its peak of memory
    /// is to be known, a launcher that this user can run starts it.
    pub(crate) fn owners_command(
        &self,
        program: &Path,
        launcher: Option<&Path>,
    ) -> Result<Command, Error> {
        let surroundings = Surroundings {
            launcher,
            ..self.here()
        };
        let mut command = process::measured(program, surroundings);
        command
            .envs(self.environment())
            .current_dir(self.host())
            .stdout(std::process::Stdio::null());
        if let Some(account) = Account::choose()? {
            account.run(&mut command);
        }
        Ok(command)
    }

    /// Runs a command to its end.
    pub(crate) fn measure(&self, command: Command) -> Result<Usage, process::Failure> {
        process::measure(command, self.here())
    }

    fn here(&self) -> Surroundings<'_> {
        self.installation.surroundings(self.host())
    }

    /// Stops the server in an orderly way and starts it with further settings.
    pub(crate) fn restart(&mut self, further: Settings) -> Result<(), Error> {
        let path = self.data().join("postgresql.conf");
        let file = fs::OpenOptions::new().append(true).open(&path);
        file.and_then(|mut file| file.write_all(further.file().as_bytes()))
            .map_err(|source| Error::file(&path, source))?;
        self.settings.parameters.extend(further.parameters);
        self.signal(Signal::INT);
        self.wait(PATIENCE)?;
        if self.is_cancelled() {
            return Err(Error::Interrupted);
        }
        self.postmaster =
            self.installation
                .postmaster(self.host(), Account::choose()?, self.group.as_ref())?;
        self.wait_until_ready()
    }
}
