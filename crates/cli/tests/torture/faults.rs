//! A store that fails at its calls: before their effect, after it, and in the middle of an object.
//!
//! In this process, over a store in memory: what is archived is read back over the healthy store
//! beneath.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use walzip_archive::get::{GetOptions, Got, get};
use walzip_archive::push::{PushOptions, push};
use walzip_archive::verify::{VerifyOptions, verify};
use walzip_codec::Level;
use walzip_repo::testing::{Faults, FaultyStore, memory_store};
use walzip_repo::{ClusterIdentity, Repository};

use crate::clusters::site::Site;
use crate::random::Random;
use crate::rounds::{Checked, Finding, Part, Progress, Tally};
use crate::settings::Settings;
use crate::store::Content;
use crate::store::wal::Wal;

/// More calls than a push, a get or a verification of this WAL makes before it fails.
const CALLS: usize = 20;

/// Where the long header of a segment's first page has the system identifier.
const SYSTEM_ID: std::ops::Range<usize> = 24..32;

/// Runs the part.
pub fn torture(part: &Part, settings: &Settings) -> Result<Tally, Finding> {
    let Some(site) = Site::new(15) else {
        return Ok(Tally::default());
    };
    let wal = Wal::generate(&site);
    let result = part.run_rounds(settings, 0, site.path(""), |seed, steps, progress| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let directory = site.create_directory(&format!("faults-{seed}"));
        runtime.block_on(round(&wal, &directory, (seed, steps), progress))
    });
    if result.is_err() {
        std::mem::forget(site);
    }
    result
}

struct Archive<'a> {
    wal: &'a Wal,
    directory: &'a Path,
    healthy: Repository,
    archived: BTreeMap<String, Content>,
}

async fn round(
    wal: &Wal,
    directory: &Path,
    (seed, steps): (u64, u64),
    progress: &Progress,
) -> Checked {
    let store = memory_store();
    let (_, first) = wal.files().next().ok_or("no WAL")?;
    let system_id = first[SYSTEM_ID].try_into().map_err(|_| "a short file")?;
    let cluster = ClusterIdentity {
        system_id: u64::from_le_bytes(system_id),
        major: 15,
    };
    let healthy = Repository::init(Arc::clone(&store), cluster).await;
    let (healthy, _) = healthy.map_err(|error| error.to_string())?;
    let mut archive = Archive {
        wal,
        directory,
        healthy,
        archived: BTreeMap::new(),
    };
    for step in 1..=steps {
        let mut random = Random::of_step(seed, step);
        let faults = faults(&mut random);
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&store), faults));
        let action = random.below(10);
        progress.begin(
            step,
            match action {
                0..=5 => "push over a failing store",
                6..=8 => "get over a failing store",
                _ => "verify over a failing store",
            },
        );
        let Ok(repository) = Repository::open(faulty).await else {
            progress.count("  not opened");
            continue;
        };
        let said = match action {
            0..=5 => archive.push(&repository, &mut random).await?,
            6..=8 => archive.get(&repository, &mut random).await?,
            _ => archive.verify(&repository).await?,
        };
        progress.count(said);
    }
    Ok(())
}

/// One call that fails, or some of many.
fn faults(random: &mut Random) -> Faults {
    let seed = random.next();
    let call = 2 + random.below(CALLS) as u64;
    let none = Faults {
        seed,
        ..Faults::default()
    };
    match random.below(4) {
        0 => Faults {
            fail_call: Some(call),
            ..none
        },
        1 => Faults {
            lose_answer_of_call: Some(call),
            ..none
        },
        2 => Faults {
            broken_reads_per_1000: 300,
            ..none
        },
        _ => Faults {
            failures_per_1000: 150,
            lost_answers_per_1000: 150,
            broken_reads_per_1000: 150,
            ..none
        },
    }
}

impl Archive<'_> {
    fn any(&self, random: &mut Random) -> Checked<(String, Content)> {
        let files: Vec<(&str, &Content)> = self.wal.files().collect();
        let (name, content) = random.pick(&files).ok_or("no WAL")?;
        Ok(((*name).to_owned(), Arc::clone(content)))
    }

    fn write(&self, name: &str, content: &[u8]) -> Checked<PathBuf> {
        let path = self.directory.join(name);
        fs::write(&path, content).map_err(|error| error.to_string())?;
        Ok(path)
    }

    async fn push(&mut self, over: &Repository, random: &mut Random) -> Checked<&'static str> {
        let (name, mut content) = self.any(random)?;
        let is_changed = random.chance(15);
        if is_changed {
            let at = 8192 + random.below(content.len().saturating_sub(8192));
            let mut changed = content.to_vec();
            if let Some(byte) = changed.get_mut(at) {
                *byte ^= 1;
            }
            content = Arc::new(changed);
        }
        let path = self.write(&name, &content)?;
        let options = PushOptions {
            level: Level::MIN,
            ..PushOptions::default()
        };
        let pushed = push(over, &path, &options).await;
        let there = self.content(&name).await?;
        let before = self.archived.get(&name);
        if pushed.is_ok() && there.as_ref() != Some(&*content) {
            return Err(format!("{name}: acknowledged, and not what is there"));
        }
        match (&there, before) {
            (None, Some(_)) => return Err(format!("{name}: it has gone")),
            (Some(there), Some(before)) if *there != **before => {
                return Err(format!("{name}: it was replaced"));
            }
            (Some(there), None) if *there != *content => {
                return Err(format!("{name}: something else was archived"));
            }
            (Some(there), None) => {
                self.archived.insert(name, Arc::new(there.clone()));
            }
            _ => {}
        }
        Ok(if pushed.is_ok() {
            "  pushed"
        } else {
            "  push refused"
        })
    }

    /// What the healthy store has.
    async fn content(&self, name: &str) -> Checked<Option<Vec<u8>>> {
        let object = self.healthy.get_wal(name).await;
        let Some(object) = object.map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let decoded = walzip_codec::decode(&object);
        decoded
            .map(Some)
            .map_err(|error| format!("{name}: {error}"))
    }

    async fn get(&mut self, over: &Repository, random: &mut Random) -> Checked<&'static str> {
        let (name, _) = self.any(random)?;
        let destination = self.directory.join("RECOVERYXLOG");
        let got = get(over, &name, &destination, &GetOptions::default()).await;
        let found = fs::read(&destination).ok();
        if found.is_some() {
            fs::remove_file(&destination).map_err(|error| error.to_string())?;
        }
        match (got, found, self.archived.get(&name)) {
            (Ok(Got::Found { .. }), Some(found), Some(expected)) if found == **expected => {
                Ok("  got")
            }
            (Ok(Got::NotFound), None, None) => Ok("  not there"),
            (Err(_), None, _) => Ok("  get refused"),
            (got, found, _) => Err(format!(
                "{name}: {got:?}, and {:?} bytes were written",
                found.map(|found| found.len())
            )),
        }
    }

    /// What cannot be read is a finding of verify, or its error; never something to pass over.
    async fn verify(&mut self, over: &Repository) -> Checked<&'static str> {
        let verified = verify(over, &VerifyOptions::default()).await;
        match verified {
            Err(_) => Ok("  verify refused"),
            Ok(verified) if !verified.findings.is_empty() => Ok("  verify with findings"),
            Ok(verified) if verified.wal_objects == self.archived.len() as u64 => {
                Ok("  verify without findings")
            }
            Ok(verified) => Err(format!(
                "{} objects verified of {}, and nothing found",
                verified.wal_objects,
                self.archived.len()
            )),
        }
    }
}
