//! What a package brings: the program, its units, its alerts. Each is used as a machine would use it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use walzip_testing::{free_port, not_run};

use crate::clusters::server::Server;
use crate::clusters::site::{Site, said, succeed};

const PATIENCE: Duration = Duration::from_secs(60);

fn contrib(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../contrib")
        .join(file)
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../scripts")
        .join(name)
}

fn promtool() -> Option<PathBuf> {
    let output = Command::new(script("fetch-promtool"))
        .arg("--path")
        .output();
    let output = output.ok().filter(|output| output.status.success());
    let Some(output) = output else {
        not_run("promtool is not here; run scripts/fetch-promtool");
        return None;
    };
    let path = String::from_utf8(output.stdout).expect("a path");
    Some(PathBuf::from(path.trim_end()))
}

/// Words that begin like a metric, as far as they are one.
fn metrics_in(text: &str) -> Vec<String> {
    let is_of_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = text.split(|c| !is_of_name(c));
    let mut names: Vec<String> = words
        .filter(|word| word.starts_with("walzip_"))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_manual_lists_the_metrics_and_alerts_and_dashboard_use_no_others() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut measured = String::new();
    for file in [
        "metrics.rs",
        "metrics/repositories.rs",
        "metrics/archiver.rs",
    ] {
        measured.push_str(&read(&source.join(file)));
    }
    let mut measured = metrics_in(&measured);
    measured.retain(|name| name != "walzip_archive");
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    assert_eq!(metrics_in(&read(&manual)), measured);
    for file in ["prometheus/walzip.rules.yml", "grafana/walzip.json"] {
        for name in metrics_in(&read(&contrib(file))) {
            assert!(measured.contains(&name), "{file}: {name}");
        }
    }
    let dashboard = read(&contrib("grafana/walzip.json"));
    serde_json::from_str::<serde_json::Value>(&dashboard).expect("JSON");
}

#[test]
fn prometheus_takes_the_alerts_and_they_fire() {
    let Some(promtool) = promtool() else { return };
    let directory = contrib("prometheus");
    for (what, file) in [("check", "walzip.rules.yml"), ("test", "walzip.test.yml")] {
        let mut command = Command::new(&promtool);
        succeed(command.args([what, "rules", file]).current_dir(&directory));
    }
}

#[test]
fn systemd_takes_the_units() {
    let found = Command::new("systemd-analyze").arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        return not_run("systemd-analyze is not here");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let program = assert_cmd::cargo::cargo_bin!("walzip")
        .display()
        .to_string();
    let mut units = Vec::new();
    for entry in fs::read_dir(contrib("systemd")).expect("units") {
        let path = entry.expect("readable").path();
        let name = path.file_name().expect("a name").to_str().expect("UTF-8");
        // A template is checked as one of its instances.
        let unit = directory.path().join(name.replace('@', "@full"));
        // The check wants the program to be there, and the manual's pages.
        let text = read(&path).replace("/usr/bin/walzip", &program);
        let text: String = text
            .lines()
            .filter(|line| !line.starts_with("Documentation="))
            .map(|line| format!("{line}\n"))
            .collect();
        fs::write(&unit, text).expect("written");
        if name == "walzip-backup@.service" {
            let other = directory.path().join("walzip-backup@incr.service");
            fs::copy(&unit, other).expect("copied");
        }
        units.push(unit);
    }
    let output = Command::new("systemd-analyze")
        .arg("verify")
        .args(&units)
        .output()
        .expect("it runs");
    let said = said(&output);
    let of_ours: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("walzip"))
        .collect();
    assert!(of_ours.is_empty(), "{said}");
}

/// The package, unpacked; its program has to be readable for the server's user.
fn unpacked(site: &Site) -> PathBuf {
    let output = site.path("package");
    let mut package = Command::new(script("package-deb"));
    let made = succeed(
        package
            .arg("--program")
            .arg(site.program_under_test())
            .arg("--output")
            .arg(&output),
    );
    let root = site.path("root");
    succeed(
        Command::new("dpkg-deb")
            .args(["-x", made.trim_end()])
            .arg(&root),
    );
    root
}

/// What the unit starts, with the package's and the test's places.
fn start_of(unit: &str, root: &Path, config: &Path) -> Vec<String> {
    let unit = read(&root.join("usr/lib/systemd/system").join(unit));
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let start = start
        .expect("ExecStart")
        .replace("/etc/walzip.toml", &config.display().to_string());
    let words = start.split(' ').map(str::to_owned);
    words
        .map(|word| match word.strip_prefix("/usr/bin/") {
            Some(program) => root.join("usr/bin").join(program).display().to_string(),
            None => word,
        })
        .collect()
}

struct Service {
    child: Child,
    notices: UnixDatagram,
}

impl Service {
    /// Starts it as a service manager does, and waits until it says that it is ready.
    fn start(site: &Site, words: &[String]) -> Service {
        let socket = site.path("notify");
        let notices = UnixDatagram::bind(&socket).expect("a socket");
        site.hand_over(&socket);
        notices.set_read_timeout(Some(PATIENCE)).expect("set");
        let log = fs::File::create(site.path("service.log")).expect("a log");
        let mut command = site.command(&words[0]);
        command
            .args(&words[1..])
            .env("NOTIFY_SOCKET", &socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let service = Service {
            child: command.spawn().expect("it starts"),
            notices,
        };
        service.wait_for("READY=1");
        service
    }

    fn wait_for(&self, state: &str) {
        let mut notice = [0; 256];
        loop {
            let length = self.notices.recv(&mut notice).expect(state);
            if String::from_utf8_lossy(&notice[..length]).contains(state) {
                return;
            }
        }
    }

    /// Asks it to end, and waits for that.
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it runs");
        self.wait_for("STOPPING=1");
        assert!(self.child.wait().expect("it ends").success());
    }
}

fn scrape(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_machine_with_the_package_and_its_unit_archives_backs_up_and_is_watched() {
    let Some(site) = Site::new(15) else { return };
    let root = unpacked(&site);
    for page in [
        "walzip.1.gz",
        "walzip-serve.1.gz",
        "walzip-archive-push.1.gz",
    ] {
        assert!(
            root.join("usr/share/man/man1").join(page).is_file(),
            "{page}"
        );
    }
    let completions = root.join("usr/share/bash-completion/completions/walzip");
    assert!(read(&completions).contains("archive-push"));

    let server = Server::create(&site, "primary", 1);
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let config = site.path("walzip.toml");
    let example = read(&root.join("usr/share/doc/walzip/examples/walzip.toml"));
    let place = |path: &str| site.path(path).display().to_string();
    let settings = example
        .replace("/var/lib/walzip", &site.repository().display().to_string())
        .replace("/var/lib/postgresql/15/main", &place("primary"))
        .replace("/var/run/postgresql", &place("primary.socket"))
        .replace(
            "/var/spool/walzip",
            &site.create_directory("spool").display().to_string(),
        )
        .replace("127.0.0.1:9187", &address.to_string())
        + "user = \"tester\"\n";
    fs::write(&config, settings).expect("written");
    site.hand_over(&config);
    server.archive_with_walzip();
    let program = root.join("usr/bin/walzip").display().to_string();
    server.configure(&format!(
        "archive_command = '{program} archive-push --config {} %p'",
        config.display()
    ));
    let service = Service::start(&site, &start_of("walzip.service", &root, &config));
    server.start(&[]);
    server.pgbench(&["-i", "-q", "-s", "1"]);
    server.archive_everything();
    let backup = start_of("walzip-backup@.service", &root, &config);
    let backup: Vec<String> = backup
        .iter()
        .map(|word| word.replace("%i", "full"))
        .collect();
    succeed(site.command(&backup[0]).args(&backup[1..]));
    succeed(
        site.command(&program)
            .args(["verify", "--config"])
            .arg(&config),
    );

    let answer = scrape(address, "/metrics");
    for line in [
        "walzip_repository_up{repo=\"1\"} 1",
        "walzip_backups{repo=\"1\",type=\"full\"} 1",
        "walzip_wal_gaps{repo=\"1\"} 0",
        "walzip_verify_findings{repo=\"1\"} 0",
    ] {
        assert!(answer.contains(line), "{line}:\n{answer}");
    }
    let pushed = answer
        .lines()
        .find_map(|line| line.strip_prefix("walzip_pushed_files_total "));
    assert!(pushed.is_some_and(|count| count != "0"), "{answer}");
    assert!(scrape(address, "/nothing").starts_with("HTTP/1.1 404 "));
    check_metrics(&answer);
    service.stop();
    let log = read(&site.path("service.log"));
    assert!(!log.contains("warning"), "{log}");
}

/// Prometheus's own tool has nothing against them.
fn check_metrics(answer: &str) {
    let Some(promtool) = promtool() else { return };
    let (_, text) = answer.split_once("\r\n\r\n").expect("a body");
    let mut check = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs");
    let mut input = check.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("written");
    drop(input);
    let begin = Instant::now();
    let output = check.wait_with_output().expect("it ends");
    assert!(
        output.status.success(),
        "{} after {:?}",
        said(&output),
        begin.elapsed()
    );
}

/// It may be a mistake, or a disk that is mounted later.
#[test]
fn a_service_without_its_repository_says_so_and_goes_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let absent = directory.path().join("absent");
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("walzip"))
        .args(["serve", "--verify-every", "1d", "--repo"])
        .arg(&absent)
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let serving = format!("serving {}: verify every 1d", absent.display());
    let line = lines.next().expect("a line").expect("text");
    assert_eq!(line, format!("walzip: info: {serving}"));
    let line = lines.next().expect("a line").expect("text");
    let expected = format!("{} is not a walzip repository", absent.display());
    assert!(line.starts_with("walzip: warning: "), "{line}");
    assert!(line.contains(&expected), "{line}");
    assert!(child.try_wait().expect("asked").is_none(), "it has ended");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    assert!(child.wait().expect("it ends").success());
    let line = lines.next().expect("a line").expect("text");
    assert!(
        line.starts_with("walzip: info: the service was ended"),
        "{line}"
    );
}
