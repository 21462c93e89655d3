//! Whether a server uses a data directory, by its `postmaster.pid`.
//!
//! PostgreSQL itself tells it so (CreateLockFile in miscinit.c): by the process in the first line,
//! and by the shared memory in the seventh, to which processes are attached that outlived it.
//!
//! A directory of a tablespace does not say whose it is. A copy of a data directory leads to the
//! tablespaces of its original; where that has a server on this host, it is seen.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};

use crate::backups::backup_files::TABLESPACE_LINKS;
use crate::error::ArchiveError;

const LOCK_FILE: &str = "postmaster.pid";
/// What all processes of a server are called.
const SERVER: &str = "postgres";
/// The line with the key and the number of the shared memory, from 0 on.
const SHARED_MEMORY_LINE: usize = 6;
/// The shared memory of the system, with a line for each segment.
const SHARED_MEMORY: &str = "/proc/sysvipc/shm";

/// Refuses a data directory that a server uses. A file that a server left behind is stale, and
/// does not count.
pub(crate) fn refuse(data: &Path) -> Result<(), ArchiveError> {
    let path = data.join(LOCK_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return refuse_without_file(data),
        Err(error) => return Err(ArchiveError::file("read", &path, error)),
    };
    let in_use = |why| in_use(data, why);
    let mut lines = text.lines();
    // A server without a postmaster (postgres --single) writes its number with a minus.
    let number = lines
        .next()
        .and_then(|line| line.trim().parse::<i32>().ok());
    let process = number.and_then(|number| Pid::from_raw(number.saturating_abs()));
    let Some(process) = process else {
        return Err(in_use(format!(
            "its {LOCK_FILE} does not say by which process"
        )));
    };
    if is_running(process, data) {
        let number = process.as_raw_nonzero();
        return Err(in_use(format!("by process {number}")));
    }
    let shared_memory = text.lines().nth(SHARED_MEMORY_LINE);
    let shared_memory = shared_memory.and_then(|line| line.split_whitespace().nth(1));
    match shared_memory {
        Some(number) if is_attached(number) => Err(in_use(format!(
            "by processes that outlived their postmaster: shared memory {number} is attached"
        ))),
        _ => Ok(()),
    }
}

fn in_use(data: &Path, why: String) -> ArchiveError {
    ArchiveError::ServerRunning {
        directory: data.to_owned(),
        why,
    }
}

/// Somebody may have removed the file of a server that runs, which notices it a minute later.
fn refuse_without_file(data: &Path) -> Result<(), ArchiveError> {
    let Ok(data) = data.canonicalize() else {
        return Ok(());
    };
    let is_server = |process: &PathBuf| {
        fs::read_link(process.join("cwd")).is_ok_and(|place| place == data)
            && fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == SERVER)
    };
    match processes().find(is_server) {
        None => Ok(()),
        Some(process) => {
            let number = process.file_name().unwrap_or_default().to_string_lossy();
            let why = format!("by process {number}, though its {LOCK_FILE} is gone: stop it first");
            Err(in_use(&data, why))
        }
    }
}

/// The directories of all processes.
fn processes() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(Result::ok).map(|entry| entry.path())
}

/// Whether the process that wrote the file is still there. Its number may be another's by now: a
/// postmaster works in its data directory, and runs as its owner.
fn is_running(process: Pid, data: &Path) -> bool {
    if test_kill_process(process).is_err() {
        return false;
    }
    let works_in = fs::read_link(format!("/proc/{}/cwd", process.as_raw_nonzero()));
    match (works_in, data.canonicalize()) {
        (Ok(works_in), Ok(data)) => works_in == data,
        _ => true,
    }
}

/// Refuses directories of tablespaces that a server of another data directory has too, as far as
/// this user may look at the host's processes.
pub(crate) fn refuse_shared<'p>(
    data: &Path,
    tablespaces: impl Iterator<Item = &'p PathBuf>,
) -> Result<(), ArchiveError> {
    let tablespaces: BTreeSet<PathBuf> = tablespaces
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    if tablespaces.is_empty() {
        return Ok(());
    }
    let data = data.canonicalize().ok();
    for other in data_directories_of_servers() {
        if Some(&other) == data.as_ref() {
            continue;
        }
        let links = fs::read_dir(other.join(TABLESPACE_LINKS));
        let links = links.into_iter().flatten().filter_map(Result::ok);
        let mut targets = links.filter_map(|link| link.path().canonicalize().ok());
        if let Some(shared) = targets.find(|target| tablespaces.contains(target)) {
            return Err(ArchiveError::ServerRunning {
                directory: shared,
                why: format!("as a tablespace of {}", other.display()),
            });
        }
    }
    Ok(())
}

/// Where the processes of servers work: in their data directories.
fn data_directories_of_servers() -> BTreeSet<PathBuf> {
    let places = processes().filter_map(|process| fs::read_link(process.join("cwd")).ok());
    places
        .filter(|place| place.join(LOCK_FILE).exists())
        .collect()
}

/// Whether processes are attached to the shared memory of this number.
fn is_attached(number: &str) -> bool {
    let table = fs::read_to_string(SHARED_MEMORY).unwrap_or_default();
    attached(&table, number).is_some_and(|processes| processes > 0)
}

/// How many processes are attached: the columns are called by the first line.
fn attached(table: &str, number: &str) -> Option<u64> {
    let mut lines = table.lines().map(|line| line.split_whitespace());
    let names: Vec<&str> = lines.next()?.collect();
    let column = |name| names.iter().position(|&called| called == name);
    let (id, count) = (column("shmid")?, column("nattch")?);
    let mut rows = lines.map(Iterator::collect::<Vec<_>>);
    let row = rows.find(|row| row.get(id) == Some(&number))?;
    row.get(count)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_directory_is_in_use_while_the_process_works_in_it() {
        let scratch = tempfile::tempdir().expect("a directory");
        let data = scratch.path();
        let note = |number: &str| {
            let text = format!("{number}\n{}\n1700000000\n5432\n", data.display());
            fs::write(data.join(LOCK_FILE), text).expect("written");
        };
        let is_refused = || matches!(refuse(data), Err(ArchiveError::ServerRunning { .. }));
        refuse(data).expect("no file");
        // Waits for an input that does not come.
        let server = Command::new("cat")
            .current_dir(data)
            .stdin(Stdio::piped())
            .spawn();
        let mut server = server.expect("cat runs");
        note(&server.id().to_string());
        assert!(is_refused());
        note(&format!("-{}", server.id()));
        assert!(is_refused());
        server.kill().expect("killed");
        server.wait().expect("ended");
        refuse(data).expect("stale");
        // This test works elsewhere: the number was given to another process.
        note(&std::process::id().to_string());
        refuse(data).expect("stale");
        for damaged in ["", "\n", "x", "0"] {
            note(damaged);
            assert!(is_refused(), "{damaged:?}");
        }
    }

    #[test]
    fn a_server_is_seen_whose_file_was_removed() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (data, program) = (scratch.path().join("data"), scratch.path().join(SERVER));
        fs::create_dir(&data).expect("made");
        // A process is called after the link.
        std::os::unix::fs::symlink("/bin/cat", &program).expect("linked");
        let run = |program: &Path| {
            let mut command = Command::new(program);
            command.current_dir(&data).stdin(Stdio::piped());
            command.spawn().expect("cat runs")
        };
        let mut shell = run(Path::new("cat"));
        refuse(&data).expect("somebody who looks around is no server");
        let mut server = run(&program);
        let refused = refuse(&data).expect_err("it runs").to_string();
        assert!(refused.contains(&server.id().to_string()), "{refused}");
        refuse(scratch.path()).expect("it is of another directory");
        server.kill().expect("killed");
        server.wait().expect("ended");
        refuse(&data).expect("it has ended");
        shell.kill().expect("killed");
        shell.wait().expect("ended");
    }

    #[test]
    fn knows_shared_memory_that_is_attached() {
        let table = "       key      shmid perms       size  cpid  lpid nattch   uid\n\
                     16777217          5   600         56  1234  1240      3   999\n\
                     16777218          6   600         56  1300  1300      0   999\n";
        let of = |number| attached(table, number);
        assert_eq!([of("5"), of("6"), of("7")], [Some(3), Some(0), None]);
        assert_eq!(attached("", "5"), None);
    }
}
