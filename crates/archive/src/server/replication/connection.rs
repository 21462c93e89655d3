//! One connection: how it is begun, and simple queries.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{DataRowBody, ErrorResponseBody, Header, Message};
use postgres_protocol::message::frontend;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use walzip_pgformat::{Lsn, SystemId, TimelineId};

use super::settings::{ConnectionSettings, Host};
use super::tls::{self, Secured, Session, Way};
use super::{ServerError, SqlError, TlsFault};

/// No message of this protocol needs more; a length beyond it is damage or not PostgreSQL.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// The same before we know that the server is ours.
const LOGIN_MESSAGE_BYTES_MAX: usize = 64 << 10;
/// No answer to a query needs more.
const ANSWER_BYTES_MAX: usize = 512 << 20;
/// What a row takes besides, even one without columns.
const ROW_BYTES: usize = 64;
/// A server that says nothing for so long, although it was asked, is given up.
const ANSWER_MAX: Duration = Duration::from_secs(300);
/// What a server announces that we ask for.
const PARAMETERS: [&str; 2] = ["server_version", "in_hot_standby"];
const READ_BYTES: usize = 256 << 10;
/// `CopyBothResponse`, which `postgres-protocol` does not know.
const COPY_BOTH_RESPONSE: u8 = b'W';
const CONNECT_TIMEOUT_SECONDS: u64 = 30;

trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for S {}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Replication commands (`replication=true`).
    Replication,
    /// SQL in the database of the settings.
    Sql,
}

/// One row of an answer, in text.
pub type Row = Vec<Option<String>>;

/// The answer to `IDENTIFY_SYSTEM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemIdentification {
    /// The cluster's identifier.
    pub system_id: SystemId,
    /// The timeline that it writes, or replays.
    pub timeline: TimelineId,
    /// The end of the WAL that it flushed.
    pub flushed: Lsn,
}

/// A connection to a server.
pub struct Connection {
    stream: Box<dyn Stream>,
    /// The process that listens at the socket, if that is one of this machine.
    peer: Option<i32>,
    pub(super) address: String,
    /// `None` if it is in the clear.
    pub(super) tls: Option<Session>,
    buffer: BytesMut,
    message_bytes_max: usize,
    parameters: HashMap<String, String>,
}

/// What a session is begun with.
struct Beginning<'a> {
    settings: &'a ConnectionSettings,
    mode: Mode,
    user: &'a str,
    host: Host,
    address: String,
}

/// Why a session did not begin.
struct Failure {
    error: ServerError,
    /// Whether it was, or would have been, with TLS.
    tls: bool,
    /// Whether we began to log in.
    is_connected: bool,
}

impl Failure {
    /// Whether the server may take a session of the other kind, with TLS or without.
    fn is_of_this_kind(&self) -> bool {
        match &self.error {
            ServerError::Tls { .. } => !self.is_connected,
            // invalid_authorization_specification: pg_hba.conf lets no such connection in.
            error => error.sqlstate() == Some("28000"),
        }
    }
}

impl Connection {
    /// Connects and authenticates.
    pub async fn open(settings: &ConnectionSettings, mode: Mode) -> Result<Self, ServerError> {
        let user = settings.required_user()?;
        let host = settings.host_or_default();
        let address = match &host {
            Host::Tcp(name) => format!("{name} port {}", settings.port_or_default()),
            Host::Unix(directory) => settings.socket_in(directory).display().to_string(),
        };
        let ways = tls::ways(&host, settings.tls.mode_or_default()?);
        let beginning = Beginning {
            settings,
            mode,
            user,
            host,
            address,
        };
        let seconds = settings
            .connect_timeout_seconds
            .filter(|&seconds| seconds > 0);
        let limit = Duration::from_secs(seconds.unwrap_or(CONNECT_TIMEOUT_SECONDS));
        // As with libpq, the limit is for a session that can be used, not for a connection to
        // something that then keeps silent.
        match tokio::time::timeout(limit, beginning.by_any(ways)).await {
            Ok(opened) => opened,
            Err(_) => Err(ServerError::Connect {
                address: beginning.address,
                source: io::ErrorKind::TimedOut.into(),
            }),
        }
    }

    /// The server's major version, from what it announced when the connection started.
    pub fn major(&self) -> Result<u32, ServerError> {
        let version = self
            .parameters
            .get("server_version")
            .map(String::as_str)
            .unwrap_or_default();
        version
            .split(|character: char| !character.is_ascii_digit())
            .next()
            .and_then(|major| major.parse().ok())
            .ok_or_else(|| protocol(format!("server_version is \"{version}\"")))
    }

    /// The server's version as it announces it, for example `15.13 (Debian 15.13-0+deb12u1)`.
    pub fn version(&self) -> &str {
        self.parameters
            .get("server_version")
            .map(String::as_str)
            .unwrap_or_default()
    }

    /// Whether the server replays WAL instead of writing it; up to 13 it does not say so.
    pub fn is_standby(&self) -> Option<bool> {
        let reported = self.parameters.get("in_hot_standby")?;
        Some(reported == "on")
    }

    /// The process that listens at the server's socket, if that is a socket of this machine and
    /// the system tells.
    pub fn peer_process(&self) -> Option<i32> {
        self.peer
    }

    /// Runs a query or a replication command and returns its rows.
    pub async fn query(&mut self, query: &str) -> Result<Vec<Row>, ServerError> {
        read_rows(&self.query_rows(query).await?)
    }

    /// The same for a query that may take any time, such as one that waits for a checkpoint.
    pub(super) async fn query_for_long(&mut self, query: &str) -> Result<Vec<Row>, ServerError> {
        read_rows(&self.query_rows_within(query, Duration::MAX).await?)
    }

    /// The same rows as the server sent them.
    pub(super) async fn query_rows(
        &mut self,
        query: &str,
    ) -> Result<Vec<DataRowBody>, ServerError> {
        self.query_rows_within(query, ANSWER_MAX).await
    }

    async fn query_rows_within(
        &mut self,
        query: &str,
        silence_max: Duration,
    ) -> Result<Vec<DataRowBody>, ServerError> {
        self.send_query(query).await?;
        let mut rows: Vec<DataRowBody> = Vec::new();
        let (mut failure, mut bytes) = (None, 0);
        loop {
            let message = tokio::time::timeout(silence_max, self.receive_any()).await;
            match message.map_err(|_| ServerError::Silent(silence_max))?? {
                Message::DataRow(row) => {
                    bytes += row.buffer().len() + ROW_BYTES;
                    if bytes > ANSWER_BYTES_MAX {
                        return Err(protocol(format!("an answer of more than {bytes} bytes")));
                    }
                    rows.push(row);
                }
                Message::ErrorResponse(body) => failure = Some(sql_error(&body)?),
                Message::RowDescription(_)
                | Message::CommandComplete(_)
                | Message::EmptyQueryResponse => {}
                Message::ReadyForQuery(_) => break,
                other => return Err(unexpected("the answer to a query", &other)),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(rows),
        }
    }

    /// The one value that a query is meant to return.
    pub async fn query_value(&mut self, query: &str) -> Result<String, ServerError> {
        let mut rows = self.query(query).await?;
        match rows.pop().and_then(|row| row.into_iter().next().flatten()) {
            Some(value) if rows.is_empty() => Ok(value),
            _ => Err(protocol(format!("\"{query}\" did not return one value"))),
        }
    }

    /// Asks who the cluster is and where it stands. For replication connections.
    pub async fn identify_system(&mut self) -> Result<SystemIdentification, ServerError> {
        let rows = self.query("IDENTIFY_SYSTEM").await?;
        let column = |at: usize| rows.first().and_then(|row| row.get(at)?.as_deref());
        let parsed = (|| {
            Some(SystemIdentification {
                system_id: SystemId(column(0)?.parse().ok()?),
                timeline: TimelineId(column(1)?.parse().ok()?),
                flushed: column(2)?.parse().ok()?,
            })
        })();
        parsed.ok_or_else(|| protocol(format!("IDENTIFY_SYSTEM returned {rows:?}")))
    }

    /// Says goodbye. Dropping the connection does as well, less politely.
    pub async fn close(mut self) {
        let mut buffer = BytesMut::new();
        frontend::terminate(&mut buffer);
        // The server may be gone already; there is nothing left to lose.
        let _ = self.stream.write_all(&buffer).await;
        let _ = self.stream.shutdown().await;
    }

    pub(super) async fn send_query(&mut self, query: &str) -> Result<(), ServerError> {
        let mut buffer = BytesMut::new();
        frontend::query(query, &mut buffer).map_err(malformed)?;
        self.send(&buffer).await
    }

    /// The next message that is part of an answer; an error of the server is an `Err`.
    pub(super) async fn receive(&mut self) -> Result<Message, ServerError> {
        match self.receive_any().await? {
            Message::ErrorResponse(body) => Err(sql_error(&body)?),
            message => Ok(message),
        }
    }

    /// The next message, which has to begin a COPY in both directions: then there is nothing to
    /// return. Any other message is returned.
    pub(super) async fn receive_copy_both(&mut self) -> Result<Option<Message>, ServerError> {
        loop {
            let (tag, len) = self.fill().await?;
            if tag == COPY_BOTH_RESPONSE {
                self.buffer.advance(len);
                return Ok(None);
            }
            let message = self.receive_raw().await?;
            match self.note(message)? {
                Some(Message::ErrorResponse(body)) => return Err(sql_error(&body)?),
                None => {}
                message => return Ok(message),
            }
        }
    }

    /// The next message, notices and parameters taken care of.
    async fn receive_any(&mut self) -> Result<Message, ServerError> {
        loop {
            let message = self.receive_raw().await?;
            if let Some(message) = self.note(message)? {
                return Ok(message);
            }
        }
    }

    /// Takes care of what a server may say at any time; returns everything else.
    fn note(&mut self, message: Message) -> Result<Option<Message>, ServerError> {
        match message {
            Message::NoticeResponse(body) => {
                let notice = SqlError::read(body.fields()).map_err(malformed)?;
                if let Some(path) = notice.needed_and_left_out() {
                    return Err(ServerError::NeededLink(path.to_owned()));
                }
                match notice.severity.as_str() {
                    "WARNING" => tracing::warn!("the server warns: {}", notice.message),
                    _ => tracing::debug!(server = %self.address, "{}", notice.message),
                }
            }
            Message::ParameterStatus(body) => {
                let name = body.name().map_err(malformed)?;
                if PARAMETERS.contains(&name) {
                    let value = body.value().map_err(malformed)?.to_owned();
                    self.parameters.insert(name.to_owned(), value);
                }
            }
            Message::NotificationResponse(_) => {}
            message => return Ok(Some(message)),
        }
        Ok(None)
    }

    async fn receive_raw(&mut self) -> Result<Message, ServerError> {
        self.fill().await?;
        let message = Message::parse(&mut self.buffer).map_err(malformed)?;
        message.ok_or_else(|| protocol("a message without its end".to_owned()))
    }

    /// Reads until a whole message is in the buffer; returns its tag and all its bytes' number.
    /// What was read stays, if this is dropped before it is done.
    async fn fill(&mut self) -> Result<(u8, usize), ServerError> {
        loop {
            if let Some(header) = Header::parse(&self.buffer).map_err(malformed)? {
                let length = usize::try_from(header.len()).unwrap_or(usize::MAX);
                if length > self.message_bytes_max {
                    return Err(protocol(format!("a message of {length} bytes")));
                }
                // The length does not count the tag.
                if self.buffer.len() > length {
                    return Ok((header.tag(), length + 1));
                }
            }
            self.buffer.reserve(READ_BYTES);
            let read = self.stream.read_buf(&mut self.buffer).await;
            match read {
                Ok(0) => return Err(self.lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(source) => return Err(self.lost(source)),
            }
        }
    }

    pub(super) async fn send(&mut self, message: &[u8]) -> Result<(), ServerError> {
        let sent = async {
            self.stream.write_all(message).await?;
            self.stream.flush().await
        };
        sent.await.map_err(|source| self.lost(source))
    }

    pub(super) fn lost(&self, source: io::Error) -> ServerError {
        ServerError::Lost {
            address: self.address.clone(),
            source,
        }
    }

    pub(super) async fn until_ready(&mut self) -> Result<(), ServerError> {
        loop {
            match self.receive().await? {
                Message::BackendKeyData(_) => {}
                Message::ReadyForQuery(_) => return Ok(()),
                other => return Err(unexpected("the start of a session", &other)),
            }
        }
    }
}

impl Beginning<'_> {
    /// A session by the first way that the server takes.
    async fn by_any(&self, (first, second): (Way, Option<Way>)) -> Result<Connection, ServerError> {
        let refused = match self.by(first).await {
            Ok(connection) => return Ok(connection),
            Err(failure) => failure,
        };
        let is_other = |way: &Way| (*way == Way::Tls) != refused.tls;
        let Some(second) = second.filter(|way| refused.is_of_this_kind() && is_other(way)) else {
            return Err(refused.error);
        };
        let again = match self.by(second).await {
            Ok(connection) => {
                if refused.tls && !matches!(refused.error, ServerError::Sql(_)) {
                    tracing::warn!("{}; going on without encryption", refused.error);
                }
                return Ok(connection);
            }
            Err(failure) => failure.error,
        };
        let has_tls = !matches!(again, ServerError::TlsNotOffered { .. });
        if !has_tls || again.to_string() == refused.error.to_string() {
            return Err(refused.error);
        }
        let (tls, plain) = match refused.tls {
            true => (refused.error, again),
            false => (again, refused.error),
        };
        Err(ServerError::NeitherWay {
            tls: Box::new(tls),
            plain: Box::new(plain),
        })
    }

    async fn by(&self, way: Way) -> Result<Connection, Failure> {
        let mut connection = self.connect(way).await.map_err(|error| Failure {
            error,
            tls: way != Way::Plain,
            is_connected: false,
        })?;
        let tls = connection.tls.is_some();
        match connection.log_in(self.settings, self.mode, self.user).await {
            Ok(()) => {
                connection.message_bytes_max = MESSAGE_BYTES_MAX;
                Ok(connection)
            }
            Err(error) => Err(Failure {
                error: as_refused(error),
                tls,
                is_connected: true,
            }),
        }
    }

    /// A connection on which nothing was said yet but about TLS.
    async fn connect(&self, way: Way) -> Result<Connection, ServerError> {
        let failed = |source| ServerError::Connect {
            address: self.address.clone(),
            source,
        };
        let (stream, peer, tls): (Box<dyn Stream>, _, _) = match &self.host {
            Host::Unix(directory) => {
                let socket = self.settings.socket_in(directory);
                let stream = UnixStream::connect(socket).await.map_err(failed)?;
                let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
                (Box::new(stream), peer, None)
            }
            Host::Tcp(name) => {
                let port = self.settings.port_or_default();
                let address = self.settings.host_address.as_deref().unwrap_or(name);
                let stream = connect_tcp(address, port).await.map_err(failed)?;
                let secured = match way {
                    Way::Plain => Secured::Plain(stream),
                    _ => tls::secure(stream, name, &self.settings.tls, way, &self.address).await?,
                };
                match secured {
                    Secured::Plain(stream) => (Box::new(stream), None, None),
                    Secured::Tls(stream, session) => (stream, None, Some(session)),
                }
            }
        };
        Ok(Connection {
            stream,
            peer,
            address: self.address.clone(),
            tls,
            buffer: BytesMut::with_capacity(READ_BYTES),
            message_bytes_max: LOGIN_MESSAGE_BYTES_MAX,
            parameters: HashMap::new(),
        })
    }
}

/// In TLS 1.3 a server refuses our certificate after the handshake, as far as we can see.
fn as_refused(error: ServerError) -> ServerError {
    match error {
        ServerError::Lost { address, source } => match tls::of_tls(&source) {
            Some(error) => ServerError::Tls {
                address,
                fault: TlsFault::of(error),
            },
            None => ServerError::Lost { address, source },
        },
        error => error,
    }
}

async fn connect_tcp(name: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((name, port)).await?;
    stream.set_nodelay(true)?;
    keep_alive(&stream)?;
    Ok(stream)
}

fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(60))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(10))?;
    sockopt::set_tcp_keepcnt(stream, 6)?;
    Ok(())
}

fn read_rows(rows: &[DataRowBody]) -> Result<Vec<Row>, ServerError> {
    let rows = rows.iter().map(|row| read_row(row).map_err(malformed));
    rows.collect()
}

pub(super) fn read_row(body: &DataRowBody) -> io::Result<Row> {
    let buffer = body.buffer();
    let mut ranges = body.ranges();
    let mut row = Vec::new();
    while let Some(range) = ranges.next()? {
        row.push(match range {
            None => None,
            Some(range) => {
                let bytes = buffer.get(range).ok_or(io::ErrorKind::InvalidData)?;
                Some(String::from_utf8_lossy(bytes).into_owned())
            }
        });
    }
    Ok(row)
}

fn sql_error(body: &ErrorResponseBody) -> Result<ServerError, ServerError> {
    Ok(SqlError::read(body.fields()).map_err(malformed)?.into())
}

pub(super) fn protocol(reason: String) -> ServerError {
    ServerError::Protocol(reason)
}

pub(super) fn malformed(error: io::Error) -> ServerError {
    protocol(error.to_string())
}

pub(super) fn unexpected(exchange: &str, message: &Message) -> ServerError {
    protocol(format!("{} in {exchange}", name_of(message)))
}

fn name_of(message: &Message) -> &'static str {
    match message {
        Message::AuthenticationOk => "AuthenticationOk",
        Message::BackendKeyData(_) => "BackendKeyData",
        Message::CommandComplete(_) => "CommandComplete",
        Message::CopyData(_) => "CopyData",
        Message::CopyDone => "CopyDone",
        Message::CopyInResponse(_) => "CopyInResponse",
        Message::CopyOutResponse(_) => "CopyOutResponse",
        Message::DataRow(_) => "DataRow",
        Message::EmptyQueryResponse => "EmptyQueryResponse",
        Message::ErrorResponse(_) => "ErrorResponse",
        Message::ReadyForQuery(_) => "ReadyForQuery",
        Message::RowDescription(_) => "RowDescription",
        _ => "a message out of turn",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    async fn silent_server() -> (TcpListener, ConnectionSettings) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let text = format!("host=127.0.0.1 port={port} user=x connect_timeout=1");
        let settings = ConnectionSettings::parse(&text).expect("valid");
        (listener, settings)
    }

    #[tokio::test]
    async fn does_not_wait_for_ever_for_a_server_that_takes_the_connection_and_keeps_silent() {
        let (_listener, settings) = silent_server().await;
        let opened = Connection::open(&settings, Mode::Sql).await;
        let error = opened.err().expect("nobody answers");
        assert!(matches!(error, ServerError::Connect { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_connection_notices_when_the_other_host_is_gone() {
        let (listener, _) = silent_server().await;
        let address = listener.local_addr().expect("bound");
        let stream = TcpStream::connect(address).await.expect("connected");
        keep_alive(&stream).expect("set");
        assert_eq!(sockopt::socket_keepalive(&stream), Ok(true));
        let idle = sockopt::tcp_keepidle(&stream);
        assert_eq!(idle, Ok(Duration::from_secs(60)));
    }
}
