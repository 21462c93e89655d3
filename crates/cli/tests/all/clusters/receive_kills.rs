//! Commits that wait for `walzip receive`: whatever is killed, what was acknowledged is in the
//! repository and the local directory.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::clusters::object_store::{archived_files, assert_no_gaps};
use crate::clusters::receiver::{
    self, FIRST, Random, Receiver, copy, restored_answer, rounds, switch_segment,
    wait_until_archived,
};
use crate::clusters::server::Server;
use crate::clusters::site::{Site, succeed};

/// Commits one row after the other, and notes what was acknowledged.
#[derive(Default)]
struct Client {
    next: AtomicU64,
    acknowledged: Mutex<Vec<u64>>,
    is_over: AtomicBool,
}

impl Client {
    fn run(&self, server: &Server) {
        while !self.is_over.load(Ordering::Relaxed) {
            // It ends with its connection.
            let _ = self.commit_until_failure(server);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn commit_until_failure(&self, server: &Server) -> std::io::Result<()> {
        let mut psql = server.client("psql");
        psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"]);
        psql.args(["-d", "postgres"]);
        psql.stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut psql = psql.spawn()?;
        let mut input = psql.stdin.take().expect("a pipe");
        let mut output = BufReader::new(psql.stdout.take().expect("a pipe"));
        while !self.is_over.load(Ordering::Relaxed) {
            // A number that failed may be committed all the same, and is not used again.
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let filler = "x".repeat((number % 7) as usize * 1000);
            let insert = format!("INSERT INTO committed VALUES ({number}, '{filler}');");
            writeln!(input, "{insert}\n\\echo {number}")?;
            input.flush()?;
            let mut line = String::new();
            output.read_line(&mut line)?;
            if line.trim() != number.to_string() {
                break;
            }
            self.acknowledged.lock().expect("unpoisoned").push(number);
        }
        drop(input);
        psql.wait().map(|_| ())
    }

    fn acknowledged(&self) -> Vec<u64> {
        self.acknowledged.lock().expect("unpoisoned").clone()
    }
}

/// How many of these are committed.
fn count(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let list = numbers.join(",");
    format!("SELECT count(*) FROM committed WHERE number = ANY ('{{{list}}}')")
}

#[test]
fn what_was_acknowledged_survives_kills_of_the_receiver_and_of_the_server() {
    let Some(site) = Site::new(15) else { return };
    let server = Server::create(&site, "primary", 1);
    succeed(&mut server.walzip(&["init"]));
    server.configure("wal_level = replica\nmax_wal_senders = 4\nmax_wal_size = 64MB");
    server.start(&[]);
    server.sql("CREATE TABLE committed (number bigint, filler text)");
    server.stop();
    let base = site.path("base");
    copy(&server.data(), &base);
    server.configure("synchronous_standby_names = 'walzip'\nsynchronous_commit = on");
    server.start(&[]);
    let client = Client::default();
    std::thread::scope(|scope| {
        scope.spawn(|| client.run(&server));
        let _over = Over(&client);
        kill_and_restore(&site, &server, &base, &client);
    });
}

/// Lets the client end, after a failure too.
struct Over<'c>(&'c Client);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

fn kill_and_restore(site: &Site, server: &Server, base: &std::path::Path, client: &Client) {
    let mut receiver = Receiver::start_streaming(site, server, FIRST);
    let mut random = Random::seeded();
    for round in 0..rounds() {
        let before = client.acknowledged().len();
        receiver::wait(site, "commits", || {
            client.acknowledged().len() > before + 20
        });
        let delay = random.delay(500);
        std::thread::sleep(delay);
        let (kills_receiver, crashes) =
            [(true, false), (false, true), (true, true)][(round % 3) as usize];
        if kills_receiver {
            receiver.kill();
            // Nothing can be acknowledged now.
            std::thread::sleep(Duration::from_millis(20));
        } else {
            server.crash();
            // It takes what was on its way.
            std::thread::sleep(Duration::from_millis(200));
        }
        let acknowledged = client.acknowledged();
        println!(
            "round {round}, after {delay:?}: {} commits, receiver killed: {kills_receiver}, \
             server crashed: {crashes}",
            acknowledged.len()
        );
        let found = restored_answer(site, base, 15, &count(&acknowledged));
        assert_eq!(
            found,
            acknowledged.len().to_string(),
            "{}",
            receiver::log(site)
        );
        if crashes && kills_receiver {
            server.crash();
        }
        if crashes {
            server.start(&[]);
        }
        receiver = match kills_receiver {
            true => Receiver::start_streaming(site, server, &[]),
            false => receiver,
        };
    }
    // A server that is stopped waits until all of it is received.
    server.stop();
    let acknowledged = client.acknowledged();
    let found = restored_answer(site, base, 15, &count(&acknowledged));
    assert_eq!(
        found,
        acknowledged.len().to_string(),
        "{}",
        receiver::log(site)
    );
    receiver.stop();
}

#[test]
fn kills_under_load_leave_neither_a_hole_nor_another_byte() {
    let Some(site) = Site::new(15) else { return };
    let server = Server::create(&site, "primary", 1);
    succeed(&mut server.walzip(&["init"]));
    let plain = site.create_directory("plain");
    server.configure(&format!(
        "wal_level = replica\nmax_wal_senders = 4\nmax_wal_size = 64MB\narchive_mode = on\n\
         archive_command = 'cp %p {}/%f'",
        plain.display()
    ));
    server.start(&[]);
    let mut receiver = Receiver::start_streaming(&site, &server, FIRST);
    server.pgbench(&["-i", "-q", "-s", "1"]);
    let load = server.start_pgbench(&["-c", "2", "-T", "600"]);
    let mut random = Random::seeded();
    for _ in 0..2 * rounds() {
        std::thread::sleep(random.delay(1500));
        receiver.kill();
        receiver = Receiver::start(&site, &server, &[]);
    }
    drop(load);
    let last = switch_segment(&server);
    wait_until_archived(&site, &last);
    server.wait_until(&format!(
        "SELECT coalesce(last_archived_wal >= '{last}', false) FROM pg_stat_archiver"
    ));
    receiver.stop();
    let archived = archived_files(&site);
    assert_no_gaps(&archived);
    for (name, content) in &archived {
        let original = fs::read(plain.join(name)).expect("archived by the server");
        assert!(*content == original, "{name} differs");
    }
    println!("{} segments", archived.len());
}
