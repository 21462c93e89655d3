//! Which cluster something belongs to.

use std::fmt;

/// Which cluster an archive belongs to.
///
/// Both parts are needed: `pg_upgrade` keeps neither, a physical copy keeps both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClusterIdentity {
    /// The system identifier that initdb gave the cluster.
    pub system_id: u64,
    /// The server's major version.
    pub major: u32,
}

impl ClusterIdentity {
    /// What stands for the cluster in keys: `15-7575000000000000001`.
    pub fn name(self) -> String {
        format!("{}-{}", self.major, self.system_id)
    }
}

impl fmt::Display for ClusterIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PostgreSQL {} with system identifier {}",
            self.major, self.system_id
        )
    }
}
