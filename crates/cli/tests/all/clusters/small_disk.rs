//! A disk that is soon full.

use std::path::PathBuf;
use std::process::Command;

use walzip_testing::not_run;

use crate::clusters::site::{Site, is_root, succeed};

/// A file system of a few megabytes in memory, unmounted when dropped.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Nothing, and a word about it, where there is no right to mount.
    pub fn mount(site: &Site, directory: PathBuf, size: &str) -> Option<SmallDisk> {
        if !is_root() {
            not_run("a full disk, because only root can mount a small one");
            return None;
        }
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(&directory)
            .status();
        if !mounted.expect("the mount command").success() {
            not_run("a full disk, because this root may not mount a small one");
            return None;
        }
        site.hand_over(&directory);
        Some(SmallDisk(directory))
    }

    /// Makes room.
    pub fn grow(&self) {
        succeed(
            Command::new("mount")
                .args(["-o", "remount,size=512m"])
                .arg(&self.0),
        );
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a failing test may drop this before its server.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
