//! What must hold after each step, and what a get answers.

use std::collections::BTreeMap;
use std::fs;

use super::places::Held;
use super::{NUMBERS, Number, Several};
use crate::clusters::model::segment;
use crate::rounds::Checked;
use crate::store::walzip::ended;

/// How many files of each repository are read again after a step.
const SAMPLE: usize = 3;

/// `problems`.
const PROBLEMS: i32 = 104;

/// The number of the segment that a file is, or begins in; none of a history.
pub fn number_of(name: &str) -> Option<u64> {
    segment(name.get(..24)?).map(|(_, number)| number)
}

impl Several<'_> {
    /// Both repositories have what was said to be in them, with the right content.
    pub fn check(&mut self) -> Checked {
        for number in NUMBERS {
            let held = self.check_presence(number)?;
            let names: Vec<String> = held.wal.into_iter().collect();
            let mut sample = Vec::new();
            for _ in 0..SAMPLE {
                sample.extend(self.random.pick(&names).cloned());
            }
            self.check_contents(number, &sample)?;
        }
        Ok(())
    }

    /// The same for every file.
    pub fn check_all(&mut self) -> Checked {
        for number in NUMBERS {
            let held = self.check_presence(number)?;
            let names: Vec<String> = held.wal.into_iter().collect();
            self.check_contents(number, &names)?;
        }
        Ok(())
    }

    /// Nothing acknowledged is missing that no expiry may have removed, and no backup that is kept,
    /// nor what a backup needs.
    fn check_presence(&self, number: Number) -> Checked<Held> {
        // In this order: what is acknowledged after the look cannot be missed.
        let acknowledged = self.acknowledged();
        let held = self.places.held(number)?;
        let book = &self.books[usize::from(number) - 1];
        if let Some(lost) = book
            .backups
            .iter()
            .find(|label| !held.backups.contains_key(*label))
        {
            return Err(format!("repository {number}: backup {lost} has gone"));
        }
        let first = match book.is_expired {
            true => self.oldest_kept(number, &held).unwrap_or(u64::MAX),
            false => 0,
        };
        let is_needed = |at: u64| {
            let mut extents = held.backups.values();
            extents.any(|extent| (extent.first..=extent.last).contains(&at))
        };
        for (name, _) in acknowledged.iter().filter(|(_, by)| by.contains(&number)) {
            let must_be = number_of(name).is_none_or(|at| at >= first || is_needed(at));
            if must_be && !held.wal.contains(name) {
                return Err(format!(
                    "repository {number}: {name} was acknowledged, and is not there; \
                     kept from segment {first:X} on"
                ));
            }
        }
        for (label, extent) in &held.backups {
            let lost = (extent.first..=extent.last)
                .map(|at| crate::clusters::model::segment_name(1, at))
                .find(|name| !held.wal.contains(name));
            if let Some(lost) = lost {
                return Err(format!(
                    "repository {number}: {label} needs {lost}, which is gone"
                ));
            }
        }
        Ok(held)
    }

    fn check_contents(&self, number: Number, names: &[String]) -> Checked {
        for (name, content) in self.places.contents(number, names)? {
            if content != self.sent(&name)? {
                return Err(format!("repository {number}: {name} has other bytes"));
            }
        }
        Ok(())
    }

    /// The first segment of the oldest backup that a retention keeps: what a pin keeps has only the
    /// WAL of its own.
    pub fn oldest_kept(&self, number: Number, held: &Held) -> Option<u64> {
        let pinned = &self.books[usize::from(number) - 1].pinned;
        let kept = held
            .backups
            .iter()
            .filter(|(label, _)| !pinned.contains(*label));
        kept.map(|(_, extent)| extent.first).min()
    }

    /// One file through the program, from whichever repository has it.
    pub fn get_any(&mut self) -> Checked {
        let acknowledged: BTreeMap<String, Vec<Number>> = self.acknowledged();
        let names: Vec<&String> = acknowledged.keys().collect();
        let Some(name) = self.random.pick(&names).map(|name| (*name).clone()) else {
            return Ok(());
        };
        let mut has_it = false;
        for number in NUMBERS
            .into_iter()
            .filter(|number| Some(*number) != self.places.away)
        {
            has_it |= self.places.held(number)?.wal.contains(&name);
        }
        let destination = self.site.path("got/RECOVERYXLOG");
        let mut get = self.command(&["archive-get", &name]);
        let got = ended(get.arg(&destination).output())?;
        let content = fs::read(&destination).ok();
        let _ = fs::remove_file(&destination);
        match (got.code, content) {
            (0, Some(content)) if has_it && content == self.sent(&name)? => Ok(()),
            // "Not in the archive" ends a recovery: only all of them together can say it.
            (1, None) if !has_it && self.places.away.is_none() => Ok(()),
            (2.., None) if self.places.falters() || !has_it => Ok(()),
            (code, content) => Err(format!(
                "{name}: exit {code}, {:?} bytes, and {} is away\n{}",
                content.map(|content| content.len()),
                self.places.away.unwrap_or_default(),
                got.said
            )),
        }
    }

    pub fn verify_any(&mut self) -> Checked {
        let number = self.any_reachable()?;
        self.verify(number)
    }

    /// Nothing is wrong, except WAL that a repository lacks because it was taken out of the file.
    pub fn verify(&self, number: Number) -> Checked {
        let before = self.has_hole(&self.places.held(number)?);
        let verified = self.run(&["verify", "--repo", &number.to_string()])?;
        let has_hole = before || self.has_hole(&self.places.held(number)?);
        match verified.code {
            0 => Ok(()),
            PROBLEMS if has_hole && !verified.said.contains("damaged") => Ok(()),
            code => Err(format!(
                "verify of repository {number}: exit {code}\n{}",
                verified.said
            )),
        }
    }

    /// Whether a segment is missing between others.
    pub fn has_hole(&self, held: &Held) -> bool {
        let whole = held.wal.iter().filter(|name| name.len() == 24);
        let numbers: Vec<u64> = whole.filter_map(|name| number_of(name)).collect();
        numbers.windows(2).any(|pair| pair[0] + 1 != pair[1])
    }
}
