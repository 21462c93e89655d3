//! Whether a store keeps its promise that a name is given once, and whether it can be written.
//!
//! A server that passes over the condition of a put replaces an object and reports success: two
//! clusters would overwrite each other's WAL without a word. So it is tried before anything is
//! stored: of two puts of one name the second has to fail.

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Error, ObjectStore, PutMode, PutOptions};

use crate::error::RepoError;
use crate::layout::{self, PROBE};
use crate::repository::Repository;

/// What is put to try whether there is room: as much as a segment has. A disk that segments have filled has room for
/// less than one.
const TRIED_BYTES: usize = 16 << 20;

/// Refuses a store on which a put replaces an object that exists.
///
/// The object stays: finding it proves the same at the next time.
pub async fn probe_store(store: &Arc<dyn ObjectStore>) -> Result<(), RepoError> {
    for _ in 0..2 {
        let create = PutOptions::from(PutMode::Create);
        let content = "A put of this name has to fail now.\n";
        match store
            .put_opts(&Path::from(PROBE), content.into(), create)
            .await
        {
            Ok(_) => {}
            Err(Error::AlreadyExists { .. }) => return Ok(()),
            Err(error) => return Err(RepoError::from_put(PROBE, error)),
        }
    }
    Err(RepoError::Unsafe {
        location: store.to_string(),
    })
}

impl Repository {
    /// Puts an object among the cluster's WAL, and removes it again: where nothing can be archived, this fails of the
    /// same.
    ///
    /// No listing takes it for WAL. One that a process left behind that was killed is removed by the next.
    pub async fn try_writing(&self) -> Result<(), RepoError> {
        self.check_wal().await?;
        let key = layout::wal_probe_key(self.cluster());
        // File systems that compress make nothing of zeros.
        let mut noise = vec![0; TRIED_BYTES];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        let content = Bytes::from(noise);
        let mut put = self.create(&key, content.clone()).await;
        if matches!(put, Err(RepoError::AlreadyExists { .. })) && self.remove(&key).await.is_ok() {
            put = self.create(&key, content).await;
        }
        match put {
            // Somebody has put it: another one that tries, or one before who may not remove it.
            Err(RepoError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                // Archiving needs no right to remove.
                let _ = self.remove(&key).await;
                Ok(())
            }
        }
    }
}
