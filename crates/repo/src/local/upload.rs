//! An object that arrives in parts, in a temporary file until it is complete.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::FutureExt;
use object_store::path::Path;
use object_store::{MultipartUpload, PutPayload, PutResult, UploadPart};

use super::disk::RealDisk;
use super::durable::Staged;
use super::{StoreDirectory, StoreResult, store_error};
use crate::as_files::put_result;

#[derive(Debug)]
pub(crate) struct LocalUpload {
    key: Path,
    file: PathBuf,
    directory: Arc<StoreDirectory>,
    state: Arc<Mutex<State>>,
    sent_bytes: u64,
}

#[derive(Debug)]
struct State {
    /// Gone once the upload was completed or given up.
    staged: Option<Staged<RealDisk>>,
    written_bytes: u64,
}

impl LocalUpload {
    pub(super) fn new(
        key: Path,
        file: PathBuf,
        directory: Arc<StoreDirectory>,
        staged: Staged<RealDisk>,
    ) -> Self {
        Self {
            key,
            file,
            directory,
            state: Arc::new(Mutex::new(State {
                staged: Some(staged),
                written_bytes: 0,
            })),
            sent_bytes: 0,
        }
    }
}

#[async_trait]
impl MultipartUpload for LocalUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let mut offset = self.sent_bytes;
        self.sent_bytes += data.content_length() as u64;
        let state = Arc::clone(&self.state);
        let key = self.key.clone();
        async move {
            tokio::task::spawn_blocking(move || {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                for bytes in &data {
                    let staged = state.staged.as_ref().ok_or_else(|| given_up(&key))?;
                    staged
                        .write_at(offset, bytes)
                        .map_err(|error| store_error(&key, error))?;
                    offset += bytes.len() as u64;
                    state.written_bytes += bytes.len() as u64;
                }
                Ok(())
            })
            .await?
        }
        .boxed()
    }

    async fn complete(&mut self) -> StoreResult<PutResult> {
        let state = Arc::clone(&self.state);
        let directory = Arc::clone(&self.directory);
        let (key, file, sent_bytes) = (self.key.clone(), self.file.clone(), self.sent_bytes);
        tokio::task::spawn_blocking(move || {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let staged = state.staged.take().ok_or_else(|| given_up(&key))?;
            if state.written_bytes != sent_bytes {
                return Err(object_store::Error::Generic {
                    store: super::STORE,
                    source: format!(
                        "{} of {sent_bytes} bytes of {key} were written",
                        state.written_bytes
                    )
                    .into(),
                });
            }
            directory
                .publish(staged, &file)
                .map_err(|error| store_error(&key, error))?;
            Ok(put_result())
        })
        .await?
    }

    async fn abort(&mut self) -> StoreResult<()> {
        let state = Arc::clone(&self.state);
        tokio::task::spawn_blocking(move || {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            drop(state.staged.take());
        })
        .await?;
        Ok(())
    }
}

fn given_up(key: &Path) -> object_store::Error {
    object_store::Error::Generic {
        store: super::STORE,
        source: format!("the upload of {key} has ended").into(),
    }
}
