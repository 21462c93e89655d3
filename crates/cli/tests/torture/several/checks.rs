//! What must hold after each step, and what a get answers.

use std::collections::BTreeMap;
use std::fs;

use super::places::{Held, is_from, segment_at};
use super::{NUMBERS, Number, Several};
use crate::clusters::model::segment_name;
use crate::rounds::Checked;
use crate::store::walzip::ended;

/// How many files of each repository are read again after a step.
const SAMPLE: usize = 3;

/// `problems`.
const PROBLEMS: i32 = 104;

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
        let first = match book.retained_from {
            Some(_) => self.oldest(number, &held, false),
            None => (0, 0),
        };
        let is_needed = |name: &str| {
            let at = segment_at(name);
            let mut extents = held.backups.values();
            extents.any(|needs| {
                at.is_some_and(|(timeline, at)| {
                    timeline == needs.timeline && (needs.first..=needs.last).contains(&at)
                })
            })
        };
        for (name, _) in acknowledged.iter().filter(|(_, by)| by.contains(&number)) {
            let must_be = is_from(first, name) || is_needed(name);
            if must_be && !held.wal.contains(name) {
                return Err(format!(
                    "repository {number}: {name} was acknowledged, and is not there; \
                     kept from timeline and segment {first:?} on"
                ));
            }
        }
        for (label, needs) in &held.backups {
            let lost = (needs.first..=needs.last)
                .map(|at| segment_name(needs.timeline, at))
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

    /// The timeline and the number with which the oldest backup begins that the retention has kept;
    /// perhaps without those that are pinned, or that a pinned one needs.
    pub fn oldest(&self, number: Number, held: &Held, without_pins: bool) -> (u32, u64) {
        let book = &self.books[usize::from(number) - 1];
        let retained_from = book.retained_from.as_deref().unwrap_or_default();
        // An incremental backup needs those before it, back to the full one.
        let is_for_pin = |label: &String| {
            let later = held.backups.range(label.clone()..).skip(1);
            let mut later = later
                .map(|(label, _)| label)
                .take_while(|label| !label.ends_with('F'));
            book.pinned.contains(label) || later.any(|label| book.pinned.contains(label))
        };
        let backups = held.backups.iter();
        let backups = backups.filter(|(label, _)| label.as_str() >= retained_from);
        let backups = backups.filter(|(label, _)| !(without_pins && is_for_pin(label)));
        let oldest = backups
            .map(|(_, needs)| (needs.timeline, needs.first))
            .min();
        oldest.unwrap_or((u32::MAX, u64::MAX))
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
        let before = self.places.held(number)?.has_hole();
        let verified = self.run(&["verify", "--repo", &number.to_string()])?;
        let has_hole = before || self.places.held(number)?.has_hole();
        match verified.code {
            0 => Ok(()),
            PROBLEMS if has_hole && !verified.said.contains("damaged") => Ok(()),
            code => Err(format!(
                "verify of repository {number}: exit {code}\n{}",
                verified.said
            )),
        }
    }
}
