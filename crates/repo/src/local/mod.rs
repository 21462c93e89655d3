//! A store on a local or mounted disk.
//!
//! Objects are plain files below one directory, the store's: `wal/.../NAME.wz` is the file
//! of that name. object_store has such a store as well; docs/decisions/ says where it
//! falls short of what an archive must promise.

mod content;
#[cfg(test)]
mod crash;
mod disk;
mod disk_error;
mod durable;
mod listing;
mod misplaced;
mod same_directory;
#[cfg(test)]
mod simulated_disk;
mod sweep;
mod upload;

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Once};

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, TryFutureExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

pub(crate) use content::content;
use disk::RealDisk;
use disk_error::DiskError;
use durable::{Published, Staged, Writer};
pub(crate) use misplaced::Misplaced;
use misplaced::look;
use same_directory::SameDirectory;
use upload::LocalUpload;

use crate::as_files::{self, put_result};

const STORE: &str = "local disk";
type StoreResult<T> = object_store::Result<T>;

/// Asks for a put that makes no directory. A store without directories passes over it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntoExistingDirectory;

/// Objects as files below a directory, durable when a put returns.
///
/// Keys lead only to plain files in plain directories below the store's. Anything else that has
/// a key's place, a symbolic link above all, is refused.
#[derive(Debug)]
pub struct LocalStore {
    directory: Arc<StoreDirectory>,
}

#[derive(Debug)]
struct StoreDirectory {
    path: PathBuf,
    same: SameDirectory,
    writer: Arc<Writer<RealDisk>>,
    swept: Once,
}

impl LocalStore {
    /// A store below this directory, which is created by the first put.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        let path: PathBuf = directory.into();
        // Without a current directory there is nothing that a relative path could mean;
        // the first put says so.
        let path = std::path::absolute(&path).unwrap_or(path);
        Self {
            directory: Arc::new(StoreDirectory {
                same: SameDirectory::new(path.clone()),
                writer: Arc::new(Writer::new(RealDisk, path.clone())),
                path,
                swept: Once::new(),
            }),
        }
    }
}

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.directory.path.display().fmt(f)
    }
}

impl StoreDirectory {
    /// The file of a key, after checking that nothing on the way to it leads elsewhere.
    fn file(&self, key: &Path) -> StoreResult<PathBuf> {
        let levels = self.levels(key)?;
        let Some((object, directories)) = levels.split_last() else {
            return Err(not_a_key(key));
        };
        check_way(object, directories).map_err(|error| store_error(key, error))?;
        Ok(object.clone())
    }

    /// The directories that lead to a key, and what has the key itself.
    fn levels(&self, key: &Path) -> StoreResult<Vec<PathBuf>> {
        let mut path = self.path.clone();
        let mut levels = Vec::new();
        for part in key.parts() {
            let part = part.as_ref();
            if part.is_empty() || part.starts_with('.') || part.contains(['/', '\0']) {
                return Err(not_a_key(key));
            }
            path.push(part);
            levels.push(path.clone());
        }
        Ok(levels)
    }

    /// Makes sure that temporary files come into a directory of this repository, and removes
    /// what processes that were killed left there, once in each process that writes.
    fn prepare_staging(&self) -> Result<(), DiskError> {
        self.same.check()?;
        let staging = self.writer.staging_directory();
        if let Some(metadata) = look(&staging)? {
            Misplaced::check_directory(&staging, &metadata)?;
            self.swept.call_once(|| {
                sweep::sweep(&staging, sweep::abandoned_after(&staging));
            });
        }
        Ok(())
    }

    fn put(
        &self,
        key: &Path,
        payload: &PutPayload,
        options: &PutOptions,
    ) -> StoreResult<PutResult> {
        let file = self.file(key)?;
        let existing_only = options.extensions.get::<IntoExistingDirectory>().is_some();
        if existing_only && !file.parent().is_some_and(FilePath::exists) {
            return Err(object_store::Error::Precondition {
                path: key.to_string(),
                source: "its directory does not exist".into(),
            });
        }
        let in_same_directory = |published: Published| {
            self.same.check()?;
            self.same.learn();
            Ok(published)
        };
        self.prepare_staging()
            .map_err(|error| store_error(key, error))?;
        let content = payload.into_iter().map(|bytes| bytes.as_ref());
        let published = match &options.mode {
            PutMode::Create => self.writer.create(&file, content),
            PutMode::Overwrite => self
                .writer
                .replace(&file, content)
                .map(|()| Published::Created),
            PutMode::Update(_) => return Err(not_supported("a conditional overwrite")),
        };
        let published = published.and_then(in_same_directory);
        match published.map_err(|error| store_error(key, error))? {
            Published::Created => Ok(put_result()),
            Published::Exists => Err(object_store::Error::AlreadyExists {
                path: key.to_string(),
                source: "the name is taken".into(),
            }),
        }
    }

    fn stage(&self) -> Result<Staged<RealDisk>, DiskError> {
        self.prepare_staging()?;
        self.writer.stage()
    }

    fn publish(&self, staged: Staged<RealDisk>, object: &FilePath) -> Result<(), DiskError> {
        self.same.check()?;
        staged.publish_over(object)?;
        self.same.check()
    }

    fn get(&self, key: &Path, options: &GetOptions) -> StoreResult<GetResult> {
        let path = self.file(key)?;
        let open = || -> Result<(File, Metadata), DiskError> {
            let file = disk::open_file(&path).map_err(DiskError::at("open", &path))?;
            let metadata = file.metadata().map_err(DiskError::at("look at", &path))?;
            Misplaced::check_object(&path, &metadata)?;
            self.same.learn();
            Ok((file, metadata))
        };
        let (file, metadata) = open().map_err(|error| store_error(key, error))?;
        let meta = object_meta(key.clone(), &metadata).map_err(|error| store_error(key, error))?;
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => {
                range
                    .as_range(meta.size)
                    .map_err(|source| object_store::Error::Generic {
                        store: STORE,
                        source: Box::new(source),
                    })?
            }
            None => 0..meta.size,
        };
        Ok(GetResult {
            payload: GetResultPayload::File(file, path),
            attributes: Default::default(),
            range,
            meta,
            extensions: Default::default(),
        })
    }

    /// Removes an object, or a directory that has been left without any. Stores without
    /// directories pass over the latter.
    fn delete(&self, key: &Path) -> StoreResult<()> {
        self.same.check().map_err(|error| store_error(key, error))?;
        let levels = self.levels(key)?;
        if let Some((last, above)) = levels.split_last() {
            let way = above.iter().chain([last]);
            let mut found = way.map(|level| look(level));
            let is_directory =
                |found| matches!(found, Ok(Some(metadata)) if Metadata::is_dir(&metadata));
            if found.all(is_directory) {
                return self
                    .writer
                    .remove_directory_if_empty(last)
                    .map_err(|error| store_error(key, error));
            }
        }
        let file = self.file(key)?;
        self.writer
            .remove(&file)
            .map_err(|error| store_error(key, error))
    }
}

#[async_trait]
impl ObjectStore for LocalStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> StoreResult<PutResult> {
        if !opts.attributes.is_empty() {
            return Err(not_supported("an object with attributes"));
        }
        let key = location.clone();
        self.run(move |directory| directory.put(&key, &payload, &opts))
            .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        if !opts.attributes.is_empty() {
            return Err(not_supported("an object with attributes"));
        }
        let key = location.clone();
        let shared = Arc::clone(&self.directory);
        self.run(move |directory| {
            let file = directory.file(&key)?;
            let staged = directory
                .stage()
                .map_err(|error| store_error(&key, error))?;
            Ok(Box::new(LocalUpload::new(key, file, shared, staged)) as Box<dyn MultipartUpload>)
        })
        .await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> StoreResult<GetResult> {
        let key = location.clone();
        self.run(move |directory| directory.get(&key, &options))
            .await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        let directory = Arc::clone(&self.directory);
        locations
            .and_then(move |key| {
                run(Arc::clone(&directory), move |directory| {
                    directory.delete(&key)?;
                    Ok(key)
                })
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        let prefix = prefix.cloned().unwrap_or_default();
        run(Arc::clone(&self.directory), move |directory| {
            let objects = listing::list(&directory.path, &prefix)?;
            Ok(futures::stream::iter(objects).map(Ok))
        })
        .try_flatten_stream()
        .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        let prefix = prefix.cloned().unwrap_or_default();
        self.run(move |directory| listing::list_level(&directory.path, &prefix))
            .await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        as_files::copy(self, from, to, options).await?;
        Ok(())
    }
}

impl LocalStore {
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StoreDirectory) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        run(Arc::clone(&self.directory), work).await
    }
}

/// Does disk work where it may block.
async fn run<T: Send + 'static>(
    directory: Arc<StoreDirectory>,
    work: impl FnOnce(&StoreDirectory) -> StoreResult<T> + Send + 'static,
) -> StoreResult<T> {
    tokio::task::spawn_blocking(move || work(&directory)).await?
}

/// Refuses an object that is there and not a file, and a way to it that is not one of
/// directories. What is missing can be made.
fn check_way(object: &FilePath, directories: &[PathBuf]) -> Result<(), DiskError> {
    for directory in directories {
        match look(directory)? {
            Some(metadata) => Misplaced::check_directory(directory, &metadata)?,
            None => return Ok(()),
        }
    }
    match look(object)? {
        Some(metadata) => Misplaced::check_object(object, &metadata),
        None => Ok(()),
    }
}

fn object_meta(key: Path, metadata: &Metadata) -> Result<ObjectMeta, DiskError> {
    let modified = metadata
        .modified()
        .map_err(DiskError::at("look at", key.as_ref()))?;
    Ok(ObjectMeta {
        location: key,
        last_modified: modified.into(),
        size: metadata.len(),
        // Objects do not change, so the file itself and its size identify the content.
        e_tag: Some(format!("\"{:x}-{:x}\"", metadata.ino(), metadata.len())),
        version: None,
    })
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn store_error(key: &Path, error: DiskError) -> object_store::Error {
    let path = key.to_string();
    match error.source.kind() {
        ErrorKind::NotFound => object_store::Error::NotFound {
            path,
            source: Box::new(error),
        },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            object_store::Error::PermissionDenied {
                path,
                source: Box::new(error),
            }
        }
        _ => object_store::Error::Generic {
            store: STORE,
            source: Box::new(error),
        },
    }
}

fn not_a_key(key: &Path) -> object_store::Error {
    not_supported_because(format!("{key:?} is not a key of this store"))
}

fn not_supported(what: &str) -> object_store::Error {
    not_supported_because(format!("{what} is not supported on a local disk"))
}

fn not_supported_because(reason: String) -> object_store::Error {
    object_store::Error::NotSupported {
        source: reason.into(),
    }
}
