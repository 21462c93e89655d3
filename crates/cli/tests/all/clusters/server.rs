//! One running server: start, SQL, load, fingerprint, stop.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::clusters::site::{Site, program_of, succeed};

/// How long anything may take before the test gives up on it.
const PATIENCE: Duration = Duration::from_secs(180);

/// The port of servers that have a socket only.
const PORT: u16 = 5432;

/// The name of the database that tests use.
const DATABASE: &str = "postgres";

/// Row count and order-free checksum of every table of a database.
pub type Fingerprint = BTreeMap<String, String>;

/// A data directory and the server on it, which is stopped when this is dropped.
pub struct Server<'a> {
    site: &'a Site,
    name: &'a str,
    major: u32,
    port: u16,
}

impl<'a> Server<'a> {
    /// A new cluster, not started.
    pub fn create(site: &'a Site, name: &'a str, segment_megabytes: u32) -> Server<'a> {
        Server::on(site, name).init(segment_megabytes, &[])
    }

    /// A new cluster whose group may read its files, not started.
    pub fn create_for_group(site: &'a Site, name: &'a str) -> Server<'a> {
        Server::on(site, name).init(1, &["--allow-group-access"])
    }

    /// A new cluster whose databases take any bytes for text, not started.
    pub fn create_of_bytes(site: &'a Site, name: &'a str) -> Server<'a> {
        Server::on(site, name).init(1, &["-E", "SQL_ASCII"])
    }

    /// A server that archives, with an empty table `note` and a first backup.
    pub fn backed_up(site: &'a Site) -> Server<'a> {
        let primary = Server::create(site, "primary", 1);
        primary.archive_with_walzip();
        primary.start(&[]);
        primary.sql("CREATE TABLE note (body text)");
        succeed(&mut primary.walzip(&["backup"]));
        primary
    }

    fn init(self, segment_megabytes: u32, flags: &[&str]) -> Server<'a> {
        let server = self;
        let mut initdb = server.site.command(server.program("initdb"));
        initdb
            .arg("-D")
            .arg(server.data())
            .arg(format!("--wal-segsize={segment_megabytes}"));
        initdb.args([
            "-A",
            "trust",
            "-U",
            "tester",
            "-N",
            "-E",
            "UTF8",
            "--no-locale",
        ]);
        initdb.args(flags);
        succeed(&mut initdb);
        server
    }

    /// A server on a data directory that something else fills.
    pub fn on(site: &'a Site, name: &'a str) -> Server<'a> {
        Server {
            site,
            name,
            major: site.major,
            port: PORT,
        }
    }

    /// The same with the programs of another major than the site's.
    pub fn on_of(site: &'a Site, major: u32, name: &'a str) -> Server<'a> {
        Server {
            site,
            name,
            major,
            port: PORT,
        }
    }

    /// The same at another port, as one has to have that listens on TCP.
    pub fn at_port(mut self, port: u16) -> Server<'a> {
        self.port = port;
        self
    }

    /// A new cluster of another major than the site's.
    pub fn create_of(site: &'a Site, major: u32, name: &'a str) -> Server<'a> {
        Server::on_of(site, major, name).init(1, &[])
    }

    fn program(&self, name: &str) -> PathBuf {
        match self.major == self.site.major {
            true => self.site.program(name),
            false => program_of(self.major, name),
        }
    }

    /// The major of its programs.
    pub fn major(&self) -> u32 {
        self.major
    }

    /// Initialises the site's repository for this cluster and makes walzip its archiver.
    pub fn archive_with_walzip(&self) {
        succeed(&mut self.walzip(&["init"]));
        self.configure_archiving();
    }

    /// Makes walzip its archiver, in a repository that is not made here.
    pub fn configure_archiving(&self) {
        self.configure(&format!(
            "archive_mode = on\n\
             archive_command = '{} archive-push --repo {} %p'\n\
             wal_level = replica\n\
             max_wal_senders = 4\n\
             max_wal_size = 64MB",
            self.site.program_under_test().display(),
            self.site.repository().display(),
        ));
    }

    /// Its name in the site.
    pub fn name(&self) -> &str {
        self.name
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.site.path(self.name)
    }

    /// The directory of its socket: its own, so that every server can have the same port.
    pub fn socket(&self) -> PathBuf {
        self.site.path(&format!("{}.socket", self.name))
    }

    /// Adds lines to postgresql.conf.
    pub fn configure(&self, lines: &str) {
        use std::io::Write;
        let path = self.data().join("postgresql.conf");
        let file = fs::OpenOptions::new().append(true).open(path);
        file.and_then(|mut file| writeln!(file, "{lines}"))
            .expect("write postgresql.conf");
    }

    /// Starts the server with further settings, and waits until it takes connections.
    pub fn start(&self, settings: &[&str]) {
        assert!(
            self.try_start(settings),
            "{} did not start:\n{}",
            self.name,
            self.log()
        );
    }

    /// The same for a server that may stop again by itself; whether it took connections.
    pub fn try_start(&self, settings: &[&str]) -> bool {
        if !self.socket().exists() {
            self.site.create_directory(&format!("{}.socket", self.name));
        }
        // Durability of the server itself is not what is tested, and fsync takes most of its
        // time. walzip always syncs.
        let socket = format!("unix_socket_directories={}", self.socket().display());
        let port = format!("port={}", self.port);
        let own = [
            socket.as_str(),
            "listen_addresses=",
            "fsync=off",
            port.as_str(),
        ];
        let options: Vec<String> = own
            .iter()
            .chain(settings)
            .map(|setting| format!("-c '{setting}'"))
            .collect();
        let mut start = self.site.command(self.program("pg_ctl"));
        start
            .args(["start", "-w", "-s", "-t", "180", "-D"])
            .arg(self.data());
        start
            .arg("-l")
            .arg(self.log_path())
            .arg("-o")
            .arg(options.join(" "));
        // The server inherits the standard streams: a pipe would never see its end.
        start.stdin(std::process::Stdio::null());
        start
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        start.status().expect("pg_ctl").success()
    }

    /// Waits until a server has stopped by itself.
    #[track_caller]
    pub fn wait_until_stopped(&self) {
        let begin = Instant::now();
        while self.data().join("postmaster.pid").exists() {
            assert!(
                begin.elapsed() < PATIENCE,
                "the server goes on\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Stops the server in an orderly way.
    pub fn stop(&self) {
        let mut stop = self.site.command(self.program("pg_ctl"));
        succeed(
            stop.args(["stop", "-w", "-s", "-t", "180", "-m", "fast", "-D"])
                .arg(self.data()),
        );
    }

    /// Stops the server as a crash does.
    pub fn crash(&self) {
        let mut stop = self.site.command(self.program("pg_ctl"));
        succeed(
            stop.args(["stop", "-w", "-s", "-t", "180", "-m", "immediate", "-D"])
                .arg(self.data()),
        );
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.site.path(&format!("{}.log", self.name))
    }

    /// Runs SQL (or psql's own commands) and returns unaligned rows, without the last newline.
    #[track_caller]
    pub fn sql(&self, sql: &str) -> String {
        let mut psql = self.client("psql");
        psql.args([
            "-X",
            "-A",
            "-t",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-f",
            "-",
            "-d",
            DATABASE,
        ]);
        psql.stdin(std::process::Stdio::piped());
        psql.stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let mut child = psql.spawn().expect("psql");
        {
            use std::io::Write;
            let mut input = child.stdin.take().expect("a pipe");
            input
                .write_all(sql.as_bytes())
                .expect("psql takes its input");
        }
        let output = child.wait_with_output().expect("psql ends");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{sql}\n{error}\n{}", self.log());
        String::from_utf8(output.stdout)
            .expect("text")
            .trim_end()
            .to_owned()
    }

    /// Waits until a query answers `t`.
    #[track_caller]
    pub fn wait_until(&self, sql: &str) {
        let begin = Instant::now();
        while self.sql(sql) != "t" {
            assert!(
                begin.elapsed() < PATIENCE,
                "gave up waiting for {sql}\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A client program pointed at this server.
    pub fn client(&self, program: &str) -> std::process::Command {
        let mut command = self.site.command(self.program(program));
        command
            .env("PGHOST", self.socket())
            .env("PGPORT", self.port.to_string())
            .env("PGUSER", "tester");
        command
    }

    /// A walzip command with this server's address and data directory.
    pub fn walzip(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.site.walzip(arguments);
        command
            .env("WALZIP_HOST", self.socket())
            .env("WALZIP_PORT", self.port.to_string());
        command
            .env("WALZIP_USER", "tester")
            .env("WALZIP_PGDATA", self.data());
        command
    }

    /// Runs pgbench to its end.
    pub fn pgbench(&self, arguments: &[&str]) {
        succeed(
            self.client("pgbench")
                .arg("-n")
                .args(arguments)
                .arg(DATABASE),
        );
    }

    /// Starts pgbench beside what the test does next.
    pub fn start_pgbench(&self, arguments: &[&str]) -> Load {
        let mut pgbench = self.client("pgbench");
        pgbench.arg("-n").args(arguments).arg(DATABASE);
        pgbench
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        Load(pgbench.spawn().expect("pgbench"))
    }

    /// Ends the current segment and waits until everything before it is archived.
    pub fn archive_everything(&self) {
        // A segment that nothing was written to is not switched.
        let sql = "SELECT pg_create_restore_point('end'); SELECT pg_walfile_name(pg_switch_wal())";
        let answer = self.sql(sql);
        let last = answer.lines().last().expect("a segment");
        self.wait_until(&format!(
            "SELECT coalesce(last_archived_wal >= '{last}', false) FROM pg_stat_archiver"
        ));
    }

    /// How many files the server has archived.
    pub fn archived_count(&self) -> u64 {
        self.sql("SELECT archived_count FROM pg_stat_archiver")
            .parse()
            .expect("a number")
    }

    /// Row count and checksum of every table.
    pub fn fingerprint(&self) -> Fingerprint {
        let rows = self.sql(
            "SELECT format('SELECT %L, count(*), sum(hashtextextended(t::text, 0)::numeric)
                            FROM %s t', oid::regclass, oid::regclass)
             FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
             \\gexec",
        );
        let pair = |row: &str| {
            let (table, sums) = row.split_once('|').expect("a table and its sums");
            (table.to_owned(), sums.to_owned())
        };
        rows.lines().map(pair).collect()
    }

    /// Checks every heap and B-tree: with pg_amcheck, which PostgreSQL has since 14, and by
    /// calling its B-tree functions in 13.
    pub fn check_structures(&self) {
        self.sql("CREATE EXTENSION IF NOT EXISTS amcheck");
        if self.major >= 14 {
            let mut amcheck = self.client("pg_amcheck");
            succeed(amcheck.args(["--heapallindexed", "-d", DATABASE]));
            return;
        }
        let checked = self.sql(
            "SELECT count(bt_index_parent_check(i.indexrelid, true)::text) > 100
             FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
             WHERE a.amname = 'btree' AND c.relpersistence = 'p' AND i.indisvalid",
        );
        assert_eq!(checked, "t", "the catalogues have more than 100 indexes");
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if Path::new(&self.data()).join("postmaster.pid").exists() {
            let mut stop = self.site.command(self.program("pg_ctl"));
            stop.args(["stop", "-w", "-s", "-t", "60", "-m", "immediate", "-D"])
                .arg(self.data());
            // A destructor during a failing test must not fail again.
            let _ = stop.output();
        }
    }
}

/// A pgbench in the background, ended when dropped.
pub struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
