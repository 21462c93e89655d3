//! Real servers of other programs, on the loopback address, for the stores that speak with them.
//!
//! A server that cannot be started fails the test: `scripts/fetch-store-servers` brings them.
//! Each waits at the end of a pipe for this process to end, however it ends.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::store_settings::Environment;
use crate::store_settings::StoreSettings;

const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(20);

/// Starts a server, and ends it at the end of its input.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
"$@" &
server=$!
read -r word
kill "$server"
wait "$server"
"#;

/// A running server, and its directory.
pub struct Server {
    child: Child,
    port: u16,
    directory: TempDir,
}

impl Server {
    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A directory that lives as long as it.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn start(
        directory: TempDir,
        port: u16,
        program: &Path,
        arguments: &[String],
        greeting: &[u8],
    ) -> Server {
        let log = directory.path().join("log");
        let file = File::create(&log).expect("a log");
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", SCRIPT, "walzip-test-server"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(file.try_clone().expect("a log"))
            .stderr(file)
            .current_dir(directory.path());
        let child = shell.spawn().expect("a shell");
        let server = Server {
            child,
            port,
            directory,
        };
        let begin = Instant::now();
        while !answers(port, greeting) {
            let log = fs::read_to_string(&log).unwrap_or_default();
            assert!(
                begin.elapsed() < PATIENCE,
                "{} does not answer:\n{log}",
                program.display()
            );
            std::thread::sleep(GLANCE);
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // Nothing is left to be done about it.
        let _ = self.child.wait();
    }
}

fn answers(port: u16, greeting: &[u8]) -> bool {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
        return false;
    };
    if greeting.is_empty() {
        return true;
    }
    let mut read = vec![0; greeting.len()];
    let limited = stream.set_read_timeout(Some(Duration::from_secs(5)));
    limited.is_ok() && stream.read_exact(&mut read).is_ok() && read == greeting
}

/// A port that nobody listens on at this moment.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

fn program(server: &str) -> PathBuf {
    find_program(server).unwrap_or_else(|reason| panic!("{reason}"))
}

fn find_program(server: &str) -> Result<PathBuf, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fetch-store-servers");
    let output = Command::new(script)
        .args(["--path", server])
        .output()
        .expect("the script runs");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let path = String::from_utf8(output.stdout).expect("a path");
    Ok(PathBuf::from(path.trim_end()))
}

fn new_directory() -> TempDir {
    let mut builder = tempfile::Builder::new();
    builder
        .prefix("walzip-server-")
        .tempdir()
        .expect("a directory")
}

/// The S3 server of this process.
pub fn moto() -> &'static Server {
    static MOTO: OnceLock<Server> = OnceLock::new();
    MOTO.get_or_init(|| {
        let port = free_port();
        let arguments = ["-H", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned);
        Server::start(new_directory(), port, &program("moto"), &arguments, b"")
    })
}

/// Makes a bucket there, and says how it is reached.
pub fn moto_bucket(bucket: &str) -> StoreSettings {
    let port = moto().port();
    let answer = request(port, "PUT", &format!("/{bucket}"), &[]);
    assert!(answer.contains(" 200 "), "{answer}");
    s3_settings(port)
}

/// How an S3 server on this port is reached.
pub fn s3_settings(port: u16) -> StoreSettings {
    StoreSettings {
        s3_endpoint: Some(format!("http://127.0.0.1:{port}")),
        environment: variables(&[
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ]),
        ..StoreSettings::default()
    }
}

/// The only account that the S3 server has that checks signatures, and its secret.
pub const VERSITYGW_KEYS: (&str, &str) = ("walzip-test", "versitygw-test-secret");

/// An S3 server that checks signatures; moto takes any.
pub fn versitygw() -> &'static Server {
    static VERSITYGW: OnceLock<Server> = OnceLock::new();
    VERSITYGW.get_or_init(|| {
        let (directory, port) = (new_directory(), free_port());
        let buckets = directory.path().join("buckets");
        fs::create_dir(&buckets).expect("a directory");
        let arguments = [
            "--access",
            VERSITYGW_KEYS.0,
            "--secret",
            VERSITYGW_KEYS.1,
            "--port",
            &format!("127.0.0.1:{port}"),
            "--quiet",
            "posix",
            &buckets.display().to_string(),
        ]
        .map(str::to_owned);
        Server::start(directory, port, &program("versitygw"), &arguments, b"")
    })
}

/// Makes a bucket there, and says how it is reached.
pub fn versitygw_bucket(bucket: &str) -> StoreSettings {
    let server = versitygw();
    // Its buckets are directories.
    let path = server.directory().join("buckets").join(bucket);
    fs::create_dir(path).expect("a new bucket");
    StoreSettings {
        environment: variables(&[
            ("AWS_ACCESS_KEY_ID", VERSITYGW_KEYS.0),
            ("AWS_SECRET_ACCESS_KEY", VERSITYGW_KEYS.1),
        ]),
        ..s3_settings(server.port())
    }
}

/// Variables for a store.
pub fn variables(of: &[(&str, &str)]) -> Environment {
    let owned = of.iter();
    Environment::new(owned.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

/// Asks for something without a body, and returns the answer.
fn request(port: u16, method: &str, target: &str, headers: &[(&str, String)]) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a connection");
    let mut text = format!(
        "{method} {target} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: 0\r\n\
         connection: close\r\n"
    );
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    stream.write_all(text.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// The account that Azurite has, as its manual says.
const AZURITE_ACCOUNT: &str = "devstoreaccount1";
const AZURITE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

fn azurite() -> &'static Server {
    static AZURITE: OnceLock<Server> = OnceLock::new();
    AZURITE.get_or_init(|| {
        let (directory, port) = (new_directory(), free_port());
        let place = directory.path().display().to_string();
        let port_text = port.to_string();
        let arguments = [
            "--blobHost",
            "127.0.0.1",
            "--blobPort",
            &port_text,
            "--location",
            &place,
            "--silent",
            "--skipApiVersionCheck",
            "--disableTelemetry",
        ]
        .map(str::to_owned);
        Server::start(directory, port, &program("azurite"), &arguments, b"")
    })
}

/// Makes a container at Azurite, and says how it is reached.
pub fn azurite_container(container: &str) -> StoreSettings {
    let port = azurite().port();
    let date = jiff::Timestamp::now()
        .strftime("%a, %d %b %Y %H:%M:%S GMT")
        .to_string();
    let version = "2020-10-02";
    let path = format!("/{AZURITE_ACCOUNT}/{container}");
    let to_sign = format!(
        "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:{version}\n\
         /{AZURITE_ACCOUNT}{path}\nrestype:container"
    );
    let key = data_encoding::BASE64
        .decode(AZURITE_KEY.as_bytes())
        .expect("a key");
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
    let signature = ring::hmac::sign(&key, to_sign.as_bytes());
    let signature = data_encoding::BASE64.encode(signature.as_ref());
    let authorization = format!("SharedKey {AZURITE_ACCOUNT}:{signature}");
    let headers = [
        ("x-ms-date", date),
        ("x-ms-version", version.to_owned()),
        ("authorization", authorization),
    ];
    let answer = request(port, "PUT", &format!("{path}?restype=container"), &headers);
    assert!(answer.contains(" 201 "), "{answer}");
    StoreSettings {
        azure_account: Some(AZURITE_ACCOUNT.to_owned()),
        azure_endpoint: Some(format!("http://127.0.0.1:{port}/{AZURITE_ACCOUNT}")),
        environment: variables(&[("AZURE_STORAGE_ACCOUNT_KEY", AZURITE_KEY)]),
        ..StoreSettings::default()
    }
}

/// An SSH server that lets in who runs this process, with a key of its own.
pub struct Sshd {
    server: Server,
    user: String,
}

/// The SSH server of this process, or why there is none: no script installs it, since it is
/// one of the machine's own packages.
pub fn sshd() -> Result<&'static Sshd, String> {
    static SSHD: OnceLock<Sshd> = OnceLock::new();
    find_program("sshd")?;
    Ok(SSHD.get_or_init(|| Sshd::start("")))
}

impl Sshd {
    /// Starts a server with further lines in its configuration.
    pub fn start(further: &str) -> Sshd {
        let (directory, port) = (new_directory(), free_port());
        let file = |name: &str| directory.path().join(name).display().to_string();
        for key in ["host_key", "user_key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args([
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-C",
                "walzip",
                "-f",
                &file(key),
            ]);
            assert!(keygen.status().expect("ssh-keygen").success());
        }
        let host_key = fs::read_to_string(file("host_key.pub")).expect("a key");
        let known = format!("[127.0.0.1]:{port} {host_key}");
        fs::write(file("known_hosts"), known).expect("written");
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey \"{}\"\nAuthorizedKeysFile \"{}\"\n\
             PidFile none\nStrictModes no\nUsePAM no\nUseDNS no\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n\
             MaxStartups 100\nMaxSessions 100\nLogLevel ERROR\n{further}\n",
            file("host_key"),
            file("user_key.pub"),
        );
        let subsystem = match further.contains("Subsystem") {
            true => "",
            false => "Subsystem sftp internal-sftp\n",
        };
        fs::write(file("sshd_config"), config + subsystem).expect("written");
        if is_root() {
            // Without it, a server that root started refuses to work.
            fs::create_dir_all("/run/sshd").expect("a directory for the server");
        }
        let arguments = ["-D", "-e", "-f", &file("sshd_config")].map(str::to_owned);
        let server = Server::start(directory, port, &program("sshd"), &arguments, b"SSH-");
        let id = Command::new("id").arg("-un").output().expect("id");
        let user = String::from_utf8(id.stdout)
            .expect("a name")
            .trim()
            .to_owned();
        Sshd { server, user }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The URL of a directory there.
    pub fn url(&self, path: &Path) -> String {
        let (user, port) = (&self.user, self.server.port());
        format!("sftp://{user}@127.0.0.1:{port}{}", path.display())
    }

    /// A file of its own: `user_key`, `known_hosts`, `host_key.pub`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.server.directory().join(name)
    }

    /// How it is reached.
    pub fn settings(&self) -> StoreSettings {
        StoreSettings {
            sftp_private_key_file: Some(self.file("user_key")),
            sftp_known_hosts_file: Some(self.file("known_hosts")),
            ..StoreSettings::default()
        }
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
