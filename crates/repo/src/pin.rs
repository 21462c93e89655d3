//! Pins: what keeps a backup from being expired, and why.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::RepoError;
use crate::json::{check_format, encode_json};
use crate::layout::{self, BACKUP_PINNED, FORMAT, MAX_SMALL_JSON_BYTES};
use crate::names::backup_label::BackupLabel;
use crate::repository::Repository;

/// The longest reason.
const REASON_BYTES_MAX: usize = 4096;

/// Keeps a backup until it is removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pin {
    /// Since when.
    pub pinned: Timestamp,
    /// Why, as its author said.
    pub reason: Option<String>,
}

/// `pinned`, as in docs/format/repository.md.
#[derive(Serialize, Deserialize)]
struct PinnedJson {
    format: u64,
    pinned: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Repository {
    /// Pins a backup. A pin that is there is not replaced.
    pub async fn pin(&self, label: &BackupLabel, pin: &Pin) -> Result<(), RepoError> {
        let reason = pin.reason.clone();
        if reason
            .as_ref()
            .is_some_and(|of| of.len() > REASON_BYTES_MAX)
        {
            return Err(RepoError::InvalidName {
                what: "the reason of a pin",
                name: reason.unwrap_or_default(),
                detail: "it has at most 4096 bytes",
            });
        }
        let json = encode_json(&PinnedJson {
            format: FORMAT,
            pinned: pin.pinned,
            reason,
        })?;
        self.create(&layout::backup_key(label, BACKUP_PINNED), json)
            .await
    }

    /// The pin of a backup.
    pub async fn read_pin(&self, label: &BackupLabel) -> Result<Option<Pin>, RepoError> {
        let key = layout::backup_key(label, BACKUP_PINNED);
        let Some(json) = self.read(&key, MAX_SMALL_JSON_BYTES).await? else {
            return Ok(None);
        };
        check_format(&key, &json)?;
        match serde_json::from_slice(&json) {
            Ok(PinnedJson { pinned, reason, .. }) => Ok(Some(Pin { pinned, reason })),
            Err(error) => Err(RepoError::Corrupt {
                key,
                detail: error.to_string(),
            }),
        }
    }

    /// Removes the pin of a backup; whether there was one.
    pub async fn unpin(&self, label: &BackupLabel) -> Result<bool, RepoError> {
        self.remove(&layout::backup_key(label, BACKUP_PINNED)).await
    }
}
