//! Calls as a server makes them, one after the other, made by a process of its own.
//!
//! An archiver that works in the background leaves processes that belong to nobody. The process that
//! makes the calls adopts them (PR_SET_CHILD_SUBREAPER), so that their processor time is known. When
//! all calls are made, it asks them to end: there is nothing left for them to do.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};
use serde::{Deserialize, Serialize};

/// The first argument of such a process; two files follow: the calls, and what came of them.
pub(crate) const ARGUMENT: &str = "--launch-calls";
/// How long processes in the background may take to end.
const END_WITHIN: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(5);

/// Calls to make.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Calls {
    pub(crate) calls: Vec<Call>,
    /// Between two calls.
    pub(crate) pause: Duration,
    /// The directory that they are made in.
    pub(crate) directory: PathBuf,
    /// All of the environment.
    pub(crate) variables: Vec<(String, String)>,
}

/// A call, and the names that files get after it, as a server gives them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) renames: Vec<(PathBuf, PathBuf)>,
}

/// What the calls took.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Made {
    /// From the start of each call to its end.
    pub(crate) seconds: Vec<f64>,
    /// Of all processes, with those in the background.
    pub(crate) cpu_seconds: f64,
    /// Why not all were made.
    pub(crate) failed: Option<String>,
}

/// Makes the calls; these are the arguments behind the first one.
pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let (calls, report) = (arguments.next()?, arguments.next()?);
    let read = || -> io::Result<Calls> { Ok(serde_json::from_slice(&fs::read(calls)?)?) };
    let made = read().and_then(|calls| make(&calls));
    let made = made.unwrap_or_else(|error| Made {
        failed: Some(error.to_string()),
        ..Made::default()
    });
    let written = serde_json::to_vec(&made)
        .map_err(io::Error::from)
        .and_then(|json| fs::write(report, json));
    Some(match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

fn make(calls: &Calls) -> io::Result<Made> {
    set_child_subreaper(Some(getpid()))?;
    let mut made = Made::default();
    for call in &calls.calls {
        match made_one(call, calls) {
            Ok(taken) => made.seconds.push(taken.as_secs_f64()),
            Err(error) => {
                made.failed = Some(error.to_string());
                break;
            }
        }
        sleep(calls.pause);
    }
    end_all(Instant::now() + END_WITHIN)?;
    made.cpu_seconds = cpu_seconds_of_children(&fs::read_to_string("/proc/self/stat")?)?;
    Ok(made)
}

fn made_one(call: &Call, calls: &Calls) -> io::Result<Duration> {
    let mut command = Command::new(&call.program);
    command
        .args(&call.arguments)
        .env_clear()
        .envs(calls.variables.iter().cloned())
        .current_dir(&calls.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let start = Instant::now();
    let status = command.status()?;
    let taken = start.elapsed();
    if !status.success() {
        let name = call.program.file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        return Err(io::Error::other(format!("{name}: {status}")));
    }
    for (from, to) in &call.renames {
        fs::rename(from, to)?;
    }
    Ok(taken)
}

/// Asks every process that is left to end, and waits for it.
fn end_all(deadline: Instant) -> io::Result<()> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => continue,
            Err(rustix::io::Errno::CHILD) => return Ok(()),
            Err(errno) => return Err(errno.into()),
            Ok(None) => {}
        }
        let is_late = Instant::now() > deadline;
        let signal = match is_late {
            true => Signal::KILL,
            false => Signal::TERM,
        };
        for child in children()? {
            // It may have ended meanwhile.
            let _ = kill_process(child, signal);
        }
        if is_late {
            return Err(io::Error::other(
                "what worked in the background did not end",
            ));
        }
        sleep(TICK);
    }
}

/// The processes whose parent this one is.
fn children() -> io::Result<Vec<Pid>> {
    let own = getpid().as_raw_nonzero().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if fields(&stat).nth(PARENT) == Some(&own) {
            found.push(pid);
        }
    }
    Ok(found)
}

// Places behind the name in /proc/PID/stat (proc_pid_stat(5)).
const PARENT: usize = 1;
const CHILDREN_USER: usize = 13;

/// The name is in parentheses and may have any character.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    behind.split_ascii_whitespace()
}

/// Processor time of all children that have ended, and of theirs.
fn cpu_seconds_of_children(stat: &str) -> io::Result<f64> {
    let times = fields(stat).skip(CHILDREN_USER).take(2);
    let ticks: Option<u64> = times.map(|ticks| ticks.parse::<u64>().ok()).sum();
    let ticks = ticks.ok_or_else(|| io::Error::other("/proc/self/stat has no times"))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Writes the calls into a file.
pub(crate) fn write(calls: &Calls, path: &Path) -> io::Result<()> {
    fs::write(path, serde_json::to_vec(calls)?)
}

/// Reads what came of them.
pub(crate) fn read(path: &Path) -> io::Result<Made> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 200 0 0 5 6 700 300 20 0 1 0 9 9";
        assert_eq!(fields(stat).nth(PARENT), Some("1"));
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(cpu_seconds_of_children(stat).unwrap(), 1000.0 / ticks);
        assert!(cpu_seconds_of_children("7 (x) S 1").is_ok_and(|seconds| seconds == 0.0));
    }
}
