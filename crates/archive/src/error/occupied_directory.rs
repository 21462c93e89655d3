//! What is in the way of a restore.

use std::fmt;
use std::path::PathBuf;

use crate::server::tablespace_record::TablespaceRecord;

/// A directory that is in the way of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OccupiedDirectory {
    /// The directory, or what is in it.
    pub path: PathBuf,
    /// The tablespace that would be there, unless it is the data directory.
    pub tablespace: Option<TablespaceRecord>,
    /// The replay will create the tablespace, there and nowhere else.
    pub is_replayed: bool,
}

impl fmt::Display for OccupiedDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.tablespace {
            None => write!(f, "{path}"),
            Some(tablespace) if self.is_replayed => {
                write!(f, "{tablespace}, which the replay will create, in {path}")
            }
            Some(tablespace) => write!(f, "{tablespace} in {path}"),
        }
    }
}

/// Several of them, for a message.
pub(super) fn listed(directories: &[OccupiedDirectory]) -> String {
    let directories: Vec<String> = directories.iter().map(ToString::to_string).collect();
    directories.join("; ")
}
