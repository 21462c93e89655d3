//! One process from start to end: its wall time, processor time and peak memory.
//!
//! The wall time includes the start of the process, as it does for archive_command. The kernel
//! counts the memory of the process that starts a program towards the program's peak, so what is
//! measured is started by a launcher (launcher.rs). Without one the harness starts it itself, and
//! its own memory is the least that a peak can say: [`memory_floor`].

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use wait4::Wait4;

use crate::cancel::Cancel;
use crate::launcher::{self, Outcome};
use crate::usage::Usage;

/// Why a process gave no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot start {program}: {source}")]
    Start { program: String, source: io::Error },
    #[error("{program}: {status}{}", said(stderr))]
    Exit {
        program: String,
        status: ExitStatus,
        stderr: String,
    },
    #[error("interrupted")]
    Cancelled,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Failure {
    /// Whether a program, or the harness itself, found the disk full: nothing after that is a
    /// result.
    pub(crate) fn is_no_space(&self) -> bool {
        match self {
            Failure::Exit { stderr, .. } => stderr.contains("No space left on device"),
            Failure::Io(error) => error.kind() == io::ErrorKind::StorageFull,
            Failure::Start { .. } | Failure::Cancelled => false,
        }
    }
}

fn said(stderr: &str) -> String {
    if stderr.is_empty() {
        String::new()
    } else {
        format!(": {stderr}")
    }
}

/// Where a process runs: nothing of the caller's environment reaches it but this.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// The program that starts what is measured, see launcher.rs.
    pub(crate) launcher: Option<&'a Path>,
    /// Directories that programs are looked for in.
    pub(crate) search_path: &'a OsStr,
    /// For what programs write beside their output.
    pub(crate) temp_dir: &'a Path,
    pub(crate) cancel: &'a Cancel,
}

impl Surroundings<'_> {
    /// What the last process said on its standard error.
    pub(crate) fn stderr(&self) -> PathBuf {
        self.temp_dir.join("stderr")
    }
}

/// Runs a program to its end, with its standard output in a file.
pub(crate) fn run(
    program: &Path,
    arguments: &[OsString],
    environment: &[(&str, &str)],
    output: Stdio,
    surroundings: Surroundings<'_>,
) -> Result<Usage, Failure> {
    let mut command = measured(program, surroundings);
    command
        .args(arguments)
        .envs(environment.iter().copied())
        .stdout(output);
    measure(command, surroundings)
}

/// A program whose peak of memory is to be known, with no arguments yet and nothing of the
/// caller's environment. [`measure`] runs it; its standard input is empty.
pub(crate) fn measured(program: &Path, surroundings: Surroundings<'_>) -> Command {
    let Some(launcher) = surroundings.launcher else {
        return command(program, surroundings);
    };
    let mut command = command(launcher, surroundings);
    command.arg(launcher::ARGUMENT).arg(program);
    command
}

/// The program that a launcher is to start, where the command is a launcher's.
fn launched(command: &Command) -> Option<&OsStr> {
    let mut arguments = command.get_args();
    let is_launcher = arguments.next()? == launcher::ARGUMENT;
    arguments.next().filter(|_| is_launcher)
}

/// A program with no arguments yet and nothing of the caller's environment.
pub(crate) fn command(program: &Path, surroundings: Surroundings<'_>) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", surroundings.search_path)
        .env("TMPDIR", surroundings.temp_dir)
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    command
}

/// Runs a command to its end, as the leader of a process group that a request to stop kills.
pub(crate) fn measure(
    mut command: Command,
    surroundings: Surroundings<'_>,
) -> Result<Usage, Failure> {
    if surroundings.cancel.is_requested() {
        return Err(Failure::Cancelled);
    }
    // A file, not a pipe: nobody has to read while the clock runs.
    let stderr_path = surroundings.stderr();
    command
        .stderr(File::create(&stderr_path)?)
        // A group of its own, so that what it starts ends with it.
        .process_group(0);
    let report = match launched(&command) {
        Some(_) => Some(tempfile::tempfile_in(surroundings.temp_dir)?),
        None => None,
    };
    if let Some(report) = &report {
        command.stdin(report.try_clone()?);
    }
    let program = launched(&command).unwrap_or(command.get_program());
    let program = Path::new(program).to_owned();
    let not_started = |source| Failure::Start {
        program: program.display().to_string(),
        source,
    };
    let used = run_to_end(&mut command, surroundings.cancel).map_err(|ended| match ended {
        NotRun::Start(source) => not_started(source),
        NotRun::Wait(source) => Failure::Io(source),
    })?;
    if surroundings.cancel.is_requested() {
        return Err(Failure::Cancelled);
    }
    // A launcher that was killed says nothing; then its end is the program's.
    let (status, usage) = match report.map(read_report).transpose()?.flatten() {
        Some(Outcome::NotStarted(errno)) => {
            return Err(not_started(io::Error::from_raw_os_error(errno)));
        }
        Some(Outcome::Ended { status, usage }) => (status, usage),
        None => used,
    };
    if !status.success() {
        let program = program
            .file_name()
            .unwrap_or(program.as_os_str())
            .to_string_lossy();
        let stderr = first_lines(&stderr_path)?;
        return Err(Failure::Exit {
            program: program.into_owned(),
            status,
            stderr,
        });
    }
    Ok(usage)
}

/// Why nothing is known of how a process ended.
enum NotRun {
    Start(io::Error),
    Wait(io::Error),
}

/// Starts a process, and waits until it has ended or a request to stop has killed it.
fn run_to_end(command: &mut Command, cancel: &Cancel) -> Result<(ExitStatus, Usage), NotRun> {
    let start = Instant::now();
    let mut child = command.spawn().map_err(NotRun::Start)?;
    let ended = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .map(|pid| {
            cancel.watch(pid);
            // The first wait leaves the process to be reaped by the second: see cancel.rs.
            let ended = retry(|| {
                waitid(
                    WaitId::Pid(pid),
                    WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
                )
            });
            cancel.release();
            ended
        });
    let wall = start.elapsed();
    let used = child.wait4().map_err(NotRun::Wait)?;
    ended
        .transpose()
        .map_err(|errno| NotRun::Wait(errno.into()))?;
    let usage = Usage {
        wall,
        user: used.rusage.utime,
        system: used.rusage.stime,
        peak_memory_bytes: used.rusage.maxrss,
        counts: None,
    };
    Ok((used.status, usage))
}

/// What a launcher wrote into its standard input.
fn read_report(mut report: File) -> io::Result<Option<Outcome>> {
    let mut said = String::new();
    report.rewind()?;
    report.read_to_string(&mut said)?;
    Ok(Outcome::parse(&said))
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            done => return done,
        }
    }
}

/// The beginning of what a program said, on one line.
pub(crate) fn first_lines(path: &Path) -> io::Result<String> {
    let mut said = Vec::new();
    File::open(path)?.take(500).read_to_end(&mut said)?;
    let said = String::from_utf8_lossy(&said);
    Ok(said.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The peak of a program with next to no memory of its own. No program takes less; what it takes
/// beyond its own, without a launcher, is the harness's.
pub(crate) fn memory_floor(surroundings: Surroundings<'_>) -> Option<u64> {
    let program = crate::contender::find_program("true", surroundings.search_path)?;
    let usage = run(&program, &[], &[], Stdio::null(), surroundings).ok()?;
    Some(usage.peak_memory_bytes)
}

/// The size of every file below a directory.
pub(crate) fn stored_bytes(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => stored_bytes(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        assert!(Failure::Io(io::ErrorKind::StorageFull.into()).is_no_space());
        assert!(!Failure::Io(io::ErrorKind::NotFound.into()).is_no_space());
    }
}
