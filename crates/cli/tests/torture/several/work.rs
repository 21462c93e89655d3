//! What the server does: it commits, and its archiver pushes, is killed at times, and notes what was
//! acknowledged, and by which repositories.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use super::places::Service;
use super::{NUMBERS, Number, Several};
use crate::clusters::life::{LOOK, body, moment};
use crate::clusters::model::Commit;
use crate::rounds::Checked;
use crate::store::walzip::{Ended, ended};

/// How many pushes of a hundred are killed.
const KILLED_PUSHES: usize = 15;

/// How long all WAL may take to be archived.
const PATIENCE: Duration = Duration::from_secs(120);

/// So many pushes are seen to end while a repository is away, within this time.
const PUSHES: usize = 2;
const PATIENCE_AWAY: Duration = Duration::from_secs(15);

/// After so long the archiver is woken: after failures it waits for a minute.
const WAKE: Duration = Duration::from_secs(2);

impl Several<'_> {
    /// An archive_command that keeps a copy of everything that it pushes.
    fn write_archiver(&self) -> Checked {
        let script = format!(
            "cd {site} || exit 1\n\
             name=${{1##*/}}\n\
             active=$(cat active)\n\
             cp \"$2/$1\" sent/$name.new && mv sent/$name.new sent/$name || exit 1\n\
             ./walzip archive-push --level 1 --config walzip-$active.toml \"$2/$1\" &\n\
             push=$!\n\
             if [ $((RANDOM % 100)) -lt {KILLED_PUSHES} ]; then\n\
             sleep 0.$((RANDOM % 3))$((RANDOM % 10))\n\
             kill -9 $push 2> /dev/null && echo \"$1\" >> kills\n\
             fi\n\
             wait $push\n\
             code=$?\n\
             if [ $code -eq 0 ]; then echo \"$name $active\" >> acknowledged; fi\n\
             echo $code >> ended\n\
             if [ $code -gt 125 ]; then exit 1; fi\n\
             exit $code\n",
            site = self.site.path("").display(),
        );
        let archiver = self.site.path("archiver");
        fs::write(archiver, script).map_err(|error| error.to_string())
    }

    /// Starts the server, which archives and recovers by the configuration that is valid then.
    pub fn start_server(&self) -> Checked {
        for name in ["sent", "got"] {
            self.site.create_directory(name);
        }
        self.write_archiver()?;
        // Of two repositories, one that is away gives no answer, and then nobody knows what is there.
        let get = format!(
            "cd {}; ./walzip archive-get --config walzip-$(cat active).toml %f {}/%p; r=$?; \
             [ $r -lt 2 ] || r=126; exit $r",
            self.site.path("").display(),
            self.server.data().display(),
        );
        self.server.configure(&format!("restore_command = '{get}'"));
        self.server.configure(&format!(
            "archive_mode = on\nwal_level = replica\nmax_wal_senders = 4\nmax_wal_size = 64MB\n\
             autovacuum = off\narchive_command = 'bash {} %p {}'",
            self.site.path("archiver").display(),
            self.server.data().display(),
        ));
        self.server.start(&[]);
        self.server.sql(
            "CREATE TABLE log (n bigint PRIMARY KEY, at timestamptz, body text);
             CREATE TABLE state (n bigint);
             INSERT INTO state VALUES (0);",
        );
        Ok(())
    }

    /// Transactions in some segments, and their archiving where it can succeed.
    pub fn work(&mut self) -> Checked {
        for _ in 0..=self.random.below(3) {
            self.commit_some()?;
            self.server.sql("SELECT pg_switch_wal()");
        }
        match self.places.takes_pushes()? {
            true => self.archive_everything(),
            false => Ok(()),
        }
    }

    /// The server is stopped, recovers as from a crash of its machine, with what the repositories
    /// have, and goes on as a new timeline.
    pub fn promote(&mut self) -> Checked {
        if !self.places.takes_pushes()? {
            return self.work();
        }
        self.archive_everything()?;
        // A recovery ends at trouble, as it has to.
        if self.places.falters() {
            self.places.set_service(Service::Well);
        }
        self.server.stop();
        let signal = self.server.data().join("recovery.signal");
        fs::write(&signal, "").map_err(|error| error.to_string())?;
        self.site.hand_over(&signal);
        self.server.start(&[]);
        self.server.wait_until("SELECT NOT pg_is_in_recovery()");
        self.work()
    }

    /// Some transactions, each known by its number, with a look before and after.
    pub fn commit_some(&mut self) -> Checked {
        let first = self.commits().last().map_or(1, |last| last.n + 1);
        let numbers = first..=first + self.random.below(4) as u64;
        let mut sql = String::new();
        for n in numbers.clone() {
            sql.push_str(&format!(
                "{LOOK}
                 BEGIN;
                 INSERT INTO log SELECT {n}, clock_timestamp(), {body};
                 UPDATE state SET n = {n};
                 SELECT pg_current_xact_id();
                 COMMIT;
                 {LOOK}\n",
                body = body(&n.to_string()),
            ));
        }
        let answer = self.server.sql(&sql);
        let lines: Vec<&str> = answer.lines().filter(|line| !line.is_empty()).collect();
        for (n, lines) in numbers.zip(lines.chunks(3)) {
            let [before, xid, after] = lines else {
                return Err(format!("not three lines of a transaction: {lines:?}"));
            };
            self.commits().push(Commit {
                n,
                xid: xid.parse().map_err(|_| format!("a transaction: {xid}"))?,
                before: moment(before)?,
                after: moment(after)?,
            });
        }
        Ok(())
    }

    /// Ends the current segment and waits until all repositories that count have it.
    pub fn archive_everything(&self) -> Checked {
        let switch = "SELECT pg_create_restore_point('end'); \
                      SELECT pg_walfile_name(pg_switch_wal())";
        let answer = self.server.sql(switch);
        let last = answer.lines().last().ok_or("a segment")?;
        let archived =
            format!("SELECT coalesce(last_archived_wal >= '{last}', false) FROM pg_stat_archiver");
        let begin = Instant::now();
        let mut woken = Instant::now();
        while self.server.sql(&archived) != "t" {
            if begin.elapsed() > PATIENCE {
                return Err(format!("{last} is not archived\n{}", self.server.log()));
            }
            if woken.elapsed() > WAKE {
                self.server.sql(switch);
                woken = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Waits until pushes have had their answer from a repository that is away, or given it up.
    pub fn wait_for_pushes(&self) -> Checked {
        let ended = || {
            let codes = fs::read_to_string(self.site.path("ended")).unwrap_or_default();
            let codes: Vec<String> = codes.lines().map(str::to_owned).collect();
            codes
        };
        let before = ended().len();
        let begin = Instant::now();
        while ended().len() < before + PUSHES && begin.elapsed() < PATIENCE_AWAY {
            std::thread::sleep(Duration::from_millis(50));
        }
        // A killed one says nothing of the repository.
        let is_failure =
            |code: &String| code.parse().is_ok_and(|code: u32| (1..126).contains(&code));
        if ended().iter().skip(before).any(is_failure) {
            self.progress.count("  pushes failed without it");
        }
        Ok(())
    }

    /// Every push that was acknowledged: by the file, the repositories that it was said to be in.
    pub fn acknowledged(&self) -> BTreeMap<String, Vec<Number>> {
        let text = fs::read_to_string(self.site.path("acknowledged")).unwrap_or_default();
        let mut all = BTreeMap::new();
        // The last line may be in the making.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for (name, active) in whole.lines().filter_map(|line| line.split_once(' ')) {
            let of_name: &mut Vec<Number> = all.entry(name.to_owned()).or_default();
            of_name.extend(NUMBERS.iter().filter(|n| active.contains(&n.to_string())));
        }
        all
    }

    /// What the server has of a file that it has pushed, or tried to.
    pub fn sent(&self, name: &str) -> Checked<Vec<u8>> {
        let path = self.site.path("sent").join(name);
        fs::read(path).map_err(|error| format!("{name} was never pushed: {error}"))
    }

    pub fn count_killed_pushes(&self) {
        let killed = fs::read_to_string(self.site.path("kills")).unwrap_or_default();
        self.progress.killed(killed.lines().count() as u64);
    }

    /// A command with both repositories in its configuration.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.server.walzip(arguments);
        command.env_remove("WALZIP_REPO");
        command.env("WALZIP_CONFIG", self.places.file("12"));
        command
    }

    /// Runs a command to its end. What fails while the service falters is repeated when it is well.
    pub fn run(&self, arguments: &[&str]) -> Checked<Ended> {
        let first = ended(self.command(arguments).output())?;
        if first.code == 0 || !self.places.falters() {
            return Ok(first);
        }
        self.progress.count("  failed while the bucket faltered");
        self.places.set_service(Service::Well);
        ended(self.command(arguments).output())
    }

    /// Runs what has to succeed; returns what it said.
    pub fn succeed(&self, arguments: &[&str]) -> Checked<String> {
        let Ended { code, said } = self.run(arguments)?;
        match code {
            0 => Ok(said),
            _ => Err(format!("{arguments:?}: exit {code}\n{said}")),
        }
    }
}
