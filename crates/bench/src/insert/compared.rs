//! How methods compare: by the spread of their runs, and by the sizes that they ran with.

use super::published::Published;
use super::results::Measurement;
use super::{BYTES_PER_ROW, Memory, Results, Step};
use crate::report::Cell;
use crate::text::{counted, megabytes};
use crate::verdict::{self, Comparison, Time, Told, not_distinguishable, too_few};

impl Results {
    /// One method against another in a step: seconds of the slower for each of the faster.
    pub(super) fn compare(&self, memory: Memory, published: &Published) -> Option<Comparison> {
        let judged_by = self.provenance.judged_by();
        let seconds = |method| -> Option<Vec<f64>> {
            let of_step = |run: &&Measurement| {
                (run.memory, run.method.as_str(), run.step) == (memory, method, published.step)
            };
            let runs = self.measurements.iter().filter(of_step);
            runs.map(|run| match judged_by {
                Time::Wall => Some(1.0 / run.per_second().max(1e-9)),
                Time::Processor => run.cpu_micros(),
            })
            .collect()
        };
        verdict::compare(&seconds(published.slower)?, &seconds(published.faster)?)
    }

    /// How many times faster one method is than another, if the runs tell.
    pub(super) fn times_faster(&self, memory: Memory, published: &Published) -> Cell {
        let Some(compared) = self.compare(memory, published) else {
            return Cell::none();
        };
        let times = compared.ratio;
        let said = match compared.told {
            Told::Less | Told::More => format!("{times:.2}"),
            Told::TooFewRuns => format!("{times:.2}, {}", counted(compared.runs, "run")),
            Told::NotDistinguishable => {
                format!(
                    "{times:.2}, {}",
                    not_distinguishable(compared.runs, compared.spread)
                )
            }
        };
        Cell::said(times, said)
    }

    /// What the figures cannot tell.
    pub(super) fn doubts(&self) -> Vec<String> {
        let busy = self.provenance.load_of_others().map(|load| {
            format!(
                "The machine was busy before this began (load {load:.1} on {} processors): trust \
                 the bytes and the processor times, not the rates. How many times faster is by the \
                 server\u{2019}s processor time.",
                self.provenance.cpus
            )
        });
        busy.into_iter().chain(too_few(self.work.runs)).collect()
    }

    /// The size of the database, after a step or at the end, beside that of shared_buffers.
    pub(super) fn database_and_buffers(
        &self,
        (memory, buffers): (Memory, u64),
        step: Option<Step>,
    ) -> String {
        let runs = self
            .measurements
            .iter()
            .filter(|run| run.memory == memory && step.is_none_or(|step| run.step == step));
        let (about, database) = match runs.filter_map(|run| run.database_bytes).max() {
            Some(bytes) => ("", bytes >> 20),
            None => {
                let rows = self.work.rows + self.work.further_rows;
                ("about ", (rows * BYTES_PER_ROW) >> 20)
            }
        };
        let relation = |of: u64| match database > of {
            true => "exceeds",
            false => "fits",
        };
        match self.work.memory_limit_megabytes {
            Some(limit) if memory == Memory::IoBound => format!(
                "database of {about}{database} MB {} the {limit} MB that server and page cache \
                 have together, shared_buffers of {buffers} MB among them",
                relation(limit)
            ),
            _ => format!(
                "database of {about}{database} MB {} shared_buffers of {buffers} MB",
                relation(buffers)
            ),
        }
    }

    /// What was published is of other sizes.
    pub(super) fn volumes(&self) -> String {
        format!(
            "Published, for a database much larger than the machine\u{2019}s memory and one that \
             fits shared_buffers, are two ratios and words, and ratios stand beside them. Here: {} \
             rows, then {}; the machine has {:.0} MB of memory for what shared_buffers lacks{}.",
            self.work.rows,
            self.work.further_rows,
            megabytes(self.provenance.memory_bytes),
            match self.work.memory_limit_megabytes {
                Some(limit) => format!(
                    ", but where the database is IO-bound: there everything has {limit} MB, and \
                     maintenance_work_mem is an eighth of that at most"
                ),
                None => String::new(),
            }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::published::{PUBLISHED, SOURCE};
    use super::super::results::Work;
    use super::*;
    use crate::provenance::Program;
    use crate::provenance::Provenance;
    use crate::server::{Phase, Settings};

    /// Rows in a second, run by run, for each method.
    fn results(rates: &[(&str, &[f64])]) -> Results {
        let phase = Phase {
            wall_s: 1.0,
            transactions: Some(100),
            ..Phase::default()
        };
        let run = |method: &str, (run, rate): (u32, &f64)| Measurement {
            memory: Memory::Exceeds,
            method: method.to_owned(),
            run,
            step: Step::Insert,
            operations: 100,
            database_bytes: Some(64 << 20),
            phase: Phase {
                tps: Some(*rate),
                ..phase
            },
        };
        Results {
            experiment: "insert",
            provenance: Provenance {
                load_average_before: Some(0.0),
                ..Provenance::gather(None)
            },
            server: Program {
                name: "postgres".to_owned(),
                package: String::new(),
                version: "PostgreSQL".to_owned(),
                blake3: String::new(),
            },
            settings: Settings::volatile(),
            work: Work {
                rows: 100,
                further_rows: 100,
                rows_per_transaction: 100,
                clients: 1,
                seed: 1,
                shared_buffers_megabytes: vec![(Memory::Exceeds, 16)],
                memory_limit_megabytes: None,
                runs: rates[0].1.len() as u32,
                quick: true,
            },
            methods: rates
                .iter()
                .map(|(method, _)| (*method).to_owned())
                .collect(),
            left_out: Vec::new(),
            measurements: rates
                .iter()
                .flat_map(|(method, rates)| (1..).zip(*rates).map(|at| run(method, at)))
                .collect(),
            resumed: None,
            published: PUBLISHED,
            stopped: None,
        }
    }

    #[test]
    fn what_is_exceeded_is_shared_buffers_and_both_sizes_are_told() {
        let results = results(&[("off", &[1.0])]);
        let said = "database of 64 MB exceeds shared_buffers of 16 MB";
        let (text, page) = (results.to_string(), results.page());
        assert!(text.contains(said) && page.contains(said), "{text}");
        assert!(!page.contains("exceeds memory"), "{page}");
        assert!(
            text.contains(SOURCE) && text.contains("larger than the machine"),
            "{text}"
        );
    }

    #[test]
    fn times_faster_are_told_where_the_runs_tell_them() {
        let told = |lz4: &[f64], pglz: &[f64]| {
            let text = results(&[("lz4", lz4), ("pglz", pglz)]).to_string();
            let mut lines = text.lines();
            let line = lines.find(|line| line.starts_with("l.i1: lz4 than pglz"));
            line.unwrap().to_owned()
        };
        assert!(told(&[3.0, 3.1, 3.2], &[1.0, 1.5, 1.6]).ends_with("  2.07"));
        let near = told(&[1.5, 1.6, 1.7], &[1.4, 1.5, 1.6]);
        assert!(
            near.ends_with("1.07, not distinguishable (3 runs, spread 7 %)"),
            "{near}"
        );
        assert!(told(&[3.0], &[1.0]).ends_with("3.00, 1 run"));
    }
}
