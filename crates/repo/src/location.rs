//! Where a repository is: a path or URL, and the store that reaches it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::ObjectStore;
use url::Url;

use crate::{LocalStore, RepoError};

/// What can hold a repository: a directory or a store.
///
/// Printing it gives a form that [`Location::parse`] reads back, absolute, so that it
/// can be written into a `restore_command` that runs in another directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// A directory on a mounted file system, as an absolute path.
    Local(PathBuf),
}

impl Location {
    /// Reads a path or a `file://` URL.
    ///
    /// A relative path is taken from the current directory, as a shell would.
    pub fn parse(text: &str) -> Result<Self, RepoError> {
        let invalid = |detail: String| RepoError::InvalidLocation {
            location: text.to_owned(),
            detail,
        };
        let Some(scheme) = scheme(text) else {
            if text.is_empty() {
                return Err(invalid("it is empty".to_owned()));
            }
            if text.contains('\0') {
                return Err(invalid("it contains a zero byte".to_owned()));
            }
            return std::path::absolute(Path::new(text))
                .map(Self::Local)
                .map_err(|error| invalid(error.to_string()));
        };
        if !scheme.eq_ignore_ascii_case("file") {
            return Err(RepoError::UnsupportedScheme {
                scheme: scheme.to_owned(),
            });
        }
        let url = Url::parse(text).map_err(|error| invalid(error.to_string()))?;
        url.to_file_path()
            .map(Self::Local)
            .map_err(|()| invalid("a file URL names an absolute path on this host".to_owned()))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => path.display().fmt(f),
        }
    }
}

/// Makes the store that reaches a location. Nothing is read or created yet.
pub fn open_store(location: &Location) -> Result<Arc<dyn ObjectStore>, RepoError> {
    match location {
        Location::Local(path) => Ok(Arc::new(LocalStore::new(path))),
    }
}

/// The part before `://`, when the text has the form of a URL.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let mut characters = scheme.chars();
    let first_is_letter = characters.next().is_some_and(|c| c.is_ascii_alphabetic());
    let rest_fits = characters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (first_is_letter && rest_fits).then_some(scheme)
}
