//! `kill -9` of archive-push at random moments: what has its final name is whole, and a retry
//! completes what is missing. And a backup that is asked to end.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

use crate::clusters::object_store::{archived_files, assert_no_gaps};
use crate::clusters::server::Server;
use crate::clusters::site::{Site, succeed};

/// How many pushes are killed while they run.
const KILLS: u32 = 300;

/// How many pushes are killed under a server, which waits up to ten seconds after each before
/// it starts its archiver again.
const KILLS_UNDER_SERVER: u32 = 4;

#[test]
fn a_killed_push_leaves_a_whole_object_or_none() {
    let Some(site) = Site::new(15) else { return };
    let segments = segments_of_a_stopped_server(&site);
    let mut random = Random::seeded();
    let mut full_push = duration_of_a_push(&site, &segments[0]);
    let mut killed = 0;
    let mut finished = 0;
    for segment in segments.iter().cycle() {
        if killed == KILLS {
            break;
        }
        forget(&site, segment);
        let mut push = start_push(&site, segment);
        std::thread::sleep(full_push.mul_f64(1.1 * random.fraction()));
        match push.try_wait().expect("the state of the push") {
            Some(status) => {
                assert!(status.success(), "a push failed by itself: {status}");
                finished += 1;
                // The machine has less to do than when a push was timed: few would be killed.
                full_push = full_push.mul_f64(0.9);
            }
            None => {
                push.kill().expect("kill the push");
                push.wait().expect("the push ends");
                killed += 1;
                full_push = full_push.mul_f64(1.02);
            }
        }
        for (name, original) in archived_files(&site) {
            let expected = segments
                .iter()
                .find(|path| path.ends_with(&name))
                .expect("a segment");
            assert_eq!(
                original,
                fs::read(expected).expect("a segment"),
                "{name} differs"
            );
        }
    }
    println!("{killed} pushes killed, {finished} finished before");
    for segment in &segments {
        assert!(
            push(&site, segment).success(),
            "the retry of {} failed",
            segment.display()
        );
    }
    assert_eq!(
        archived_files(&site).len(),
        segments.len(),
        "the archive is complete"
    );
    succeed(&mut site.walzip(&["verify"]));
}

#[test]
fn a_server_whose_pushes_are_killed_archives_everything() {
    let Some(site) = Site::new(15) else { return };
    let server = Server::create(&site, "primary", 1);
    server.archive_with_walzip();
    server.start(&[]);
    succeed(&mut server.walzip(&["backup"]));
    server.pgbench(&["-i", "-q", "-s", "1"]);
    let load = server.start_pgbench(&["-c", "1", "-T", "600"]);
    let mut random = Random::seeded();
    for _ in 0..KILLS_UNDER_SERVER {
        kill_some_push(&site, &server, &mut random);
    }
    drop(load);
    server.archive_everything();
    let expected = server.fingerprint();
    let failures = server
        .log()
        .matches("archive command failed with exit code 137")
        .count()
        + server
            .log()
            .matches("archive command was terminated by signal 9")
            .count();
    assert!(failures > 0, "the server saw no kill:\n{}", server.log());
    assert_no_gaps(&archived_files(&site));
    server.stop();

    let restored = Server::on(&site, "restored");
    succeed(restored.walzip(&["restore", "-D"]).arg(restored.data()));
    restored.start(&["archive_mode=off"]);
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    assert_eq!(restored.fingerprint(), expected);
}

/// What a backup has written so far can be large, and the disk is needed for archiving.
#[test]
fn a_backup_that_is_interrupted_takes_what_it_wrote_with_it() {
    let Some(site) = Site::new(15) else { return };
    let server = Server::create(&site, "primary", 1);
    server.archive_with_walzip();
    server.start(&[]);
    server.pgbench(&["-i", "-q", "-s", "5"]);
    server.archive_everything();
    let mut command = server.walzip(&["-v", "backup"]);
    let log = fs::File::create(site.path("backup.log")).expect("a log");
    let mut backup = command.stderr(log).spawn().expect("walzip starts");
    let begin = Instant::now();
    let said = || fs::read_to_string(site.path("backup.log")).expect("the log");
    while !said().contains("copying the data directory") {
        assert!(begin.elapsed() < Duration::from_secs(120), "{}", said());
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&backup), Signal::TERM).expect("it runs");
    let status = backup.wait().expect("the backup ends");
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{}", said());
    let incoming = site.repository().join(".incoming");
    let left = || fs::read_dir(&incoming).expect("a directory").count();
    let begin = Instant::now();
    // The server may be archiving a segment. What the backup left would stay.
    while left() > 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "{}", left());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ten segments with contents, of a cluster that the repository is made for.
fn segments_of_a_stopped_server(site: &Site) -> Vec<PathBuf> {
    let server = Server::create(site, "primary", 1);
    succeed(&mut server.walzip(&["init"]));
    server.configure("max_wal_size = 1GB\nwal_keep_size = 1GB\ncheckpoint_timeout = 1h");
    server.start(&[]);
    server.pgbench(&["-i", "-q", "-s", "1"]);
    server.stop();
    let entries = fs::read_dir(server.data().join("pg_wal")).expect("pg_wal");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut segments: Vec<PathBuf> = paths.filter(|path| path.is_file()).collect();
    segments.sort();
    segments.truncate(10);
    assert_eq!(segments.len(), 10);
    segments
}

fn start_push(site: &Site, segment: &Path) -> Child {
    let mut push = site.walzip(&["archive-push"]);
    push.arg(segment)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    push.spawn().expect("walzip starts")
}

fn push(site: &Site, segment: &Path) -> std::process::ExitStatus {
    start_push(site, segment).wait().expect("the push ends")
}

fn duration_of_a_push(site: &Site, segment: &Path) -> Duration {
    let begin = Instant::now();
    assert!(push(site, segment).success());
    begin.elapsed()
}

/// Removes the segment's object, so that the next push has its whole way to go.
fn forget(site: &Site, segment: &Path) {
    let name = segment
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a segment's name");
    if let Some(object) = crate::clusters::object_store::object_of(site, name) {
        fs::remove_file(object).expect("remove the object");
    }
}

/// Waits for the server's next push and kills it at a random moment of it.
fn kill_some_push(site: &Site, server: &Server, random: &mut Random) {
    let begin = Instant::now();
    for look in 1_u32.. {
        assert!(
            begin.elapsed() < Duration::from_secs(120),
            "no push was there to be killed"
        );
        if let Some(process) = running_push(&site.program_under_test()) {
            std::thread::sleep(Duration::from_millis(20).mul_f64(random.fraction()));
            let kill = Command::new("kill")
                .args(["-9", &process])
                .stderr(Stdio::null())
                .status();
            if kill.expect("the kill command").success() {
                return;
            }
        }
        if look.is_multiple_of(200) {
            // Only a server that is woken up starts its archiver again.
            server.sql("SELECT 1");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The process that runs the program itself: its shell names it too.
fn running_push(program: &Path) -> Option<String> {
    let processes = fs::read_dir("/proc").expect("the proc file system");
    let names = processes.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut numbers = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    numbers.find(|number| {
        let executable = fs::read_link(format!("/proc/{number}/exe"));
        executable.is_ok_and(|path| path == program)
    })
}

/// Numbers that differ from run to run: xorshift, seeded with the time.
struct Random(u64);

impl Random {
    fn seeded() -> Random {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("a time after 1970");
        let seed = now.as_nanos() as u64 | 1;
        println!("random seed: {seed}");
        Random(seed)
    }

    /// From 0 to 1.
    fn fraction(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}
