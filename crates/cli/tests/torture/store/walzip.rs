//! The program, run on a round's repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use super::Store;
use crate::clusters::site::said;
use crate::rounds::Checked;

/// How a command ended.
pub struct Ended {
    pub code: i32,
    pub said: String,
}

/// What a get brought.
pub struct Got {
    pub code: i32,
    pub said: String,
    pub content: Option<Vec<u8>>,
}

impl Store<'_> {
    pub fn repository(&self) -> PathBuf {
        self.directory.join("repository")
    }

    pub fn init(&mut self) -> Checked {
        let mut init = self.command(&["init"]);
        init.env("WALZIP_PGDATA", self.wal.data());
        let ended = ended(init.output())?;
        match ended.code {
            0 => Ok(()),
            code => Err(format!("init: exit {code}\n{}", ended.said)),
        }
    }

    /// A command on the repository, not started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.site.walzip(arguments);
        command.env("WALZIP_REPO", self.repository());
        command
    }

    /// Runs a command to its end, however it ends, as long as it ends by itself.
    pub fn walzip(&mut self, arguments: &[&str]) -> Checked<Ended> {
        let mut command = self.command(arguments);
        ended(command.output())
    }

    pub fn push_command(&mut self, path: &Path) -> Command {
        let level = *self.random.pick(&["1", "1", "1", "3", "9"]).unwrap_or(&"1");
        let mut command = self.command(&["archive-push", "--level", level]);
        command.arg(path);
        command
    }

    /// Pushes a file; notes what is acknowledged.
    pub fn push(&mut self, path: &Path) -> Checked<Ended> {
        let mut command = self.push_command(path);
        let begin = Instant::now();
        let ended = ended(command.output())?;
        // Some files and levels take ten times as long as others: they move it a little.
        self.usual = (self.usual * 7 + begin.elapsed().min(self.usual * 3)) / 8;
        Ok(ended)
    }

    /// Puts bytes where PostgreSQL would have them. A history that lies beside a segment would be archived
    /// with it: here each file has its own turn.
    pub fn write_wal(&self, name: &str, content: &[u8]) -> Checked<PathBuf> {
        let path = self.directory.join("pg_wal").join(name);
        let _ = fs::remove_file(path.with_file_name("00000002.history"));
        fs::write(&path, content).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// Gets a file; a refusal must leave nothing.
    pub fn get(&mut self, name: &str) -> Checked<Got> {
        let destination = self.directory.join("got").join("RECOVERYXLOG");
        let mut command = self.command(&["archive-get", name]);
        command.arg(&destination);
        let ended = ended(command.output())?;
        let content = fs::read(&destination).ok();
        if content.is_some() {
            fs::remove_file(&destination).map_err(|error| error.to_string())?;
        }
        match (ended.code, &content) {
            (0, None) => Err(format!("{name}: exit 0, and nothing was written")),
            (code, Some(_)) if code != 0 => {
                Err(format!("{name}: exit {code}, and something was written"))
            }
            (code, _) => Ok(Got {
                code,
                said: ended.said,
                content,
            }),
        }
    }

    /// The object of a WAL file, where there is one.
    pub fn object(&self, name: &str) -> Option<PathBuf> {
        let wanted = format!("{name}.wz");
        let mut directories = vec![self.repository().join("wal")];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).ok()? {
                let path = entry.ok()?.path();
                if path.is_dir() {
                    directories.push(path);
                } else if path.ends_with(&wanted) {
                    return Some(path);
                }
            }
        }
        None
    }
}

/// Every end has a code that is documented: no panic, no signal, no fault of walzip's own.
pub fn ended(output: std::io::Result<Output>) -> Checked<Ended> {
    let output = output.map_err(|error| format!("walzip did not start: {error}"))?;
    let said = said(&output);
    match output.status.code() {
        Some(25) => Err(format!("a fault in walzip itself: {said}")),
        Some(code) if code < 126 && !said.contains("panicked") => Ok(Ended { code, said }),
        _ => Err(format!("no orderly end: {said}")),
    }
}
