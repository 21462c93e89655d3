//! What can go wrong between us and a server, by what the caller can do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorFields;
use rustls::CertificateError;

use super::ssl_mode::SslMode;
use crate::server::needed_paths::is_needed;

/// A failed exchange with a server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The connection settings cannot be used: change them.
    #[error("invalid connection settings: {0}")]
    Settings(String),
    /// TLS is demanded, and the server has none.
    #[error("{address} offers no TLS, which sslmode={mode} demands")]
    TlsNotOffered {
        /// Host and port.
        address: String,
        /// What demands it.
        mode: SslMode,
    },
    /// The server offers TLS, and there is no session.
    #[error("no TLS with {address}: {fault}")]
    Tls {
        /// Host and port.
        address: String,
        /// Why.
        fault: TlsFault,
    },
    /// A file of certificates or keys cannot be used: change it, or name another one.
    #[error("{} {reason}", .path.display())]
    TlsFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// Neither a connection with TLS nor one without was let in.
    #[error("{tls}; and without TLS: {plain}")]
    NeitherWay {
        /// What was said to the one with TLS.
        tls: Box<ServerError>,
        /// What was said to the one without.
        plain: Box<ServerError>,
    },
    /// Nobody answers at the address.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Host and port, or the socket's path.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The connection broke.
    #[error("connection to {address} lost: {source}")]
    Lost {
        /// Host and port, or the socket's path.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The server says nothing, although it was asked.
    #[error("the server has said nothing for {} seconds", .0.as_secs())]
    Silent(Duration),
    /// The server does not have the WAL that is asked for, and may have it later.
    #[error("the server cannot go on yet: {0}")]
    Behind(String),
    /// The server asked for an authentication that cannot be given.
    #[error("cannot authenticate to {address}: {reason}")]
    Authentication {
        /// Host and port, or the socket's path.
        address: String,
        /// What is missing or unsupported.
        reason: String,
    },
    /// The session cannot be bound to TLS, which is demanded.
    #[error("channel_binding=require cannot be met with {address}: {reason}")]
    Unbound {
        /// Host and port, or the socket's path.
        address: String,
        /// What is missing.
        reason: &'static str,
    },
    /// The server sent something that has no place in the protocol.
    #[error("unexpected answer from the server: {0}")]
    Protocol(String),
    /// The server leaves out of a backup what the cluster is not whole without.
    #[error("{0} is no file and no directory, and the cluster is not whole without it")]
    NeededLink(String),
    /// The server reported an error.
    #[error(transparent)]
    Sql(#[from] SqlError),
}

impl ServerError {
    /// The SQLSTATE, when the server reported an error.
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            ServerError::Sql(error) => Some(&error.sqlstate),
            ServerError::NeitherWay { tls, .. } => tls.sqlstate(),
            _ => None,
        }
    }

    /// Whether it may pass without anybody's doing: the server is away, starts, stops, or still
    /// has our last connection.
    pub fn is_passing(&self) -> bool {
        match self {
            ServerError::Connect { .. } | ServerError::Lost { .. } => true,
            ServerError::Silent(_) | ServerError::Behind(_) => true,
            ServerError::Tls { fault, .. } => matches!(fault, TlsFault::Broken(_)),
            ServerError::NeitherWay { tls, plain } => tls.is_passing() || plain.is_passing(),
            // connection_exception, insufficient_resources, object_in_use, operator_intervention.
            ServerError::Sql(error) => ["08", "53", "55006", "57"]
                .iter()
                .any(|class| error.sqlstate.starts_with(class)),
            _ => false,
        }
    }
}

/// Why there is no TLS session, by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum TlsFault {
    /// The server's certificate is not valid, or nobody who is trusted vouches for it.
    #[error("{0}")]
    Certificate(String),
    /// The server's certificate is for others.
    #[error("{0}")]
    Name(String),
    /// The server does not want the session: it said so by an alert.
    #[error("{0}")]
    Refused(String),
    /// The two have nothing in common, or what came is no TLS.
    #[error("{0}")]
    Incompatible(String),
    /// The connection broke meanwhile.
    #[error("connection lost: {0}")]
    Broken(io::Error),
}

impl TlsFault {
    pub(super) fn of(error: &rustls::Error) -> TlsFault {
        use rustls::Error::{AlertReceived, InvalidCertificate};
        let text = error.to_string();
        match error {
            InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => TlsFault::Name(text),
            InvalidCertificate(_) => TlsFault::Certificate(text),
            AlertReceived(_) => TlsFault::Refused(text),
            _ => TlsFault::Incompatible(text),
        }
    }
}

/// The longest text of a server's that is shown, in characters.
const TEXT_MAX: usize = 4096;

/// An error that the server reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SqlError {
    /// `ERROR`, `FATAL` or `PANIC`.
    pub severity: String,
    /// The five characters of appendix A of PostgreSQL's manual.
    pub sqlstate: String,
    /// The message.
    pub message: String,
    /// The detail, if any.
    pub detail: Option<Box<str>>,
    /// The hint, if any.
    pub hint: Option<Box<str>>,
    /// The function of the server that said it.
    pub routine: Option<Box<str>>,
}

impl SqlError {
    pub(super) fn read(mut fields: ErrorFields<'_>) -> io::Result<SqlError> {
        let mut error = SqlError::default();
        while let Some(field) = fields.next()? {
            let value = printable(field.value_bytes());
            match field.type_() {
                // 'V' is never translated; 'S' may be, and comes first.
                b'S' if error.severity.is_empty() => error.severity = value,
                b'V' => error.severity = value,
                b'C' => error.sqlstate = value,
                b'M' => error.message = value,
                b'D' => error.detail = Some(value.into()),
                b'H' => error.hint = Some(value.into()),
                b'R' => error.routine = Some(value.into()),
                _ => {}
            }
        }
        Ok(error)
    }

    /// What a base backup leaves out although the cluster is not whole without it, by the path in quotes: `skipping
    /// special file "./base/16384"`, in the server's language (`sendDir`, src/backend/backup/basebackup.c,
    /// before 15 src/backend/replication/basebackup.c). What is not below the data directory is in a tablespace.
    pub(super) fn needed_and_left_out(&self) -> Option<&str> {
        const QUOTES: [char; 12] = [
            '"', '\'', '«', '»', '“', '”', '„', '‘', '’', '‚', '「', '」',
        ];
        if self.routine.as_deref() != Some("sendDir") {
            return None;
        }
        let path = self.message.split(QUOTES).nth(1)?.trim();
        match path.strip_prefix("./") {
            Some(path) => is_needed(path.as_bytes()).then_some(path),
            None => Some(path),
        }
    }
}

/// What a server says, of which nobody knows yet whether it is one: without characters that a terminal
/// obeys, and not for ever.
fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut characters = text.chars().map(|character| match character {
        '\n' | '\t' => ' ',
        control if control.is_control() => char::REPLACEMENT_CHARACTER,
        other => other,
    });
    let mut shown: String = characters.by_ref().take(TEXT_MAX).collect();
    if characters.next().is_some() {
        shown.push_str(" ...");
    }
    shown
}

impl std::error::Error for SqlError {}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = self.severity.to_lowercase();
        write!(f, "server {severity} {}: {}", self.sqlstate, self.message)?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_shown_on_one_line_and_cut() {
        let said = printable(b"a\nwalzip: info: done\r\x1b]0;x\x07");
        assert_eq!(said, "a walzip: info: done\u{fffd}\u{fffd}]0;x\u{fffd}");
        let long = printable(&vec![b'x'; 2 * TEXT_MAX]);
        assert!(long.len() == TEXT_MAX + 4 && long.ends_with("x ..."));
        assert_eq!(printable(&vec![b'x'; TEXT_MAX]).len(), TEXT_MAX);
    }

    #[test]
    fn what_a_server_leaves_out_of_a_backup_is_named_in_any_language() {
        let warning = |routine: &str, message: &str| SqlError {
            message: message.to_owned(),
            routine: Some(routine.into()),
            ..SqlError::default()
        };
        for (message, path) in [
            ("skipping special file \"./base/16384\"", "base/16384"),
            ("überspringe besondere Datei »./pg_xact«", "pg_xact"),
            ("ignore le fichier spécial « ./global/1262 »", "global/1262"),
            (
                "スペシャルファイル\"./pg_xact\"をスキップしています",
                "pg_xact",
            ),
            (
                "skipping special file \"/mnt/fast/PG_16_2/5\"",
                "/mnt/fast/PG_16_2/5",
            ),
        ] {
            let found = |routine| {
                warning(routine, message)
                    .needed_and_left_out()
                    .map(str::to_owned)
            };
            assert_eq!(found("sendDir").as_deref(), Some(path));
            assert_eq!(found("sendFile"), None);
        }
        for other in ["something else", "skipping special file \"./log\""] {
            assert_eq!(warning("sendDir", other).needed_and_left_out(), None);
        }
    }
}
