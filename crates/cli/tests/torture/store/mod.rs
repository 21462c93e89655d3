//! One repository, without a server: real WAL is pushed, got, damaged and cut short at random, and
//! after each step what was acknowledged must be there, byte for byte.

mod damage;
mod full_disk;
mod kills;
pub mod moves;
mod packs;
mod pushes;
mod same_records;
pub mod wal;
pub mod walzip;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clusters::site::Site;
use crate::random::Random;
use crate::rounds::{Checked, Finding, Part, Progress, Tally};
use crate::settings::Settings;
use wal::Wal;

/// The bytes of a WAL file.
pub type Content = Arc<Vec<u8>>;

/// How many archived files are read again after each step.
const SAMPLE: usize = 2;

/// How many rounds of a hundred end with all of it in packs. A pack takes seconds to settle.
const PACKED: usize = 20;

type Action = fn(&mut Store<'_>) -> Checked;

/// What may happen, and how often in proportion.
const ACTIONS: &[(usize, &str, Action)] = &[
    (24, "push an original", pushes::original),
    (5, "push again", pushes::again),
    (6, "push changed bytes under a taken name", pushes::changed),
    (8, "push mutated WAL", pushes::mutated),
    (4, "push under another name", pushes::misnamed),
    (3, "push two contents at the same time", pushes::rivals),
    (3, "push with a limit on file sizes", pushes::limited),
    (2, "push into a read-only repository", pushes::read_only),
    (3, "a full disk", full_disk::full),
    (10, "get", |store| store.get_any()),
    (40, "kill a push", kills::push),
    (12, "kill one of two pushes", kills::one_of_two),
    (16, "kill a get", kills::get),
    (4, "kill a set-aside and a put-back", moves::killed),
    (12, "damage an object", damage::object),
    (1, "verify", |store| store.verify_all()),
];

/// A repository in the making, and what must be in it.
pub struct Store<'a> {
    site: &'a Site,
    wal: &'a Wal,
    progress: &'a Progress,
    directory: PathBuf,
    random: Random,
    /// What was acknowledged.
    archived: BTreeMap<String, Content>,
    /// About how long a push takes, by which a kill is timed.
    usual: Duration,
}

/// Runs the part.
pub fn torture(part: &Part, settings: &Settings) -> Result<Tally, Finding> {
    let Some(site) = Site::new(15) else {
        return Ok(Tally::default());
    };
    let wal = Wal::generate(&site);
    let kept = site.path("");
    let result = part.run_rounds(settings, settings.kills, kept, |seed, steps, progress| {
        round(&site, &wal, seed, steps, progress)
    });
    if result.is_err() {
        std::mem::forget(site);
    }
    result
}

fn round(site: &Site, wal: &Wal, seed: u64, steps: u64, progress: &Progress) -> Checked {
    let directory = site.create_directory(&format!("round-{seed}"));
    for name in ["pg_wal", "got"] {
        site.create_directory(&format!("round-{seed}/{name}"));
    }
    let mut store = Store {
        site,
        wal,
        progress,
        directory,
        random: Random::of_step(seed, 0),
        archived: BTreeMap::new(),
        usual: Duration::from_millis(40),
    };
    store.init()?;
    for step in 1..=steps {
        store.random = Random::of_step(seed, step);
        let (name, action) = store.choose();
        progress.begin(step, name);
        action(&mut store)?;
        store.check_sample()?;
    }
    store.check_everything()?;
    if store.random.chance(PACKED) {
        packs::killed(&mut store)?;
        store.check_everything()?;
    }
    std::fs::remove_dir_all(&store.directory).map_err(|error| error.to_string())
}

impl Store<'_> {
    fn choose(&mut self) -> (&'static str, Action) {
        let sum = ACTIONS.iter().map(|(weight, ..)| weight).sum();
        let mut left = self.random.below(sum);
        for &(weight, name, action) in ACTIONS {
            if left < weight {
                return (name, action);
            }
            left -= weight;
        }
        unreachable!("below the sum of the weights")
    }

    fn get_any(&mut self) -> Checked {
        let names: Vec<String> = self.wal.names().map(str::to_owned).collect();
        match self.random.pick(&names).cloned() {
            Some(name) => self.check(&name),
            None => Ok(()),
        }
    }

    /// A name that is archived, if one is.
    fn any_archived(&mut self) -> Option<String> {
        let names: Vec<&String> = self.archived.keys().collect();
        self.random.pick(&names).map(|name| (*name).clone())
    }

    /// A WAL file that is not archived, most often the next one.
    fn any_missing(&mut self) -> Option<(String, Content)> {
        let missing: Vec<(&str, &Content)> = self
            .wal
            .files()
            .filter(|(name, _)| !self.archived.contains_key(*name))
            .collect();
        let chosen = match self.random.chance(60) {
            true => missing.first(),
            false => self.random.pick(&missing),
        };
        chosen.map(|&(name, content)| (name.to_owned(), Arc::clone(content)))
    }

    fn check_sample(&mut self) -> Checked {
        for _ in 0..SAMPLE {
            if let Some(name) = self.any_archived() {
                self.check_object(&name)?;
            }
        }
        Ok(())
    }

    fn check_everything(&mut self) -> Checked {
        self.verify_all()?;
        for name in self.archived.keys().cloned().collect::<Vec<_>>() {
            self.check(&name)?;
        }
        Ok(())
    }

    /// The archive answers what the model says.
    fn check(&mut self, name: &str) -> Checked {
        let got = self.get(name)?;
        let expected = self.archived.get(name);
        match (&got.content, expected) {
            (Some(content), Some(expected)) if content == expected.as_ref() => Ok(()),
            (None, None) if got.code == 1 || self.lacks_history(name) => Ok(()),
            (Some(_), Some(_)) => Err(format!("{name}: got other bytes than were acknowledged")),
            (Some(_), None) => Err(format!("{name}: got, and nobody archived it")),
            (None, _) => Err(format!("{name}: exit {}\n{}", got.code, got.said)),
        }
    }

    /// A history that is missing beside WAL of its timeline is reported, not denied.
    fn lacks_history(&self, name: &str) -> bool {
        name.ends_with(".history") && self.has_child_wal()
    }

    /// Whether something of a timeline that has a parent is archived.
    fn has_child_wal(&self) -> bool {
        let is_child = |name: &String| !name.starts_with("00000001") && !name.ends_with("history");
        self.archived.keys().any(is_child)
    }

    /// The object on the disk, decoded without the program.
    fn check_object(&self, name: &str) -> Checked {
        let expected = self.archived.get(name).ok_or("not in the model")?;
        let path = self
            .object(name)
            .ok_or_else(|| format!("{name}: its object has gone"))?;
        let object = std::fs::read(path).map_err(|error| error.to_string())?;
        match walzip_codec::decode(&object) {
            Ok(content) if content == **expected => Ok(()),
            Ok(_) => Err(format!("{name}: the object decodes to something else")),
            Err(error) => Err(format!("{name}: {error}")),
        }
    }

    /// Without damage, the only problem can be a history that was not pushed yet.
    fn verify_all(&mut self) -> Checked {
        let verified = self.walzip(&["verify"])?;
        let has_lost =
            self.has_child_wal() && !self.archived.keys().any(|name| name.ends_with("history"));
        match (verified.code, has_lost) {
            (0, false) => Ok(()),
            (104, true) if verified.said.contains("1 problem was found") => Ok(()),
            (code, _) => Err(format!("verify: exit {code}\n{}", verified.said)),
        }
    }
}
