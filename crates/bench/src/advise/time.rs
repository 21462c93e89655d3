//! Which time of a program is judged: on a busy machine, wall times tell about other work.

use crate::contender::Threads;
use crate::verdict::Time;
use crate::wal::Results;

/// A program with one thread that takes so many times its processor time has waited for others.
const WAITED_MIN: f64 = 1.5;
/// Below so many seconds of processor time, starting and reading are most of the wall time.
const CPU_SECONDS_MIN: f64 = 0.1;

impl Time {
    /// What is judged of a wall time and a processor time.
    pub(super) fn of(self, (wall, processor): (f64, f64)) -> f64 {
        match self {
            Time::Wall => wall,
            Time::Processor => processor,
        }
    }

    /// What is held against a limit. Several threads can take less wall time than processor time,
    /// on a busy machine too.
    pub(super) fn for_limits(self, (wall, processor): (f64, f64)) -> f64 {
        match self {
            Time::Wall => wall,
            Time::Processor => wall.min(processor),
        }
    }

    /// What follows a number of seconds.
    pub(super) fn of_what(self) -> &'static str {
        match self {
            Time::Wall => "",
            Time::Processor => " of processor time",
        }
    }
}

/// How it shows that the machine was busy; none when it was not.
pub(super) fn busy(results: &Results) -> Option<String> {
    if let Some(load) = results.provenance.load_of_others() {
        let cpus = results.provenance.cpus;
        return Some(format!("load {load:.1} on {cpus} processors"));
    }
    let single = results
        .summary
        .iter()
        .filter(|summary| results.rows[summary.row].threads == Threads::One)
        .filter_map(|summary| summary.all);
    let (mut wall, mut processor) = (0.0, 0.0);
    for figures in single {
        let segments = figures.segments as f64;
        wall += figures.compress_s * segments;
        processor += figures.compress_cpu_s * segments;
    }
    let waited = processor >= CPU_SECONDS_MIN && wall > processor * WAITED_MIN;
    waited.then(|| {
        format!(
            "programs with one thread took {:.1} times their processor time",
            wall / processor
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::fixture::fixture;

    /// Two seconds of wall time, and so much processor time, of a program with one thread.
    fn measured(processor: f64, load: f64) -> Results {
        let mut results = fixture(&[("zstd", 1, &[(100, 2.0)])]);
        results.provenance.load_average_before = Some(load);
        for summary in &mut results.summary {
            if let Some(figures) = &mut summary.all {
                figures.compress_cpu_s = processor;
            }
        }
        results
    }

    #[test]
    fn a_busy_machine_shows_by_its_load_or_by_what_programs_waited() {
        assert_eq!(busy(&measured(1.9, 0.0)), None);
        let waited = busy(&measured(0.8, 0.0)).unwrap();
        assert!(
            waited.contains("took 2.5 times their processor time"),
            "{waited}"
        );
        let loaded = busy(&measured(1.9, 4.0)).unwrap();
        assert!(loaded.contains("load 4.0 on 2 processors"), "{loaded}");
        // Too little to tell waiting from starting.
        assert_eq!(busy(&measured(0.01, 0.0)), None);
    }
}
