//! What an error of a store means to the caller.

use std::error::Error as StdError;
use std::io::{self, ErrorKind};

use crate::error::encryption::{KeyError, SealError};
use crate::error::{RepoError, Source};
use crate::local::Misplaced;
use crate::sftp::SftpError;

impl RepoError {
    /// What the encryption failed at, if it was that.
    fn from_encryption(key: &str, error: object_store::Error) -> Result<Self, object_store::Error> {
        let object_store::Error::Generic { store, source } = error else {
            return Err(error);
        };
        let source = match source.downcast::<RepoError>() {
            Ok(of_keys) => return Ok(*of_keys),
            Err(source) => source,
        };
        match source.downcast::<SealError>() {
            Ok(wrong) if matches!(*wrong, SealError::WrongKey(_)) => {
                Ok(Self::Key(KeyError::Wrong(*wrong)))
            }
            Ok(wrong) => Ok(Self::Corrupt {
                key: key.to_owned(),
                detail: wrong.to_string(),
            }),
            Err(source) => Err(object_store::Error::Generic { store, source }),
        }
    }

    /// Sorts a store's error by what the caller can do about it.
    pub(crate) fn from_store(key: &str, error: object_store::Error) -> Self {
        use object_store::Error as Store;
        let error = match Self::from_encryption(key, error) {
            Ok(known) => return known,
            Err(error) => error,
        };
        if let Some(misplaced) = io_error(&error).and_then(Misplaced::in_error) {
            return misplaced.to_error(key);
        }
        if let Some(misplaced) = SftpError::misplaced(key, &error) {
            return misplaced;
        }
        let kind = io_error(&error).map(io::Error::kind);
        let key = key.to_owned();
        if let Store::Generic { source, .. } = &error
            && is_denied_delete(source.as_ref())
        {
            return Self::Permission {
                key,
                source: cause(error),
            };
        }
        match (error, kind) {
            (Store::NotFound { .. }, _) => Self::NotFound { key },
            (Store::AlreadyExists { .. }, _) => Self::AlreadyExists { key },
            (Store::PermissionDenied { source, .. } | Store::Unauthenticated { source, .. }, _) => {
                Self::Permission { key, source }
            }
            (
                error,
                Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge),
            ) => Self::NoSpace {
                key,
                source: cause(error),
            },
            (error, Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)) => {
                Self::Permission {
                    key,
                    source: cause(error),
                }
            }
            (error, _) => Self::Unavailable {
                key,
                source: cause(error),
            },
        }
    }

    /// The same for a put, to which a missing place is a failure of the store: the
    /// object itself is not expected to be there.
    pub(crate) fn from_put(key: &str, error: object_store::Error) -> Self {
        match error {
            object_store::Error::NotFound { source, .. } => Self::Unavailable {
                key: key.to_owned(),
                source,
            },
            other => Self::from_store(key, other),
        }
    }
}

/// Of S3's requests that remove several objects, each object has an answer of its own, and `object_store` has no
/// kind for a refusal.
fn is_denied_delete(error: &(dyn StdError + 'static)) -> bool {
    let said = error.to_string();
    said.starts_with("DeleteObjects request failed") && said.contains("AccessDenied")
}

/// What is below a store's own wrapping, whose message repeats it.
fn cause(error: object_store::Error) -> Source {
    match error {
        object_store::Error::Generic { source, .. }
        | object_store::Error::NotSupported { source } => source,
        other => Box::new(other),
    }
}

/// The operating system's error at the bottom of a store's error, if any.
fn io_error<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e io::Error> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(io) = current.downcast_ref::<io::Error>() {
            return Some(io);
        }
        next = current.source();
    }
    None
}
