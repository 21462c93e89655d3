//! The life of a cluster: what its servers do, noted in the model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::model::{self, Backup, Commit, Model, Moment, Point, Timeline};
use super::server::Server;
use super::site::{Site, said};
use crate::random::Random;
use crate::rounds::{Checked, Progress};

/// How many pushes of a hundred are killed.
const KILLED_PUSHES: usize = 20;

/// How many of these have their worker killed as well, where there is one.
const KILLED_WORKERS: usize = 50;

/// `walzip backup` did not see its WAL arrive in time.
const ARCHIVE_TIMEOUT: i32 = 82;

/// How many servers run at the same time.
const SERVERS_MAX: usize = 2;

/// Servers, and what they have done.
pub struct Life<'a> {
    pub site: &'a Site,
    pub progress: &'a Progress,
    pub random: Random,
    pub model: Model,
    pub running: Vec<Branch<'a>>,
    pub step: u64,
    /// The configuration file of those that push and fetch ahead.
    pub config: Option<PathBuf>,
    seed: u64,
    commits: u64,
}

/// A server that writes, and the timeline that it is on.
pub struct Branch<'a> {
    pub server: Server<'a>,
    pub timeline: u32,
}

type Action = for<'a, 'b> fn(&'b mut Life<'a>) -> Checked;

const ACTIONS: &[(usize, &str, Action)] = &[
    (30, "commit", |life| life.commit_some()),
    (10, "switch to a new segment", |life| {
        life.run("SELECT pg_switch_wal()")
    }),
    (4, "checkpoint", |life| life.run("CHECKPOINT")),
    (6, "restore point", |life| life.point()),
    (9, "backup", |life| life.back_up()),
    (5, "kill a backup", |life| life.kill_backup()),
    (5, "kill a restore", |life| life.kill_restore()),
    (4, "kill a set-aside", |life| life.kill_set_aside()),
    (5, "crash a server", |life| life.crash()),
    (2, "restart a server", |life| life.restart()),
    (5, "archive everything", |life| life.archive_everything()),
    (22, "restore", |life| life.restore_somewhere(false)),
    (5, "restore with a hole", |life| life.restore_with_hole()),
    (3, "restore to a full disk", |life| {
        life.restore_to_full_disk()
    }),
    (6, "fork", |life| life.fork()),
    (1, "verify", |life| life.verify()),
];

impl<'a> Life<'a> {
    /// A server that archives, ahead or one by one, with a first backup.
    pub fn begin(
        site: &'a Site,
        (seed, is_ahead): (u64, bool),
        progress: &'a Progress,
    ) -> Checked<Life<'a>> {
        let mut life = Life {
            site,
            progress,
            random: Random::of_step(seed, 0),
            model: Model::default(),
            running: Vec::new(),
            step: 0,
            config: is_ahead.then(|| site.path("walzip.toml")),
            seed,
            commits: 0,
        };
        let server = Server::create(site, "primary", 1);
        server.archive_with_walzip();
        life.write_configuration()?;
        life.write_archiver()?;
        server.configure(&format!(
            "archive_command = 'bash {} %p'\nautovacuum = off\nfsync = off",
            life.site.path("archiver").display()
        ));
        server.start(&[]);
        server.sql(
            "CREATE TABLE log (n bigint PRIMARY KEY, at timestamptz, body text);
             CREATE TABLE state (n bigint);
             INSERT INTO state VALUES (0);",
        );
        life.model.timelines.push(Timeline {
            id: 1,
            history: Vec::new(),
            born: None,
            commits: Vec::new(),
            inherited: 0,
            points: Vec::new(),
        });
        life.running.push(Branch {
            server,
            timeline: 1,
        });
        life.back_up()?;
        Ok(life)
    }

    /// Where commands that work ahead keep what they do.
    fn write_configuration(&self) -> Checked {
        let Some(path) = &self.config else {
            return Ok(());
        };
        let config = format!(
            "repo = \"{}\"\narchive-async = true\nspool-path = \"{}\"\nprocess-max = 2\n",
            self.site.repository().display(),
            self.site.create_directory("spool").display()
        );
        fs::write(path, config).map_err(|error| error.to_string())
    }

    /// An archive_command that kills its push now and then, and says so with a code that
    /// PostgreSQL's archiver survives.
    fn write_archiver(&self) -> Checked {
        let (place, kill_worker) = match &self.config {
            None => (
                format!("--repo {}", self.site.repository().display()),
                String::new(),
            ),
            Some(config) => (
                format!("--config {}", config.display()),
                format!(
                    "if [ $((RANDOM % 100)) -lt {KILLED_WORKERS} ]; then\n\
                     pkill -9 -f '^walzip archive-push --worker .*{}'\n\
                     fi\n",
                    config.display()
                ),
            ),
        };
        let script = format!(
            "{} archive-push --level 1 {place} \"$1\" &\n\
             push=$!\n\
             if [ $((RANDOM % 100)) -lt {KILLED_PUSHES} ]; then\n\
             sleep 0.0$((RANDOM % 5))\n\
             kill -9 $push 2> /dev/null && echo \"$1\" >> {}\n\
             {kill_worker}fi\n\
             wait $push\n\
             code=$?\n\
             if [ $code -gt 125 ]; then exit 1; fi\n\
             exit $code\n",
            self.site.program_under_test().display(),
            self.site.path("kills").display(),
        );
        fs::write(self.site.path("archiver"), script).map_err(|error| error.to_string())
    }

    /// One step, chosen by the seed.
    pub fn step(&mut self, step: u64) -> Checked {
        self.step = step;
        self.random = Random::of_step(self.seed, step);
        let sum = ACTIONS.iter().map(|(weight, ..)| weight).sum();
        let mut left = self.random.below(sum);
        for &(weight, name, action) in ACTIONS {
            if left < weight {
                self.progress.begin(step, name);
                return action(self);
            }
            left -= weight;
        }
        Ok(())
    }

    /// The last look: everything archived, and each timeline restored to its end.
    pub fn end(&mut self) -> Checked {
        self.archive_everything()?;
        let timelines: Vec<u32> = self.model.timelines.iter().map(|one| one.id).collect();
        for timeline in timelines.into_iter().rev().take(2) {
            self.restore_end(timeline)?;
        }
        self.verify()?;
        let killed = fs::read_to_string(self.site.path("kills")).unwrap_or_default();
        self.progress.killed(killed.lines().count() as u64);
        Ok(())
    }

    /// One of the servers that run.
    pub fn any(&mut self) -> usize {
        self.random.below(self.running.len())
    }

    fn run(&mut self, sql: &str) -> Checked {
        let index = self.any();
        self.running[index].server.sql(sql);
        Ok(())
    }

    /// Some transactions, each known by its number, with a look before and after.
    pub fn commit_some(&mut self) -> Checked {
        let index = self.any();
        let count = 1 + self.random.below(6);
        let mut sql = String::new();
        for _ in 0..count {
            self.commits += 1;
            let n = self.commits;
            sql.push_str(&format!(
                "{LOOK}
                 BEGIN;
                 INSERT INTO log SELECT {n}, clock_timestamp(), {body};
                 UPDATE state SET n = {n};
                 SELECT pg_current_xact_id();
                 COMMIT;
                 {LOOK}
                 SELECT pg_sleep(0.003);\n",
                body = body(&n.to_string()),
            ));
        }
        let branch = &self.running[index];
        let answer = branch.server.sql(&sql);
        let lines: Vec<&str> = answer.lines().filter(|line| !line.is_empty()).collect();
        let first = self.commits - count as u64 + 1;
        let timeline = self.model.timeline_mut(branch.timeline);
        for (n, lines) in (first..).zip(lines.chunks(3)) {
            let [before, xid, after] = lines else {
                return Err(format!("not three lines of a transaction: {lines:?}"));
            };
            timeline.commits.push(Commit {
                n,
                xid: xid.parse().map_err(|_| format!("a transaction: {xid}"))?,
                before: moment(before)?,
                after: moment(after)?,
            });
        }
        Ok(())
    }

    pub fn look(&self, index: usize) -> Checked<Moment> {
        moment(&self.running[index].server.sql(LOOK))
    }

    fn point(&mut self) -> Checked {
        let index = self.any();
        let name = format!("point {}", self.step);
        let before = self.look(index)?;
        let branch = &self.running[index];
        let sql = format!("SELECT pg_create_restore_point('{name}')");
        let at = branch.server.sql(&sql);
        self.model.timeline_mut(branch.timeline).points.push(Point {
            name,
            before_lsn: before.lsn,
            lsn: model::lsn(&at).ok_or("a position")?,
        });
        Ok(())
    }

    pub fn back_up(&mut self) -> Checked {
        let index = self.any();
        let began = self.look(index)?;
        let backup = self.running[index].server.walzip(&["backup"]);
        let mut backup = configured(backup, self.config.as_deref());
        let output = backup.output().map_err(|error| error.to_string())?;
        match output.status.code() {
            Some(0) => {}
            Some(ARCHIVE_TIMEOUT) => {
                self.progress.count("  backup without its WAL in time");
                return Ok(());
            }
            _ => return Err(format!("backup: {}", said(&output))),
        }
        let backup = Backup {
            timeline: self.running[index].timeline,
            began,
            ended: self.look(index)?,
        };
        self.model.backups.push(backup);
        Ok(())
    }

    /// `kill -9` of a server; its next start recovers.
    fn crash(&mut self) -> Checked {
        let index = self.any();
        let server = &self.running[index].server;
        let pid_file = server.data().join("postmaster.pid");
        let text = fs::read_to_string(&pid_file).map_err(|error| error.to_string())?;
        let pid = text.lines().next().ok_or("a process")?;
        let killed = Command::new("kill").args(["-9", pid]).status();
        if !killed.map_err(|error| error.to_string())?.success() {
            return Err(format!("server {pid} cannot be killed"));
        }
        self.progress.killed(1);
        // A restore point is not flushed by itself: without a commit after it, it may be lost.
        let timeline = self.model.timeline_mut(self.running[index].timeline);
        let flushed = timeline.commits.last().map_or(0, |last| last.after.lsn);
        timeline.points.retain(|point| point.lsn <= flushed);
        let begin = Instant::now();
        while has_processes(server) {
            if begin.elapsed() > Duration::from_secs(60) {
                return Err("the processes of a killed server go on".to_owned());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        // Where nobody has reaped it yet, the number would count as a running server's.
        let lock = server.socket().join(".s.PGSQL.5432.lock");
        for file in [pid_file, lock] {
            fs::remove_file(file).map_err(|error| error.to_string())?;
        }
        server.start(&[]);
        Ok(())
    }

    fn restart(&mut self) -> Checked {
        let index = self.any();
        let server = &self.running[index].server;
        server.stop();
        server.start(&[]);
        Ok(())
    }

    pub fn archive_everything(&mut self) -> Checked {
        for branch in &self.running {
            branch.server.archive_everything();
        }
        Ok(())
    }

    pub fn verify(&mut self) -> Checked {
        let output = self.site.walzip(&["verify"]).output();
        let output = output.map_err(|error| error.to_string())?;
        match output.status.code() {
            Some(0) => Ok(()),
            _ => Err(format!("verify: {}", said(&output))),
        }
    }

    /// Makes room for one more server: production goes on beside the copy, or ends here.
    pub fn make_room(&mut self) {
        let goes_on = self.random.chance(35);
        while self.running.len() >= SERVERS_MAX || (!goes_on && !self.running.is_empty()) {
            let index = self.any();
            let branch = self.running.remove(index);
            branch.server.stop();
            let data = branch.server.data();
            drop(branch);
            fs::remove_dir_all(data).expect("remove the data directory");
        }
    }
}

/// A command of a life with this configuration file, or with none.
pub fn configured(mut command: Command, config: Option<&Path>) -> Command {
    if let Some(config) = config {
        command.env_remove("WALZIP_REPO");
        command.env("WALZIP_CONFIG", config);
    }
    command
}

/// Position, time in microseconds, and time as text.
pub const LOOK: &str =
    "SELECT pg_current_wal_insert_lsn(), (extract(epoch FROM t) * 1000000)::bigint, t
    FROM (SELECT clock_timestamp() AS t) AS clock;";

pub fn moment(line: &str) -> Checked<Moment> {
    let wrong = || format!("not a look: {line}");
    let fields: Vec<&str> = line.split('|').collect();
    let [lsn, micros, text] = fields[..] else {
        return Err(wrong());
    };
    Ok(Moment {
        lsn: model::lsn(lsn).ok_or_else(wrong)?,
        micros: micros.parse().map_err(|_| wrong())?,
        text: text.to_owned(),
    })
}

/// What the row with this number holds: up to 22 kB that do not compress.
pub fn body(n: &str) -> String {
    format!(
        "(SELECT string_agg(md5({n} || '-' || i), '') FROM generate_series(1, 1 + {n} * 37 % 700) i)"
    )
}

/// Servers' processes live in their data directory.
fn has_processes(server: &Server) -> bool {
    let data = server.data();
    let processes = fs::read_dir("/proc").expect("the proc file system");
    processes.flatten().any(|process| {
        fs::read_link(process.path().join("cwd")).is_ok_and(|directory| directory == data)
    })
}
