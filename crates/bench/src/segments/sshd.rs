//! An SSH server on the loopback address, of this experiment alone.
//!
//! Its keys, its configuration and the client's lie in the experiment's directory; it lets in
//! the user who runs the experiment, with a key made a moment ago, and is reached on 127.0.0.1
//! only. A shell waits beside it at the end of a pipe, so that it ends with this process
//! however this process ends.

use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::contender::find_program;
use crate::process::{self, Surroundings};

/// The name by which the client's configuration knows the server.
pub(super) const HOST: &str = "walzip-bench";
/// The client's configuration, in the experiment's directory.
pub(super) const CLIENT_CONFIG: &str = "ssh_config";

/// The package of the server, and of the clients.
pub(super) const SERVER_PACKAGE: &str = "openssh-server";
pub(super) const CLIENT_PACKAGE: &str = "openssh-client";

/// Servers are often not in the search path of people.
const SERVER_PLACES: [&str; 3] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd"];
/// Without it, a server that root started refuses to work.
const SEPARATION: &str = "/run/sshd";
/// In it, when it is ours: a directory for each server that needs it.
const OURS: &str = "/run/sshd/walzip-bench";

const PATIENCE: Duration = Duration::from_secs(20);
const GLANCE: Duration = Duration::from_millis(20);

const SCRIPT: &str = r#"
trap '' HUP INT TERM
"$1" -D -e -f "$2" &
server=$!
read -r word
kill "$server"
wait "$server"
[ -z "$3" ] || { rmdir "$3" && rmdir "${3%/*}" && rmdir "${3%/*/*}"; } 2>/dev/null
"#;

/// A running server, which ends when this is dropped.
pub(super) struct Sshd(Child);

/// The server program, if it is installed.
pub(super) fn program(surroundings: Surroundings<'_>) -> Option<PathBuf> {
    find_program("sshd", surroundings.search_path).or_else(|| {
        SERVER_PLACES
            .iter()
            .map(PathBuf::from)
            .find(|path| path.is_file())
    })
}

impl Sshd {
    /// Starts the server and waits until it answers.
    pub(super) fn start(program: &Path, surroundings: Surroundings<'_>) -> io::Result<Sshd> {
        let directory = surroundings.temp_dir.join("ssh");
        fs::create_dir(&directory)?;
        for key in ["host_key", "user_key"] {
            make_key(&directory.join(key), surroundings)?;
        }
        let port = free_port()?;
        let config = write_configuration(&directory, port, surroundings)?;
        let separation = match rustix::process::geteuid().is_root() {
            true => separation(surroundings)?,
            false => PathBuf::new(),
        };
        let log = directory.join("log");
        let mut shell = process::command(Path::new("/bin/sh"), surroundings);
        shell
            .args(["-c", SCRIPT, "walzip-bench-sshd"])
            .args([program, &config])
            .arg(separation)
            // It ends by itself: see scratch.rs for what ends by its TMPDIR.
            .env_remove("TMPDIR")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?);
        // What a terminal sends to this process's group does not reach it.
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        let server = Sshd(shell.spawn()?);
        wait_until_it_answers(port, surroundings).map_err(|error| {
            let log = fs::read_to_string(&log).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(2).collect();
            io::Error::other(format!("{error}: {}", last.join("; ")))
        })?;
        Ok(server)
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        // The end of the pipe is what the shell waits for.
        drop(self.0.stdin.take());
        let _ended = self.0.wait();
    }
}

/// Sees that the directory is there. When it is ours, this server has a directory in it, and the last
/// one to go removes it; nothing when it was there before.
fn separation(surroundings: Surroundings<'_>) -> io::Result<PathBuf> {
    let name = surroundings.temp_dir.file_name().unwrap_or_default();
    let directory = Path::new(OURS).join(name);
    loop {
        if Path::new(SEPARATION).exists() && !Path::new(OURS).exists() {
            return Ok(PathBuf::new());
        }
        match fs::create_dir_all(&directory) {
            // The last one has gone meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            made => return made.map(|()| directory),
        }
    }
}

fn make_key(path: &Path, surroundings: Surroundings<'_>) -> io::Result<()> {
    let program = find_program("ssh-keygen", surroundings.search_path)
        .ok_or_else(|| io::Error::other(format!("no ssh-keygen (package {CLIENT_PACKAGE})")))?;
    let mut keygen = process::command(&program, surroundings);
    keygen
        .args(["-q", "-t", "ed25519", "-N", "", "-C", HOST, "-f"])
        .arg(path)
        .stdout(Stdio::null());
    process::measure(keygen, surroundings).map_err(io::Error::other)?;
    Ok(())
}

/// One that nobody listens on at this moment.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// Writes what both sides need to know; returns the server's configuration.
fn write_configuration(
    directory: &Path,
    port: u16,
    surroundings: Surroundings<'_>,
) -> io::Result<PathBuf> {
    let file = |name: &str| directory.join(name).display().to_string();
    fs::copy(file("user_key.pub"), file("authorized_keys"))?;
    let host_key = fs::read_to_string(file("host_key.pub"))?;
    let known = format!("[127.0.0.1]:{port} {host_key}");
    fs::write(file("known_hosts"), known)?;
    let server = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey \"{}\"\nAuthorizedKeysFile \"{}\"\n\
         PidFile none\nStrictModes no\nUsePAM no\nUseDNS no\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n\
         Subsystem sftp internal-sftp\nLogLevel ERROR\n",
        file("host_key"),
        file("authorized_keys"),
    );
    let config = directory.join("sshd_config");
    fs::write(&config, server)?;
    let client = format!(
        "Host {HOST}\nHostName 127.0.0.1\nPort {port}\nUser {}\nIdentityFile \"{}\"\n\
         IdentitiesOnly yes\nIdentityAgent none\nUserKnownHostsFile \"{}\"\n\
         GlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\nBatchMode yes\n\
         LogLevel ERROR\n",
        user_name(surroundings)?,
        file("user_key"),
        file("known_hosts"),
    );
    fs::write(surroundings.temp_dir.join(CLIENT_CONFIG), client)?;
    Ok(config)
}

/// Whom the server is to let in: a server that is not root's can do so for its own user only.
fn user_name(surroundings: Surroundings<'_>) -> io::Result<String> {
    let program = find_program("id", surroundings.search_path)
        .ok_or_else(|| io::Error::other("no program id (package coreutils)"))?;
    let said = surroundings.temp_dir.join("user");
    let mut id = process::command(&program, surroundings);
    id.arg("-un").stdout(File::create(&said)?);
    process::measure(id, surroundings).map_err(io::Error::other)?;
    Ok(fs::read_to_string(said)?.trim().to_owned())
}

fn wait_until_it_answers(port: u16, surroundings: Surroundings<'_>) -> io::Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE && !surroundings.cancel.is_requested() {
        let mut banner = [0; 4];
        let answer = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.read_exact(&mut banner)
        });
        if answer.is_ok() && &banner == b"SSH-" {
            return Ok(());
        }
        std::thread::sleep(GLANCE);
    }
    Err(io::Error::other("the SSH server does not answer"))
}
