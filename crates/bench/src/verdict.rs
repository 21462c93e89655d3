//! What repeated runs tell about two times, and what they do not.
//!
//! A time is never the same twice. One is less than the other when every run of the one was
//! shorter than every run of the other, and the gap between them is wider than half of the wider
//! range. With fewer than three runs the range means nothing: then something is said only of what takes
//! four times as long, which no machine's noise does.
//!
//! Where other work had the processors, wall times tell about that work: processor times are
//! judged in their place.

use serde::Serialize;

use crate::provenance::Provenance;
use crate::spread::spread;

/// With fewer runs there is no verdict on time, but of what is far apart.
pub const RUNS_MIN: usize = 3;
/// What takes so many times as long needs no further run.
pub(crate) const FAR_APART: f64 = 4.0;

/// Which time is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Time {
    /// From the beginning to the end of a process.
    #[default]
    Wall,
    /// What the processors spent on it: the machine was busy.
    Processor,
}

impl Time {
    /// What can be judged where others loaded the machine so much.
    pub(crate) fn under(load_of_others: Option<f64>) -> Time {
        match load_of_others {
            Some(_) => Time::Processor,
            None => Time::Wall,
        }
    }

    /// The words for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Time::Wall => "wall time",
            Time::Processor => "processor time",
        }
    }
}

/// What the runs tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Every run of the first was shorter than every run of the second, beyond their spread.
    Less,
    /// The other way round.
    More,
    /// Runs of both lie among each other, or nearly.
    NotDistinguishable,
    /// There are too few to tell.
    TooFewRuns,
}

/// The times of one against the times of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Comparison {
    /// What the runs tell.
    pub(crate) told: Told,
    /// How many runs each has at least.
    pub(crate) runs: usize,
    /// The larger spread of the two: half the range relative to the median.
    pub(crate) spread: Option<f64>,
    /// The first median relative to the second.
    pub(crate) ratio: f64,
}

/// Compares; none where one has no run.
pub(crate) fn compare(ours: &[f64], theirs: &[f64]) -> Option<Comparison> {
    let (first, second) = (
        spread(ours.iter().copied())?,
        spread(theirs.iter().copied())?,
    );
    let runs = ours.len().min(theirs.len());
    let range = |times: &[f64]| {
        let times = times.iter().copied();
        let least = times.clone().fold(f64::INFINITY, f64::min);
        (least, times.fold(f64::NEG_INFINITY, f64::max))
    };
    let (ours, theirs) = (range(ours), range(theirs));
    let gap = f64::max(ours.1 - ours.0, theirs.1 - theirs.0) / 2.0;
    let told = if theirs.0 > ours.1 * FAR_APART {
        Told::Less
    } else if ours.0 > theirs.1 * FAR_APART {
        Told::More
    } else if runs < RUNS_MIN {
        Told::TooFewRuns
    } else if theirs.0 - ours.1 > gap {
        Told::Less
    } else if ours.0 - theirs.1 > gap {
        Told::More
    } else {
        Told::NotDistinguishable
    };
    let spreads = [first.half_range, second.half_range].into_iter().flatten();
    Some(Comparison {
        told,
        runs,
        spread: spreads.reduce(f64::max),
        ratio: first.median / second.median,
    })
}

/// Why there is no verdict.
pub(crate) fn not_distinguishable(runs: usize, spread: Option<f64>) -> String {
    let spread = spread.map_or(String::new(), |spread| {
        format!(", spread {:.0} %", spread * 100.0)
    });
    format!("not distinguishable ({runs} runs{spread})")
}

/// What the reader of times has to know when there are too few runs for a verdict.
pub(crate) fn too_few(runs: u32) -> Option<String> {
    let so_many = match runs {
        0 | 1 => "One run".to_owned(),
        runs => format!("{runs} runs"),
    };
    ((runs as usize) < RUNS_MIN).then(|| {
        format!(
            "{so_many}: differences in time below {FAR_APART:.0} times prove nothing, a verdict takes \
             {RUNS_MIN}."
        )
    })
}

impl Provenance {
    /// The time by which this machine can judge.
    pub(crate) fn judged_by(&self) -> Time {
        Time::under(self.load_of_others())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(ours: &[f64], theirs: &[f64]) -> Told {
        compare(ours, theirs).unwrap().told
    }

    #[test]
    fn one_run_or_two_tell_only_of_what_is_far_apart() {
        assert_eq!(told(&[1.0], &[3.0]), Told::TooFewRuns);
        assert_eq!(told(&[1.0, 1.0], &[3.9, 9.0, 9.0]), Told::TooFewRuns);
        // But where it is many times as long.
        assert_eq!(told(&[1.0], &[4.1]), Told::Less);
        assert_eq!(told(&[9.0], &[1.0, 2.0]), Told::More);
        assert_eq!(compare(&[], &[1.0]), None);
    }

    #[test]
    fn a_gap_within_the_spread_is_none() {
        assert_eq!(told(&[1.0, 1.1, 1.2], &[1.4, 1.6, 1.5]), Told::Less);
        assert_eq!(told(&[1.4, 1.6, 1.5], &[1.0, 1.1, 1.2]), Told::More);
        // They do not overlap, but are nearer to each other than their own runs are.
        let barely = told(&[1.0, 1.1, 1.2], &[1.21, 1.3, 1.4]);
        assert_eq!(barely, Told::NotDistinguishable);
        let near = compare(&[1.0, 1.1, 1.35], &[1.3, 1.5, 1.4]).unwrap();
        assert_eq!((near.told, near.runs), (Told::NotDistinguishable, 3));
        let said = not_distinguishable(near.runs, near.spread);
        assert_eq!(said, "not distinguishable (3 runs, spread 16 %)");
    }

    #[test]
    fn few_runs_are_said_and_enough_are_not() {
        assert!(too_few(1).unwrap().starts_with("One run: "));
        assert!(too_few(2).unwrap().starts_with("2 runs: "));
        assert_eq!(too_few(3), None);
    }

    #[test]
    fn a_busy_machine_judges_by_processor_time() {
        let mut provenance = Provenance {
            cpus: 2,
            load_average_before: Some(0.1),
            ..Provenance::gather(None)
        };
        assert_eq!(provenance.judged_by(), Time::Wall);
        provenance.load_average_before = Some(1.9);
        assert_eq!(provenance.judged_by(), Time::Processor);
    }
}
