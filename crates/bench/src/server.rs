//! A throw-away PostgreSQL server, for experiments.
//!
//! It lives in one temporary directory: the cluster, its log, and the Unix socket that is the
//! only way to it. It is gone, directory and all, when it is dropped, when it does not start,
//! and when this process is killed ([`Scratch`]). The server is a child of this process, so that
//! what it took can be read from the kernel.

mod account;
mod installation;
mod memory_group;
mod owner;
mod phase;
mod settings;
mod standby;
mod usage;
mod written;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use self::account::Account;
use self::memory_group::{MemoryGroup, WAITS};
use crate::error::Error;
use crate::process::{self, Failure, Surroundings};
use crate::scratch::Scratch;
use crate::usage::Usage;

pub use installation::Installation;
pub(crate) use phase::Done;
pub use phase::{Phase, Ran};
pub use settings::Settings;
pub use standby::Replication;
pub use usage::ServerUsage;
pub use written::Written;

/// The role that everything is done as.
pub const USER: &str = "bench";
/// The database that everything is done in.
pub const DATABASE: &str = "bench";
/// A number in the name of the socket: nothing listens on a network.
pub const PORT: &str = "5432";

/// How long a server may take to start, and to stop in an orderly way.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long it may take to stop when nothing has to be kept.
const IMPATIENCE: Duration = Duration::from_secs(20);
/// How often it is looked whether it has.
const GLANCE: Duration = Duration::from_millis(20);
/// How long the name of a socket may be (`sun_path`, with its end).
const SOCKET_NAME_MAX: usize = 107;

/// Lines of the log with one of these are worth telling.
const TROUBLE: [&str; 4] = [
    "PANIC:",
    "FATAL:",
    "invalid value",
    "unrecognized configuration",
];

/// A running server.
#[derive(Debug)]
pub struct Server {
    postmaster: Child,
    installation: Installation,
    settings: Settings,
    // Dropped when the server has ended, and before the directory whose guard would remove it.
    group: Option<MemoryGroup>,
    directory: Scratch,
}

impl Installation {
    /// Makes a cluster and starts a server on it.
    pub fn start(&self, settings: &Settings) -> Result<Server, Error> {
        let account = Account::choose()?;
        let mut directory = owned_directory(&self.temp_dir, account)?;
        let path = directory.path().to_owned();
        self.initdb(&path, settings, account)?;
        let group = settings.memory_limit_bytes;
        let group = group.map(|limit| MemoryGroup::new(&mut directory, limit));
        let group = group.transpose().map_err(Error::Usage)?;
        let postmaster = self.postmaster(&path, account, group.as_ref())?;
        let mut server = Server {
            postmaster,
            installation: self.clone(),
            settings: settings.clone(),
            group,
            directory,
        };
        server.wait_until_ready()?;
        server.sql_in("postgres", &format!("CREATE DATABASE {DATABASE}"))?;
        Ok(server)
    }

    /// Why servers cannot be limited in their memory, if they cannot.
    pub(crate) fn no_memory_limit(&self, bytes: u64) -> Result<Option<String>, Error> {
        let mut scratch = Scratch::new_in(&self.temp_dir, "walzip-bench-")?;
        Ok(MemoryGroup::new(&mut scratch, bytes).err())
    }

    /// Nobody asks for the memory of what is started here.
    fn surroundings<'a>(&'a self, directory: &'a Path) -> Surroundings<'a> {
        Surroundings {
            launcher: None,
            search_path: &self.search_path,
            temp_dir: directory,
            cancel: &self.cancel,
        }
    }

    /// A program of the server, as the user that it runs as.
    fn server_command(
        &self,
        name: &'static str,
        directory: &Path,
        account: Option<Account>,
    ) -> Result<Command, Error> {
        Ok(self.as_server(&self.program(name)?, directory, account))
    }

    fn as_server(&self, program: &Path, directory: &Path, account: Option<Account>) -> Command {
        let mut command = process::command(program, self.surroundings(directory));
        command
            .env("TZ", "UTC")
            .current_dir(directory)
            .stdout(Stdio::null());
        if let Some(account) = account {
            account.run(&mut command);
        }
        command
    }

    fn initdb(
        &self,
        directory: &Path,
        settings: &Settings,
        account: Option<Account>,
    ) -> Result<(), Error> {
        let mut initdb = self.server_command("initdb", directory, account)?;
        initdb
            .args(["-A", "trust", "-N", "-E", "UTF8", "--no-locale", "-U", USER])
            .arg(format!("--wal-segsize={}", settings.segment_megabytes))
            .arg("-D")
            .arg(directory.join("data"));
        if settings.checksums {
            initdb.arg("--data-checksums");
        } else if self.major >= 18 {
            initdb.arg("--no-data-checksums");
        }
        process::measure(initdb, self.surroundings(directory))
            .map_err(|failure| said("make a cluster", &failure))?;
        let path = directory.join("data/postgresql.conf");
        let file = fs::OpenOptions::new().append(true).open(&path);
        file.and_then(|mut file| io::Write::write_all(&mut file, settings.file().as_bytes()))
            .map_err(|source| Error::file(&path, source))
    }

    fn postmaster(
        &self,
        directory: &Path,
        account: Option<Account>,
        group: Option<&MemoryGroup>,
    ) -> Result<Child, Error> {
        let log = directory.join("log");
        // Appended to, so that nobody's words are written over.
        let log_file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(|source| Error::file(&log, source))?;
        let program = self.program("postgres")?;
        let mut postgres = match group {
            None => self.as_server(&program, directory, account),
            Some(_) => {
                let mut shell = self.as_server(Path::new("/bin/sh"), directory, account);
                shell.stdin(Stdio::piped());
                shell.args(["-c", WAITS, "postgres"]).arg(&program);
                shell
            }
        };
        postgres
            .arg("-D")
            .arg(directory.join("data"))
            .arg("-k")
            .arg(directory)
            .args(["-p", PORT])
            .stderr(log_file)
            // An interrupt at the terminal is for this process, which then stops the server.
            .process_group(0);
        let failed = |source| Error::file(Path::new("postgres"), source);
        let mut child = postgres.spawn().map_err(failed)?;
        if let Some(Err(source)) = group.map(|group| group.admit(&mut child)) {
            let _killed = child.kill();
            let _ended = child.wait();
            return Err(failed(source));
        }
        Ok(child)
    }
}

/// A directory for a server and its socket, of the user that it runs as.
fn owned_directory(temp_dir: &Path, account: Option<Account>) -> Result<Scratch, Error> {
    let directory = Scratch::new_in(temp_dir, "walzip-server-")?;
    let path = directory.path();
    let socket = path.join(format!(".s.PGSQL.{PORT}"));
    if socket.as_os_str().len() > SOCKET_NAME_MAX {
        return Err(Error::Usage(format!(
            "{} is too long a name for a directory with a socket: set TMPDIR to a shorter one",
            path.display()
        )));
    }
    if let Some(account) = account {
        account
            .own(path)
            .map_err(|source| Error::file(path, source))?;
    }
    Ok(directory)
}

impl Server {
    /// The installation that it is of.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// What it was told.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The directory of the socket: the host for clients.
    pub fn host(&self) -> &Path {
        self.directory.path()
    }

    /// What a client program needs in its environment to find this server.
    pub fn environment(&self) -> [(&'static str, OsString); 4] {
        [
            ("PGHOST", self.host().as_os_str().to_owned()),
            ("PGPORT", PORT.into()),
            ("PGUSER", USER.into()),
            ("PGDATABASE", DATABASE.into()),
        ]
    }

    /// Whether a stop was requested.
    pub fn is_cancelled(&self) -> bool {
        self.installation.cancel.is_requested()
    }

    /// Runs a client program to its end, with its standard output in a file.
    pub fn client(
        &self,
        name: &'static str,
        arguments: &[impl AsRef<OsStr>],
        output: File,
    ) -> Result<Usage, Error> {
        let surroundings = self.installation.surroundings(self.host());
        let mut client = process::command(&self.installation.program(name)?, surroundings);
        client
            .envs(self.environment())
            .args(arguments)
            .stdout(output);
        process::measure(client, surroundings).map_err(|failure| {
            let error = said(&format!("run {name}"), &failure);
            self.with_log(error)
        })
    }

    /// Runs a client program to its end and returns what it printed.
    pub fn client_output(
        &self,
        name: &'static str,
        arguments: &[impl AsRef<OsStr>],
    ) -> Result<(String, Usage), Error> {
        let path = self.host().join("output");
        let file = File::create(&path).map_err(|source| Error::file(&path, source))?;
        let usage = self.client(name, arguments, file)?;
        let output = fs::read_to_string(&path).map_err(|source| Error::file(&path, source))?;
        Ok((output, usage))
    }

    /// Runs statements, each in a transaction of its own, and returns unaligned rows without
    /// the last newline.
    pub fn sql(&self, sql: &str) -> Result<String, Error> {
        self.sql_in(DATABASE, sql)
    }

    /// Runs statements, and says what the client took.
    pub(crate) fn timed_sql(&self, sql: &str) -> Result<Usage, Error> {
        let path = self.host().join("statements.sql");
        fs::write(&path, sql).map_err(|source| Error::file(&path, source))?;
        self.sql_file(&path)
    }

    fn sql_in(&self, database: &str, sql: &str) -> Result<String, Error> {
        let path = self.host().join("statements.sql");
        fs::write(&path, sql).map_err(|source| Error::file(&path, source))?;
        let (output, _) = self.psql(database, &path)?;
        Ok(output.trim_end().to_owned())
    }

    /// Restores what pg_dump wrote. Roles are those of another server, and left out.
    pub fn restore_dump(&self, path: &Path) -> Result<(), Error> {
        let options = [
            "--no-owner",
            "--no-privileges",
            "--exit-on-error",
            "--dbname",
            DATABASE,
        ];
        let mut arguments: Vec<OsString> = options.map(OsString::from).to_vec();
        arguments.push(path.into());
        self.client_output("pg_restore", &arguments).map(drop)
    }

    /// Runs a program and its arguments in a directory; it finds the server by the environment.
    pub fn run_in(&self, directory: &Path, words: &[String]) -> Result<(), Error> {
        let [name, arguments @ ..] = words else {
            return Ok(());
        };
        let surroundings = self.installation.surroundings(self.host());
        let program = self.installation.program_of_manifest(name)?;
        let mut command = process::command(&program, surroundings);
        command
            .envs(self.environment())
            .args(arguments)
            .current_dir(directory)
            .stdout(Stdio::null());
        let run = process::measure(command, surroundings);
        run.map(drop).map_err(|failure| {
            let error = said(&format!("run {name}"), &failure);
            self.with_log(error)
        })
    }

    /// Runs a file of statements, with `COPY ... FROM stdin` and its rows in it.
    pub fn sql_file(&self, path: &Path) -> Result<Usage, Error> {
        Ok(self.psql(DATABASE, path)?.1)
    }

    fn psql(&self, database: &str, path: &Path) -> Result<(String, Usage), Error> {
        let options = [
            "-X",
            "-A",
            "-t",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            database,
            "-f",
        ];
        let mut arguments: Vec<OsString> = options.map(OsString::from).to_vec();
        arguments.push(path.into());
        self.client_output("psql", &arguments)
    }

    /// The position up to which WAL was written.
    pub fn wal_position(&self) -> Result<u64, Error> {
        let position = self.sql("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")?;
        position
            .parse()
            .map_err(|_| wrong("a position in the WAL", &position))
    }

    /// Stops the server in an orderly way: everything is on disk afterwards. The directory goes
    /// when the value that is returned does.
    pub fn stop(mut self) -> Result<Stopped, Error> {
        self.signal(Signal::INT);
        let status = self.wait(PATIENCE)?;
        if self.is_cancelled() {
            return Err(Error::Interrupted);
        }
        if !status.success() {
            return Err(self.with_log(Error::Server {
                doing: "stop".to_owned(),
                reason: status.to_string(),
            }));
        }
        Ok(Stopped(self))
    }

    /// The server itself says when it takes connections, as it does to pg_ctl.
    fn wait_until_ready(&mut self) -> Result<(), Error> {
        let pid_file = self.data().join("postmaster.pid");
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if self.is_cancelled() {
                return Err(Error::Interrupted);
            }
            let status = fs::read_to_string(&pid_file).unwrap_or_default();
            if status
                .lines()
                .nth(7)
                .is_some_and(|line| line.trim() == "ready")
            {
                return Ok(());
            }
            let ended = self.postmaster.try_wait();
            if let Some(status) = ended.map_err(|source| Error::file(&pid_file, source))? {
                return Err(self.with_log(Error::Server {
                    doing: "start".to_owned(),
                    reason: status.to_string(),
                }));
            }
            std::thread::sleep(GLANCE);
        }
        Err(self.with_log(too_slow("start")))
    }

    /// Waits for the end of the server.
    fn wait(&mut self, patience: Duration) -> Result<ExitStatus, Error> {
        let begin = Instant::now();
        while begin.elapsed() < patience {
            let ended = self.postmaster.try_wait();
            if let Some(status) =
                ended.map_err(|source| Error::file(Path::new("postgres"), source))?
            {
                return Ok(status);
            }
            std::thread::sleep(GLANCE);
        }
        Err(self.with_log(too_slow("stop")))
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.postmaster.id())
            .ok()
            .and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It fails only when the server has ended by itself, which is as good.
            let _ended = kill_process(pid, signal);
        }
    }

    /// Adds what the server logged last, when it logged trouble.
    fn with_log(&self, error: Error) -> Error {
        let Error::Server { doing, reason } = error else {
            return error;
        };
        let log = fs::read(self.host().join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let trouble = |line: &&str| TROUBLE.iter().any(|word| line.contains(word));
        let mut lines: Vec<&str> = log.lines().filter(trouble).map(str::trim).collect();
        lines.drain(..lines.len().saturating_sub(3));
        let mut reason = match lines.is_empty() {
            true => reason,
            false => format!("{reason}; the server said: {}", lines.join("; ")),
        };
        let ended = self.group.as_ref().map_or(0, MemoryGroup::ended_for_want);
        if ended > 0 {
            reason.push_str("; the kernel ended a process of it: the limit of memory is too small");
        }
        let directory = format!("{}/", self.host().display());
        Error::Server {
            doing,
            reason: reason.replace(&directory, ""),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.postmaster.try_wait(), Ok(Some(_))) {
            return;
        }
        // Nothing has to be kept. A server that does not even do that is killed; its children
        // notice and end.
        self.signal(Signal::QUIT);
        if self.wait(IMPATIENCE).is_err() {
            let _ = self.postmaster.kill();
            let _ = self.postmaster.wait();
        }
    }
}

/// A server that was stopped, whose files are still there.
#[derive(Debug)]
pub struct Stopped(Server);

impl Stopped {
    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.0.data()
    }
}

fn said(doing: &str, failure: &Failure) -> Error {
    match failure {
        Failure::Cancelled => Error::Interrupted,
        failure => Error::Server {
            doing: doing.to_owned(),
            reason: failure.to_string(),
        },
    }
}

fn too_slow(doing: &str) -> Error {
    Error::Server {
        doing: doing.to_owned(),
        reason: format!("it took longer than {} seconds", PATIENCE.as_secs()),
    }
}

/// An answer that is not what was asked for.
pub(crate) fn wrong(expected: &str, answer: &str) -> Error {
    Error::Server {
        doing: format!("learn {expected}"),
        reason: format!("the answer was \"{answer}\""),
    }
}
