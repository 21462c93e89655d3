//! Clusters, and what the repository records of one: `repository.json`, `cluster/N.json` and the
//! marks.

use std::str::FromStr;

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cluster_identity::ClusterIdentity;
use crate::error::RepoError;
use crate::json::{check_format, encode_json};
use crate::layout::FORMAT;

impl FromStr for ClusterIdentity {
    type Err = RepoError;

    /// Reads a [`name`](ClusterIdentity::name), which is written in one way only.
    fn from_str(text: &str) -> Result<Self, RepoError> {
        let parts = text.split_once('-');
        let parsed = parts.and_then(|(major, system_id)| {
            Some(Self {
                system_id: system_id.parse().ok()?,
                major: major.parse().ok()?,
            })
        });
        parsed
            .filter(|cluster| cluster.name() == text)
            .ok_or_else(|| RepoError::InvalidName {
                what: "a cluster",
                name: text.to_owned(),
                detail: "it has the form 15-7575000000000000001",
            })
    }
}

/// What the repository records of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterRecord {
    pub(crate) cluster: ClusterIdentity,
    /// When it was recorded.
    pub(crate) created: Timestamp,
    /// Whether a copy of the record, the mark, was put among the cluster's WAL before it.
    /// Repositories of the first days have none.
    pub(crate) wal_marked: bool,
}

/// The same, as in docs/format/repository.md.
#[derive(Serialize, Deserialize)]
struct ClusterRecordJson {
    format: u64,
    /// Decimal text, since readers of JSON lose digits of numbers beyond 2^53.
    system_identifier: String,
    major: u32,
    created: Timestamp,
    #[serde(default)]
    wal_marked: bool,
}

impl ClusterRecord {
    /// A record made now, of a cluster whose WAL gets a mark.
    pub(crate) fn new(cluster: ClusterIdentity) -> Self {
        Self {
            cluster,
            created: Timestamp::now(),
            wal_marked: true,
        }
    }

    pub(crate) fn read(key: &str, json: &[u8]) -> Result<Self, RepoError> {
        check_format(key, json)?;
        let corrupt = |detail: String| RepoError::Corrupt {
            key: key.to_owned(),
            detail,
        };
        let fields: ClusterRecordJson =
            serde_json::from_slice(json).map_err(|error| corrupt(error.to_string()))?;
        let system_id = fields
            .system_identifier
            .parse::<u64>()
            .ok()
            .filter(|id| id.to_string() == fields.system_identifier)
            .ok_or_else(|| {
                corrupt(format!(
                    "system_identifier {:?} is not a decimal number of 64 bits",
                    fields.system_identifier
                ))
            })?;
        Ok(Self {
            cluster: ClusterIdentity {
                system_id,
                major: fields.major,
            },
            created: fields.created,
            wal_marked: fields.wal_marked,
        })
    }

    pub(crate) fn write(&self) -> Result<Bytes, RepoError> {
        encode_json(&ClusterRecordJson {
            format: FORMAT,
            system_identifier: self.cluster.system_id.to_string(),
            major: self.cluster.major,
            created: self.created,
            wal_marked: self.wal_marked,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_named_in_one_way_only() {
        let name = "15-7575000000000000001";
        let cluster: ClusterIdentity = name.parse().expect("a name");
        assert_eq!(cluster.name(), name);
        for text in [
            "", "15", "15-", "-1", "015-1", "15-01", "15-+1", "15-1-1", "15-1/x",
        ] {
            assert!(text.parse::<ClusterIdentity>().is_err(), "{text}");
        }
    }
}
