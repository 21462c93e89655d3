//! A store whose objects are encrypted.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use tokio::sync::OnceCell;

use super::epochs::{EpochKey, Epochs};
use super::key_file::KeyFile;
use super::reading::{self, Sealed};
use super::sealed::{self, Header, Sealer};
use super::upload::SealedUpload;
use crate::error::RepoError;
use crate::layout::KEYS_PREFIX;
use crate::local::content;

type StoreResult<T> = object_store::Result<T>;

/// How many headers are remembered: those of the packs that a restore reads at once.
const HEADERS_MAX: usize = 256;

/// Encrypts what it puts into the store below, and decrypts what it gets out of it. Objects that
/// are not encrypted are refused.
#[derive(Debug)]
pub struct EncryptedStore {
    inner: Arc<dyn ObjectStore>,
    keys: Arc<Keys>,
}

/// The keys that were needed so far.
#[derive(Debug)]
struct Keys {
    epochs: Epochs,
    for_writing: OnceCell<Arc<EpochKey>>,
    known: Mutex<HashMap<u32, Arc<EpochKey>>>,
    headers: Mutex<HashMap<Path, Sealed>>,
}

impl EncryptedStore {
    /// Over a store, with the keys that a key file opens. They are read when they are needed.
    pub fn new(inner: Arc<dyn ObjectStore>, key_file: KeyFile) -> EncryptedStore {
        let epochs = Epochs::new(Arc::clone(&inner), key_file);
        EncryptedStore {
            inner,
            keys: Arc::new(Keys {
                epochs,
                for_writing: OnceCell::new(),
                known: Mutex::default(),
                headers: Mutex::default(),
            }),
        }
    }

    /// The epochs of the repository.
    pub fn epochs(&self) -> &Epochs {
        &self.keys.epochs
    }
}

impl fmt::Display for EncryptedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Keys {
    async fn for_writing(&self) -> StoreResult<Arc<EpochKey>> {
        let key = self
            .for_writing
            .get_or_try_init(async || self.epochs.for_writing().await.map(Arc::new));
        key.await.cloned().map_err(key_failed)
    }

    async fn of_epoch(&self, epoch: u32) -> StoreResult<Arc<EpochKey>> {
        let known = |keys: &Self| lock(&keys.known).get(&epoch).cloned();
        if let Some(key) = known(self) {
            return Ok(key);
        }
        let key = Arc::new(self.epochs.key(epoch).await.map_err(key_failed)?);
        lock(&self.known).insert(epoch, Arc::clone(&key));
        Ok(key)
    }

    /// Makes ready to decrypt an object.
    async fn sealer(&self, location: &Path, header: Header) -> StoreResult<Sealer> {
        let key = self.of_epoch(header.epoch()).await?;
        Sealer::open(&key, location.as_ref(), header).map_err(object_store::Error::from)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key_failed(error: RepoError) -> object_store::Error {
    object_store::Error::Generic {
        store: "encryption",
        source: Box::new(error),
    }
}

/// Objects below `keys/` are for their recipients only, and are as they are.
fn is_plain(location: &Path) -> bool {
    location
        .parts()
        .next()
        .is_some_and(|first| first.as_ref() == KEYS_PREFIX)
}

/// What an object is for who does not see the encryption. One of a length that no encrypted object
/// has is shown as it is: who reads it will learn what is wrong.
fn plain_meta(mut meta: ObjectMeta) -> ObjectMeta {
    if !is_plain(&meta.location) {
        meta.size = sealed::content_len(meta.size).unwrap_or(meta.size);
    }
    meta
}

#[async_trait]
impl ObjectStore for EncryptedStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> StoreResult<PutResult> {
        if is_plain(location) {
            return self.inner.put_opts(location, payload, options).await;
        }
        let key = self.keys.for_writing().await?;
        let content = bytes::Bytes::from(payload);
        let object = sealed::seal_whole(&key, location.as_ref(), &content)?;
        self.inner.put_opts(location, object.into(), options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        if is_plain(location) {
            return self.inner.put_multipart_opts(location, options).await;
        }
        let key = self.keys.for_writing().await?;
        let sealer = Sealer::new(&key, location.as_ref())?;
        let inner = self.inner.put_multipart_opts(location, options).await?;
        Ok(Box::new(SealedUpload::new(inner, sealer)))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> StoreResult<GetResult> {
        if is_plain(location) {
            return self.inner.get_opts(location, options).await;
        }
        if options.head {
            let mut found = self.inner.get_opts(location, options).await?;
            found.meta = plain_meta(found.meta);
            found.range = 0..found.meta.size;
            return Ok(found);
        }
        match &options.range {
            None => self.get_whole(location, options).await,
            Some(_) => self.get_range(location, options).await,
        }
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.inner.list(prefix).map_ok(plain_meta).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        let mut listing = self.inner.list_with_delimiter(prefix).await?;
        listing.objects = listing.objects.into_iter().map(plain_meta).collect();
        Ok(listing)
    }

    /// An object is encrypted for its name, so a copy is encrypted anew.
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        let mode = match options.mode {
            CopyMode::Overwrite => PutMode::Overwrite,
            CopyMode::Create => PutMode::Create,
        };
        let content = self.get_opts(from, GetOptions::default()).await?;
        let content = content.bytes().await?;
        let put = self.put_opts(to, content.into(), PutOptions::from(mode));
        put.await.map(drop)
    }
}

impl EncryptedStore {
    /// Gets an object from its beginning to its end, in one request.
    async fn get_whole(&self, location: &Path, options: GetOptions) -> StoreResult<GetResult> {
        let found = self.inner.get_opts(location, options).await?;
        let (meta, attributes, extensions) = (
            found.meta.clone(),
            found.attributes.clone(),
            found.extensions.clone(),
        );
        let mut pieces = reading::Pieces::new(content(found));
        let header = pieces.header().await?;
        let sealer = self.keys.sealer(location, header).await?;
        let size = sealed::content_len(meta.size)?;
        let content = reading::whole(pieces, sealer, size);
        Ok(GetResult {
            payload: GetResultPayload::Stream(content),
            meta: ObjectMeta { size, ..meta },
            range: 0..size,
            attributes,
            extensions,
        })
    }

    /// Gets a part of an object, in one request where its header is known.
    async fn get_range(&self, location: &Path, mut options: GetOptions) -> StoreResult<GetResult> {
        let Some(wanted) = options.range.take() else {
            return self.get_whole(location, options).await;
        };
        let known = lock(&self.keys.headers).get(location).copied();
        let sealed = match known {
            Some(sealed) => sealed,
            None => {
                let sealed = Sealed::look(self.inner.as_ref(), location).await?;
                let mut headers = lock(&self.keys.headers);
                if headers.len() >= HEADERS_MAX {
                    headers.clear();
                }
                headers.insert(location.clone(), sealed);
                sealed
            }
        };
        let sealer = self.keys.sealer(location, sealed.header).await?;
        let wanted =
            wanted
                .as_range(sealed.content_len)
                .map_err(|source| object_store::Error::Generic {
                    store: "encryption",
                    source: Box::new(source),
                })?;
        let pieces = sealed.pieces_of(&wanted);
        options.range = Some(pieces.in_object.clone().into());
        let found = self.inner.get_opts(location, options).await?;
        let meta = plain_meta(found.meta.clone());
        let (attributes, extensions) = (found.attributes.clone(), found.extensions.clone());
        let object = found.bytes().await?;
        let content = sealed.part(&sealer, &pieces, &wanted, object)?;
        Ok(GetResult {
            payload: GetResultPayload::Stream(futures::stream::iter([Ok(content)]).boxed()),
            meta,
            range: wanted,
            attributes,
            extensions,
        })
    }
}
