//! A limit to the memory of a server and of the page cache that it fills, by a control group.
//!
//! `shared_buffers` alone limits nothing: what it lacks, the kernel keeps in its page cache, for
//! which it has the whole machine. A memory cgroup has both in one account. It lies within the
//! group that this process is in, or beside it where version 2 asks for that, so that no limit of
//! the machine's is evaded. Only processes of the server are moved into it.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use crate::scratch::Scratch;

/// What a shell does with a server that is to be moved: it waits for a word, and becomes it.
pub(super) const WAITS: &str = "read -r moved && exec \"$@\" </dev/null";

/// How often the removal is tried: the kernel gives up ended processes a moment later.
const TRIES: u32 = 200;
const BETWEEN_TRIES: Duration = Duration::from_millis(25);

/// `f_type` of a file system in memory.
const TMPFS: i64 = 0x0102_1994;

/// The two versions of the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A memory cgroup of one server, which goes when this value does.
#[derive(Debug)]
pub(super) struct MemoryGroup {
    path: PathBuf,
    version: Version,
}

impl MemoryGroup {
    /// A group with a limit, or why there cannot be one. When this process is killed, the guard of
    /// the directory removes it.
    pub(super) fn new(scratch: &mut Scratch, limit_bytes: u64) -> Result<MemoryGroup, String> {
        let on_disk = rustix::fs::statfs(scratch.path()).map_err(|errno| errno.to_string())?;
        if on_disk.f_type as i64 == TMPFS {
            let reason =
                "the database would lie in memory (tmpfs): set TMPDIR to a directory on a disk";
            return Err(reason.to_owned());
        }
        let (parent, version) = parent()?;
        let name = scratch.path().file_name().unwrap_or_default();
        // Whose it is can be seen.
        let process = std::process::id();
        let path = parent.join(format!("{}-{process}", name.display()));
        let said = |source: io::Error| {
            format!("no memory cgroup can be made ({source}): run this as root")
        };
        scratch.also_removes(&path).map_err(said)?;
        fs::create_dir(&path).map_err(said)?;
        let group = MemoryGroup { path, version };
        group.limit(limit_bytes).map_err(said)?;
        Ok(group)
    }

    fn limit(&self, bytes: u64) -> io::Result<()> {
        let bytes = bytes.to_string();
        // Without the second, what does not fit would go to swap. A kernel without swap has no such
        // file, and nothing to limit.
        let (limit, swap, swap_value) = match self.version {
            Version::One => ("memory.limit_in_bytes", "memory.swappiness", "0"),
            Version::Two => ("memory.max", "memory.swap.max", "0"),
        };
        fs::write(self.path.join(limit), bytes)?;
        let swap = self.path.join(swap);
        match swap.exists() {
            true => fs::write(swap, swap_value),
            false => Ok(()),
        }
    }

    /// Moves a process that waits ([`WAITS`]) into the group, and lets it go on.
    pub(super) fn admit(&self, child: &mut Child) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), child.id().to_string())?;
        match child.stdin.take() {
            Some(mut pipe) => pipe.write_all(b"moved\n"),
            None => Err(io::Error::other("a server waits for nothing")),
        }
    }

    /// How many processes the kernel has ended for want of memory.
    pub(super) fn ended_for_want(&self) -> u64 {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(self.path.join(file)).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count
            .and_then(|count| count.trim().parse().ok())
            .unwrap_or(0)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            match fs::remove_dir(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    std::thread::sleep(BETWEEN_TRIES);
                }
                _ => return,
            }
        }
    }
}

/// Where a group can be made.
fn parent() -> Result<(PathBuf, Version), String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let (mounts, own) = (read("/proc/self/mountinfo")?, read("/proc/self/cgroup")?);
    find_parent(&mounts, &own)
}

fn find_parent(mounts: &str, own: &str) -> Result<(PathBuf, Version), String> {
    if let Some(directory) = own_directory(mounts, own, Version::One) {
        return Ok((directory, Version::One));
    }
    let directory = own_directory(mounts, own, Version::Two)
        .ok_or("no file system of control groups with the memory controller is mounted")?;
    // A group with processes in it has no groups with a controller, unless it is the root.
    let candidates = [Some(directory.as_path()), directory.parent()];
    let has_memory = |directory: &&Path| {
        let enabled = fs::read_to_string(directory.join("cgroup.subtree_control"));
        enabled.is_ok_and(|enabled| enabled.split_whitespace().any(|name| name == "memory"))
    };
    let found = candidates.into_iter().flatten().find(has_memory);
    let found =
        found.ok_or("the memory controller is not enabled for groups within or beside this one")?;
    Ok((found.to_owned(), Version::Two))
}

/// The directory of the group that this process is in.
fn own_directory(mounts: &str, own: &str, version: Version) -> Option<PathBuf> {
    let has_memory = |words: &str| words.split(',').any(|word| word == "memory");
    let group = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let is_it = match version {
            Version::One => has_memory(controllers),
            Version::Two => controllers.is_empty(),
        };
        is_it.then_some(path)
    })?;
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut kind = after.split(' ');
        let is_it = match version {
            Version::One => kind.next()? == "cgroup" && has_memory(kind.nth(1)?),
            Version::Two => kind.next()? == "cgroup2",
        };
        let mut fields = before.split(' ').skip(3);
        let (root, mounted) = (fields.next()?, fields.next()?);
        let within = Path::new(group).strip_prefix(root).ok()?;
        is_it.then(|| Path::new(mounted).join(within))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "\
20 1 0:5 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
21 1 0:6 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
22 1 0:7 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn the_own_group_is_found_in_both_versions() {
        let own = "8:memory:/service/a\n4:cpu:/\n0::/service\n";
        let of = |version| own_directory(ONE, own, version).unwrap();
        assert_eq!(
            of(Version::One),
            Path::new("/sys/fs/cgroup/memory/service/a")
        );
        assert_eq!(
            of(Version::Two),
            Path::new("/sys/fs/cgroup/unified/service")
        );
        // A container sees a part of the hierarchy.
        let mounts = "21 1 0:6 /box/b /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let found = own_directory(mounts, "0::/box/b/c\n", Version::Two);
        assert_eq!(found.unwrap(), Path::new("/sys/fs/cgroup/c"));
        assert_eq!(own_directory(mounts, "0::/other\n", Version::Two), None);
    }

    #[test]
    fn version_2_needs_the_controller_and_says_where_it_is_not() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().display();
        let mounts = format!("21 1 0:6 / {path} rw - cgroup2 cgroup2 rw\n");
        fs::create_dir_all(directory.path().join("slice/own")).unwrap();
        let control = directory.path().join("slice/cgroup.subtree_control");
        fs::write(&control, "cpu\n").unwrap();
        let own = "0::/slice/own\n";
        let reason = find_parent(&mounts, own).unwrap_err();
        assert!(reason.contains("controller is not enabled"), "{reason}");
        fs::write(&control, "cpu memory\n").unwrap();
        let found = find_parent(&mounts, own).unwrap();
        assert_eq!(found, (directory.path().join("slice"), Version::Two));
        assert!(find_parent("", own).unwrap_err().contains("is mounted"));
    }

    /// A group where that is possible here. In CI root can make one.
    fn group(scratch: &mut Scratch) -> Option<MemoryGroup> {
        match MemoryGroup::new(scratch, 64 << 20) {
            Ok(group) => Some(group),
            Err(reason) => {
                match rustix::process::geteuid().is_root() {
                    true => walzip_testing::not_run(&reason),
                    false => walzip_testing::note(&reason),
                }
                None
            }
        }
    }

    #[test]
    fn a_group_has_what_is_admitted_and_goes_with_it() {
        let mut scratch = Scratch::new_in(&std::env::temp_dir(), "walzip-group-").unwrap();
        let Some(group) = group(&mut scratch) else {
            return;
        };
        let path = group.path.clone();
        let mut shell = std::process::Command::new("/bin/sh");
        let shell = shell.args(["-c", WAITS, "sh", "/bin/cat", "/proc/self/cgroup"]);
        shell.stdin(std::process::Stdio::piped());
        let mut child = shell.stdout(std::process::Stdio::piped()).spawn().unwrap();
        group.admit(&mut child).unwrap();
        let said = child.wait_with_output().unwrap().stdout;
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(String::from_utf8(said).unwrap().contains(name));
        assert_eq!(group.ended_for_want(), 0);
        drop(group);
        assert!(!path.exists());
    }

    #[test]
    fn the_guard_removes_the_group_of_a_process_that_was_killed() {
        let mut scratch = Scratch::new_in(&std::env::temp_dir(), "walzip-group-").unwrap();
        let Some(group) = group(&mut scratch) else {
            return;
        };
        let path = group.path.clone();
        std::mem::forget(group);
        assert!(path.exists());
        scratch.lose();
        assert!(!path.exists());
    }
}
