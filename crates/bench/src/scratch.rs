//! A temporary directory that is gone when this process is, even if it is killed without a
//! chance to clean up.
//!
//! A shell waits at the end of a pipe. It hears either that everything was cleaned up, or the end
//! of the pipe, because this process is gone. Before, it may hear of a control group to remove. Then it stops the server in the
//! directory, if there is one, kills what else runs there, and removes the directory. What runs
//! there is known by its environment: programs are started with their TMPDIR in it, and so is
//! what they start.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::error::Error;

const SCRIPT: &str = r#"
trap '' HUP INT TERM
PATH=$PATH:/usr/bin:/bin
group=
while read -r word what; do
    case $word in
    done) exit 0 ;;
    group) group=$what ;;
    esac
done
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
if [ -n "$pid" ]; then
    kill -QUIT "$pid"
    tries=0
    while [ -e "$1/data/postmaster.pid" ] && [ "$tries" -lt 100 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
fi
tries=0
while [ -e "$1" ] && [ "$tries" -lt 100 ]; do
    for running in $(grep -lsF "TMPDIR=$1" /proc/[0-9]*/environ); do
        running=${running#/proc/}
        kill -KILL "${running%/environ}"
    done
    rm -rf "$1" || sleep 0.1
    tries=$((tries + 1))
done
tries=0
while [ -n "$group" ] && [ -d "$group" ] && [ "$tries" -lt 100 ]; do
    rmdir "$group" || sleep 0.1
    tries=$((tries + 1))
done
"#;

/// A directory that goes when this value does.
#[derive(Debug)]
pub struct Scratch {
    // Dropped in this order: the guard has nothing left to do once the directory is gone.
    directory: TempDir,
    guard: Guard,
}

impl Scratch {
    /// A new directory whose name has this beginning.
    pub fn new_in(parent: &Path, prefix: &str) -> Result<Scratch, Error> {
        let scratch = || {
            let directory = tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?;
            let guard = Guard::over(directory.path())?;
            Ok(Scratch { directory, guard })
        };
        scratch().map_err(|source| Error::file(parent, source))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A path in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// When this process is killed, a control group goes too, after what is in it.
    pub(crate) fn also_removes(&mut self, group: &Path) -> io::Result<()> {
        self.guard
            .hear(format!("group {}\n", group.display()).as_bytes())
    }

    /// What is left to the guard when this process is killed.
    #[cfg(test)]
    pub(crate) fn lose(mut self) {
        drop(self.guard.0.stdin.take());
        let _ended = self.guard.0.wait();
    }

    /// Removes it, and says when that fails.
    pub(crate) fn close(self) -> Result<(), Error> {
        let path = self.path().to_owned();
        let closed = self.directory.close();
        closed.map_err(|source| Error::file(&path, source))
    }
}

/// A process that outlives this one for as long as cleaning up takes.
#[derive(Debug)]
struct Guard(Child);

impl Guard {
    /// Watches over a directory, and over the server on its `data`.
    fn over(directory: &Path) -> io::Result<Guard> {
        Command::new("/bin/sh")
            .args(["-c", SCRIPT, "walzip-bench-guard"])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What a terminal sends to this process's group does not reach it.
            .process_group(0)
            .spawn()
            .map(Guard)
    }

    fn hear(&mut self, words: &[u8]) -> io::Result<()> {
        match &mut self.0.stdin {
            Some(pipe) => pipe.write_all(words),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // When the word does not arrive, the guard removes what is no longer there.
        if let Some(mut pipe) = self.0.stdin.take() {
            let _said = pipe.write_all(b"done\n");
        }
        let _ended = self.0.wait();
    }
}
