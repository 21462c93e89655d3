//! A store on another host, asked again until it answers, and not for ever.
//!
//! Clients repeat what they know to be harmless. What is left to this store:
//!
//! * A create whose answer was lost is repeated, and may then meet its own object: the caller
//!   is told that the name is taken, and compares.
//! * S3 answers 409 to a create when another one of the same name is in progress. That may fail
//!   still, so that only an object that is there counts as taking the name.
//! * A body that breaks off or stalls is continued where it broke off, and one that ends early is
//!   an error in any case.
//! * Each operation has an end, however often and however slowly the other side answers.

mod misunderstood;

use std::error::Error as StdError;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::client::HttpError;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result, UploadPart,
};
use tokio::time::{Instant, sleep, timeout_at};

use self::misunderstood::misunderstood;
use crate::as_files;
use crate::last_failure::LastFailure;
use crate::sftp::SftpError;

/// The pause before the first repetition; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// An operation has a second more for each so many bytes: 256 KiB/s is a slow line.
const BYTES_PER_SECOND: u64 = 256 << 10;
/// An operation that takes this long is reported, and others in this time are not.
const REPORTED_EVERY: Duration = Duration::from_secs(10);
/// So many objects are removed within one time limit, in one request where the store can.
const DELETED_AT_ONCE: usize = 100;

/// A store that has patience with another one.
#[derive(Clone)]
pub(crate) struct PatientStore {
    inner: Arc<dyn ObjectStore>,
    location: String,
    patience: Duration,
    delays: Arc<Delays>,
}

impl PatientStore {
    /// `failures` has what the client's own repetitions fail of.
    pub(crate) fn new(
        inner: Arc<dyn ObjectStore>,
        location: String,
        patience: Duration,
        failures: LastFailure,
    ) -> Self {
        Self {
            inner,
            delays: Arc::new(Delays {
                location: location.clone(),
                reported: Mutex::default(),
                failures,
            }),
            location,
            patience,
        }
    }

    fn deadline(&self, bytes: u64) -> Deadline {
        self.deadline_in(self.patience, bytes)
    }

    /// The end of an operation on so many bytes that has this time besides.
    fn deadline_in(&self, patience: Duration, bytes: u64) -> Deadline {
        let transfer = Duration::from_secs(bytes / BYTES_PER_SECOND);
        let (now, patience) = (Instant::now(), patience + transfer);
        Deadline {
            end: now + patience,
            patience,
            pause: PAUSE_MIN,
            last: None,
            reported_from: now + REPORTED_EVERY + transfer,
            delays: Arc::clone(&self.delays),
        }
    }

    /// Repeats what fails for the moment.
    async fn repeat<'a, T>(
        &self,
        mut attempt: impl FnMut() -> BoxFuture<'a, Result<T>> + Send,
    ) -> Result<T> {
        let mut deadline = self.deadline(0);
        loop {
            match deadline.limit(attempt()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => deadline.wait_after(error).await?,
            }
        }
    }

    async fn create(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let mut deadline = self.deadline(payload.content_length() as u64);
        loop {
            let put = self
                .inner
                .put_opts(location, payload.clone(), options.clone());
            match deadline.limit(put).await {
                Err(conflict) if is_conflict(&conflict) => {
                    match deadline.limit(self.inner.head(location)).await {
                        Ok(_) => return Err(conflict),
                        Err(Error::NotFound { .. }) => deadline.wait_for_end_of(conflict).await?,
                        Err(error) => deadline.wait_after(error).await?,
                    }
                }
                Err(error) => deadline.wait_after(error).await?,
                created => return created,
            }
        }
    }
}

impl fmt::Display for PatientStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.location)
    }
}

impl fmt::Debug for PatientStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PatientStore({})", self.location)
    }
}

/// Reports that a store lets its users wait. Of the operations at one time, one is reported.
struct Delays {
    location: String,
    reported: Mutex<Option<Instant>>,
    failures: LastFailure,
}

impl Delays {
    fn report(&self, reason: &dyn fmt::Display, left: Duration) {
        let now = Instant::now();
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.is_some_and(|last| now.duration_since(last) < REPORTED_EVERY) {
            return;
        }
        *reported = Some(now);
        let (location, left) = (&self.location, left.as_secs());
        tracing::warn!("{location}: {reason}; trying for {left} s more");
    }
}

/// When an operation ends, whatever it has come to.
struct Deadline {
    end: Instant,
    patience: Duration,
    pause: Duration,
    last: Option<Error>,
    /// From then on a delay is reported.
    reported_from: Instant,
    delays: Arc<Delays>,
}

/// Says that an operation has used up its time.
#[derive(Debug, thiserror::Error)]
#[error("no success within {} seconds{}", .patience.as_secs(), if .last.is_some() { ", at last" } else { "" })]
struct OutOfTime {
    patience: Duration,
    #[source]
    last: Option<Error>,
}

impl Deadline {
    async fn limit<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut work = pin!(work);
        let reported_at = self.reported_from.max(Instant::now() + REPORTED_EVERY);
        match timeout_at(reported_at.min(self.end), &mut work).await {
            Ok(outcome) => return outcome,
            Err(_) => self.report(&self.delays.failures.last_or("no answer")),
        }
        match timeout_at(self.end, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.out_of_time()),
        }
    }

    fn report(&self, reason: &dyn fmt::Display) {
        let now = Instant::now();
        if self.reported_from <= now && now < self.end {
            self.delays.report(reason, self.end - now);
        }
    }

    /// Pauses after a failure that may pass, as long as there is time.
    async fn wait_after(&mut self, error: Error) -> Result<()> {
        match is_transient(&error) {
            true => self.wait(error).await,
            false => Err(misunderstood(error, &self.delays.location)),
        }
    }

    async fn wait(&mut self, error: Error) -> Result<()> {
        if Instant::now() + self.pause >= self.end {
            return Err(error);
        }
        tracing::info!("{error}; trying again");
        self.report(&error);
        self.last = Some(error);
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }

    /// The same after a create that met another one. One that lasts is not to be taken for an object that is there.
    async fn wait_for_end_of(&mut self, conflict: Error) -> Result<()> {
        let waited = self.wait(conflict).await;
        waited.map_err(|conflict| {
            self.last = Some(conflict);
            self.out_of_time()
        })
    }

    fn out_of_time(&mut self) -> Error {
        generic(OutOfTime {
            patience: self.patience,
            last: self.last.take(),
        })
    }
}

fn generic(source: impl StdError + Send + Sync + 'static) -> Error {
    Error::Generic {
        store: "repository",
        source: Box::new(source),
    }
}

/// Removes objects. Where there are several, one that is not there counts as removed: an earlier attempt may have
/// removed it.
fn delete_all<'a>(store: &'a Arc<dyn ObjectStore>, keys: &'a [Path]) -> BoxFuture<'a, Result<()>> {
    if let [one] = keys {
        return async move { store.delete(one).await }.boxed();
    }
    let keys: Vec<_> = keys.iter().cloned().map(Ok).collect();
    let mut removed = store.delete_stream(futures::stream::iter(keys).boxed());
    async move {
        while let Some(outcome) = removed.next().await {
            match outcome {
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
    .boxed()
}

/// Whether a create met another one in progress, rather than an object.
fn is_conflict(error: &Error) -> bool {
    match error {
        // A condition that did not hold is wrapped once more by some clients, and not by others.
        Error::AlreadyExists { source, .. } => {
            source.downcast_ref::<Error>().is_none() && source.to_string().contains("409 Conflict")
        }
        _ => false,
    }
}

/// Whether a failure is one of the way to the store.
fn is_transient(error: &Error) -> bool {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(current) = next {
        if current.is::<OutOfTime>() {
            return false;
        }
        if current.is::<HttpError>() || current.is::<BrokenOff>() {
            return true;
        }
        if let Some(error) = current.downcast_ref::<SftpError>() {
            return error.is_transient();
        }
        next = current.source();
    }
    false
}

#[async_trait]
impl ObjectStore for PatientStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.create(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let begin = || self.inner.put_multipart_opts(location, opts.clone());
        Ok(Box::new(PatientUpload {
            inner: self.repeat(begin).await?,
            store: self.clone(),
            location: location.clone(),
            sent_bytes: 0,
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let get = || self.inner.get_opts(location, options.clone());
        let found = self.repeat(get).await?;
        if options.head || !matches!(found.payload, GetResultPayload::Stream(_)) {
            return Ok(found);
        }
        let (meta, range) = (found.meta.clone(), found.range.clone());
        let (attributes, extensions) = (found.attributes.clone(), found.extensions.clone());
        let patience = self
            .deadline(range.end.saturating_sub(range.start))
            .patience;
        let body = Body {
            store: self.clone(),
            meta: meta.clone(),
            next: range.start,
            end: range.end,
            patience,
            left: patience,
            stream: found.into_stream(),
        };
        Ok(GetResult {
            payload: GetResultPayload::Stream(body.into_stream()),
            meta,
            range,
            attributes,
            extensions,
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let delete = move |chunk: Vec<Path>| {
            let store = store.clone();
            async move {
                store.repeat(|| delete_all(&store.inner, &chunk)).await?;
                Ok(futures::stream::iter(chunk.into_iter().map(Ok)))
            }
        };
        let chunks = locations.try_chunks(DELETED_AT_ONCE);
        let chunks = chunks.map_err(|error| error.1);
        chunks.and_then(delete).try_flatten().boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let listing = Listing {
            store: self.clone(),
            prefix: prefix.cloned(),
            last: None,
            stream: self.inner.list(prefix),
        };
        listing.into_stream()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.repeat(|| self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        as_files::copy(self, from, to, options).await?;
        Ok(())
    }
}

/// A body ended before its end.
#[derive(Debug, thiserror::Error)]
#[error("the object's body ended {missing_bytes} bytes early")]
struct BrokenOff {
    missing_bytes: u64,
}

/// The rest of an object's bytes.
struct Body {
    store: PatientStore,
    meta: ObjectMeta,
    next: u64,
    end: u64,
    /// How long the store may be waited for, in all.
    patience: Duration,
    /// How long it may still be waited for. The time that the receiver takes for itself
    /// does not count.
    left: Duration,
    stream: BoxStream<'static, Result<Bytes>>,
}

impl Body {
    fn into_stream(self) -> BoxStream<'static, Result<Bytes>> {
        let pieces = futures::stream::try_unfold(self, |mut body| async move {
            let mut deadline = body.store.deadline_in(body.left, 0);
            deadline.patience = body.patience;
            let piece = body.piece(&mut deadline).await?;
            body.left = deadline.end.saturating_duration_since(Instant::now());
            Ok(piece.map(|piece| (piece, body)))
        });
        pieces.boxed()
    }

    async fn piece(&mut self, deadline: &mut Deadline) -> Result<Option<Bytes>> {
        loop {
            let next = self.stream.next();
            let piece = deadline.limit(async { next.await.transpose() }).await;
            let error = match piece {
                Ok(Some(bytes)) => {
                    self.next = self.next.saturating_add(bytes.len() as u64);
                    return Ok(Some(bytes));
                }
                Ok(None) if self.next >= self.end => return Ok(None),
                Ok(None) => generic(BrokenOff {
                    missing_bytes: self.end - self.next,
                }),
                Err(error) => error,
            };
            deadline.wait_after(error).await?;
            self.reopen(deadline).await?;
        }
    }

    /// Goes on where the body broke off, if it is the same object.
    async fn reopen(&mut self, deadline: &mut Deadline) -> Result<()> {
        loop {
            let options = GetOptions {
                range: Some(GetRange::Bounded(self.next..self.end)),
                ..GetOptions::default()
            };
            let get = self.store.inner.get_opts(&self.meta.location, options);
            match deadline.limit(get).await {
                Ok(found) => {
                    let is_same =
                        found.meta.size == self.meta.size && found.meta.e_tag == self.meta.e_tag;
                    if !is_same {
                        return Err(generic(Replaced));
                    }
                    self.stream = found.into_stream();
                    return Ok(());
                }
                Err(error) => deadline.wait_after(error).await?,
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the object was replaced by another one while it was read")]
struct Replaced;

/// The rest of a listing.
struct Listing {
    store: PatientStore,
    prefix: Option<Path>,
    last: Option<Path>,
    stream: BoxStream<'static, Result<ObjectMeta>>,
}

impl Listing {
    fn into_stream(self) -> BoxStream<'static, Result<ObjectMeta>> {
        let objects = futures::stream::try_unfold(self, |mut listing| async move {
            let found = listing.object().await?;
            Ok(found.map(|found| (found, listing)))
        });
        objects.boxed()
    }

    async fn object(&mut self) -> Result<Option<ObjectMeta>> {
        let mut deadline = self.store.deadline(0);
        loop {
            let next = self.stream.next();
            match deadline.limit(async { next.await.transpose() }).await {
                Ok(found) => {
                    self.last = found.as_ref().map(|found| found.location.clone());
                    return Ok(found);
                }
                Err(error) => deadline.wait_after(error).await?,
            }
            let inner = &self.store.inner;
            self.stream = match &self.last {
                Some(last) => inner.list_with_offset(self.prefix.as_ref(), last),
                None => inner.list(self.prefix.as_ref()),
            };
        }
    }
}

/// An upload whose end may be reported late.
#[derive(Debug)]
struct PatientUpload {
    inner: Box<dyn MultipartUpload>,
    store: PatientStore,
    location: Path,
    sent_bytes: u64,
}

#[async_trait]
impl MultipartUpload for PatientUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let bytes = data.content_length() as u64;
        self.sent_bytes += bytes;
        // The client repeats a part by itself.
        let mut deadline = self.store.deadline(bytes);
        let part = self.inner.put_part(data);
        async move { deadline.limit(part).await }.boxed()
    }

    /// The upload is unknown to the service once it is complete: when the answer was lost, its
    /// repetition fails, and the object says whether it succeeded.
    async fn complete(&mut self) -> Result<PutResult> {
        let mut deadline = self.store.deadline(0);
        let error = match deadline.limit(self.inner.complete()).await {
            Ok(complete) => return Ok(complete),
            Err(error) => error,
        };
        if !is_transient(&error) && !matches!(error, Error::NotFound { .. }) {
            return Err(error);
        }
        match self.store.head(&self.location).await {
            Ok(found) if found.size == self.sent_bytes => Ok(PutResult {
                e_tag: found.e_tag,
                version: found.version,
                extensions: Default::default(),
            }),
            _ => Err(error),
        }
    }

    async fn abort(&mut self) -> Result<()> {
        let mut deadline = self.store.deadline(0);
        deadline.limit(self.inner.abort()).await
    }
}
