//! What a live server says of itself; who asks it is the command line.

use std::collections::BTreeMap;

use serde::Serialize;

/// A server, as it was when it was asked.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Server {
    /// Its version as it announces it.
    pub version: String,
    /// Its major.
    pub major: u32,
    /// The cluster's own number, which its segments have too; none where the role may not know it.
    pub system_identifier: Option<String>,
    /// Whether it is a standby.
    pub in_recovery: bool,
    /// Settings by name, in the server's base units: bytes, seconds.
    pub settings: BTreeMap<String, String>,
    /// What `wal_compression` can be in this server as it was built; none where that is only on or off.
    pub wal_compression_values: Option<Vec<String>>,
    /// WAL that was written; from 14 on.
    pub wal: Option<WalStatistics>,
    /// Checkpoints.
    pub checkpoints: Option<CheckpointStatistics>,
    /// Archiving.
    pub archiver: Option<ArchiverStatistics>,
}

/// `pg_stat_wal`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WalStatistics {
    /// Bytes of WAL.
    pub bytes: f64,
    /// Records.
    pub records: f64,
    /// Full-page images.
    pub images: f64,
    /// Since when.
    pub seconds: Option<f64>,
}

/// `pg_stat_checkpointer`, before 17 `pg_stat_bgwriter`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CheckpointStatistics {
    /// Checkpoints because checkpoint_timeout had passed.
    pub timed: u64,
    /// Checkpoints because max_wal_size was reached, or somebody asked.
    pub requested: u64,
    /// Since when.
    pub seconds: Option<f64>,
}

/// `pg_stat_archiver`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ArchiverStatistics {
    /// Files that were archived.
    pub archived: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Since when.
    pub seconds: Option<f64>,
}

impl Server {
    /// A setting.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// Whether `wal_compression` can be this; true where nobody knows.
    pub fn can_compress(&self, method: &str) -> bool {
        let values = self.wal_compression_values.as_ref();
        values.is_none_or(|values| values.iter().any(|value| value == method))
    }

    /// A setting that is a number, in bytes or seconds.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.setting(name)?.parse().ok()
    }
}
