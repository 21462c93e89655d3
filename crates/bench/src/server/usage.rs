//! What a server has used of the machine, as the kernel counts it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::Server;

/// What a server and its children, ended ones included, have used so far.
#[derive(Clone, Copy, Debug)]
pub struct ServerUsage {
    /// Processor time.
    pub cpu: Duration,
    /// Bytes that they made the kernel write to a disk; none where the kernel does not tell.
    pub written_bytes: Option<u64>,
    /// Bytes that they made the kernel read from a disk; none where the kernel does not tell.
    pub read_bytes: Option<u64>,
}

impl Server {
    /// What it has used so far; none where the kernel does not tell.
    pub fn usage(&self) -> Option<ServerUsage> {
        ServerUsage::of(self.postmaster.id())
    }
}

impl ServerUsage {
    /// By a process and its children.
    fn of(process: u32) -> Option<ServerUsage> {
        let ended = || Stat::of(&Path::new("/proc").join(process.to_string()));
        loop {
            // What a child took that ends while the others are being looked at would be counted
            // by nobody, or twice.
            let before = ended()?.faults_of_ended;
            let usage = ServerUsage::at_once(process)?;
            if ended()?.faults_of_ended == before {
                return Some(usage);
            }
        }
    }

    fn at_once(parent: u32) -> Option<ServerUsage> {
        let mut ticks = 0;
        let mut of_disk = Some((0, 0));
        for entry in fs::read_dir("/proc").ok()?.flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            // A process may end while it is being looked at.
            let Some(process) = Stat::of(&entry.path()) else {
                continue;
            };
            if pid == parent {
                ticks += process.own + process.ended_children;
            } else if process.parent == parent {
                ticks += process.own;
            } else {
                continue;
            }
            of_disk = of_disk.zip(of_a_disk(&entry.path())).map(
                |((read, written), (also_read, also_written))| {
                    (read + also_read, written + also_written)
                },
            );
        }
        let per_second = rustix::param::clock_ticks_per_second();
        Some(ServerUsage {
            cpu: Duration::from_secs_f64(ticks as f64 / per_second as f64),
            written_bytes: of_disk.map(|(_, written)| written),
            read_bytes: of_disk.map(|(read, _)| read),
        })
    }
}

/// Bytes read from and written to a disk by a process and its ended children, which the kernel
/// adds.
fn of_a_disk(process: &Path) -> Option<(u64, u64)> {
    let text = fs::read_to_string(process.join("io")).ok()?;
    let count = |name| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line?.trim().parse().ok()
    };
    Some((count("read_bytes: ")?, count("write_bytes: ")?))
}

/// A line of /proc/PID/stat: what a process took, in ticks.
struct Stat {
    parent: u32,
    own: u64,
    ended_children: u64,
    /// Page faults of ended children: more with each of them, however short it lived.
    faults_of_ended: u64,
}

impl Stat {
    fn of(process: &Path) -> Option<Stat> {
        Stat::read(&fs::read_to_string(process.join("stat")).ok()?)
    }

    fn read(line: &str) -> Option<Stat> {
        // The name, in parentheses, may contain anything.
        let (_, rest) = line.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Stat {
            parent: u32::try_from(number(1)?).ok()?,
            own: number(11)? + number(12)?,
            ended_children: number(13)? + number(14)?,
            faults_of_ended: number(8)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let line = "42 (postgres: a) b) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 300 400 20 0 1 0 9";
        let stat = Stat::read(line).unwrap();
        assert_eq!((stat.parent, stat.own, stat.ended_children), (7, 30, 700));
        assert_eq!(stat.faults_of_ended, 2);
    }

    #[test]
    fn nothing_is_lost_or_counted_twice_when_a_child_ends() {
        let children = std::thread::spawn(|| {
            for _ in 0..20 {
                let script = "i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done";
                let mut child = std::process::Command::new("/bin/sh");
                assert!(child.args(["-c", script]).status().unwrap().success());
            }
        });
        let mut before = Duration::ZERO;
        while !children.is_finished() {
            let now = ServerUsage::of(std::process::id()).unwrap().cpu;
            assert!(now >= before, "{before:?} and then {now:?}");
            before = now;
        }
        children.join().unwrap();
    }
}
