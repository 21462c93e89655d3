//! A store on a server that is reached by SFTP.
//!
//! Objects are plain files below one directory, with the guarantees of the local store as far as
//! the server can be asked for them (`files`). The connection is made with the first operation,
//! kept, and made again when it was lost.

mod connection;
mod error;
mod files;
mod host_key;
mod upload;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryFutureExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use tokio::sync::Mutex;

use crate::as_files::{child, is_object_name, put_result};
use crate::local::IntoExistingDirectory;
use crate::location::SftpLocation;
use crate::store_settings::StoreSettings;
use connection::Connection;
pub(crate) use error::SftpError;
use files::{Kind, Named, Reader, STAGING, Stat, parent, unique_name};
use upload::SftpUpload;

const STORE: &str = "SFTP";
type StoreResult<T> = object_store::Result<T>;

/// Objects as files on another host.
#[derive(Clone)]
pub(crate) struct SftpStore(Arc<Inner>);

struct Inner {
    location: SftpLocation,
    settings: StoreSettings,
    connection: Mutex<Option<Arc<Connection>>>,
    is_swept: AtomicBool,
    /// Temporary files that could not be removed, since the connection was lost.
    left: std::sync::Mutex<Vec<String>>,
}

impl fmt::Display for SftpStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::location::Location::Sftp(self.0.location.clone()).fmt(f)
    }
}

impl fmt::Debug for SftpStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SftpStore({self})")
    }
}

impl SftpStore {
    pub(crate) fn new(location: &SftpLocation, settings: &StoreSettings) -> Self {
        Self(Arc::new(Inner {
            location: location.clone(),
            settings: settings.clone(),
            connection: Mutex::new(None),
            is_swept: AtomicBool::new(false),
            left: std::sync::Mutex::default(),
        }))
    }

    async fn connection(&self) -> Result<Arc<Connection>, SftpError> {
        let mut kept = self.0.connection.lock().await;
        if let Some(connection) = kept.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(Arc::clone(connection));
        }
        *kept = None;
        let opened = Connection::open(&self.0.location, &self.0.settings).await?;
        Ok(Arc::clone(kept.insert(Arc::new(opened))))
    }

    /// Does not use a connection again that failed.
    async fn forget(&self, connection: &Arc<Connection>) {
        let mut kept = self.0.connection.lock().await;
        if kept
            .as_ref()
            .is_some_and(|kept| Arc::ptr_eq(kept, connection))
        {
            *kept = None;
        }
    }

    /// Does something over the connection, which is given up if it fails.
    async fn with<T, F: Future<Output = Result<T, SftpError>>>(
        &self,
        work: impl FnOnce(Arc<Connection>) -> F,
    ) -> Result<T, SftpError> {
        let connection = self.connection().await?;
        let work = work(Arc::clone(&connection));
        let done = connection.unless_closed(work).await;
        if done.as_ref().is_err_and(SftpError::is_transient) {
            self.forget(&connection).await;
        }
        done
    }

    fn root(&self) -> &str {
        &self.0.location.path
    }

    fn staging(&self) -> String {
        format!("{}/{STAGING}", self.root())
    }

    /// The file of a key.
    fn file(&self, key: &Path) -> StoreResult<String> {
        let mut file = self.root().to_owned();
        let mut parts = 0;
        for part in key.parts() {
            let part = part.as_ref();
            if part.is_empty() || part.starts_with('.') || part.contains(['/', '\0']) {
                return Err(not_supported(format!("{key:?} is not a key of this store")));
            }
            file.push('/');
            file.push_str(part);
            parts += 1;
        }
        match parts {
            0 => Err(not_supported("an empty key".to_owned())),
            _ => Ok(file),
        }
    }

    async fn create(
        &self,
        file: &str,
        content: &[Bytes],
        existing_only: bool,
    ) -> Result<Option<Named>, SftpError> {
        let staged = format!("{}/{}", self.staging(), unique_name());
        let is_begun = AtomicBool::new(false);
        let names = (file, staged.as_str());
        let created = self.create_as(names, content, existing_only, &is_begun);
        let created = created.await;
        if is_begun.into_inner() && created.as_ref().is_err_and(SftpError::is_transient) {
            self.left().push(staged);
        }
        created
    }

    async fn create_as(
        &self,
        (file, staged): (&str, &str),
        content: &[Bytes],
        existing_only: bool,
        is_begun: &AtomicBool,
    ) -> Result<Option<Named>, SftpError> {
        self.with(|connection| async move {
            let along = connection.look_along(self.root(), file).await?;
            let mut levels = along.iter().rev();
            if let Some((path, Some(found))) = levels.next() {
                if Kind::of(found) != Kind::File {
                    let (path, found) = (path.clone(), "a directory, not a file");
                    return Err(SftpError::Misplaced {
                        path,
                        found,
                        is_object: true,
                    });
                }
                return connection.confirm(file).await.map(Some);
            }
            let has_directory = levels.next().is_none_or(|(_, found)| found.is_some());
            if existing_only && !has_directory {
                return Ok(None);
            }
            self.remove_left(&connection).await?;
            is_begun.store(true, Ordering::Relaxed);
            let is_alone = !has_directory || along.len() < 2;
            let named = async {
                self.write_staged(&connection, staged, content).await?;
                if is_alone {
                    connection.create_directories(parent(file)).await?;
                }
                connection.publish(staged, file).await
            };
            let named = named.await;
            // After a rename there is nothing to remove.
            let _ = connection.remove(staged).await;
            named.map(Some)
        })
        .await
    }

    /// Removes what was left when the connection was lost, and what others left.
    async fn remove_left(&self, connection: &Connection) -> Result<(), SftpError> {
        let take = || self.left().pop();
        let mut has_left = false;
        while let Some(staged) = take() {
            has_left = true;
            match connection.remove(&staged).await {
                Err(error) if error.is_transient() => {
                    self.left().push(staged);
                    return Err(error);
                }
                // It was not made, or is removed by a sweep.
                _ => {}
            }
        }
        match has_left {
            true => self.sweep_once(connection).await,
            false => Ok(()),
        }
    }

    fn left(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a temporary file; the directory is made when it turns out to be missing.
    async fn write_staged(
        &self,
        connection: &Connection,
        staged: &str,
        content: &[Bytes],
    ) -> Result<(), SftpError> {
        match connection.write_new(staged, content).await {
            Err(error) if error.is_missing() => {
                connection.create_directories(&self.staging()).await?;
                connection.write_new(staged, content).await
            }
            written => written,
        }
    }

    async fn sweep_once(&self, connection: &Connection) -> Result<(), SftpError> {
        if self.0.is_swept.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        match connection.sweep(&self.staging()).await {
            // A full disk, perhaps, which what is to be removed makes room on.
            Err(error) if !error.is_transient() => Ok(()),
            swept => swept,
        }
    }

    async fn level(&self, prefix: &Path) -> Result<ListResult, SftpError> {
        let mut directory = self.root().to_owned();
        for part in prefix.parts() {
            directory.push('/');
            directory.push_str(part.as_ref());
        }
        let mut level = ListResult {
            common_prefixes: Vec::new(),
            objects: Vec::new(),
            extensions: Default::default(),
        };
        if prefix.parts().any(|part| part.as_ref().starts_with('.')) {
            return Ok(level);
        }
        let names = self.with(|connection| async move {
            let along = connection.look_along(self.root(), &directory).await?;
            match along.last() {
                Some((_, None)) => Ok(Vec::new()),
                Some((path, Some(found))) if Kind::of(found) == Kind::File => {
                    let (path, found) = (path.clone(), "a file, not a directory");
                    Err(SftpError::Misplaced {
                        path,
                        found,
                        is_object: false,
                    })
                }
                _ => connection.names(&directory).await,
            }
        });
        for (name, attributes) in names.await? {
            let Some(key) = child(prefix, &name) else {
                continue;
            };
            match Kind::of(&attributes) {
                Kind::Directory if !is_object_name(&name) => level.common_prefixes.push(key),
                // Of what is no file its reader says so.
                _ => level.objects.push(object_meta(key, Stat::of(&attributes))),
            }
        }
        level.common_prefixes.sort();
        level.objects.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(level)
    }

    async fn list_all(&self, prefix: Path) -> StoreResult<Vec<ObjectMeta>> {
        let mut objects = Vec::new();
        let mut open = vec![prefix];
        while let Some(directory) = open.pop() {
            let level = self.level(&directory).await;
            let level = level.map_err(|error| error.into_store(&directory))?;
            objects.extend(level.objects);
            open.extend(level.common_prefixes);
        }
        objects.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(objects)
    }
}

#[async_trait]
impl ObjectStore for SftpStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> StoreResult<PutResult> {
        // Nothing in a repository is replaced, and SFTP has no way to do so at once everywhere.
        if !matches!(opts.mode, PutMode::Create | PutMode::Overwrite) {
            return Err(not_supported("a conditional overwrite".to_owned()));
        }
        let file = self.file(location)?;
        let existing_only = opts.extensions.get::<IntoExistingDirectory>().is_some();
        let content: Vec<Bytes> = payload.into_iter().collect();
        let named = self.create(&file, &content, existing_only).await;
        match (
            named.map_err(|error| error.into_store(location))?,
            &opts.mode,
        ) {
            (Some(Named::Created), _) => Ok(put_result()),
            (Some(Named::Exists), _) => Err(object_store::Error::AlreadyExists {
                path: location.to_string(),
                source: "the name is taken".into(),
            }),
            (None, _) => Err(object_store::Error::Precondition {
                path: location.to_string(),
                source: "its directory does not exist".into(),
            }),
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        _opts: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        let file = self.file(location)?;
        let staged = format!("{}/{}", self.staging(), unique_name());
        let begin = self.with(|connection| {
            let staged = staged.clone();
            async move {
                self.write_staged(&connection, &staged, &[]).await?;
                self.sweep_once(&connection).await
            }
        });
        begin.await.map_err(|error| error.into_store(location))?;
        let upload = SftpUpload::new(self.clone(), location.clone(), file, staged);
        Ok(Box::new(upload))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> StoreResult<GetResult> {
        let file = self.file(location)?;
        let opened = self.with(|connection| async move {
            let along = connection.look_along(self.root(), &file).await?;
            match along.last() {
                Some((path, Some(found))) if Kind::of(found) == Kind::Directory => {
                    let (path, found) = (path.clone(), "a directory, not a file");
                    Err(SftpError::Misplaced {
                        path,
                        found,
                        is_object: true,
                    })
                }
                _ => Reader::open(connection, file).await,
            }
        });
        let reader = opened.await.map_err(|error| error.into_store(location))?;
        let meta = object_meta(location.clone(), Stat::of(&reader.attributes));
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
        let key = location.clone();
        let pieces = match options.head {
            true => futures::stream::empty().boxed(),
            false => reader.read(range.clone()),
        };
        let pieces = pieces.map_err(move |error| error.into_store(&key));
        Ok(GetResult {
            payload: GetResultPayload::Stream(pieces.boxed()),
            attributes: Default::default(),
            range,
            meta,
            extensions: Default::default(),
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        let store = self.clone();
        let delete = move |key: Path| {
            let store = store.clone();
            async move {
                let file = store.file(&key)?;
                let (store, root, file) = (&store, store.root(), file.as_str());
                let removed = store.with(|connection| async move {
                    // Pushes do not look for what killed ones have left.
                    store.sweep_once(&connection).await?;
                    connection.look_along(root, file).await?;
                    connection.remove_object(file).await
                });
                removed.await.map_err(|error| error.into_store(&key))?;
                Ok(key)
            }
        };
        locations.and_then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned().unwrap_or_default());
        let listed = async move {
            let objects = store.list_all(prefix).await?;
            Ok(futures::stream::iter(objects).map(Ok))
        };
        listed.try_flatten_stream().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        let prefix = prefix.cloned().unwrap_or_default();
        self.level(&prefix)
            .await
            .map_err(|error| error.into_store(&prefix))
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> StoreResult<()> {
        Err(not_supported("a copy".to_owned()))
    }
}

fn object_meta(key: Path, stat: Stat) -> ObjectMeta {
    ObjectMeta {
        location: key,
        last_modified: stat.modified.into(),
        size: stat.size,
        e_tag: None,
        version: None,
    }
}

fn not_supported(what: String) -> object_store::Error {
    object_store::Error::NotSupported {
        source: format!("{what} is not supported by SFTP").into(),
    }
}
