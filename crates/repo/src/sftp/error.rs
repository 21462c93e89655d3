//! What can go wrong with a server behind SSH, told apart by whether it may pass.

use std::{fmt, io};

use object_store::path::Path;
use russh_sftp::client::error::Error as ProtocolError;
use russh_sftp::protocol::StatusCode;

use crate::error::RepoError;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SftpError {
    #[error("cannot reach the SSH server {server}")]
    Connect { server: String, source: io::Error },
    #[error("the SSH server {0} did not answer in time")]
    NoAnswer(String),
    #[error("the SSH connection failed")]
    Ssh(#[from] russh::Error),
    #[error("{0}")]
    HostKey(String),
    #[error("{0}")]
    Login(String),
    #[error(
        "the SSH server {0} closed the connection during the login; where it allows one key only, a wrong key does that"
    )]
    LoginCut(String),
    #[error(
        "the SSH server {0} does not offer SFTP to this user: its sshd_config needs \"Subsystem sftp internal-sftp\""
    )]
    NoSftp(String),
    #[error("could not {action} {path} on the SSH server")]
    Request {
        action: &'static str,
        path: String,
        source: Refusal,
    },
    /// Something else than a plain file or directory of ours.
    #[error("{path} on the SSH server is {found}")]
    Misplaced {
        path: String,
        found: &'static str,
        /// Whether it is found under an object's own key, and is no link.
        is_object: bool,
    },
    #[error("{path} on the SSH server has {found} bytes, {sent} were sent")]
    Length { path: String, found: u64, sent: u64 },
}

/// What the server or the library answered to a request, in words that say what happened.
#[derive(Debug)]
pub(crate) struct Refusal(ProtocolError);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            // OpenSSH says this, and no more, of all that has no code of its own (sftp-server.c).
            ProtocolError::Status(status) if status.status_code == StatusCode::Failure => f
                .write_str(
                    "the server failed and did not say why; its disk may be full, or read-only",
                ),
            ProtocolError::Status(status) => write!(f, "{}", status.error_message),
            ProtocolError::Timeout => f.write_str("the server did not answer in time"),
            // What the library says when the channel is closed before the answer has come.
            ProtocolError::UnexpectedBehavior(said) if said.ends_with("sender dropped") => {
                f.write_str("the connection was lost")
            }
            ProtocolError::UnexpectedBehavior(said) if said.starts_with("SendError") => {
                f.write_str("the connection was lost")
            }
            other => write!(f, "{other}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl SftpError {
    pub(super) fn at(
        action: &'static str,
        path: &str,
    ) -> impl FnOnce(ProtocolError) -> SftpError + use<> {
        let path = path.to_owned();
        move |source| SftpError::Request {
            action,
            path,
            source: Refusal(source),
        }
    }

    /// Whether it is one of the way to the server.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::NoAnswer(_) | Self::Ssh(_) | Self::LoginCut(_) => true,
            Self::Request { source, .. } => match &source.0 {
                ProtocolError::Status(status) => matches!(
                    status.status_code,
                    StatusCode::NoConnection | StatusCode::ConnectionLost
                ),
                _ => true,
            },
            _ => false,
        }
    }

    /// For the caller: a directory in the place of an object, or a repository in disorder.
    pub(crate) fn misplaced(key: &str, error: &object_store::Error) -> Option<RepoError> {
        let object_store::Error::Generic { source, .. } = error else {
            return None;
        };
        let Self::Misplaced {
            path,
            found,
            is_object,
        } = source.downcast_ref()?
        else {
            return None;
        };
        let detail = format!("it is {found}");
        Some(match is_object {
            true => RepoError::Corrupt {
                key: key.to_owned(),
                detail,
            },
            false => RepoError::NotInPlace {
                place: format!("{path} on the SSH server"),
                detail,
            },
        })
    }

    fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Request {
                source: Refusal(ProtocolError::Status(status)),
                ..
            } => Some(status.status_code),
            _ => None,
        }
    }

    pub(super) fn is_missing(&self) -> bool {
        self.status() == Some(StatusCode::NoSuchFile)
    }

    pub(super) fn is_denied(&self) -> bool {
        self.status() == Some(StatusCode::PermissionDenied)
    }

    /// What a server says that something is there already, among much else.
    pub(super) fn is_failure(&self) -> bool {
        self.status() == Some(StatusCode::Failure)
    }

    pub(super) fn into_store(self, key: &Path) -> object_store::Error {
        let path = key.to_string();
        match self.status() {
            Some(StatusCode::NoSuchFile) => object_store::Error::NotFound {
                path,
                source: Box::new(self),
            },
            Some(StatusCode::PermissionDenied) => object_store::Error::PermissionDenied {
                path,
                source: Box::new(self),
            },
            _ if matches!(self, Self::HostKey(_) | Self::Login(_)) => {
                object_store::Error::Unauthenticated {
                    path,
                    source: Box::new(self),
                }
            }
            _ => object_store::Error::Generic {
                store: super::STORE,
                source: Box::new(self),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use russh_sftp::protocol::Status;

    use super::*;

    #[test]
    fn a_refusal_says_what_happened() {
        let status = |status_code, error_message: &str| {
            ProtocolError::Status(Status {
                id: 1,
                status_code,
                error_message: error_message.to_owned(),
                language_tag: String::new(),
            })
        };
        let dropped = ProtocolError::UnexpectedBehavior("sender dropped".to_owned());
        for (error, said) in [
            (
                status(StatusCode::Failure, "Failure"),
                "its disk may be full, or read-only",
            ),
            (
                status(StatusCode::PermissionDenied, "Permission denied"),
                "Permission denied",
            ),
            (ProtocolError::Timeout, "did not answer in time"),
            (dropped, "the connection was lost"),
            (
                ProtocolError::IO("broken pipe".to_owned()),
                "I/O: broken pipe",
            ),
        ] {
            let refusal = Refusal(error).to_string();
            assert!(refusal.ends_with(said), "{refusal}");
        }
    }
}
