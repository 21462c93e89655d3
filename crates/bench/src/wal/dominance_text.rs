//! The dominance table and the published pairs, as a person reads them on a terminal.

use std::fmt;

use super::as_published::{AsPublished, PublishedHere};
use super::dominance::{Answer, Dominance, Verdict};
use super::published::{Published, TIMED_EXAMPLE};
use super::text::seconds;
use super::{Figures, Results};
use crate::contender::{WALZIP, WALZIP_UNVERIFIED};
use crate::spread::widest_in_words;
use crate::table::write_table;
use crate::text::counted;
use crate::verdict::{RUNS_MIN, not_distinguishable, too_few};

/// What a table says where there is no answer.
const UNKNOWN: &str = "-";

impl Results {
    pub(super) fn write_dominance(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dominance.verdicts.is_empty() {
            return Ok(());
        }
        let has = |contender: &str| self.rows.iter().any(|row| row.contender == contender);
        let (verified, unverified) = (has(WALZIP), has(WALZIP_UNVERIFIED));
        if !verified && !unverified {
            return writeln!(f, "\nNo dominance table: no walzip level was measured.");
        }
        writeln!(f, "\n{}", self.dominance.question(self.complete_runs()))?;
        if verified {
            self.write_verdicts(f, |verdict| verdict.verified)?;
            writeln!(
                f,
                "walzip decoded what it wrote before it reported success, within its time."
            )?;
            self.write_exceptions(f)?;
        }
        if unverified {
            writeln!(f, "\nWithout decoding what it wrote (--no-verify):")?;
            self.write_verdicts(f, |verdict| verdict.unverified)?;
        }
        self.write_published(f)
    }

    /// What the comparison comes to, in one sentence.
    pub(super) fn answer(&self) -> String {
        let known = || {
            let verdicts = self.dominance.verdicts.iter();
            verdicts.filter(|verdict| !matches!(verdict.verified, Answer::Unknown))
        };
        let (all, runs) = (known().count(), self.complete_runs());
        if all == 0 {
            return "No walzip level was compared with another program on every segment."
                .to_owned();
        }
        let covered = self.covered_in_words();
        let covered = covered.map_or(String::new(), |covered| format!(" on {covered}"));
        let of = |is: fn(&Answer) -> bool| known().filter(|verdict| is(&verdict.verified)).count();
        let smaller = known()
            .filter(|verdict| verdict.verified.smaller().is_some())
            .count();
        let counted_runs = counted(runs as usize, "run");
        let too_few_told = of(|answer| matches!(answer, Answer::TooFewRuns(_)));
        if too_few(runs).is_some() || too_few_told == all {
            return format!(
                "A walzip level writes fewer bytes than {smaller} of {all} other programs and \
                 levels{covered}; which is faster, {counted_runs} cannot tell."
            );
        }
        let too_few_told = match too_few_told {
            0 => String::new(),
            some => format!("; of {some} too few runs tell"),
        };
        let spread = widest_in_words(known().filter_map(|verdict| verdict.spread));
        format!(
            "Some walzip level is both smaller and of less {} than {} of {all} other programs and \
             levels{covered}; {} cannot be told from one in time, and {} are not beaten{too_few_told} \
             ({counted_runs}{spread}).",
            self.dominance.judged_by.name(),
            of(|answer| matches!(answer, Answer::Beaten(_))),
            of(|answer| matches!(answer, Answer::NotDistinguishable(_))),
            of(|answer| matches!(answer, Answer::Unbeaten { .. })),
        )
    }

    fn write_verdicts(
        &self,
        f: &mut fmt::Formatter<'_>,
        answer: fn(&Verdict) -> Answer,
    ) -> fmt::Result {
        let heads = [
            "program",
            "threads",
            "runs",
            "spread",
            "beaten by",
            "level",
            "bytes",
            "time",
            "unpack time",
        ];
        let mut table = vec![heads.map(str::to_owned).to_vec()];
        for verdict in &self.dominance.verdicts {
            let label = self.rows[verdict.row].label.clone();
            let mut line = vec![label, verdict.threads.to_string(), verdict.runs.to_string()];
            let spread = verdict
                .spread
                .map(|spread| format!("{:.0}%", spread * 100.0));
            line.push(spread.unwrap_or(UNKNOWN.to_owned()));
            let answer = answer(verdict);
            line.push(self.beaten_by(answer));
            let level = answer.level();
            line.push(level.map_or(UNKNOWN.to_owned(), |level| {
                self.rows[level.row].label.clone()
            }));
            let ratios = [
                level.map(|level| level.bytes),
                level.and_then(|level| level.compress_time),
                level.and_then(|level| level.decompress_time),
            ];
            line.extend(
                ratios.map(|ratio| ratio.map_or(UNKNOWN.to_owned(), |ratio| format!("{ratio:.2}"))),
            );
            table.push(line);
        }
        write_table(f, &table)?;
        writeln!(
            f,
            "runs, spread: of the program, or of both where walzip's are further apart.\n\
             level: the one that beats it, or comes nearest; bytes, time: of this level for each of \
             the other's, over the same segments; {}.",
            self.dominance.judged_by.name()
        )
    }

    fn beaten_by(&self, answer: Answer) -> String {
        match answer {
            Answer::Beaten(winner) => self.rows[winner.row].label.clone(),
            Answer::Unbeaten { .. } => "none".to_owned(),
            Answer::NotDistinguishable(_) => "not distinguishable".to_owned(),
            Answer::TooFewRuns(_) => "too few runs".to_owned(),
            Answer::Unknown => UNKNOWN.to_owned(),
        }
    }

    fn write_exceptions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exceptions: Vec<String> = self
            .dominance
            .verdicts
            .iter()
            .filter_map(|verdict| self.exception(verdict))
            .collect();
        if exceptions.is_empty() {
            let verdicts = self.dominance.verdicts.iter();
            let mut verified = verdicts.map(|verdict| verdict.verified);
            return match verified.all(|answer| matches!(answer, Answer::Beaten(_))) {
                true => writeln!(f, "No exceptions, on any folder."),
                false => Ok(()),
            };
        }
        writeln!(f, "Exceptions:")?;
        for exception in exceptions {
            writeln!(f, "  {exception}")?;
        }
        Ok(())
    }

    fn exception(&self, verdict: &Verdict) -> Option<String> {
        let label = &self.rows[verdict.row].label;
        let folders = self.on_folders(verdict);
        let over_all = match verdict.verified {
            Answer::Unknown => {
                "no answer, it or walzip was not measured on every segment".to_owned()
            }
            Answer::NotDistinguishable(near) => format!(
                "{} is smaller; its time is {}",
                self.rows[near.row].label,
                not_distinguishable(near.runs, near.spread)
            ),
            Answer::Unbeaten { .. } if verdict.folders < 2 => {
                "no level is both smaller and faster".to_owned()
            }
            Answer::Unbeaten { .. } if verdict.not_on.is_empty() => {
                "on each folder another level, over all of them none".to_owned()
            }
            Answer::Unbeaten { .. } if verdict.not_on.len() == verdict.folders => String::new(),
            Answer::Unbeaten { .. } => "not over all folders".to_owned(),
            Answer::Beaten(_) | Answer::TooFewRuns(_) => String::new(),
        };
        let said: Vec<&str> = [over_all.as_str(), folders.as_str()]
            .into_iter()
            .filter(|said| !said.is_empty())
            .collect();
        let threads = match verdict.threads {
            0 | 1 => String::new(),
            threads => format!(" ({threads} threads against one)"),
        };
        (!said.is_empty()).then(|| format!("{label}: {}{threads}", said.join(", ")))
    }

    /// On which folders the answer is no, and on which there is none.
    fn on_folders(&self, verdict: &Verdict) -> String {
        if verdict.folders < 2 && !matches!(verdict.verified, Answer::Beaten(_)) {
            return String::new();
        }
        let (not_on, undecided) = (&verdict.not_on, &verdict.undecided_on);
        let not_on = match not_on.len() {
            0 => None,
            folders if folders == verdict.folders => Some("on no folder".to_owned()),
            _ => Some(format!("not on {}", not_on.join(", "))),
        };
        let undecided = (!undecided.is_empty())
            .then(|| format!("not distinguishable on {}", undecided.join(", ")));
        let said: Vec<String> = not_on.into_iter().chain(undecided).collect();
        said.join(", ")
    }

    fn write_published(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let published = &self.dominance.published;
        if published.pairs.iter().all(|pair| pair.row.is_none()) {
            return Ok(());
        }
        writeln!(f, "\n{}:", published.title())?;
        let (time, size) = published.units();
        let heads = [
            "published",
            time,
            size,
            "here",
            "threads",
            time,
            size,
            "beaten by",
        ];
        let mut table = vec![heads.map(str::to_owned).to_vec()];
        for pair in &published.pairs {
            if let Some(row) = pair.row {
                table.push(self.published_line(pair, row));
            }
        }
        write_table(f, &table)?;
        writeln!(f, "{}.", published.volumes)?;
        writeln!(f, "Published: {}.", published.published_source)?;
        self.write_timed_example(f)?;
        if published.pairs.iter().any(|pair| pair.row.is_none()) {
            writeln!(
                f,
                "--published measures all {} of them.",
                published.pairs.len()
            )?;
        }
        Ok(())
    }

    /// What `time -verbose` printed for the one segment of the article, and the same here.
    fn write_timed_example(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(example) = self.dominance.published.timed_example else {
            return Ok(());
        };
        writeln!(
            f,
            "\nWhat {} took, as published for one segment, and here in the mean:",
            TIMED_EXAMPLE.label
        )?;
        let mut table = vec![TIMED_HEADS.map(str::to_owned).to_vec()];
        table.push(timed_line("published", TIMED_EXAMPLE.values().map(Some)));
        table.push(timed_line("here", example));
        write_table(f, &table)
    }

    fn published_line(&self, pair: &PublishedHere, row: usize) -> Vec<String> {
        let of_row = &self.rows[row];
        let unknown = || [UNKNOWN, UNKNOWN].map(str::to_owned);
        let ratios = |of: [f64; 2]| of.map(|ratio| format!("{ratio:.2}"));
        let (published, here) = match self.dominance.published.same_volume {
            true => {
                let Published {
                    compress_s,
                    output_mb,
                    ..
                } = pair.published;
                let figures = self.summary[row].all.as_ref();
                (
                    [seconds(compress_s), format!("{output_mb:.3}")],
                    figures.map(|figures| [seconds(figures.compress_s), mean_mb(figures)]),
                )
            }
            false => (
                ratios(pair.relative_published),
                pair.relative_here.map(ratios),
            ),
        };
        let mut line = vec![pair.published.label.to_owned()];
        line.extend(published);
        line.extend([of_row.label.clone(), self.threads(of_row).to_string()]);
        line.extend(here.unwrap_or_else(unknown));
        let verdict = self.dominance.verdict(row);
        let answer = verdict.map_or(Answer::Unknown, |verdict| match verdict.verified {
            Answer::Unknown => verdict.unverified,
            known => known,
        });
        line.push(self.beaten_by(answer));
        line
    }
}

impl AsPublished {
    /// What the table of published pairs is called.
    fn title(&self) -> &'static str {
        match self.same_volume {
            true => "As published, and here",
            false => "As published, and here, relative to gzip -1 (other volumes: no seconds)",
        }
    }

    fn units(&self) -> (&'static str, &'static str) {
        match self.same_volume {
            true => ("seconds", "MB"),
            false => ("time", "size"),
        }
    }
}

impl Dominance {
    /// What is asked, and how it is judged.
    pub(super) fn question(&self, runs: u32) -> String {
        if let Some(reason) = too_few(runs) {
            return format!(
                "Is some walzip level both smaller and faster? Sizes tell, times do not.\n{reason}"
            );
        }
        let how = format!(
            "one thread; a verdict takes {RUNS_MIN} interleaved runs and a gap beyond their spread"
        );
        match self.busy {
            Some(load) => format!(
                "Is some walzip level both smaller and of less processor time? ({how})\n\
                 The machine was busy (load {load:.1}): wall times are not judged."
            ),
            None => format!("Is some walzip level both smaller and faster? (wall time, {how})"),
        }
    }
}

const TIMED_HEADS: [&str; 9] = [
    "",
    "seconds",
    "user s",
    "system s",
    "peak MB",
    "major faults",
    "minor faults",
    "voluntary switches",
    "involuntary",
];

fn timed_line(what: &str, values: [Option<f64>; 8]) -> Vec<String> {
    let decimals = [3, 3, 3, 1, 0, 0, 0, 0];
    let cells = values.into_iter().zip(decimals).map(|(value, decimals)| {
        value.map_or(UNKNOWN.to_owned(), |value| format!("{value:.decimals$}"))
    });
    std::iter::once(what.to_owned()).chain(cells).collect()
}

/// The mean size of a compressed segment.
fn mean_mb(figures: &Figures) -> String {
    format!(
        "{:.3}",
        figures.output_bytes as f64 / figures.segments as f64 / 1e6
    )
}
