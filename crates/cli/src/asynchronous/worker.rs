//! Starting a worker, and being one.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::error::CommandError;
use crate::exit_code::Kind;
use crate::repo_args::Place;
use crate::runtime;

/// The program that runs, even where another one has its name by now.
pub const THIS_PROGRAM: &str = "/proc/self/exe";

/// The first descriptor behind standard input, output and error.
const FIRST_OTHER: i32 = 3;

/// Starts this same command as a worker. It has the lock as its standard input, so that there is no
/// moment in which nobody has it, and nothing else of this process: PostgreSQL's logger waits until
/// nobody can write to it any more, and a port is in use as long as somebody has its socket.
pub fn start(subcommand: &str, lock: File, log: File) -> Result<(), CommandError> {
    let failed = |error: &io::Error| {
        CommandError::caused(
            Kind::Internal,
            "cannot start a worker in the background",
            error,
        )
    };
    // What PostgreSQL has left open.
    close_fds::set_fds_cloexec(FIRST_OTHER, &[]);
    let started = Command::new(THIS_PROGRAM)
        .arg0("walzip")
        .args(arguments(subcommand, std::env::args_os().skip(1)))
        .stdin(Stdio::from(lock))
        .stdout(Stdio::null())
        .stderr(Stdio::from(log))
        .spawn();
    started.map(|_| ()).map_err(|error| failed(&error))
}

/// The arguments of this process, with the flag for the worker.
fn arguments(subcommand: &str, own: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = own.collect();
    let position = arguments.iter().position(|argument| argument == subcommand);
    arguments.insert(
        position.map_or(0, |position| position + 1),
        "--worker".into(),
    );
    arguments
}

/// The lock, which the call that started this process has handed on.
pub fn lock() -> io::Result<File> {
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

/// Leaves the session of the process that started this one, whose terminal and whose end are then
/// none of its business.
pub fn leave_session() {
    // It fails for the leader of a session only, which has left already.
    let _ = rustix::process::setsid();
}

/// Waits until somebody asks this process to end.
pub async fn asked_to_end() {
    match runtime::signals() {
        Ok(signal) => drop(signal.await),
        // Then a signal ends it as it ends any program.
        Err(_) => std::future::pending().await,
    }
}

/// Leaves the data directory, whose file system could not be unmounted: unless a path of a repository
/// is told from there.
pub fn leave_directory(places: &[Place]) {
    if places.iter().all(Place::has_whole_paths) {
        // Where that fails, nothing is lost.
        let _ = std::env::set_current_dir("/");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_is_called_as_the_call_was() {
        let own = ["-v", "archive-push", "--repo", "/archive-push", "pg_wal/1"];
        let found = arguments("archive-push", own.iter().map(OsString::from));
        assert_eq!(
            found,
            [
                "-v",
                "archive-push",
                "--worker",
                "--repo",
                "/archive-push",
                "pg_wal/1"
            ]
        );
    }
}
