//! Real clusters of PostgreSQL 15 in temporary directories.
//!
//! A server refuses to run as root, so that root runs it as the user `postgres`. The server
//! archives into a directory by `cp`, and a task pushes what arrives there; for recovery all of
//! the archive is got into another directory beforehand.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tempfile::TempDir;
use tokio::task::JoinHandle;
use walzip_archive::get::{GetOptions, Got, get};
use walzip_archive::push::{PushOptions, push};
use walzip_archive::replication::{Connection, ConnectionSettings, Mode};
use walzip_repo::Repository;

const DEBIAN_PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// A directory for clusters that the server's user can reach.
pub struct Site {
    directory: TempDir,
    programs: PathBuf,
    user: Option<(u32, u32)>,
}

/// The numbers of the user postgres and of its group.
fn postgres() -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let fields = users
        .lines()
        .find_map(|line| line.strip_prefix("postgres:"))?;
    let mut numbers = fields.split(':').skip(1).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

impl Site {
    /// `None`, said loudly, where there is no PostgreSQL 15 or no user to run it. CI has both.
    pub fn new() -> Option<Site> {
        match Site::try_new() {
            Ok(site) => Some(site),
            Err(lack) => {
                walzip_testing::not_run(&lack);
                None
            }
        }
    }

    fn try_new() -> Result<Site, String> {
        let cached = std::env::var_os("WALZIP_PG_CACHE")
            .map(|cache| PathBuf::from(cache).join("postgres/15/bin"));
        let mut candidates = cached.into_iter().chain([PathBuf::from(DEBIAN_PROGRAMS)]);
        let programs = candidates
            .find(|programs| programs.join("initdb").exists())
            .ok_or(format!(
                "no PostgreSQL 15 in {DEBIAN_PROGRAMS} or WALZIP_PG_CACHE"
            ))?;
        let user = if rustix::process::geteuid().is_root() {
            let user = postgres().ok_or("running as root, and there is no user postgres")?;
            Some(user)
        } else {
            None
        };
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755))
            .map_err(|error| error.to_string())?;
        let site = Site {
            directory,
            programs,
            user,
        };
        site.give(site.directory.path());
        Ok(site)
    }

    /// A new directory of the server's user.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::create_dir(&path).expect("a new directory");
        self.give(&path);
        path
    }

    /// Gives everything below a path to the server's user.
    pub fn give(&self, path: &Path) {
        let Some((uid, gid)) = self.user else { return };
        std::os::unix::fs::lchown(path, Some(uid), Some(gid)).expect("chown");
        if path.is_dir() && !path.is_symlink() {
            for entry in fs::read_dir(path).expect("a readable directory") {
                self.give(&entry.expect("an entry").path());
            }
        }
    }

    fn run(&self, program: &str, arguments: &[&OsStr]) -> Output {
        let mut command = Command::new(self.programs.join(program));
        command.args(arguments).current_dir(self.directory.path());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        let output = command.output().expect(program);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {said}");
        output
    }

    /// A cluster that archives into the directory `out`, by a command or by none that works.
    pub fn cluster(&self, name: &str, archive_command: &str) -> Cluster<'_> {
        self.start(self.create(name, archive_command))
    }

    /// The data directory of such a cluster, which is not started.
    pub fn create(&self, name: &str, archive_command: &str) -> PathBuf {
        let data = self.directory.path().join(name);
        // 1 MiB segments: the tests switch often.
        let arguments = [
            "-U",
            "postgres",
            "-A",
            "trust",
            "--wal-segsize=1",
            "-N",
            "-D",
        ];
        let arguments: Vec<&OsStr> = arguments
            .iter()
            .map(OsStr::new)
            .chain([data.as_os_str()])
            .collect();
        self.run("initdb", &arguments);
        let settings = format!(
            "archive_mode = on\narchive_command = '{archive_command}'\nfsync = off\n\
             max_wal_senders = 4\nwal_level = replica\n"
        );
        let path = data.join("postgresql.conf");
        let existing = fs::read_to_string(&path).expect("postgresql.conf");
        fs::write(&path, existing + &settings).expect("postgresql.conf");
        data
    }

    /// Starts a cluster in a data directory.
    pub fn start(&self, data: PathBuf) -> Cluster<'_> {
        self.start_listening(data, "", 5432)
    }

    /// The same at an address, if it is not empty, and at a port.
    pub fn start_listening(&self, data: PathBuf, address: &str, port: u16) -> Cluster<'_> {
        let sockets = data.with_extension("sockets");
        fs::create_dir(&sockets).expect("a new directory");
        self.give(&sockets);
        let options = format!(
            "-c listen_addresses={address} -c port={port} -k {}",
            sockets.display()
        );
        let log = data.with_extension("log");
        self.run(
            "pg_ctl",
            &[
                "start".as_ref(),
                "-w".as_ref(),
                "-s".as_ref(),
                "-D".as_ref(),
                data.as_ref(),
                "-l".as_ref(),
                log.as_ref(),
                "-o".as_ref(),
                options.as_ref(),
            ],
        );
        Cluster {
            site: self,
            data,
            sockets,
            port,
        }
    }
}

/// A running cluster; stopped when it is dropped.
pub struct Cluster<'s> {
    site: &'s Site,
    pub data: PathBuf,
    sockets: PathBuf,
    port: u16,
}

impl Cluster<'_> {
    pub fn settings(&self) -> ConnectionSettings {
        let sockets = self.sockets.display();
        let text = format!("host={sockets} port={} user=postgres", self.port);
        ConnectionSettings::parse(&text).expect("valid settings")
    }

    pub async fn sql(&self, query: &str) -> String {
        let settings = self.settings();
        let mut connection = Connection::open(&settings, Mode::Sql)
            .await
            .expect("connected");
        let rows = connection
            .query(query)
            .await
            .unwrap_or_else(|error| panic!("{query}: {error}"));
        connection.close().await;
        rows.into_iter()
            .flatten()
            .flatten()
            .collect::<Vec<_>>()
            .join(",")
    }

    /// A base backup as tar archives, `base.tar` and `backup_manifest` among them.
    pub fn tar_backup(&self, directory: &Path) {
        let sockets = self.sockets.as_os_str();
        let arguments = ["-U", "postgres", "-F", "t", "-X", "none", "-c", "fast"];
        let arguments = arguments.iter().map(OsStr::new);
        let places = ["-h".as_ref(), sockets, "-D".as_ref(), directory.as_os_str()];
        let arguments: Vec<&OsStr> = arguments.chain(places).collect();
        self.site.run("pg_basebackup", &arguments);
    }

    /// Waits until recovery has ended in a promotion.
    pub async fn promoted(&self) {
        for _ in 0..300 {
            if self.sql("SELECT pg_is_in_recovery()").await == "f" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the cluster was not promoted within 30 seconds");
    }
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        let arguments = [
            "stop".as_ref(),
            "-s".as_ref(),
            "-m".as_ref(),
            "fast".as_ref(),
            "-D".as_ref(),
        ];
        let arguments: Vec<&OsStr> = arguments
            .into_iter()
            .chain([self.data.as_os_str()])
            .collect();
        self.site.run("pg_ctl", &arguments);
    }
}

/// The `archive_command` for a directory.
pub fn copy_to(directory: &Path) -> String {
    let directory = directory.display();
    format!("cp \"%p\" {directory}/.%f && mv {directory}/.%f {directory}/%f")
}

/// Pushes what arrives in a directory, as long as it lives.
pub struct Shipper(JoinHandle<()>);

impl Shipper {
    pub fn start(repository: Repository, directory: PathBuf) -> Shipper {
        Shipper(tokio::spawn(async move {
            loop {
                for entry in fs::read_dir(&directory).expect("a readable directory") {
                    let path = entry.expect("an entry").path();
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    if name.starts_with('.') {
                        continue;
                    }
                    push(&repository, &path, &PushOptions::default())
                        .await
                        .expect("pushed");
                    fs::remove_file(&path).expect("removed");
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }))
    }
}

impl Drop for Shipper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Gets the whole archive into a new directory; returns a `restore_command` that copies from it.
pub async fn restore_command(site: &Site, repository: &Repository, name: &str) -> String {
    let directory = site.directory(name);
    for entry in repository.list_wal().await.expect("readable") {
        let path = directory.join(&entry.name);
        let got = get(repository, &entry.name, &path, &GetOptions::default()).await;
        assert!(matches!(got, Ok(Got::Found { .. })), "{got:?}");
    }
    site.give(&directory);
    format!("cp {}/%f \"%p\"", directory.display())
}
