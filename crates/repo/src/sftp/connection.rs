//! A connection to an SSH server: who it is, who we are, and what its SFTP can do.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use russh::client::{self, AuthResult, Handle};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{Algorithm, PrivateKeyWithHashAlg, PublicKey, PublicKeyOrCertificate};
use russh::{AlgorithmKind, Channel, ChannelMsg};
use russh_sftp::client::RawSftpSession;
use russh_sftp::client::rawsession::Limits;
use russh_sftp::extensions::{FSYNC, HARDLINK, LIMITS};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::error::SftpError;
use super::host_key::KnownKeys;
use crate::location::SftpLocation;
use crate::store_settings::StoreSettings;

const USUAL_PORT: u16 = 22;
/// How long connecting and logging in may take, each.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often is looked whether the connection is closed.
const LOOK: Duration = Duration::from_millis(500);
/// How long the answer to a request may take. A server may sync much before it answers.
const REQUEST_SECONDS: u64 = 60;
/// What is sent or asked for at once, where the server names no limit.
const PIECE_BYTES: u64 = 32 << 10;
/// And where it does.
const PIECE_BYTES_MAX: u64 = 128 << 10;

/// Keys that are tried if none is named, as OpenSSH does.
const USUAL_KEYS: [&str; 2] = ["id_ed25519", "id_ecdsa"];

/// An open connection. It is closed when it is dropped.
pub(super) struct Connection {
    ssh: Handle<Client>,
    pub(super) sftp: RawSftpSession,
    /// How many bytes a request may carry.
    pub(super) piece_bytes: usize,
    pub(super) has_fsync: bool,
    pub(super) has_hardlink: bool,
    /// The directory of the repository.
    pub(super) root: String,
    /// Directories whose own entry is known to be durable.
    pub(super) durable_directories: Mutex<HashSet<String>>,
}

impl Connection {
    pub(super) async fn open(
        location: &SftpLocation,
        settings: &StoreSettings,
    ) -> Result<Connection, SftpError> {
        let patience = PATIENCE.min(settings.timeout());
        let port = location.port.unwrap_or(USUAL_PORT);
        let server = format!("{}:{port}", location.host);
        let late = |_| SftpError::NoAnswer(server.clone());
        let known = KnownKeys::read(&location.host, port, settings)?;
        let address = (location.host.as_str(), port);
        let connect = timeout(patience, TcpStream::connect(address));
        let stream = connect.await.map_err(late)?;
        let stream = stream.map_err(|source| SftpError::Connect {
            server: server.clone(),
            source,
        })?;
        // A small request must not wait for more of them.
        let _ = stream.set_nodelay(true);
        let config = Arc::new(ssh_config(&known));
        let client = Client {
            server: server.clone(),
            known,
        };
        let greet = timeout(patience, client::connect_stream(config, stream, client));
        let mut ssh = greet.await.map_err(late)?.map_err(no_host_key(&server))?;
        let login = timeout(patience, log_in(&mut ssh, location, settings, &server));
        login.await.map_err(late)??;
        let sftp = timeout(patience, start_sftp(ssh, &server, &location.path));
        sftp.await.map_err(late)?
    }

    pub(super) fn is_closed(&self) -> bool {
        self.ssh.is_closed()
    }

    /// Ends when the connection is closed, and answers that came before have been given out. A request that was made
    /// while it was closed may never be answered, not even with an error (russh-sftp 3.0.1).
    async fn closed(&self) -> SftpError {
        while !self.is_closed() {
            sleep(LOOK).await;
        }
        sleep(LOOK).await;
        SftpError::Ssh(russh::Error::Disconnect)
    }

    /// What work over the connection comes to, or that the connection was closed meanwhile.
    pub(super) async fn unless_closed<T>(
        &self,
        work: impl Future<Output = Result<T, SftpError>>,
    ) -> Result<T, SftpError> {
        tokio::select! {
            biased;
            done = work => done,
            closed = self.closed() => Err(closed),
        }
    }
}

fn ssh_config(known: &KnownKeys) -> client::Config {
    let mut config = client::Config {
        keepalive_interval: Some(Duration::from_secs(10)),
        keepalive_max: 3,
        ..client::Config::default()
    };
    let algorithms = known.algorithms();
    let mut preferred = config.preferred.key.to_vec();
    // The library is built without what checks them.
    preferred.retain(|algorithm| !matches!(algorithm, Algorithm::Rsa { .. }));
    preferred.sort_by_key(|algorithm| !algorithms.contains(algorithm));
    config.preferred.key = preferred.into();
    config
}

/// Says of a server that it has host keys of no kind that is used: of RSA only, mostly.
fn no_host_key(server: &str) -> impl FnOnce(SftpError) -> SftpError {
    let server = server.to_owned();
    move |error| match error {
        SftpError::Ssh(russh::Error::NoCommonAlgo {
            kind: AlgorithmKind::Key,
            theirs,
            ..
        }) => SftpError::HostKey(format!(
            "the SSH server {server} has host keys of the kinds {} only, of which walzip uses none: give it an \
                 Ed25519 or ECDSA key (ssh-keygen -A, HostKey in its sshd_config)",
            theirs.join(", ")
        )),
        other => other,
    }
}

/// What the SSH protocol asks of us.
pub(super) struct Client {
    server: String,
    known: KnownKeys,
}

impl client::Handler for Client {
    type Error = SftpError;

    async fn check_server_key(
        &mut self,
        shown: &PublicKeyOrCertificate,
    ) -> Result<bool, SftpError> {
        match shown {
            PublicKeyOrCertificate::PublicKey { key, .. } => {
                self.known.check(key)?;
                Ok(true)
            }
            PublicKeyOrCertificate::Certificate(_) => Err(SftpError::HostKey(format!(
                "the SSH server {} shows a certificate, which was not asked for",
                self.server
            ))),
        }
    }
}

/// Asks for the server's SFTP. What comes before its answer has nothing to do with it.
async fn open_channel(
    ssh: &Handle<Client>,
    server: &str,
) -> Result<Channel<client::Msg>, SftpError> {
    let mut channel = ssh.channel_open_session().await?;
    channel.request_subsystem(true, "sftp").await?;
    loop {
        match channel.wait().await {
            Some(ChannelMsg::Success) => return Ok(channel),
            Some(ChannelMsg::Failure) => return Err(SftpError::NoSftp(server.to_owned())),
            Some(_) => {}
            None => return Err(SftpError::Ssh(russh::Error::Disconnect)),
        }
    }
}

async fn start_sftp(
    ssh: Handle<Client>,
    server: &str,
    root: &str,
) -> Result<Connection, SftpError> {
    let channel = open_channel(&ssh, server).await?;
    let sftp = RawSftpSession::new(channel.into_stream());
    sftp.set_timeout(REQUEST_SECONDS);
    let started = sftp.init().await;
    let version = started.map_err(SftpError::at("start SFTP for", "/"))?;
    let offers = |name: &str| version.extensions.contains_key(name);
    let mut piece_bytes = PIECE_BYTES;
    if offers(LIMITS) {
        let limits = sftp.limits().await;
        let limits = Limits::from(limits.map_err(SftpError::at("ask for limits of", "/"))?);
        let smallest = [limits.read_len, limits.write_len]
            .into_iter()
            .flatten()
            .min();
        piece_bytes = smallest.unwrap_or(PIECE_BYTES).clamp(1, PIECE_BYTES_MAX);
    }
    Ok(Connection {
        piece_bytes: usize::try_from(piece_bytes).unwrap_or(usize::MAX),
        has_fsync: offers(FSYNC),
        root: root.to_owned(),
        durable_directories: Mutex::default(),
        has_hardlink: offers(HARDLINK),
        sftp,
        ssh,
    })
}

/// Logs in with the key that is named, or else with those of the agent and the usual ones.
async fn log_in(
    ssh: &mut Handle<Client>,
    location: &SftpLocation,
    settings: &StoreSettings,
    server: &str,
) -> Result<(), SftpError> {
    let Some(user) = location.user.as_deref().or(settings.user.as_deref()) else {
        let message = format!("no user is named to log in to {server} as");
        return Err(SftpError::Login(message));
    };
    let mut tried = Tried::default();
    if let Some(file) = &settings.sftp_private_key_file {
        match log_in_with_file(ssh, user, file, &mut tried).await {
            Err(SftpError::Login(reason)) => {
                let reason = format!("{reason} (repo-sftp-private-key-file)");
                return Err(SftpError::Login(reason));
            }
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => return Err(error),
        }
    } else {
        if let Some(socket) = settings.environment.get("SSH_AUTH_SOCK")
            && log_in_with_agent(ssh, user, socket, &mut tried).await
        {
            return Ok(());
        }
        for file in usual_keys(settings) {
            if tried.is_cut {
                break;
            }
            match log_in_with_file(ssh, user, &file, &mut tried).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // Another one may do; if none does, this is why.
                Err(SftpError::Login(reason)) => tried.keys.push(reason),
                Err(error) => return Err(error),
            }
        }
    }
    Err(tried.refusal(server, user))
}

/// Keys that did not let us in.
#[derive(Default)]
struct Tried {
    keys: Vec<String>,
    /// How many of them the server has refused.
    refused: usize,
    /// The connection was closed before the server had answered for the last one.
    is_cut: bool,
}

impl Tried {
    /// Whether the server lets us in with a key. An answer that names no method to go on with is none: the connection
    /// was closed.
    fn is_in(&mut self, key: String, answer: AuthResult) -> bool {
        match answer {
            AuthResult::Success => return true,
            AuthResult::Failure {
                remaining_methods, ..
            } if remaining_methods.is_empty() => self.is_cut = true,
            AuthResult::Failure { .. } => self.refused += 1,
        }
        self.keys.push(key);
        false
    }

    /// A server ends the login after some keys (OpenSSH: `MaxAuthTries`). Before it has refused any, the connection was
    /// lost.
    fn refusal(&self, server: &str, user: &str) -> SftpError {
        if self.is_cut && self.refused == 0 {
            return SftpError::LoginCut(server.to_owned());
        }
        let tried = match self.keys.is_empty() {
            true => "there is no key: name one with repo-sftp-private-key-file".to_owned(),
            false => format!("tried: {}", self.keys.join(", ")),
        };
        let ended = match self.is_cut {
            true => {
                "; after so many keys it ended the login: name the right one with repo-sftp-private-key-file"
            }
            false => "",
        };
        SftpError::Login(format!(
            "the SSH server {server} does not let {user} in; {tried}{ended}"
        ))
    }
}

fn usual_keys(settings: &StoreSettings) -> Vec<PathBuf> {
    let home = settings.home.iter();
    let keys = home.flat_map(|home| USUAL_KEYS.map(|name| home.join(".ssh").join(name)));
    keys.filter(|file| file.exists()).collect()
}

async fn log_in_with_file(
    ssh: &mut Handle<Client>,
    user: &str,
    file: &Path,
    tried: &mut Tried,
) -> Result<bool, SftpError> {
    let unusable = |reason: String| {
        SftpError::Login(format!(
            "the private key {} cannot be used: {reason}",
            file.display()
        ))
    };
    let key = match russh::keys::load_secret_key(file, None) {
        Ok(key) => key,
        Err(russh::keys::Error::KeyIsEncrypted) => {
            return Err(unusable(
                "it has a passphrase; add it to ssh-agent".to_owned(),
            ));
        }
        Err(error) => return Err(unusable(error.to_string())),
    };
    if key.algorithm().is_rsa() {
        let reason =
            "walzip uses RSA keys through ssh-agent only: add it there, or make an Ed25519 key";
        return Err(unusable(reason.to_owned()));
    }
    let key = PrivateKeyWithHashAlg::new(Arc::new(key), None);
    let answer = ssh.authenticate_publickey(user, key).await?;
    Ok(tried.is_in(file.display().to_string(), answer))
}

/// An agent that does not answer is as good as none.
async fn log_in_with_agent(
    ssh: &mut Handle<Client>,
    user: &str,
    socket: &str,
    tried: &mut Tried,
) -> bool {
    let Ok(mut agent) = AgentClient::connect_uds(socket).await else {
        let agent = format!("an agent at {socket} that does not answer");
        tried.keys.push(agent);
        return false;
    };
    for identity in agent.request_identities().await.unwrap_or_default() {
        let AgentIdentity::PublicKey { key, comment } = identity else {
            continue;
        };
        let hash = rsa_hash(ssh, &key).await;
        let name = format!("the agent's key {comment}");
        let answer = ssh.authenticate_publickey_with(user, key, hash, &mut agent);
        match answer.await {
            Ok(answer) => {
                if tried.is_in(name, answer) {
                    return true;
                }
            }
            // The agent did not sign, or the connection was lost.
            Err(_) => tried.keys.push(name),
        }
        tried.is_cut |= ssh.is_closed();
        if tried.is_cut {
            break;
        }
    }
    false
}

async fn rsa_hash(ssh: &Handle<Client>, key: &PublicKey) -> Option<russh::keys::HashAlg> {
    if !key.algorithm().is_rsa() {
        return None;
    }
    ssh.best_supported_rsa_hash().await.ok().flatten().flatten()
}
