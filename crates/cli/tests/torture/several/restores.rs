//! Restores from either repository, each compared with what was committed.

use std::fs;
use std::ops::RangeInclusive;

use super::places::Held;
use super::{Number, Several};
use crate::clusters::life::body;
use crate::clusters::model::SEGMENT_BYTES;
use crate::clusters::server::Server;
use crate::rounds::Checked;

/// How many backups of a repository are restored at the end of a round.
const AT_THE_END: usize = 2;

impl Several<'_> {
    /// A backup of a repository that can be reached.
    pub fn restore_any(&mut self) -> Checked {
        let number = self.any_reachable()?;
        let held = self.places.held(number)?;
        let labels: Vec<&String> = held.backups.keys().collect();
        match self.random.pick(&labels).map(|label| (*label).clone()) {
            Some(label) => self.restore(number, &label),
            None => self.work(),
        }
    }

    /// The oldest backups, on which nothing may be missing.
    pub fn restore_some(&mut self, number: Number) -> Checked {
        let held = self.places.held(number)?;
        for label in held.backups.keys().take(AT_THE_END) {
            self.restore(number, label)?;
        }
        Ok(())
    }

    /// Restores a backup: to the end of what is archived where all WAL is there, otherwise to the
    /// backup's own end.
    fn restore(&mut self, number: Number, label: &str) -> Checked {
        let held = self.places.held(number)?;
        if held.lacks_history() {
            // Nobody can say which way leads on from there.
            self.progress.count("  not restored: a history is lacking");
            return Ok(());
        }
        let is_followed = follows(&held, label)?;
        let server = Server::on(self.site, "restored");
        let repo = number.to_string();
        let mut arguments = vec!["restore", "--repo", &repo, "--backup", label];
        if !is_followed {
            arguments.push("--target-immediate");
        }
        let data = server.data().display().to_string();
        arguments.extend(["-D", &data]);
        let said = self.succeed(&arguments)?;
        // Archiving goes on meanwhile: it has what was there before, and may have what came.
        let least = self.rows(number, label, is_followed)?;
        server.start(&[]);
        server.wait_until("SELECT NOT pg_is_in_recovery()");
        let most = self.rows(number, label, is_followed)?;
        let found = self.compare(&server, *least.start()..=*most.end());
        found.map_err(|what| format!("{label} of repository {number}: {what}\n{said}"))?;
        self.progress.count(match is_followed {
            true => "  restored to the end of the archive",
            false => "  restored to the end of the backup",
        });
        server.stop();
        drop(server);
        fs::remove_dir_all(data).map_err(|error| error.to_string())
    }

    /// How many commits a restore has: certainly, and possibly, those in the archived segments; or
    /// those before the backup began, and those before it ended.
    fn rows(
        &self,
        number: Number,
        label: &str,
        is_followed: bool,
    ) -> Checked<RangeInclusive<usize>> {
        let held = self.places.held(number)?;
        let extent = held.backups.get(label).ok_or("a backup")?;
        if !is_followed {
            let (least, _) = self.timeline.commits_up_to(extent.first * SEGMENT_BYTES);
            let (_, most) = self
                .timeline
                .commits_up_to((extent.last + 1) * SEGMENT_BYTES);
            return Ok(least..=most);
        }
        let mut end = extent.last + 1;
        let numbers = held.numbers();
        while numbers.contains(&end) {
            end += 1;
        }
        let (certain, possible) = self.timeline.commits_up_to(end * SEGMENT_BYTES);
        Ok(certain..=possible)
    }

    fn compare(&self, server: &Server, rows: RangeInclusive<usize>) -> Checked {
        let answer = server.sql(&format!(
            "SELECT 'rows ' || coalesce(string_agg(n::text, ',' ORDER BY n), '') FROM log;
             SELECT n FROM state;
             SELECT count(*) FROM log WHERE body <> {};",
            body("n")
        ));
        let lines: Vec<&str> = answer.lines().collect();
        let [numbers, state, wrong] = lines[..] else {
            return Err(format!("not three answers: {answer}"));
        };
        let numbers = numbers.trim_start_matches("rows ").split(',');
        let found: Vec<u64> = numbers.flat_map(str::parse).collect();
        let all: Vec<u64> = self
            .timeline
            .commits
            .iter()
            .map(|commit| commit.n)
            .collect();
        let last = found.last().copied().unwrap_or(0).to_string();
        let is_right = all.starts_with(&found) && rows.contains(&found.len());
        match is_right && state == last && wrong == "0" {
            true => Ok(()),
            false => Err(format!(
                "wrong rows: {} of {}, expected {rows:?}, state {state}, {wrong} torn\n{}",
                found.len(),
                all.len(),
                server.log()
            )),
        }
    }
}

/// Whether all WAL from a backup to the newest segment is there.
fn follows(held: &Held, label: &str) -> Checked<bool> {
    let extent = held.backups.get(label).ok_or("a backup")?;
    let numbers = held.numbers();
    let newest = *numbers.last().ok_or("a segment")?;
    Ok((extent.first..=newest).all(|at| numbers.contains(&at)))
}
