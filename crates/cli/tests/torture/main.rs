//! The archive under attack: random steps against a model of what must be there.
//!
//! Four parts, each with rounds of its own: `store` (one repository, real WAL, kills, damage),
//! `faults` (a store that fails at its calls), `clusters` (real servers that crash, fork and are
//! restored to random moments) and `several` (a directory and a bucket that go away and come back,
//! and are expired and synchronised meanwhile). Everything that is left to chance follows from a round's seed; a
//! finding names the seed and the step with which it is repeated, and keeps its directory.
//!
//! Without variables it runs for less than a minute, so that it does not rot. `make torture` and the
//! variables in [`settings`] make it last.

mod clusters;
mod disk;
mod faults;
mod random;
mod rounds;
mod settings;
mod several;
mod store;

use std::process::ExitCode;
use std::time::Instant;

use crate::rounds::Part;
use crate::settings::Settings;

/// A store step takes some tens of milliseconds, a cluster's some seconds.
const PARTS: [Part; 4] = [
    Part {
        name: "store",
        share: 1,
        steps_per_round: 250,
        workers: 2,
        run: store::torture,
    },
    Part {
        name: "faults",
        share: 4,
        steps_per_round: 100,
        workers: 1,
        run: faults::torture,
    },
    Part {
        name: "clusters",
        share: 20,
        steps_per_round: 40,
        workers: 1,
        run: clusters::torture,
    },
    Part {
        name: "several",
        share: 10,
        steps_per_round: 40,
        workers: 1,
        run: several::torture,
    },
];

fn main() -> ExitCode {
    let settings = match Settings::read() {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("torture: {error}");
            return ExitCode::from(2);
        }
    };
    let chosen: Vec<&Part> = PARTS
        .iter()
        .filter(|part| settings.wants(part.name))
        .collect();
    if settings.list {
        for part in &chosen {
            println!("torture_{}: test", part.name);
        }
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", chosen.len());
    let begin = Instant::now();
    let mut failed = 0;
    for part in &chosen {
        match (part.run)(part, &settings) {
            Ok(tally) => println!("{tally}\ntest torture_{} ... ok", part.name),
            Err(finding) => {
                failed += 1;
                println!("{finding}\ntest torture_{} ... FAILED", part.name);
            }
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {verdict}. {} passed; {failed} failed; 0 ignored; 0 measured; {} filtered out; \
         finished in {:.2}s\n",
        chosen.len() - failed,
        PARTS.len() - chosen.len(),
        begin.elapsed().as_secs_f64()
    );
    ExitCode::from(u8::from(failed > 0))
}
