//! An object that arrives in parts, in a temporary file on the server until it is complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use object_store::path::Path;
use object_store::{MultipartUpload, PutPayload, PutResult, UploadPart};
use tokio::time::sleep;

use super::connection::Connection;
use super::error::SftpError;
use super::files::{Named, Stat, parent};
use super::{SftpStore, StoreResult};
use crate::as_files::put_result;

/// The pause before a part is written once more, over a new connection. How often that is done is
/// for the caller's patience to say.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct SftpUpload {
    store: SftpStore,
    key: Path,
    file: String,
    staged: String,
    sent_bytes: u64,
    written_bytes: Arc<AtomicU64>,
}

impl SftpUpload {
    pub(super) fn new(store: SftpStore, key: Path, file: String, staged: String) -> Self {
        Self {
            store,
            key,
            file,
            staged,
            sent_bytes: 0,
            written_bytes: Arc::default(),
        }
    }

    /// Names the file. It was synced with each part.
    async fn publish(&self, connection: &Connection) -> Result<Named, SftpError> {
        let found = connection.look(&self.staged).await?;
        let found = found.map_or(0, |found| Stat::of(&found).size);
        if found != self.sent_bytes {
            return Err(SftpError::Length {
                path: self.staged.clone(),
                found,
                sent: self.sent_bytes,
            });
        }
        connection.look_along(self.store.root(), &self.file).await?;
        connection.create_directories(parent(&self.file)).await?;
        connection.publish(&self.staged, &self.file).await
    }
}

#[async_trait]
impl MultipartUpload for SftpUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let offset = self.sent_bytes;
        let bytes = data.content_length() as u64;
        self.sent_bytes += bytes;
        let (store, staged, key) = (self.store.clone(), self.staged.clone(), self.key.clone());
        let written = Arc::clone(&self.written_bytes);
        let content: Vec<Bytes> = data.into_iter().collect();
        async move {
            loop {
                let (staged, content) = (staged.as_str(), content.as_slice());
                let part = store.with(|connection| async move {
                    connection.write_at(staged, offset, content).await
                });
                match part.await {
                    Ok(()) => break,
                    Err(error) if error.is_transient() => sleep(PAUSE).await,
                    Err(error) => return Err(error.into_store(&key)),
                }
            }
            written.fetch_add(bytes, Ordering::Relaxed);
            Ok(())
        }
        .boxed()
    }

    async fn complete(&mut self) -> StoreResult<PutResult> {
        let written = self.written_bytes.load(Ordering::Relaxed);
        if written != self.sent_bytes {
            let lost = SftpError::Length {
                path: self.staged.clone(),
                found: written,
                sent: self.sent_bytes,
            };
            return Err(lost.into_store(&self.key));
        }
        let this = &*self;
        let done = this.store.with(|connection| async move {
            let named = this.publish(&connection).await?;
            // After a rename there is nothing to remove.
            let _ = connection.remove(&this.staged).await;
            Ok(named)
        });
        match done.await.map_err(|error| error.into_store(&self.key))? {
            Named::Created => Ok(put_result()),
            Named::Exists => Err(object_store::Error::AlreadyExists {
                path: self.key.to_string(),
                source: "the name is taken".into(),
            }),
        }
    }

    async fn abort(&mut self) -> StoreResult<()> {
        let staged = &self.staged;
        let removed = self
            .store
            .with(|connection| async move { connection.remove(staged).await });
        match removed.await {
            Err(error) if !error.is_missing() => Err(error.into_store(&self.key)),
            _ => Ok(()),
        }
    }
}
