//! The dominance table and the published pairs, as a person reads them on a terminal.

use std::fmt;

use super::dominance::{Answer, Verdict};
use super::published::Published;
use super::text::seconds;
use super::{Figures, Results};
use crate::contender::{WALZIP, WALZIP_UNVERIFIED};
use crate::text::write_table;

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
        writeln!(
            f,
            "\nIs some walzip level both smaller and faster? (one thread, wall time)"
        )?;
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

    fn write_verdicts(
        &self,
        f: &mut fmt::Formatter<'_>,
        answer: fn(&Verdict) -> Answer,
    ) -> fmt::Result {
        let heads = [
            "program",
            "threads",
            "beaten by",
            "bytes",
            "time",
            "unpack time",
        ];
        let mut table = vec![heads.map(str::to_owned).to_vec()];
        for verdict in &self.dominance.verdicts {
            let label = self.rows[verdict.row].label.clone();
            let mut line = vec![label, verdict.threads.to_string()];
            let answer = answer(verdict);
            line.push(self.beaten_by(answer));
            match answer.winner() {
                Some(winner) => line.extend(
                    [winner.bytes, winner.compress_time, winner.decompress_time]
                        .map(|ratio| format!("{ratio:.2}")),
                ),
                None => line.extend([UNKNOWN; 3].map(str::to_owned)),
            }
            table.push(line);
        }
        write_table(f, &table)?;
        writeln!(
            f,
            "bytes, time: walzip's for each of the other's, over the same segments."
        )
    }

    fn beaten_by(&self, answer: Answer) -> String {
        match answer {
            Answer::Beaten(winner) => self.rows[winner.row].label.clone(),
            Answer::Unbeaten => "none".to_owned(),
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
            return writeln!(f, "No exceptions, on any folder.");
        }
        writeln!(f, "Exceptions:")?;
        for exception in exceptions {
            writeln!(f, "  {exception}")?;
        }
        Ok(())
    }

    fn exception(&self, verdict: &Verdict) -> Option<String> {
        let label = &self.rows[verdict.row].label;
        let threads = if verdict.threads > 1 {
            format!(" ({} threads against one)", verdict.threads)
        } else {
            String::new()
        };
        let folders = verdict.not_on.len();
        let of_folders = if folders == verdict.folders {
            "on no folder".to_owned()
        } else {
            format!("not on {}", verdict.not_on.join(", "))
        };
        match (verdict.verified, folders) {
            (Answer::Unknown, _) => Some(format!(
                "{label}: no answer, it or walzip was not measured on every segment"
            )),
            (Answer::Beaten(_), 0) => None,
            (Answer::Beaten(_), _) => Some(format!("{label}: {of_folders}{threads}")),
            (Answer::Unbeaten, _) if verdict.folders < 2 => Some(format!(
                "{label}: no level is both smaller and faster{threads}"
            )),
            (Answer::Unbeaten, 0) => Some(format!(
                "{label}: on each folder another level, over all of them none{threads}"
            )),
            (Answer::Unbeaten, _) if folders == verdict.folders => {
                Some(format!("{label}: {of_folders}{threads}"))
            }
            (Answer::Unbeaten, _) => Some(format!(
                "{label}: not over all folders, {of_folders}{threads}"
            )),
        }
    }

    fn write_published(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = &self.dominance.published;
        if pairs.iter().all(|pair| pair.row.is_none()) {
            return Ok(());
        }
        writeln!(f, "\nAs published, and here:")?;
        let heads = [
            "published",
            "seconds",
            "MB",
            "here",
            "threads",
            "seconds",
            "MB",
            "beaten by",
        ];
        let mut table = vec![heads.map(str::to_owned).to_vec()];
        for pair in pairs {
            if let Some(row) = pair.row {
                table.push(self.published_line(&pair.published, row));
            }
        }
        write_table(f, &table)?;
        writeln!(f, "Published: {}.", self.dominance.published_source)?;
        if pairs.iter().any(|pair| pair.row.is_none()) {
            writeln!(f, "--published measures all {} of them.", pairs.len())?;
        }
        Ok(())
    }

    fn published_line(&self, published: &Published, row: usize) -> Vec<String> {
        let mut line = vec![
            published.label.to_owned(),
            seconds(published.compress_s),
            format!("{:.3}", published.output_mb),
        ];
        line.push(self.rows[row].label.clone());
        line.push(self.threads(&self.rows[row]).to_string());
        match &self.summary[row].all {
            Some(figures) => line.extend([seconds(figures.compress_s), mean_mb(figures)]),
            None => line.extend([UNKNOWN, UNKNOWN].map(str::to_owned)),
        }
        let verdict = self.dominance.verdict(row);
        let answer = verdict.map_or(Answer::Unknown, |verdict| match verdict.verified {
            Answer::Unknown => verdict.unverified,
            known => known,
        });
        line.push(self.beaten_by(answer));
        line
    }
}

/// The mean size of a compressed segment.
fn mean_mb(figures: &Figures) -> String {
    format!(
        "{:.3}",
        figures.output_bytes as f64 / figures.segments as f64 / 1e6
    )
}
