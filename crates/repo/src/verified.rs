//! Notes of what was verified: `verified/TIME.json`. This crate does not look into them.

use bytes::Bytes;
use futures::TryStreamExt;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::error::RepoError;
use crate::layout::{self, MAX_VERIFIED_JSON_BYTES, VERIFIED_PREFIX};
use crate::repository::Repository;

/// As in the labels of backups, with nanoseconds.
const TIME_FORMAT: &str = "%Y%m%d-%H%M%S.%9f";

impl Repository {
    /// Puts a note of what was verified by a verification that began at this moment.
    pub async fn note_verified(&self, began: Timestamp, note: Bytes) -> Result<(), RepoError> {
        let name = began.to_zoned(TimeZone::UTC).strftime(TIME_FORMAT);
        let key = layout::verified_key(&name.to_string());
        match self.create(&key, note).await {
            Ok(()) | Err(RepoError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// When the newest verification began that has left a note. None is from the future.
    pub async fn last_verified(&self, now: Timestamp) -> Result<Option<Timestamp>, RepoError> {
        let objects = self.list_verified().await?;
        let times = objects
            .iter()
            .filter_map(|meta| time_of(meta.location.as_ref()));
        Ok(times.filter(|time| *time <= now).max())
    }

    async fn list_verified(&self) -> Result<Vec<ObjectMeta>, RepoError> {
        let listed = self.store().list(Some(&Path::from(VERIFIED_PREFIX)));
        let listed = listed.try_collect().await;
        listed.map_err(|error| RepoError::from_store(VERIFIED_PREFIX, error))
    }

    /// Reads the notes of verifications that began since this moment.
    pub async fn read_verified(&self, since: Timestamp) -> Result<Vec<Bytes>, RepoError> {
        let mut notes = Vec::new();
        for meta in self.list_verified().await? {
            let key = meta.location.as_ref();
            if time_of(key).is_none_or(|began| began < since) {
                continue;
            }
            notes.extend(self.read(key, MAX_VERIFIED_JSON_BYTES).await?);
        }
        Ok(notes)
    }
}

/// The moment in the key of a note, which is written in one way only.
fn time_of(key: &str) -> Option<Timestamp> {
    let name = key.rsplit('/').next()?.strip_suffix(".json")?;
    let time = DateTime::strptime(TIME_FORMAT, name).ok()?;
    let time = time.to_zoned(TimeZone::UTC).ok()?.timestamp();
    (layout::verified_key(name) == key).then_some(time)
}
