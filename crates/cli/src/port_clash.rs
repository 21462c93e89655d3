//! Whether a restored cluster could start beside the servers that run on this host.
//!
//! A restored cluster has the original's settings, and so its port. Beside the running original
//! it does not start, or is not the one that clients reach.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};

use crate::restored_settings::Settings;
use crate::{runtime, shell};

const DEFAULT_PORT: u16 = 5432;

/// Where servers are built to have their sockets: PostgreSQL's choice and the distributions'.
const SOCKET_DIRECTORIES: [&str; 2] = ["/tmp", "/var/run/postgresql"];

/// Longer than a server of this host takes to accept; nothing is lost where it takes longer.
const PATIENCE: Duration = Duration::from_millis(500);

/// So many ports are tried for one to start the restored cluster with.
const PORTS_TRIED: u16 = 50;

/// Warns when a running server has the port of the cluster in a restored directory, and says how
/// to start with another one.
pub fn warn(directory: &Path, settings: &Settings) {
    let settings = Listening::of(settings);
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let free = runtime::block_on(async {
        let Some(address) = settings.taken(settings.port).await else {
            return Ok(None);
        };
        let last = settings.port.saturating_add(PORTS_TRIED);
        for port in settings.port.saturating_add(1)..=last {
            if settings.taken(port).await.is_none() {
                return Ok(Some((address, port)));
            }
        }
        Ok(Some((address, last)))
    });
    let Ok(Some((address, free))) = free else {
        return;
    };
    let start = match directory.join("postgresql.conf").exists() {
        true => format!(
            "pg_ctl -D {} -o \"-p {free}\" start",
            shell::word(&directory.to_string_lossy())
        ),
        // Then the command that starts it has other options too.
        false => format!("with -p {free} among its options"),
    };
    tracing::warn!(
        "a server on this host has port {} ({address}), which the restored cluster is set to as \
         well; to start it beside that one: {start}",
        settings.port,
    );
}

/// Where a cluster would listen.
#[derive(Debug, PartialEq, Eq)]
struct Listening {
    port: u16,
    socket_directories: Vec<PathBuf>,
    addresses: Vec<IpAddr>,
}

impl Listening {
    /// Where a server with these settings listens.
    fn of(settings: &Settings) -> Listening {
        let list = |text: &str| -> Vec<String> {
            let items = text.split(',').map(|item| item.trim().trim_matches('"'));
            items
                .filter(|item| !item.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let port = settings.get("port").and_then(|port| port.parse().ok());
        let socket_directories = match settings.get("unix_socket_directories") {
            Some(text) => list(text),
            None => SOCKET_DIRECTORIES.map(str::to_owned).to_vec(),
        };
        let addresses = list(settings.get("listen_addresses").unwrap_or("localhost"));
        Listening {
            port: port.unwrap_or(DEFAULT_PORT),
            socket_directories: socket_directories.into_iter().map(PathBuf::from).collect(),
            addresses: addresses
                .iter()
                .flat_map(|name| addresses_of(name))
                .collect(),
        }
    }

    /// The socket or address at which somebody listens on this port.
    async fn taken(&self, port: u16) -> Option<String> {
        for directory in &self.socket_directories {
            let path = directory.join(format!(".s.PGSQL.{port}"));
            let connect = UnixStream::connect(&path);
            if is_taken(tokio::time::timeout(PATIENCE, connect).await) {
                return Some(path.display().to_string());
            }
        }
        for &address in &self.addresses {
            let address = SocketAddr::new(address, port);
            let connect = TcpStream::connect(address);
            if let Ok(Ok(_)) = tokio::time::timeout(PATIENCE, connect).await {
                return Some(address.to_string());
            }
        }
        None
    }
}

/// A socket's file that a killed server left behind refuses connections. One that does not let
/// us in, or whose server is too busy, is in use.
fn is_taken<T>(attempt: Result<io::Result<T>, tokio::time::error::Elapsed>) -> bool {
    match attempt {
        Ok(Ok(_)) | Err(_) => true,
        Ok(Err(error)) => matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::WouldBlock
        ),
    }
}

/// The addresses of this host that an entry of `listen_addresses` stands for. Names are not
/// looked up: that may take long, and few servers have one.
fn addresses_of(name: &str) -> Vec<IpAddr> {
    let (four, six) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    match name {
        "*" | "localhost" => vec![four, six],
        "0.0.0.0" => vec![four],
        "::" => vec![six],
        _ => name.parse().into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::net::UnixListener;

    fn listening(directory: &Path) -> Option<Listening> {
        Settings::of(directory, 0).map(|settings| Listening::of(&settings))
    }

    #[test]
    fn the_last_setting_counts_with_included_files_and_the_servers_own() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            fs::write(directory.path().join(name), text).expect("written");
        };
        assert_eq!(
            listening(directory.path()),
            None,
            "there is no configuration"
        );
        write("postgresql.conf", "#port = 1\n");
        let defaults = Listening {
            port: 5432,
            socket_directories: SOCKET_DIRECTORIES.map(PathBuf::from).to_vec(),
            addresses: addresses_of("localhost"),
        };
        assert_eq!(listening(directory.path()), Some(defaults));

        fs::create_dir(directory.path().join("conf.d")).expect("made");
        write(
            "postgresql.conf",
            "port = 5433\t# before\ninclude_dir 'conf.d'\nPORT=5434\ninclude_if_exists = 'none'\n\
             unix_socket_directories = '/a, \"/it''s\"'\nlisten_addresses = '*'\n",
        );
        write("conf.d/1.conf", "port 5500\nlisten_addresses = ''\n");
        write("conf.d/ignored", "port = 1\n");
        let found = listening(directory.path()).expect("settings");
        assert_eq!(found.port, 5434);
        let directories = [PathBuf::from("/a"), PathBuf::from("/it's")];
        assert_eq!(found.socket_directories, directories);
        assert_eq!(found.addresses, addresses_of("localhost"));
        write(
            "postgresql.auto.conf",
            "port = '6000'\nlisten_addresses = ''\n",
        );
        let found = listening(directory.path()).expect("settings");
        assert_eq!((found.port, found.addresses), (6000, Vec::new()));
    }

    #[test]
    fn a_port_is_taken_where_somebody_accepts_and_not_by_what_a_killed_server_left() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut listening = Listening {
            port: 5432,
            socket_directories: vec![directory.path().to_owned()],
            addresses: Vec::new(),
        };
        let taken = |listening: &Listening, port| {
            runtime::block_on(async { Ok(listening.taken(port).await) }).expect("asked")
        };
        assert_eq!(taken(&listening, 5432), None);
        let path = directory.path().join(".s.PGSQL.5432");
        let server = UnixListener::bind(&path).expect("bound");
        assert_eq!(taken(&listening, 5432), Some(path.display().to_string()));
        assert_eq!(taken(&listening, 5433), None);
        drop(server);
        assert!(path.exists(), "the file is left");
        assert_eq!(taken(&listening, 5432), None);

        listening.addresses = addresses_of("127.0.0.1");
        let server = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = server.local_addr().expect("an address");
        assert_eq!(taken(&listening, address.port()), Some(address.to_string()));
    }
}
