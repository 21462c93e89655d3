//! A small disk, on which room can run out.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::clusters::site::Site;
use crate::rounds::Checked;

/// A file system in memory, mounted as long as it is used.
pub struct Disk {
    pub path: PathBuf,
}

impl Disk {
    /// Nothing where this process may not mount one.
    pub fn mount(site: &Site, path: &Path, bytes: u64) -> Checked<Option<Disk>> {
        fs::create_dir(path).map_err(|error| error.to_string())?;
        let size = format!("size={bytes}");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(path)
            .output();
        let is_mounted = mount.is_ok_and(|output| output.status.success());
        if !is_mounted {
            fs::remove_dir(path).map_err(|error| error.to_string())?;
            return Ok(None);
        }
        site.hand_over(path);
        Ok(Some(Disk {
            path: path.to_owned(),
        }))
    }

    /// Gives it another size.
    pub fn resize(&self, bytes: u64) -> Checked {
        let size = format!("remount,size={bytes}");
        let mut mount = Command::new("mount");
        let mount = mount.args(["-o", &size]).arg(&self.path).status();
        match mount.is_ok_and(|status| status.success()) {
            true => Ok(()),
            false => Err(format!("{} takes no {size}", self.path.display())),
        }
    }

    /// Fills it, up to about so many bytes.
    pub fn fill(&self, left: u64) -> Checked<PathBuf> {
        let path = self.path.join(format!("filler-{left}"));
        let mut file = fs::File::create(&path).map_err(|error| error.to_string())?;
        let block = [1; 4096];
        let mut written = 0u64;
        while file.write_all(&block).is_ok() {
            written += block.len() as u64;
        }
        let kept = written.saturating_sub(left);
        file.set_len(kept).map_err(|error| error.to_string())?;
        Ok(path)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
        let _ = fs::remove_dir(&self.path);
    }
}
