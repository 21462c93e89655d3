//! Is some walzip level both smaller and faster?
//!
//! Two rows compare by the bytes that they wrote for the same segments and by the wall time that
//! compressing these took. A row is beaten when one walzip level needs fewer bytes and less time;
//! of several such levels the one that writes the fewest bytes is named. walzip works with one
//! thread: where a program works with more, that is said, and the answer is not a comparison of
//! equals.

use serde::Serialize;

use super::published::{PUBLISHED, Published, SOURCE};
use super::{Figures, Results};
use crate::contender::{WALZIP, WALZIP_UNVERIFIED};

/// The answer for every row that is not walzip's, and for every published pair.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Dominance {
    /// One for each row that is not walzip's.
    pub verdicts: Vec<Verdict>,
    /// Where the published pairs come from.
    pub published_source: &'static str,
    /// The published pairs, beside what was measured here.
    pub published: Vec<PublishedHere>,
}

/// Whether a row is beaten.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The place of the row in the results.
    pub row: usize,
    /// How many threads the row works with.
    pub threads: usize,
    /// Whether a walzip level that decodes what it wrote beats it, over all segments.
    pub verified: Answer,
    /// The same for walzip levels that do not decode what they wrote.
    pub unverified: Answer,
    /// The folders on which no walzip level that decodes what it wrote beats it.
    pub not_on: Vec<String>,
    /// The folders on which that was asked.
    pub folders: usize,
}

/// Whether a row is beaten.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The row or walzip was not measured on every segment.
    Unknown,
    /// No level is both smaller and faster.
    Unbeaten,
    /// One is.
    Beaten(Winner),
}

impl Answer {
    /// The level that beats the row.
    pub fn winner(&self) -> Option<Winner> {
        match self {
            Answer::Beaten(winner) => Some(*winner),
            Answer::Unknown | Answer::Unbeaten => None,
        }
    }
}

/// A level of walzip that beats a row, and by how much.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Winner {
    /// The place of walzip's row in the results.
    pub row: usize,
    /// Its bytes for each of the other's.
    pub bytes: f64,
    /// Its time of compressing for each second of the other's.
    pub compress_time: f64,
    /// Its time of decompressing for each second of the other's; more than 1 is slower.
    pub decompress_time: f64,
}

/// A published pair, and the row that is the same program at the same level here.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PublishedHere {
    /// What was published.
    #[serde(flatten)]
    pub published: Published,
    /// The place of the row in the results, when it was measured.
    pub row: Option<usize>,
}

impl Dominance {
    /// The verdict on a row.
    pub fn verdict(&self, row: usize) -> Option<&Verdict> {
        self.verdicts.iter().find(|verdict| verdict.row == row)
    }
}

/// Compares every row with walzip's.
pub(super) fn compare(results: &Results) -> Dominance {
    let others = results
        .rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.contender != WALZIP && row.contender != WALZIP_UNVERIFIED);
    let place_of = |pair: &Published| {
        results
            .rows
            .iter()
            .position(|row| (row.contender, row.level) == (pair.contender, pair.level))
    };
    Dominance {
        verdicts: others.map(|(row, _)| verdict(results, row)).collect(),
        published_source: SOURCE,
        published: PUBLISHED
            .iter()
            .map(|&published| PublishedHere {
                published,
                row: place_of(&published),
            })
            .collect(),
    }
}

fn verdict(results: &Results, row: usize) -> Verdict {
    let whole = |row: usize| results.summary[row].all;
    let asked = results.summary[row].folders.iter().map(|of_folder| {
        let folder = of_folder.folder.as_str();
        let answer = answer(results, row, WALZIP, |row| on_folder(results, row, folder));
        (folder, answer)
    });
    let asked: Vec<_> = asked
        .filter(|(_, answer)| !matches!(answer, Answer::Unknown))
        .collect();
    let not_on = asked
        .iter()
        .filter(|(_, answer)| matches!(answer, Answer::Unbeaten))
        .map(|(folder, _)| (*folder).to_owned())
        .collect();
    Verdict {
        row,
        threads: results.threads(&results.rows[row]),
        verified: answer(results, row, WALZIP, whole),
        unverified: answer(results, row, WALZIP_UNVERIFIED, whole),
        not_on,
        folders: asked.len(),
    }
}

fn on_folder(results: &Results, row: usize, folder: &str) -> Option<Figures> {
    let of_row = &results.summary[row].folders;
    let of_folder = of_row.iter().find(|of_folder| of_folder.folder == folder)?;
    Some(of_folder.figures)
}

/// Of the levels that are both smaller and faster than a row, the smallest.
fn answer(
    results: &Results,
    beaten: usize,
    contender: &str,
    figures: impl Fn(usize) -> Option<Figures>,
) -> Answer {
    let ours: Vec<(usize, Figures)> = results
        .rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.contender == contender)
        .filter_map(|(row, _)| Some((row, figures(row)?)))
        .collect();
    let Some(theirs) = figures(beaten).filter(|_| !ours.is_empty()) else {
        return Answer::Unknown;
    };
    let beats = |ours: &Figures| {
        ours.output_bytes < theirs.output_bytes && ours.compress_s < theirs.compress_s
    };
    let smallest = ours
        .iter()
        .filter(|(_, ours)| beats(ours))
        .min_by_key(|(_, ours)| ours.output_bytes);
    smallest.map_or(Answer::Unbeaten, |(row, ours)| {
        Answer::Beaten(Winner {
            row: *row,
            bytes: ours.output_bytes as f64 / theirs.output_bytes as f64,
            compress_time: ours.compress_s / theirs.compress_s,
            decompress_time: ours.decompress_s / theirs.decompress_s,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Threads;
    use crate::wal::fixture::fixture;

    fn names(results: &Results, answer: Answer) -> Option<&str> {
        let winner = answer.winner()?;
        Some(results.rows[winner.row].label.as_str())
    }

    #[test]
    fn of_the_levels_that_are_smaller_and_faster_the_smallest_is_named() {
        let results = fixture(&[
            ("xz", 2, &[(100, 50.0)]),
            ("walzip", 1, &[(90, 1.0)]),
            ("walzip", 3, &[(70, 2.0)]),
            ("walzip", 9, &[(20, 51.0)]),
            ("walzip-unverified", 9, &[(20, 49.0)]),
        ]);
        let verdict = &results.dominance.verdicts[0];
        assert_eq!(results.dominance.verdicts.len(), 1);
        assert_eq!(names(&results, verdict.verified), Some("walzip -3"));
        assert_eq!(
            names(&results, verdict.unverified),
            Some("walzip -9 --no-verify")
        );
        let winner = verdict.verified.winner().unwrap();
        assert_eq!((winner.bytes, winner.compress_time), (0.7, 0.04));
    }

    #[test]
    fn smaller_but_slower_and_faster_but_larger_beat_nothing() {
        let results = fixture(&[
            ("lz4", 1, &[(100, 1.0)]),
            ("walzip", 1, &[(90, 1.0)]),
            ("walzip", 3, &[(100, 0.5)]),
        ]);
        let verdict = &results.dominance.verdicts[0];
        assert!(matches!(verdict.verified, Answer::Unbeaten));
        assert!(matches!(verdict.unverified, Answer::Unknown));
        assert_eq!((verdict.folders, verdict.not_on.len()), (1, 1));
        assert!(
            results
                .to_string()
                .contains("  lz4 -1: no level is both smaller and faster\n")
        );
    }

    #[test]
    fn a_folder_on_which_it_is_otherwise_is_an_exception() {
        let results = fixture(&[
            ("pigz", 1, &[(100, 1.0), (100, 1.0)]),
            ("walzip", 1, &[(10, 0.1), (101, 0.1)]),
        ]);
        let verdict = &results.dominance.verdicts[0];
        assert_eq!(names(&results, verdict.verified), Some("walzip -1"));
        assert_eq!(
            (verdict.not_on.as_slice(), verdict.folders),
            (&["folder-1".to_owned()][..], 2)
        );
        assert_eq!(results.rows[0].threads, Threads::All);
        assert!(
            results
                .to_string()
                .contains("  pigz -1: not on folder-1 (2 threads against one)\n")
        );
    }

    #[test]
    fn without_a_figure_there_is_no_answer() {
        let mut results = fixture(&[("gzip", 1, &[(100, 1.0)]), ("walzip", 1, &[(10, 0.1)])]);
        results.summary[1].all = None;
        results.summary[1].folders.clear();
        let dominance = compare(&results);
        assert!(matches!(dominance.verdicts[0].verified, Answer::Unknown));
        assert_eq!(dominance.verdicts[0].folders, 0);
        results.dominance = dominance;
        let said = "  gzip -1: no answer, it or walzip was not measured on every segment\n";
        assert!(results.to_string().contains(said));
    }

    #[test]
    fn published_pairs_stand_beside_the_same_program_here() {
        let results = fixture(&[
            ("xz-T0", 2, &[(3_000_000, 2.0)]),
            ("walzip", 1, &[(10, 0.1)]),
        ]);
        let text = results.to_string();
        let here = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start));
            line.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(
            here("pxz -2").as_deref(),
            Some("pxz -2 0.175 3.095 xz -2 -T0 2 2.000 3.000 walzip -1")
        );
        assert_eq!(here("gzip -1"), None);
    }
}
