//! The results as a page for a colleague.

use super::published::{PUBLISHED, Published, Relation, SOURCE};
use super::results::Measurement;
use super::{Memory, Results, Step};
use crate::report::{Bars, Panels, Section, ending, page};
use crate::text::counted;
use crate::verdict::{Comparison, Told};

/// How fast a method is beside another, as far as the runs tell.
fn times_in_words(of: &Published, compared: &Comparison) -> String {
    let what = match of.step {
        Step::Index => "creating indexes",
        Step::Load | Step::Insert => "inserting rows under them",
    };
    let (faster, slower, times) = (of.faster, of.slower, compared.ratio);
    let spread = compared.spread.map_or(String::new(), |spread| {
        format!(", spread {:.0} %", spread * 100.0)
    });
    match compared.told {
        Told::Less | Told::More => {
            format!("{what} is {times:.2} times as fast with {faster} as with {slower}{spread}")
        }
        Told::TooFewRuns => format!(
            "{what} was {times:.2} times as fast with {faster} as with {slower}, which so few runs do \
             not prove"
        ),
        Told::NotDistinguishable => format!(
            "{what} takes as long with {faster} as with {slower}, as far as the runs tell \
             ({times:.2} times as fast{spread})"
        ),
    }
}

impl Results {
    /// A page that shows everything, complete in itself.
    pub(super) fn page(&self) -> String {
        let mut sections = vec![self.introduction()];
        for (memory, megabytes) in self.memories() {
            for step in Step::ALL {
                sections.push(self.step_section(memory, megabytes, step));
            }
        }
        sections.push(self.published_section());
        page(
            "What does wal_compression cost an insert?",
            &self.answer(),
            &sections,
            &self.provenance,
        )
    }

    /// The two comparisons that have a published number.
    fn answer(&self) -> String {
        // What was published rests on a database much larger than memory.
        let io_bound = self.memories().find(|of| of.0 == Memory::IoBound);
        let Some((memory, _)) = io_bound.or_else(|| self.memories().next()) else {
            return "Nothing was measured yet.".to_owned();
        };
        let numbered = PUBLISHED.iter();
        let numbered = numbered.filter(|of| matches!(of.relation, Relation::AboutTimes(_)));
        let said: Vec<String> = numbered
            .filter_map(|of| Some(times_in_words(of, &self.compare(memory, of)?)))
            .collect();
        if said.is_empty() {
            return format!(
                "Where the {}, lz4 and pglz were not both measured, which the article compares.",
                memory.about()
            );
        }
        let runs = counted(self.work.runs as usize, "run");
        let busy = match self.provenance.load_of_others() {
            Some(_) => ", by the server\u{2019}s processor time: the machine was busy",
            None => "",
        };
        format!(
            "Where the {}, {} ({runs}{busy}).",
            memory.about(),
            said.join(", and ")
        )
    }

    fn introduction(&self) -> Section {
        let work = &self.work;
        let section = Section::new("What was done").paragraph(format!(
            "{}: a new server for each method inserts {} rows, creates three indexes and inserts \
             {} further rows, {} a transaction, {} clients, {}. {}",
            self.server.version,
            work.rows,
            work.further_rows,
            work.rows_per_transaction,
            work.clients,
            counted(work.runs as usize, "run"),
            self.settings.line(),
        ));
        let doubts = self.doubts().into_iter();
        let said = doubts.chain(self.left_out.iter().cloned());
        ending(section, said, &self.stopped)
    }

    fn step_section(&self, memory: Memory, megabytes: u64, step: Step) -> Section {
        let mut bars = Bars::new("rows/s", 0).wall();
        for method in &self.methods {
            let rate = self.median((memory, method, step), |run| Some(run.per_second()));
            bars.of_runs(method, rate, (false, None));
        }
        let of = |value: fn(&Measurement) -> Option<f64>, unit, decimals| {
            let mut bars = Bars::new(unit, decimals);
            for method in &self.methods {
                let spread = self.median((memory, method, step), value);
                bars.of_runs(method, spread, (false, None));
            }
            bars
        };
        let panels = Panels::default()
            .panel("Rows a second", bars)
            .panel(
                "Processor time for each row",
                of(Measurement::cpu_micros, "\u{b5}s", 2),
            )
            .panel(
                "Written for each row",
                of(Measurement::written_kilobytes, "KB", 3),
            );
        let sizes = self.database_and_buffers((memory, megabytes), Some(step));
        Section::new(format!("{}, {}", step.name(), memory.about()))
            .paragraph(format!("{}; {sizes}.", step.about()))
            .panels(panels)
            .note(
                "Processor time of the server is cpupq in the article. What is written to the disk \
                 includes WAL, and is wkbpi there.",
            )
            .table(self.step_table(memory, step))
    }

    fn published_section(&self) -> Section {
        Section::new("Published, and here")
            .table(self.published_table())
            .note(self.volumes())
            .note(format!("Published: {SOURCE}."))
    }
}
