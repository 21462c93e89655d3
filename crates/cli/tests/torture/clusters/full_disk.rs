//! A restore to a disk without room.

use std::fs;

use super::life::{Life, configured};
use super::server::Server;
use super::site::said;
use crate::disk::Disk;
use crate::rounds::Checked;

/// A new cluster takes about 40 MB: the smallest disk is full in the middle of the backup, the
/// largest one while WAL arrives, or never.
const SMALLEST: u64 = 1 << 20;
const LARGEST: u64 = 40 << 20;
/// Room for everything.
const ENOUGH: u64 = 1 << 30;

/// Where the disk is mounted, and the data directory on it.
const DISK: &str = "disk";
const DATA: &str = "disk/restored";

impl Life<'_> {
    /// A restore for which there is too little room is refused and does not start. When there is
    /// room, it is repeated and has the right rows.
    pub fn restore_to_full_disk(&mut self) -> Checked {
        let (target, told) = self.choose_target();
        let size = SMALLEST + self.random.next() % (LARGEST - SMALLEST);
        let Some(disk) = Disk::mount(self.site, &self.site.path(DISK), size)? else {
            self.progress
                .count("  no disk of its own can be mounted here");
            return Ok(());
        };
        let server = Server::on(self.site, DATA);
        let restore = server.walzip(&["restore", "-D"]);
        let mut command = configured(restore, self.config.as_deref());
        command
            .arg(server.data())
            .args(super::restores::flags(&target));
        if let Some(told) = told {
            command.args(["--target-timeline", &told.to_string()]);
        }
        let output = command.output().map_err(|error| error.to_string())?;
        let text = said(&output);
        crate::store::walzip::ended(Ok(output.clone()))?;
        if !output.status.success() {
            let is_full = text.contains("No space left");
            self.progress.count(match is_full {
                true => "  a restore had too little room",
                false => "  refused before the disk was full",
            });
            if server.data().join("PG_VERSION").exists() && self.starts(&server)? {
                return Err(format!("{size} bytes: half a restore starts:\n{text}"));
            }
        }
        if server.data().exists() {
            fs::remove_dir_all(server.data()).map_err(|error| error.to_string())?;
        }
        disk.resize(ENOUGH)?;
        self.restore_and_compare_as(DATA, &target, told, false)
            .map_err(|what| format!("{size} bytes, then {ENOUGH}: {what}"))
    }
}
