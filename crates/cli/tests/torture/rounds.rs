//! Rounds of a part: each has a seed, a fresh beginning, and steps until something is found.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use crate::settings::Settings;

/// What must hold, or what was found instead.
pub type Checked<T = ()> = Result<T, String>;

/// One part of the attack.
pub struct Part {
    /// Its name in `TORTURE_PART`.
    pub name: &'static str,
    /// It makes one step where the cheapest part makes this many.
    pub share: u64,
    /// How long a round is at most.
    pub steps_per_round: u64,
    /// How many rounds run at the same time.
    pub workers: usize,
    /// Runs it.
    pub run: fn(&Part, &Settings) -> Result<Tally, Finding>,
}

/// What was done.
#[derive(Default)]
pub struct Tally {
    part: &'static str,
    rounds: u64,
    steps: u64,
    kills: u64,
    seconds: f64,
    counts: BTreeMap<&'static str, u64>,
}

/// A defect, and how to see it again.
pub struct Finding {
    part: &'static str,
    seed: u64,
    step: u64,
    action: &'static str,
    what: String,
    kept: PathBuf,
}

/// How far a round is.
#[derive(Default)]
pub struct Progress {
    step: Cell<u64>,
    action: Cell<&'static str>,
    kills: Cell<u64>,
    counts: RefCell<BTreeMap<&'static str, u64>>,
}

impl Progress {
    /// A step begins.
    pub fn begin(&self, step: u64, action: &'static str) {
        self.step.set(step);
        self.action.set(action);
        self.count(action);
        if std::env::var_os("TORTURE_TRACE").is_some() {
            eprintln!("step {step}: {action}");
        }
    }

    /// Something worth a number in the closing summary happened.
    pub fn count(&self, what: &'static str) {
        *self.counts.borrow_mut().entry(what).or_default() += 1;
    }

    /// Processes were killed.
    pub fn killed(&self, count: u64) {
        self.kills.set(self.kills.get() + count);
    }
}

/// What the workers of a part share.
struct Shared {
    begun: u64,
    steps_claimed: u64,
    tally: Tally,
    finding: Option<Finding>,
}

impl Part {
    /// Runs rounds until there were enough, or one found something. `round` gets a seed, a number
    /// of steps and a place to say how far it is; `kept` is where it leaves what it found.
    pub fn run_rounds(
        &self,
        settings: &Settings,
        kills_wanted: u64,
        kept: PathBuf,
        round: impl Fn(u64, u64, &Progress) -> Checked + Sync,
    ) -> Result<Tally, Finding> {
        let deadline = settings.deadline();
        let begin = Instant::now();
        let steps_wanted = settings.steps.div_ceil(self.share);
        let shared = Mutex::new(Shared {
            begun: 0,
            steps_claimed: 0,
            tally: Tally {
                part: self.name,
                ..Tally::default()
            },
            finding: None,
        });
        let claim = || {
            let mut shared = shared.lock().expect("no worker panics");
            let left = steps_wanted.saturating_sub(shared.steps_claimed);
            let is_enough =
                left == 0 && shared.tally.kills >= kills_wanted && Instant::now() >= deadline;
            if is_enough || shared.finding.is_some() {
                return None;
            }
            let steps = match left {
                0 => self.steps_per_round,
                left => left.min(self.steps_per_round),
            };
            let seed = settings.seed.wrapping_add(shared.begun);
            shared.begun += 1;
            shared.steps_claimed += steps;
            Some((seed, steps))
        };
        std::thread::scope(|scope| {
            for _ in 0..self.workers {
                scope.spawn(|| {
                    while let Some((seed, steps)) = claim() {
                        let progress = Progress::default();
                        let run = || round(seed, steps, &progress);
                        let ended = catch_unwind(AssertUnwindSafe(run))
                            .unwrap_or_else(|panic| Err(message_of(panic)));
                        let mut shared = shared.lock().expect("no worker panics");
                        shared.tally.add(&progress);
                        if let Err(what) = ended {
                            shared.finding.get_or_insert(Finding {
                                part: self.name,
                                seed,
                                step: progress.step.get(),
                                action: progress.action.get(),
                                what,
                                kept: kept.clone(),
                            });
                        }
                    }
                });
            }
        });
        let mut shared = shared.into_inner().expect("no worker panics");
        shared.tally.seconds = begin.elapsed().as_secs_f64();
        match shared.finding {
            None => Ok(shared.tally),
            Some(finding) => Err(finding),
        }
    }
}

/// What a panic said.
pub fn message_of(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without words".to_owned())
}

impl Tally {
    fn add(&mut self, progress: &Progress) {
        self.rounds += 1;
        self.steps += progress.step.get();
        self.kills += progress.kills.get();
        for (what, count) in progress.counts.borrow().iter() {
            *self.counts.entry(what).or_default() += count;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} steps in {} rounds, {} kills, {:.1} steps a second",
            self.part,
            self.steps,
            self.rounds,
            self.kills,
            self.steps as f64 / self.seconds.max(f64::MIN_POSITIVE)
        )?;
        for (what, count) in &self.counts {
            write!(f, "\n  {count:>7} {what}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "FINDING in {}, seed {}, step {} ({}):\n{}",
            self.part, self.seed, self.step, self.action, self.what
        )?;
        writeln!(
            f,
            "repeat: make torture TORTURE_PART={} TORTURE_SEED={} TORTURE_STEPS={} \
             TORTURE_KILLS=0",
            self.part,
            self.seed,
            // A round that fails at its beginning has no step yet.
            self.step.max(1) * share_of(self.part)
        )?;
        write!(f, "kept: {}", self.kept.display())
    }
}

fn share_of(name: &str) -> u64 {
    let part = crate::PARTS.iter().find(|part| part.name == name);
    part.map_or(1, |part| part.share)
}
