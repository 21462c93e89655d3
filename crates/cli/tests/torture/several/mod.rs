//! A server that archives into two repositories, a directory and a bucket. Each goes away and comes
//! back, the bucket's service falters, and between that both are backed up, expired and brought up
//! to date, with commands that are killed.
//!
//! After each step, both have what was said to be in them: every file of an acknowledged push, as
//! long as no expiry may have removed it, and every backup that the retention keeps.

mod checks;
mod outages;
mod places;
mod restores;
mod upkeep;
mod work;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::clusters::model::{Commit, Timeline};
use crate::clusters::server::Server;
use crate::clusters::site::Site;
use crate::random::Random;
use crate::rounds::{Checked, Finding, Part, Progress, Tally, message_of};
use crate::settings::Settings;
use places::Places;

/// The number of a repository in the configuration file.
type Number = u16;

/// The directory, and the bucket.
const NUMBERS: [Number; 2] = [1, 2];

type Action = for<'a, 'b> fn(&'b mut Several<'a>) -> Checked;

/// What may happen, and how often in proportion.
const ACTIONS: &[(usize, &str, Action)] = &[
    (20, "commit and archive", |several| several.work()),
    (9, "a repository goes away", |several| {
        several.go_away(false)
    }),
    (7, "a repository is taken out", |several| {
        several.go_away(true)
    }),
    (14, "a repository comes back", |several| several.come_back()),
    (8, "the bucket falters", |several| several.falter()),
    (6, "begin a new timeline", |several| several.promote()),
    (16, "backup", |several| several.back_up()),
    (14, "expire", |several| several.expire()),
    (5, "expire beside a backup", |several| {
        several.expire_beside_backup()
    }),
    (10, "sync", |several| several.sync_any()),
    (12, "get", |several| several.get_any()),
    (8, "restore a backup", |several| several.restore_any()),
    (5, "verify", |several| several.verify_any()),
];

/// What each round begins with, so that a short one has seen all of it.
const OPENING: &[&str] = &[
    "backup",
    "backup",
    "a repository goes away",
    "get",
    "a repository comes back",
    "expire",
    "a repository is taken out",
    "begin a new timeline",
    "a repository comes back",
    "expire",
    "expire beside a backup",
    "restore a backup",
];

/// The server, the repositories, and what must be in them.
pub struct Several<'a> {
    site: &'a Site,
    progress: &'a Progress,
    random: Random,
    server: Server<'a>,
    places: Places<'a>,
    timeline: Timeline,
    /// For each repository.
    books: [Book; 2],
}

/// What is known of one repository.
#[derive(Default)]
struct Book {
    /// Labels that must be there.
    backups: BTreeSet<String>,
    /// Those that stay, whatever the retention says.
    pinned: BTreeSet<String>,
    /// The oldest label that the last expiry had to keep for the retention, if one has run here.
    retained_from: Option<String>,
}

/// Runs the part.
pub fn torture(part: &Part, settings: &Settings) -> Result<Tally, Finding> {
    part.run_rounds(settings, 0, std::env::temp_dir(), round)
}

fn round(seed: u64, steps: u64, progress: &Progress) -> Checked {
    let Some(site) = Site::new(15) else {
        return Ok(());
    };
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let mut several = Several::begin(&site, seed, progress)?;
        for step in 1..=steps {
            several.step(seed, step)?;
        }
        several.end()
    }));
    match lived.unwrap_or_else(|panic| Err(message_of(panic))) {
        Ok(()) => Ok(()),
        Err(what) => {
            let directory = site.path("");
            std::mem::forget(site);
            Err(format!(
                "{what}\nthe server and the first repository: {}",
                directory.display()
            ))
        }
    }
}

impl<'a> Several<'a> {
    /// A server that archives into both, and a backup in each.
    fn begin(site: &'a Site, seed: u64, progress: &'a Progress) -> Checked<Several<'a>> {
        let places = Places::prepare(site, seed)?;
        let server = Server::create(site, "primary", 1);
        let mut several = Several {
            site,
            progress,
            random: Random::of_step(seed, 0),
            server,
            places,
            timeline: Timeline {
                id: 1,
                history: Vec::new(),
                born: None,
                commits: Vec::new(),
                inherited: 0,
                points: Vec::new(),
            },
            books: Default::default(),
        };
        several.succeed(&["init"])?;
        several.start_server()?;
        for number in NUMBERS {
            several.back_up_in(number, false)?;
        }
        Ok(several)
    }

    /// One step, chosen by the seed.
    fn step(&mut self, seed: u64, step: u64) -> Checked {
        self.random = Random::of_step(seed, step);
        let sum = ACTIONS.iter().map(|(weight, ..)| weight).sum();
        let mut left = self.random.below(sum);
        let opening = OPENING.get(step as usize - 1);
        for &(weight, name, action) in ACTIONS {
            let is_chosen = match opening {
                Some(opening) => name == *opening,
                None => left < weight,
            };
            if is_chosen {
                self.progress.begin(step, name);
                action(self)?;
                return self.check();
            }
            left = left.saturating_sub(weight);
        }
        Err("no action was chosen".to_owned())
    }

    /// The last look: both are there and brought up to date, everything is compared, and backups
    /// of both are restored.
    fn end(&mut self) -> Checked {
        self.return_to_order()?;
        self.archive_everything()?;
        for number in NUMBERS {
            self.sync(number)?;
            self.verify(number)?;
        }
        self.check_all()?;
        for number in NUMBERS {
            self.restore_some(number)?;
        }
        self.count_killed_pushes();
        Ok(())
    }

    fn book(&mut self, number: Number) -> &mut Book {
        &mut self.books[usize::from(number) - 1]
    }

    fn commits(&mut self) -> &mut Vec<Commit> {
        &mut self.timeline.commits
    }

    /// A number of this random step, as a part of a time.
    fn part_of(&mut self, time: Duration) -> Duration {
        time.mul_f64(self.random.fraction())
    }
}
