//! What a backup's description says of a tablespace.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A tablespace other than the data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TablespaceRecord {
    /// Its OID.
    pub oid: u32,
    /// Its name, where that is known: it may have come and gone too soon to be asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its directory on the server that was backed up.
    pub location: String,
}

impl TablespaceRecord {
    /// Whether a person who says this means the tablespace: its name, its OID or its directory.
    pub fn is_called(&self, said: &str) -> bool {
        let is_directory = || said.starts_with('/') && Path::new(said) == Path::new(&self.location);
        self.name.as_deref() == Some(said) || self.oid.to_string() == said || is_directory()
    }
}

/// For messages: `tablespace fast (16400)`, or without a name `tablespace 16400`.
impl fmt::Display for TablespaceRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "tablespace {} ({})", name.escape_debug(), self.oid),
            None => write!(f, "tablespace {}", self.oid),
        }
    }
}
