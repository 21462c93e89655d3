//! Backups, expiries and synchronisations: run to their end or killed, and what they may have done.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::places::is_from;
use super::{Number, Several};
use crate::rounds::Checked;
use crate::store::walzip::ended;

/// Within what time a backup is killed.
const BACKUP: Duration = Duration::from_millis(2500);

/// How many full backups an expiry keeps at most.
const KEPT_MAX: usize = 2;

/// `being-expired`: the backup that an incremental one begins from.
const BEING_EXPIRED: i32 = 115;

impl Several<'_> {
    /// A backup in a repository into which the server archives.
    pub fn back_up(&mut self) -> Checked {
        let active = self.places.active()?;
        match (self.places.takes_pushes()?, self.random.pick(&active)) {
            // Elsewhere its WAL does not arrive.
            (false, _) | (_, None) => self.work(),
            (true, Some(&number)) => {
                let is_killed = self.random.chance(35);
                self.back_up_in(number, is_killed)
            }
        }
    }

    /// A backup, of any type, with a pin at times.
    pub fn back_up_in(&mut self, number: Number, is_killed: bool) -> Checked {
        let (before, is_pinned) = (self.labels(number)?, self.random.chance(15));
        let repo = number.to_string();
        let arguments = self.backup_arguments(&repo, is_pinned);
        let succeeded = match is_killed {
            true => {
                let within = self.part_of(BACKUP);
                let command = self.command(&arguments);
                self.kill(command, within)?
            }
            false => self.succeed(&arguments).map(|_| true)?,
        };
        self.note_backup(number, &before, succeeded, is_pinned)
    }

    fn backup_arguments<'r>(&mut self, repo: &'r str, is_pinned: bool) -> Vec<&'r str> {
        let of_type = *self
            .random
            .pick(&["full", "full", "incr"])
            .unwrap_or(&"full");
        let mut arguments = vec!["backup", "--level", "1", "--repo", repo, "--type", of_type];
        if is_pinned {
            arguments.push("--pin=kept by its pin");
        }
        arguments
    }

    /// A backup that was acknowledged is there; one that was killed is none, or all of it is there.
    fn note_backup(
        &mut self,
        number: Number,
        before: &BTreeSet<String>,
        succeeded: bool,
        is_pinned: bool,
    ) -> Checked {
        let after = self.labels(number)?;
        let new: Vec<&String> = after.difference(before).collect();
        match (new[..].len(), succeeded) {
            (1, _) => {
                let book = self.book(number);
                book.backups.insert(new[0].clone());
                if is_pinned {
                    book.pinned.insert(new[0].clone());
                }
                Ok(())
            }
            (0, false) => Ok(()),
            (count, _) => Err(format!("{count} new backups, and success is {succeeded}")),
        }
    }

    /// An expiry by a number of full backups, killed at times and then run to its end.
    pub fn expire(&mut self) -> Checked {
        let number = self.any_reachable()?;
        let kept = 1 + self.random.below(KEPT_MAX);
        let (repo, full) = (number.to_string(), kept.to_string());
        let mut dry = vec!["expire", "--repo", &repo, "--retention-full", &full];
        // No backup runs now: what is not finished was killed.
        if self.random.chance(50) {
            dry.extend(["--unfinished-age", "0d"]);
        }
        let confirmed = [&dry[..], &["--confirm"]].concat();
        let begin = Instant::now();
        self.succeed(&dry)?;
        let before = self.labels(number)?;
        if self.random.chance(60) {
            let within = self.part_of(begin.elapsed() * 2);
            let command = self.command(&confirmed);
            self.kill(command, within)?;
            self.note_expiry(number, &before, kept)?;
            self.check()?;
            if self.random.chance(40) {
                return Ok(());
            }
        }
        self.succeed(&confirmed)?;
        self.note_expiry(number, &before, kept)?;
        self.has_nothing_else(number, &before, kept)
    }

    /// A backup begins while an expiry removes what it may build upon.
    pub fn expire_beside_backup(&mut self) -> Checked {
        let number = self.any_reachable()?;
        if !self.places.takes_pushes()? || !self.places.active()?.contains(&number) {
            return self.expire();
        }
        let (repo, kept) = (number.to_string(), 1 + self.random.below(2));
        let before = self.labels(number)?;
        let arguments = self.backup_arguments(&repo, false);
        let mut backup = self.command(&arguments);
        backup.stdout(Stdio::piped()).stderr(Stdio::piped());
        let backup = backup.spawn().map_err(|error| error.to_string())?;
        std::thread::sleep(self.part_of(BACKUP / 2));
        let full = kept.to_string();
        let arguments = [
            "expire",
            "--repo",
            &repo,
            "--retention-full",
            &full,
            "--confirm",
        ];
        let expired = self.run(&arguments);
        let backup = ended(backup.wait_with_output())?;
        let expired = expired?;
        if expired.code != 0 {
            return Err(format!("expire: exit {}\n{}", expired.code, expired.said));
        }
        match backup.code {
            0 => {}
            BEING_EXPIRED => self
                .progress
                .count("  a backup lost what it was told against"),
            _ if self.places.falters() => {}
            code => return Err(format!("backup: exit {code}\n{}", backup.said)),
        }
        // The new one may have been there for the expiry, or not: it keeps the less of both.
        let all: BTreeSet<String> = before.union(&self.labels(number)?).cloned().collect();
        let new: BTreeSet<String> = all.difference(&before).cloned().collect();
        self.note_expiry(number, &all, kept)?;
        match (new.len(), backup.code) {
            (1, _) | (0, 1..) => {
                self.book(number).backups.extend(new);
                Ok(())
            }
            (count, code) => Err(format!("a backup ended with {code}, and {count} are new")),
        }
    }

    /// After an expiry, finished or not, all is there that the retention and the pins keep.
    fn note_expiry(&mut self, number: Number, before: &BTreeSet<String>, kept: usize) -> Checked {
        let after = self.labels(number)?;
        let book = self.book(number);
        let must = must_stay(before, kept);
        let oldest = must.first().cloned();
        book.retained_from = oldest.max(book.retained_from.take());
        let must: Vec<&String> = must.union(&book.pinned).collect();
        if let Some(lost) = must.iter().find(|label| !after.contains(**label)) {
            return Err(format!(
                "repository {number}: an expiry that keeps {kept} removed {lost}\n\
                 before: {before:?}\nafter: {after:?}"
            ));
        }
        book.backups.retain(|label| after.contains(label));
        Ok(())
    }

    /// An expiry that has ended has left nothing but what is kept, and what that needs.
    fn has_nothing_else(&self, number: Number, before: &BTreeSet<String>, kept: usize) -> Checked {
        let book = &self.books[usize::from(number) - 1];
        let must = must_stay(before, kept);
        let after = self.labels(number)?;
        let is_needed = |label: &String| {
            let later = must.iter().chain(&book.pinned);
            later
                .into_iter()
                .any(|other| !other.ends_with('F') && label < other)
        };
        let is_kept = |label: &String| {
            must.contains(label) || book.pinned.contains(label) || is_needed(label)
        };
        match after.iter().find(|label| !is_kept(label)) {
            None => Ok(()),
            Some(label) => Err(format!(
                "an expiry that keeps {kept} left {label}: {after:?}"
            )),
        }
    }

    /// A repository that is not complete is brought up to date, if the other one can be reached.
    pub fn sync_any(&mut self) -> Checked {
        let number = self.any_reachable()?;
        match self.places.away {
            Some(_) => self.sync_from_nobody(number),
            None => self.sync(number),
        }
    }

    /// The one that could give is away: that is said, and nothing is changed.
    fn sync_from_nobody(&mut self, number: Number) -> Checked {
        let before = self.places.held(number)?.wal;
        let ended = self.run(&["sync", "--repo", &number.to_string()])?;
        let is_kept = self.places.held(number)?.wal.is_superset(&before);
        match (ended.code, is_kept) {
            (104, true) => Ok(()),
            (code, _) => Err(format!("sync from nobody: exit {code}\n{}", ended.said)),
        }
    }

    /// After a `sync`, killed before or not, a repository has all that the other one has from its
    /// own oldest backup on.
    pub fn sync(&mut self, number: Number) -> Checked {
        let repo = number.to_string();
        let arguments = ["sync", "--repo", &repo];
        if self.random.chance(50) {
            let within = self.part_of(Duration::from_millis(400));
            let command = self.command(&arguments);
            self.kill(command, within)?;
            self.check()?;
        }
        let other = self.places.held(3 - number)?;
        self.succeed(&arguments)?;
        let held = self.places.held(number)?;
        // What follows those that are there for pins may have been removed.
        let oldest = self.oldest(number, &held, true);
        for name in other.wal.difference(&held.wal) {
            if is_from(oldest, name) {
                return Err(format!(
                    "repository {number} was synchronised, and lacks {name}"
                ));
            }
        }
        Ok(())
    }

    fn labels(&self, number: Number) -> Checked<BTreeSet<String>> {
        Ok(self.places.held(number)?.backups.into_keys().collect())
    }

    /// Starts a command and kills it some time later; whether it had succeeded before.
    fn kill(&self, mut command: Command, after: Duration) -> Checked<bool> {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        std::thread::sleep(after);
        child.kill().map_err(|error| error.to_string())?;
        let status = child.wait().map_err(|error| error.to_string())?;
        match status.code() {
            None => self.progress.killed(1),
            Some(_) => self.progress.count("  ended before the kill"),
        }
        Ok(status.success())
    }
}

/// The newest full backups, and all after the oldest of them; all where there are not so many.
fn must_stay(labels: &BTreeSet<String>, kept: usize) -> BTreeSet<String> {
    let full = labels.iter().filter(|label| label.ends_with('F'));
    match full.rev().nth(kept - 1) {
        Some(oldest) => labels.range(oldest.clone()..).cloned().collect(),
        None => labels.clone(),
    }
}
