//! `kill -9` at a random moment of what is done to an archive beside pushes and gets: a backup, a
//! restore, and setting a timeline aside.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::life::{Life, configured};
use super::model::{Backup, archived};
use super::server::Server;
use super::site::said;
use crate::rounds::Checked;
use crate::store::moves::objects;

/// Within what times a command is killed.
const BACKUP: Duration = Duration::from_millis(1500);
const RESTORE: Duration = Duration::from_millis(900);

impl Life<'_> {
    /// A killed backup is none, whenever it was killed; or all of it is there.
    pub fn kill_backup(&mut self) -> Checked {
        let index = self.any();
        let began = self.look(index)?;
        let before = backups(&self.site.repository())?;
        let command = self.running[index].server.walzip(&["backup"]);
        let command = configured(command, self.config.as_deref());
        let succeeded = self.kill_at_random(command, BACKUP)?;
        let after = backups(&self.site.repository())?;
        match (succeeded, after.difference(&before).count()) {
            // What it left is in nobody's way.
            (false, 0) if self.random.chance(50) => self.back_up(),
            (false, 0) => self.verify(),
            (_, 1) => {
                let timeline = self.running[index].timeline;
                let ended = self.look(index)?;
                self.model.backups.push(Backup {
                    timeline,
                    began,
                    ended,
                });
                self.verify()
            }
            (true, count) => Err(format!("a backup succeeded, and {count} more are there")),
            (false, count) => Err(format!("a killed backup left {count}")),
        }
    }

    /// What a killed restore leaves does not start, or is whole; another one is told to begin
    /// anew.
    pub fn kill_restore(&mut self) -> Checked {
        let (target, told) = self.choose_target();
        let server = Server::on(self.site, "killed");
        let config = self.config.clone();
        let restore = || {
            let restore = server.walzip(&["restore", "-D"]);
            let mut command = configured(restore, config.as_deref());
            command
                .arg(server.data())
                .args(super::restores::flags(&target));
            if let Some(told) = told {
                command.args(["--target-timeline", &told.to_string()]);
            }
            command
        };
        let before = archived(&self.site.repository())?;
        let succeeded = self.kill_at_random(restore(), RESTORE)?;
        let after = archived(&self.site.repository())?;
        let is_begun =
            fs::read_dir(server.data()).is_ok_and(|mut entries| entries.next().is_some());
        let is_whole = server.data().join("global/pg_control").exists();
        if succeeded && !is_whole {
            return Err(format!("a restore to {target:?} left no control file"));
        }
        if is_begun {
            let again = restore().output().map_err(|error| error.to_string())?;
            if again.status.success() {
                return Err(format!("a restore over a killed one: {}", said(&again)));
            }
            if !is_whole && self.starts(&server)? {
                return Err(format!("half a restore to {target:?} starts"));
            }
        }
        if is_whole {
            self.progress
                .count("  a restore was whole when it was killed");
            let verdict = self.judge(&target, told, false, [&before, &after]);
            self.start_and_compare(&server, &verdict)
                .map_err(|what| format!("killed restore to {target:?}, {told:?}: {what}"))?;
            server.stop();
        }
        if server.data().exists() {
            fs::remove_dir_all(server.data()).map_err(|error| error.to_string())?;
        }
        self.restore_and_compare(&target, told, false)
    }

    /// Whether PostgreSQL would begin to recover what lies there.
    pub fn starts(&self, server: &Server) -> Checked<bool> {
        let mut single = self.site.command(self.site.program("postgres"));
        single
            .arg("--single")
            .arg("-D")
            .arg(server.data())
            .arg("postgres");
        let output = single.stdin(Stdio::null()).output();
        Ok(output.map_err(|error| error.to_string())?.status.success())
    }

    /// An abandoned timeline is set aside and put back, both killed and repeated.
    pub fn kill_set_aside(&mut self) -> Checked {
        self.archive_everything()?;
        let Some(timeline) = self.any_abandoned() else {
            return Ok(());
        };
        let repository = self.site.repository();
        let (wal, moved) = (repository.join("wal"), repository.join("aside"));
        let before = objects(&wal)?;
        let number = timeline.to_string();
        let aside = ["timeline", "set-aside", &number, "--confirm"];
        let begin = Instant::now();
        let dry = self.finish(&aside[..3])?;
        let within = begin.elapsed() * 3;
        if dry != 0 {
            self.progress.count("  setting aside was refused");
            return Ok(());
        }
        let command = self.site.walzip(&aside);
        if !self.kill_at_random(command, within)? {
            self.succeed(&aside)?;
        }
        let has_own = |&(id, _): &(u32, u64)| id == timeline;
        if archived(&repository)?.iter().any(has_own) {
            return Err(format!("timeline {timeline} was set aside, and is there"));
        }
        let label = format!("{timeline:08X}");
        let back = ["timeline", "put-back", &label, "--confirm"];
        let command = self.site.walzip(&back);
        let killed = !self.kill_at_random(command, within)?;
        // The kill may have come after the last step.
        if killed && !objects(&moved)?.is_empty() {
            self.succeed(&back)?;
        }
        let after = objects(&wal)?;
        let is_there = |(name, object): (&String, &Vec<u8>)| after.get(name) == Some(object);
        match before.iter().all(is_there) && objects(&moved)?.is_empty() {
            true => self.verify(),
            false => Err(format!(
                "timeline {timeline} was put back, and not all of it"
            )),
        }
    }

    /// A timeline on which nobody writes, nor on one that came from it.
    fn any_abandoned(&mut self) -> Option<u32> {
        let running: Vec<u32> = self.running.iter().map(|branch| branch.timeline).collect();
        let is_lived_on = |id: u32| {
            running.iter().any(|&branch| {
                let history = &self.model.timeline(branch).history;
                branch == id || history.iter().any(|&(before, _)| before == id)
            })
        };
        let timelines = self.model.timelines.iter().map(|timeline| timeline.id);
        let abandoned: Vec<u32> = timelines.filter(|&id| id > 1 && !is_lived_on(id)).collect();
        self.random.pick(&abandoned).copied()
    }

    fn succeed(&self, arguments: &[&str]) -> Checked {
        match self.finish(arguments)? {
            0 => Ok(()),
            code => Err(format!("{arguments:?} after a kill: exit {code}")),
        }
    }

    fn finish(&self, arguments: &[&str]) -> Checked<i32> {
        let ended = crate::store::walzip::ended(self.site.walzip(arguments).output())?;
        Ok(ended.code)
    }

    /// Starts a command and kills it within some time; whether it had succeeded before.
    fn kill_at_random(&mut self, mut command: Command, within: Duration) -> Checked<bool> {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let delay = within.mul_f64(self.random.fraction());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        std::thread::sleep(delay);
        child.kill().map_err(|error| error.to_string())?;
        let status = child.wait().map_err(|error| error.to_string())?;
        match status.code() {
            None => self.progress.killed(1),
            Some(_) => self.progress.count("  ended before the kill"),
        }
        Ok(status.success())
    }
}

/// The labels of finished backups.
fn backups(repository: &Path) -> Checked<BTreeSet<String>> {
    let labels = fs::read_dir(repository.join("backup")).map_err(|error| error.to_string())?;
    Ok(labels
        .flatten()
        .filter(|label| label.path().join("backup.json").exists())
        .map(|label| label.file_name().to_string_lossy().into_owned())
        .collect())
}
