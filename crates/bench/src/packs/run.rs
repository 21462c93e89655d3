//! Measures.

use std::path::Path;
use std::time::Instant;

use super::measure::Measure;
use super::options::Options;
use super::results::{Failed, Kept, Results, Row, Settings};
use crate::archive::{Place, inputs};
use crate::clock::Clock;
use crate::contender::find_program;
use crate::error::Error;
use crate::output::check_space;
use crate::process::{Failure, Surroundings, memory_floor};
use crate::progress::Progress;
use crate::provenance::Program;
use crate::provenance::Provenance;
use crate::scratch::Scratch;

/// How many segments are got by a call each.
const GOT: usize = 9;

/// Measures; what stops it after the first figures is part of the results.
pub fn run(options: &Options, progress: &mut impl Progress) -> Result<Results, Error> {
    if options.files.resume {
        let message = "packs are measured in one go: leave --resume out";
        return Err(Error::Usage(message.to_owned()));
    }
    options.files.check()?;
    let scratch = Scratch::new_in(&options.temp_dir, "walzip-bench-")?;
    let surroundings = Surroundings {
        launcher: Some(&options.walzip),
        search_path: &options.search_path,
        temp_dir: scratch.path(),
        cancel: &options.cancel,
    };
    let results = measure_all(options, surroundings, progress)?;
    options.files.write(&results)?;
    scratch.close()?;
    Ok(results)
}

fn measure_all(
    options: &Options,
    surroundings: Surroundings<'_>,
    progress: &mut impl Progress,
) -> Result<Results, Error> {
    let provenance = Provenance::gather(memory_floor(surroundings));
    let zstd = find_program("zstd", surroundings.search_path).ok_or(Error::Missing {
        program: "zstd",
        package: "zstd",
        purpose: "packs are compared with it",
    })?;
    let directory = (&*options.directory, options.segments());
    let inputs = inputs(directory, surroundings, progress)?;
    let bytes: u64 = inputs.iter().map(|input| input.bytes).sum();
    check_space(surroundings.temp_dir, 2 * bytes)?;
    let place = Place::new(surroundings.temp_dir.join("data"), &inputs)?;
    let got = spread_evenly(place.segments.len());
    let rows = rows(options, place.segments.len(), &zstd, surroundings);
    let mut results = Results {
        experiment: "packs",
        provenance,
        settings: Settings {
            level: options.level(),
            quick: options.quick,
            got: got.len(),
        },
        wal: place.wal(),
        rows,
        figures: Vec::new(),
        failed: Vec::new(),
        stopped: None,
    };
    let measure = Measure {
        place: &place,
        zstd: &zstd,
        walzip: &options.walzip,
        level: options.level(),
        make_repository: options.make_repository,
        home: surroundings.temp_dir,
        got: &got,
        surroundings,
    };
    results.measure(&measure, progress);
    results.provenance.finish();
    Ok(results)
}

impl Results {
    fn measure(&mut self, measure: &Measure<'_>, progress: &mut impl Progress) {
        let mut clock = Clock::new(self.rows.len(), self.rows.len());
        for row in 0..self.rows.len() {
            let kept = self.rows[row].kept;
            progress.step(&clock.step(&self.rows[row].label));
            let start = Instant::now();
            match measure.measure(row, kept) {
                Ok(figures) => self.figures.push(figures),
                Err(Failure::Cancelled) => {
                    self.stopped = Some("interrupted".to_owned());
                    return;
                }
                Err(failure) => {
                    let directory = format!("{}/", measure.home.display());
                    let reason = failure.to_string().replace(&directory, "");
                    progress.note(&format!("{}: {reason}", self.rows[row].label));
                    self.failed.push(Failed { row, reason });
                    // Packs are made of the segments by themselves.
                    if failure.is_no_space() || kept == Kept::Single {
                        let reason = format!("{} failed", self.rows[row].label);
                        self.stopped = Some(reason);
                        return;
                    }
                }
            }
            clock.finish(row, start.elapsed());
        }
    }
}

fn rows(
    options: &Options,
    segments: usize,
    zstd: &Path,
    surroundings: Surroundings<'_>,
) -> Vec<Row> {
    let version = |program, name| {
        let program = Program::identify(program, name, &["--version"], surroundings);
        program.version
    };
    let level = options.level();
    let walzip = version(&options.walzip, "walzip");
    let mut rows = vec![
        Row {
            label: "zstd -3".to_owned(),
            kept: Kept::Zstd,
            command: "zstd -3 -q -c SEGMENT".to_owned(),
            version: version(zstd, "zstd"),
        },
        Row {
            label: format!("walzip -{level}"),
            kept: Kept::Single,
            command: format!("walzip archive-push -{level} SEGMENT"),
            version: walzip.clone(),
        },
    ];
    rows.extend(options.lengths(segments).into_iter().map(|length| Row {
        label: format!("packs of {length}"),
        kept: Kept::Packs(length),
        command: format!("walzip pack --newest 0 --all -{level} --segments {length}"),
        version: walzip.clone(),
    }));
    rows
}

/// The first one, the last one, and others between them.
fn spread_evenly(segments: usize) -> Vec<usize> {
    let last = segments.saturating_sub(1);
    let steps = (GOT - 1).min(last).max(1);
    let mut numbers: Vec<usize> = (0..=steps).map(|step| step * last / steps).collect();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_segment_are_got() {
        assert_eq!(spread_evenly(64), [0, 7, 15, 23, 31, 39, 47, 55, 63]);
        assert_eq!(spread_evenly(3), [0, 1, 2]);
        assert_eq!(spread_evenly(1), [0]);
    }
}
