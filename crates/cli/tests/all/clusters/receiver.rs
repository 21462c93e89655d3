//! A running `walzip receive`, its local directory, and what can be restored of both tiers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

use crate::clusters::object_store::archived_files;
use crate::clusters::server::Server;
use crate::clusters::site::{Site, succeed};

const PATIENCE: Duration = Duration::from_secs(90);

/// The name of the local directory in a site.
pub const DIRECTORY: &str = "received";

/// How often something is killed; each time at another moment.
pub fn rounds() -> u32 {
    match std::env::var("WALZIP_RECEIVE_KILLS") {
        Ok(rounds) => rounds.parse().expect("a number of rounds"),
        Err(_) => 3,
    }
}

/// Moments that differ from run to run.
pub struct Random(u32);

impl Random {
    pub fn seeded() -> Random {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Random(now.expect("a time after 1970").subsec_nanos())
    }

    /// Less than so many milliseconds.
    pub fn delay(&mut self, millis: u32) -> Duration {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Duration::from_millis(u64::from((self.0 >> 8) % millis))
    }
}

/// The process, killed when this is dropped.
pub struct Receiver<'a> {
    site: &'a Site,
    child: Child,
}

/// The arguments of a receiver that makes its slot.
pub const FIRST: &[&str] = &["--create-slot", "--if-not-exists"];

impl<'a> Receiver<'a> {
    /// Starts one for a server, with further arguments.
    pub fn start(site: &'a Site, server: &Server, arguments: &[&str]) -> Receiver<'a> {
        let directory = site.path(DIRECTORY);
        if !directory.exists() {
            site.create_directory(DIRECTORY);
        }
        let log = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(site.path("receive.log"))
            .expect("a log");
        let mut command = server.walzip(&["receive", "-v", "--slot", "walzip", "-1", "-D"]);
        command.arg(&directory).args(arguments);
        let output = log.try_clone().expect("the log again");
        let spawned = command.stdout(output).stderr(log).spawn();
        Receiver {
            site,
            child: spawned.expect("walzip starts"),
        }
    }

    /// The same, and waits until it streams.
    pub fn start_streaming(site: &'a Site, server: &Server, arguments: &[&str]) -> Receiver<'a> {
        let receiver = Receiver::start(site, server, arguments);
        server.wait_until(
            "SELECT count(*) = 1 FROM pg_stat_replication
             WHERE application_name = 'walzip' AND state = 'streaming' AND flush_lsn IS NOT NULL",
        );
        receiver
    }

    /// What all receivers of the site have said.
    pub fn log(&self) -> String {
        log(self.site)
    }

    /// Waits until it has said something.
    #[track_caller]
    pub fn wait_until_said(&self, words: &str) {
        wait(self.site, words, || log(self.site).contains(words));
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("it ends");
    }

    /// Asks it to end.
    #[track_caller]
    pub fn stop(mut self) {
        let process = Pid::from_child(&self.child);
        kill_process(process, Signal::TERM).expect("it runs");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}\n{}", log(self.site));
    }
}

impl Receiver<'_> {
    /// Waits until it ends by itself.
    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("it ends")
    }
}

impl Drop for Receiver<'_> {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What all receivers of a site have said.
pub fn log(site: &Site) -> String {
    fs::read_to_string(site.path("receive.log")).unwrap_or_default()
}

/// Waits for something that will be.
#[track_caller]
pub fn wait(site: &Site, what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(
            begin.elapsed() < PATIENCE,
            "gave up waiting for {what}\n{}",
            log(site)
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The names of files in the local directory, or in one below it.
pub fn local_names(site: &Site, below: &str) -> Vec<String> {
    let directory = site.path(DIRECTORY).join(below);
    let entries = fs::read_dir(directory).into_iter().flatten();
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    names.retain(|name| name.starts_with('0'));
    names.sort();
    names
}

/// Waits until a WAL file is in the repository.
#[track_caller]
pub fn wait_until_archived(site: &Site, name: &str) {
    wait(site, name, || {
        crate::clusters::object_store::object_of(site, name).is_some()
    });
}

/// Ends the server's segment; returns its name.
pub fn switch_segment(server: &Server) -> String {
    // A segment that nothing was written to is not switched.
    let sql = "SELECT pg_create_restore_point('end'); SELECT pg_walfile_name(pg_switch_wal())";
    let answer = server.sql(sql);
    answer.lines().last().expect("a segment").to_owned()
}

/// Every archived segment of a timeline is as the server has it in pg_wal, as far as it still has
/// it; returns how many were compared.
#[track_caller]
pub fn assert_same_as_in_pg_wal(site: &Site, server: &Server) -> usize {
    let mut compared = 0;
    for (name, content) in archived_files(site) {
        if let Ok(original) = fs::read(server.data().join("pg_wal").join(&name)) {
            assert!(content == original, "{name} differs");
            compared += 1;
        }
    }
    compared
}

/// Copies a directory tree with its owners.
pub fn copy(from: &Path, to: &Path) {
    succeed(std::process::Command::new("cp").arg("-a").arg(from).arg(to));
}

/// Copies what is in the local directory into pg_wal of a cluster, as the help says.
pub fn copy_local_wal(site: &Site, restored: &Server) {
    let local = site.path(DIRECTORY);
    for name in local_names(site, "") {
        let as_segment = name.strip_suffix(".partial").unwrap_or(&name);
        let to: PathBuf = restored.data().join("pg_wal").join(as_segment);
        match fs::copy(local.join(&name), &to) {
            // The receiver may be running, and have archived it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            copied => copied.expect("copied"),
        };
        site.hand_over(&to);
    }
}

/// Restores a copy of a stopped cluster with the WAL of both tiers, as the help says, and returns
/// the answer to a query.
pub fn restored_answer(site: &Site, base: &Path, major: u32, query: &str) -> String {
    let restored = Server::on_of(site, major, "restored");
    copy(base, &restored.data());
    copy_local_wal(site, &restored);
    restored.configure(&format!(
        "restore_command = '{} archive-get --repo {} %f \"%p\"'\n\
         archive_mode = off\nsynchronous_standby_names = ''",
        site.program_under_test().display(),
        site.repository().display()
    ));
    let signal = restored.data().join("recovery.signal");
    fs::write(&signal, "").expect("written");
    site.hand_over(&signal);
    restored.start(&[]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    let answer = restored.sql(query);
    restored.stop();
    fs::remove_dir_all(restored.data()).expect("removed");
    answer
}
