//! Results out of given figures, for tests of what is made of them.

use std::path::PathBuf;
use std::time::Duration;

use super::{Dominance, Measurement, Results, Row, Settings, dominance, summary};
use crate::contender::Contender;
use crate::input::Input;
use crate::provenance::Program;
use crate::provenance::Provenance;
use crate::usage::Usage;

/// A contender, its level, and the bytes and seconds that it took on each folder.
pub(crate) type FixtureRow<'a> = (&'a str, u8, &'a [(u64, f64)]);

/// Rows with the size and the seconds that they took on each folder, of one segment each; in each
/// of three runs on an idle machine.
pub(crate) fn fixture(rows: &[FixtureRow<'_>]) -> Results {
    fixture_of_runs(3, rows)
}

/// The same in so many runs.
pub(crate) fn fixture_of_runs(runs: u32, rows: &[FixtureRow<'_>]) -> Results {
    let program = Program {
        name: "program".to_owned(),
        package: "package".to_owned(),
        version: "1".to_owned(),
        blake3: String::new(),
    };
    let usage = |seconds| Usage {
        wall: Duration::from_secs_f64(seconds),
        user: Duration::from_secs_f64(seconds),
        ..Usage::default()
    };
    let input = |folder: usize| Input {
        folder: format!("folder-{folder}"),
        name: "000000010000000000000001".to_owned(),
        bytes: 16 << 20,
        blake3: String::new(),
        path: PathBuf::new(),
    };
    let folders = rows.iter().map(|(_, _, figures)| figures.len()).max();
    let row = |&(name, level, _): &FixtureRow<'_>| {
        Row::new(Contender::named(name).unwrap(), level, program.clone())
    };
    let measurement = |(row, input, run): (usize, usize, u32),
                       &(output_bytes, seconds): &(u64, f64)| Measurement {
        row,
        input,
        run,
        start: 0,
        compress: usage(seconds),
        decompress: usage(seconds / 10.0),
        output_bytes,
    };
    let mut results = Results {
        experiment: "wal",
        provenance: Provenance {
            cpus: 2,
            load_average_before: Some(0.0),
            ..Provenance::gather(None)
        },
        settings: Settings {
            runs,
            quick: false,
            sampled: None,
        },
        inputs: (0..folders.unwrap_or_default()).map(input).collect(),
        missing: Vec::new(),
        rows: rows.iter().map(row).collect(),
        measurements: Vec::new(),
        failed: Vec::new(),
        resumed: Vec::new(),
        load_of_others_before: None,
        stopped: None,
        summary: Vec::new(),
        dominance: Dominance::default(),
    };
    for (row, (_, _, figures)) in rows.iter().enumerate() {
        for (folder, figures) in figures.iter().enumerate() {
            let runs = 1..=runs;
            let measured = runs.map(|run| measurement((row, folder, run), figures));
            results.measurements.extend(measured);
        }
    }
    results.summary = summary::summarise(&results);
    results.dominance = dominance::compare(&results);
    results
}
