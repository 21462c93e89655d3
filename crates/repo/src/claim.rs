//! The claim of a process to a label: what says that an attempt at a backup runs, or has ended.

use std::fs;

use jiff::Timestamp;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use crate::layout::{self, BACKUP_STARTED, FORMAT};
use crate::names::backup_label::BackupLabel;

/// `started`, as in docs/format/repository.md.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StartedJson {
    format: u64,
    started: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) references: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    process: Option<Process>,
}

impl StartedJson {
    /// Of this process.
    pub(crate) fn new(started: Timestamp, references: Vec<String>) -> StartedJson {
        StartedJson {
            format: FORMAT,
            started,
            references: Some(references),
            process: Process::current(),
        }
    }

    /// Whether the process runs, as far as that can be known.
    pub(crate) fn runs(&self) -> Option<bool> {
        self.process.as_ref()?.runs()
    }
}

/// A process, as Linux tells it from all others.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Process {
    /// The boot of the machine (`/proc/sys/kernel/random/boot_id`).
    boot: String,
    /// What `pid` counts in (`/proc/self/ns/pid`).
    pid_namespace: String,
    pid: u32,
    /// When it began, in clock ticks since the boot (`/proc/PID/stat`, field 22).
    start_ticks: u64,
}

impl Process {
    /// This process, where the system says so much of it.
    fn current() -> Option<Process> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
        let pid = std::process::id();
        Some(Process {
            boot: boot.trim().to_owned(),
            pid_namespace: namespace.to_str()?.to_owned(),
            pid,
            start_ticks: stat(pid)?.1,
        })
    }

    /// Whether it runs, where that can be known: if it began here.
    fn runs(&self) -> Option<bool> {
        let own = Process::current()?;
        if own.boot != self.boot || own.pid_namespace != self.pid_namespace {
            return None;
        }
        match stat(self.pid) {
            Some((state, start_ticks)) => {
                Some(start_ticks == self.start_ticks && !ENDED.contains(&state.as_str()))
            }
            // Processes of other users may be hidden.
            None => {
                let pid = Pid::from_raw(self.pid.cast_signed())?;
                let is_gone = test_kill_process(pid) == Err(Errno::SRCH);
                is_gone.then_some(false)
            }
        }
    }
}

/// States of processes that have ended, and whose parents have not noticed yet.
const ENDED: [&str; 2] = ["Z", "X"];

/// The state of a process, and when it began. The name of its program may have spaces and parentheses.
fn stat(pid: u32) -> Option<(String, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace();
    let state = fields.next()?.to_owned();
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// The name of an object of an attempt.
pub(crate) fn object_name(attempt: u32, name: &str) -> String {
    match attempt {
        1 => name.to_owned(),
        _ => format!("{attempt}/{name}"),
    }
}

/// The key of the claim of an attempt.
pub(crate) fn claim_key(label: &BackupLabel, attempt: u32) -> String {
    let name = object_name(attempt, BACKUP_STARTED);
    format!("{}/{name}", layout::backup_prefix(label.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_ended_only_where_that_can_be_known() {
        let own = || Process::current().expect("it is known");
        assert_eq!(own().runs(), Some(true));
        let reused = Process {
            start_ticks: own().start_ticks + 1,
            ..own()
        };
        assert_eq!(reused.runs(), Some(false));
        let gone = Process {
            // More than a system has.
            pid: (1 << 30) - 1,
            ..own()
        };
        assert_eq!(gone.runs(), Some(false));
        let elsewhere = Process {
            boot: "another".to_owned(),
            ..own()
        };
        let hidden = Process {
            pid_namespace: "pid:[1]".to_owned(),
            ..own()
        };
        for process in [elsewhere, hidden] {
            let gone = Process {
                start_ticks: 0,
                ..process
            };
            assert_eq!(gone.runs(), None);
        }
    }
}
