//! What can go wrong with a server behind SSH, told apart by whether it may pass.

use std::io;

use object_store::path::Path;
use russh_sftp::client::error::Error as ProtocolError;
use russh_sftp::protocol::StatusCode;

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
    #[error("could not {action} {path} on the SSH server")]
    Request {
        action: &'static str,
        path: String,
        source: ProtocolError,
    },
    /// Something else than a plain file or directory of ours.
    #[error("{path} on the SSH server is {found}")]
    Misplaced { path: String, found: &'static str },
    #[error("{path} on the SSH server has {found} bytes, {sent} were sent")]
    Length { path: String, found: u64, sent: u64 },
}

impl SftpError {
    pub(super) fn at(
        action: &'static str,
        path: &str,
    ) -> impl FnOnce(ProtocolError) -> SftpError + use<> {
        let path = path.to_owned();
        move |source| SftpError::Request {
            action,
            path,
            source,
        }
    }

    /// Whether it is one of the way to the server.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::NoAnswer(_) | Self::Ssh(_) => true,
            Self::Request { source, .. } => match source {
                ProtocolError::Status(status) => matches!(
                    status.status_code,
                    StatusCode::NoConnection | StatusCode::ConnectionLost
                ),
                _ => true,
            },
            _ => false,
        }
    }

    fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Request {
                source: ProtocolError::Status(status),
                ..
            } => Some(status.status_code),
            _ => None,
        }
    }

    pub(super) fn is_missing(&self) -> bool {
        self.status() == Some(StatusCode::NoSuchFile)
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
