//! Restores to random moments, each compared with the model; and copies that go on as forks.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use super::life::{Branch, Life, body, configured};
use super::model::{self, Archived, Timeline, archived};
use super::oracle::{Oracle, Target, Verdict};
use super::server::Server;
use super::site::said;
use crate::rounds::Checked;

impl<'a> Life<'a> {
    /// Restores to a random moment, along a random timeline or the one that walzip chooses.
    pub fn restore_somewhere(&mut self, has_hole: bool) -> Checked {
        let (target, told) = self.choose_target();
        self.restore_and_compare(&target, told, has_hole)
    }

    /// The end of one timeline.
    pub fn restore_end(&mut self, timeline: u32) -> Checked {
        self.restore_and_compare(&Target::Latest, Some(timeline), false)
    }

    /// A segment is taken away, a restore looked at, and the segment put back.
    pub fn restore_with_hole(&mut self) -> Checked {
        self.archive_everything()?;
        let repository = self.site.repository();
        let segments: Vec<_> = archived(&repository)?.into_iter().collect();
        let Some(&(timeline, number)) = self.random.pick(&segments) else {
            return Ok(());
        };
        let name = format!("{}.wz", model::segment_name(timeline, number));
        let mut found = None;
        let mut directories = vec![repository.join("wal")];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).map_err(|error| error.to_string())? {
                let path = entry.map_err(|error| error.to_string())?.path();
                match path.is_dir() {
                    true => directories.push(path),
                    false if path.ends_with(&name) => found = Some(path),
                    false => {}
                }
            }
        }
        let object = found.ok_or_else(|| format!("no object {name}"))?;
        let aside = self.site.path("taken-away");
        fs::rename(&object, &aside).map_err(|error| error.to_string())?;
        let restored = self.restore_somewhere(true);
        if restored.is_ok() {
            fs::rename(&aside, &object).map_err(|error| error.to_string())?;
        }
        restored.map_err(|what| format!("{name} was taken away: {what}"))
    }

    /// A restored copy that archives, and goes on as a timeline of its own.
    pub fn fork(&mut self) -> Checked {
        self.archive_everything()?;
        let (target, told) = self.choose_target();
        let name: &'static str = Box::leak(format!("fork-{}", self.step).into_boxed_str());
        let begin = micros_now();
        let options = ["--archive-mode", "preserve"];
        let Some((server, verdict)) = self.restore(name, &target, told, false, &options)? else {
            return Ok(());
        };
        let rows = self.start_and_compare(&server, &verdict)?;
        let parent = self.model.timeline(verdict.timeline.ok_or("a timeline")?);
        let id = server.sql("SELECT timeline_id FROM pg_control_checkpoint()");
        let id: u32 = id.parse().map_err(|_| format!("a timeline: {id}"))?;
        let file = server.data().join(format!("pg_wal/{id:08X}.history"));
        let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
        let history = model::history(&text)?;
        let switch = history.last().ok_or("a switch")?.1;
        let points = parent.points.iter().filter(|point| point.lsn <= switch);
        let timeline = Timeline {
            id,
            born: Some((begin, micros_now())),
            commits: parent.commits[..rows].to_vec(),
            inherited: rows,
            points: points.cloned().collect(),
            history,
        };
        if self.model.timelines.iter().any(|known| known.id == id) {
            return Err(format!("timeline {id} was taken a second time"));
        }
        self.model.timelines.push(timeline);
        self.make_room();
        self.running.push(Branch {
            server,
            timeline: id,
        });
        // The next fork takes the next number only if it finds this history.
        self.commit_on_newest()?;
        self.archive_everything()
    }

    pub fn choose_target(&mut self) -> (Target, Option<u32>) {
        let timelines: Vec<u32> = self.model.timelines.iter().map(|one| one.id).collect();
        let random = &mut self.random;
        let told = match random.chance(50) {
            true => random.pick(&timelines).copied(),
            false => None,
        };
        let from = match (told, random.chance(70)) {
            (Some(told), true) => told,
            _ => random.pick(&timelines).copied().unwrap_or(1),
        };
        let from = self.model.timeline(from);
        let Some(commit) = random.pick(&from.commits) else {
            return (Target::Latest, told);
        };
        let target = match random.below(5) {
            0 => Target::Time {
                micros: commit.after.micros,
                text: commit.after.text.clone(),
            },
            1 => Target::Lsn(commit.after.lsn),
            2 => Target::Xid(commit.xid),
            3 if !from.points.is_empty() => {
                let index = random.below(from.points.len());
                Target::Name(from.points[index].name.clone())
            }
            _ => Target::Latest,
        };
        (target, told)
    }

    pub fn restore_and_compare(
        &mut self,
        target: &Target,
        told: Option<u32>,
        has_hole: bool,
    ) -> Checked {
        self.restore_and_compare_as("restored", target, told, has_hole)
    }

    /// Restores to a directory of this name, starts, compares, and removes it.
    pub fn restore_and_compare_as(
        &mut self,
        name: &'static str,
        target: &Target,
        told: Option<u32>,
        has_hole: bool,
    ) -> Checked {
        let restored = self.restore(name, target, told, has_hole, &[])?;
        let Some((server, verdict)) = restored else {
            return Ok(());
        };
        self.start_and_compare(&server, &verdict)?;
        server.stop();
        let data = server.data();
        drop(server);
        fs::remove_dir_all(data).map_err(|error| error.to_string())
    }

    /// Runs the restore; nothing where it was refused with reason.
    fn restore(
        &mut self,
        name: &'static str,
        target: &Target,
        told: Option<u32>,
        has_hole: bool,
        options: &[&str],
    ) -> Checked<Option<(Server<'a>, Verdict)>> {
        let server = Server::on(self.site, name);
        // Archiving goes on meanwhile: what is excused before or after is excused.
        let before = archived(&self.site.repository())?;
        let restore = server.walzip(&["restore", "-D"]);
        let mut command = configured(restore, self.config.as_deref());
        command.arg(server.data()).args(options).args(flags(target));
        if let Some(told) = told {
            command.args(["--target-timeline", &told.to_string()]);
        }
        let output = command.output().map_err(|error| error.to_string())?;
        let after = archived(&self.site.repository())?;
        let verdict = self.judge(target, told, has_hole, [&before, &after]);
        let asked = format!("restore to {target:?}, timeline {told:?}");
        match output.status.code() {
            Some(0) if verdict.must_refuse => Err(format!(
                "{asked}: exit 0, and it had to be refused: {verdict:?}\n{}",
                said(&output)
            )),
            Some(0) => {
                self.progress.count("  restored");
                Ok(Some((server, verdict)))
            }
            Some(code) if verdict.refusals.contains(&code) => {
                let _ = fs::remove_dir_all(server.data());
                self.progress.count(match code {
                    75 => "  refused with 75",
                    110 => "  refused with 110",
                    111 => "  refused with 111",
                    _ => "  refused with 112",
                });
                Ok(None)
            }
            _ => Err(format!("{asked}: {verdict:?}\n{}", said(&output))),
        }
    }

    /// What may come of a restore during which one archive became the other.
    pub fn judge(
        &self,
        target: &Target,
        told: Option<u32>,
        has_hole: bool,
        [before, after]: [&Archived; 2],
    ) -> Verdict {
        let judge = |archived| {
            let oracle = Oracle {
                model: &self.model,
                archived,
                has_hole,
            };
            oracle.judge(target, told)
        };
        let mut verdict = judge(before);
        if before != after {
            let later = judge(after);
            verdict.refusals.extend(later.refusals);
            verdict.must_refuse &= later.must_refuse;
            verdict.rows = match (verdict.rows, later.rows) {
                (Some(a), Some(b)) => Some(*a.start().min(b.start())..=*a.end().max(b.end())),
                (a, b) => a.or(b),
            };
            verdict.timeline = later.timeline;
        }
        verdict
    }

    /// Starts a restored server and compares its rows; returns how many commits it has.
    pub fn start_and_compare(&mut self, server: &Server, verdict: &Verdict) -> Checked<usize> {
        server.start(&[]);
        server.wait_until("SELECT NOT pg_is_in_recovery()");
        let answer = server.sql(&format!(
            "SELECT 'rows ' || coalesce(string_agg(n::text, ',' ORDER BY n), '') FROM log;
             SELECT n FROM state;
             SELECT count(*) FROM log WHERE body <> {};",
            body("n")
        ));
        let lines: Vec<&str> = answer.lines().collect();
        let [rows, state, wrong] = lines[..] else {
            return Err(format!("not three answers: {answer}"));
        };
        let numbers = rows
            .trim_start_matches("rows ")
            .split(',')
            .filter(|n| !n.is_empty());
        let found: Vec<u64> = numbers.flat_map(str::parse).collect();
        let timeline = self.model.timeline(verdict.timeline.ok_or("a timeline")?);
        let expected: Vec<u64> = timeline.commits.iter().map(|commit| commit.n).collect();
        let allowed = verdict.rows.clone().ok_or("a number of rows")?;
        let is_prefix = expected.starts_with(&found) && allowed.contains(&found.len());
        let last = found.last().copied().unwrap_or(0).to_string();
        if !is_prefix || state != last || wrong != "0" {
            return Err(format!(
                "wrong rows: {verdict:?}\nfound {found:?}, state {state}, {wrong} torn rows\n\
                 expected of timeline {} {expected:?}\n{}",
                timeline.id,
                server.log()
            ));
        }
        if self.random.chance(10) {
            server.check_structures();
        }
        Ok(found.len())
    }

    /// A fork writes at once, so that it has something of its own.
    fn commit_on_newest(&mut self) -> Checked {
        let others: Vec<Branch<'a>> = self.running.drain(..self.running.len() - 1).collect();
        let committed = self.commit_some();
        self.running.splice(0..0, others);
        committed
    }
}

/// A target as options of `walzip restore`.
pub fn flags(target: &Target) -> Vec<String> {
    let pair = |flag: &str, value: String| vec![flag.to_owned(), value];
    match target {
        Target::Latest => Vec::new(),
        Target::Time { text, .. } => pair("--target-time", text.clone()),
        Target::Lsn(lsn) => pair("--target-lsn", model::shown(*lsn)),
        Target::Xid(xid) => pair("--target-xid", xid.to_string()),
        Target::Name(name) => pair("--target-name", name.clone()),
    }
}

fn micros_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("a time after 1970").as_micros() as i64
}
