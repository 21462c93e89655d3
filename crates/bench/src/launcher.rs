//! A process of next to no memory that starts what is measured.
//!
//! The kernel's peak of memory (`ru_maxrss`) is of a process, not of a program: at `exec` it
//! takes over the peak of the memory that is given up (`exec_mmap` in fs/exec.c), and never
//! lowers it again. A child of the harness gives up the harness's memory then: all of it after
//! `vfork`, as std starts processes, its private pages after `fork`. So gzip, which takes 2 MB,
//! would show as much as the harness has.
//!
//! What is measured is therefore started by this program in a mode of its own, which forks before
//! it has taken any memory. The harness's memory stays with the launcher's own peak, which nobody
//! asks for: the launcher waits for the program, and reports what the kernel says of it. The
//! clock runs in the launcher too, so that its own start is not measured.

pub(crate) mod calls;

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use wait4::Wait4;

use crate::usage::{Counts, Usage};

/// The first argument of a launcher; the program and its arguments follow.
pub const ARGUMENT: &str = "--launch-measured";
/// What a report begins with.
const USED: &str = "used";
const NOT_STARTED: &str = "not started";

/// Starts the program that the command line names, if it is a launcher's. A program that can be
/// a launcher calls this before anything else: what it has taken by then is the least peak that
/// can be told. `None` is for any other command line.
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    arguments.next()?;
    let mode = arguments.next()?;
    if mode == calls::ARGUMENT {
        return calls::run(arguments);
    }
    if mode != ARGUMENT {
        return None;
    }
    let program = arguments.next()?;
    let outcome = launch(Command::new(program).args(arguments));
    // The standard input is the file that the harness reads the report from.
    let report = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let reported = report.and_then(|mut report| report.write_all(outcome.to_string().as_bytes()));
    Some(match reported {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

fn launch(command: &mut Command) -> Outcome {
    let start = Instant::now();
    let child = command
        .stdin(Stdio::null())
        // The group that it has anyway: asked for one, std forks. Without, it shares the
        // launcher's memory until `exec` (CLONE_VM), and takes over all of its peak.
        .gid(rustix::process::getgid().as_raw())
        .spawn();
    match child.and_then(|mut child| child.wait4()) {
        Ok(used) => Outcome::Ended {
            status: used.status,
            usage: Usage {
                wall: start.elapsed(),
                user: used.rusage.utime,
                system: used.rusage.stime,
                peak_memory_bytes: used.rusage.maxrss,
                counts: counts_of_children(),
            },
        },
        Err(error) => Outcome::NotStarted(error.raw_os_error().unwrap_or_default()),
    }
}

/// What the kernel counted of the only child, which has ended.
fn counts_of_children() -> Option<Counts> {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
    let counted = [
        used.major_page_faults(),
        used.minor_page_faults(),
        used.voluntary_context_switches(),
        used.involuntary_context_switches(),
    ];
    let mut values = [0; 4];
    for (value, counted) in values.iter_mut().zip(counted) {
        *value = u64::try_from(counted).ok()?;
    }
    Some(values.into())
}

/// What became of a program.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// It ended, one way or another.
    Ended { status: ExitStatus, usage: Usage },
    /// It could not be started, for this number of `errno`.
    NotStarted(i32),
}

/// As it is reported.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::NotStarted(errno) => writeln!(f, "{NOT_STARTED} {errno}"),
            Outcome::Ended { status, usage } => {
                let [wall, user, system] =
                    [usage.wall, usage.user, usage.system].map(|time| time.as_nanos());
                let (status, peak) = (status.into_raw(), usage.peak_memory_bytes);
                write!(f, "{USED} {status} {wall} {user} {system} {peak}")?;
                for value in usage.counts.map(Counts::values).into_iter().flatten() {
                    write!(f, " {value}")?;
                }
                writeln!(f)
            }
        }
    }
}

impl Outcome {
    /// Reads a report; none when it is not a whole one, because the launcher was killed.
    pub(crate) fn parse(report: &str) -> Option<Outcome> {
        let report = report.strip_suffix('\n')?;
        if let Some(errno) = report.strip_prefix(NOT_STARTED) {
            return errno.trim().parse().ok().map(Outcome::NotStarted);
        }
        let mut numbers = report.strip_prefix(USED)?.split_whitespace();
        let status = ExitStatus::from_raw(numbers.next()?.parse().ok()?);
        let mut number = || numbers.next()?.parse::<u64>().ok();
        let usage = Usage {
            wall: Duration::from_nanos(number()?),
            user: Duration::from_nanos(number()?),
            system: Duration::from_nanos(number()?),
            peak_memory_bytes: number()?,
            counts: None,
        };
        let counts: Option<Vec<u64>> = numbers.map(|word| word.parse().ok()).collect();
        let counts = match counts?.as_slice() {
            [] => None,
            values => Some(Counts::from(<[u64; 4]>::try_from(values).ok()?)),
        };
        let usage = Usage { counts, ..usage };
        Some(Outcome::Ended { status, usage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_became_of_the_program_or_nothing() {
        let outcome = Outcome::Ended {
            status: ExitStatus::from_raw(9),
            usage: Usage {
                wall: Duration::from_millis(5),
                user: Duration::from_micros(7),
                system: Duration::ZERO,
                peak_memory_bytes: 2_000_000,
                counts: Some([0, 938, 1, 13].into()),
            },
        };
        let report = outcome.to_string();
        assert_eq!(Outcome::parse(&report), Some(outcome));
        assert_eq!(
            Outcome::parse(&Outcome::NotStarted(2).to_string()),
            Some(Outcome::NotStarted(2))
        );
        for end in 0..report.len() {
            assert_eq!(Outcome::parse(&report[..end]), None, "{}", &report[..end]);
        }
    }

    #[test]
    fn another_command_line_is_not_a_launchers() {
        let words = |words: &[&str]| run(words.iter().map(OsString::from)).is_none();
        assert!(words(&["walzip"]) && words(&["walzip", "bench"]));
        assert!(words(&["walzip", "bench", ARGUMENT]));
    }
}
