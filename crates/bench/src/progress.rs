//! What a caller hears while an experiment runs.

use std::time::Duration;

/// Hears what an experiment does; the command line prints it.
pub trait Progress {
    /// Something the user should know: a missing program, a failed contender.
    fn note(&mut self, text: &str);
    /// A measurement is about to begin.
    fn step(&mut self, step: &Step);
}

/// The measurement that is about to begin.
#[derive(Clone, Debug)]
pub struct Step {
    /// Measurements that are finished.
    pub done: usize,
    /// Measurements in all.
    pub total: usize,
    /// Which program and level, on which input.
    pub label: String,
    /// Time since the first measurement began.
    pub elapsed: Duration,
    /// An estimate from the measurements so far; none until each row was seen once.
    pub remaining: Option<Duration>,
}

/// Hears everything and says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn note(&mut self, _text: &str) {}
    fn step(&mut self, _step: &Step) {}
}
