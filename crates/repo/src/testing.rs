//! Stores for tests: one in memory, and one that fails on purpose.
//!
//! A fault is an implementation of the interface, not a mock of it: the repository,
//! and what is built on it, run unchanged over a store that behaves as badly as real
//! ones do. What a disk loses in a power cut is below this interface; the tests of
//! the local store simulate it there.

pub mod gcs;
mod http;
pub mod proxy;
pub mod servers;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

/// An empty store in memory.
pub fn memory_store() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

/// What a [`FaultyStore`] does wrong. The default is nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Decides everything that is left to chance: the same seed and the same calls
    /// give the same faults.
    pub seed: u64,
    /// How many calls of a thousand fail without an effect.
    pub failures_per_1000: u64,
    /// How many calls of a thousand take effect and then fail, as when the answer was
    /// lost on its way.
    pub lost_answers_per_1000: u64,
    /// How many objects of a thousand break off while they are read: half of them with
    /// an error, half by ending early as if they were complete.
    pub broken_reads_per_1000: u64,
    /// Every call with a number divisible by this fails, before or after its effect in
    /// turn.
    pub fail_every: Option<u64>,
    /// The call of this number, the first being 1, fails without an effect.
    pub fail_call: Option<u64>,
    /// The call of this number takes effect and then fails.
    pub lose_answer_of_call: Option<u64>,
    /// The call of this number reads or lists nothing, as if nothing were there.
    pub find_nothing_at_call: Option<u64>,
    /// What the call of this number puts becomes other bytes of the same length.
    pub change_bytes_of_call: Option<u64>,
    /// Each call takes up to this long.
    pub latency_ms_max: u64,
}

/// Why an injected fault says that it failed.
#[derive(Debug, thiserror::Error)]
#[error("injected fault at call {call}, {moment}")]
struct InjectedFault {
    call: u64,
    moment: &'static str,
}

/// A store that passes calls on to another one, and fails as it was told to.
#[derive(Clone, Debug)]
pub struct FaultyStore {
    inner: Arc<dyn ObjectStore>,
    injector: Arc<Injector>,
}

impl FaultyStore {
    /// Wraps a store.
    pub fn new(inner: Arc<dyn ObjectStore>, faults: Faults) -> Self {
        Self {
            inner,
            injector: Arc::new(Injector {
                faults,
                calls: AtomicU64::new(0),
            }),
        }
    }

    /// How many calls there were so far.
    pub fn calls(&self) -> u64 {
        self.injector.calls.load(Ordering::SeqCst)
    }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty {}", self.inner)
    }
}

#[derive(Debug)]
struct Injector {
    faults: Faults,
    calls: AtomicU64,
}

/// What is going to happen to one call.
struct Plan {
    call: u64,
    fails_before: bool,
    fails_after: bool,
    changes_bytes: bool,
    finds_nothing: bool,
    latency: Duration,
    breaks_off: Option<BreaksOff>,
}

#[derive(Clone, Copy)]
enum BreaksOff {
    WithError,
    AsIfComplete,
}

impl Injector {
    fn plan(&self) -> Plan {
        let faults = &self.faults;
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let mut state = faults.seed ^ call.wrapping_mul(0xd134_2543_de82_ef95);
        let mut chance = |below: u64| split_mix(&mut state) % below.max(1);
        let is_turn = faults
            .fail_every
            .is_some_and(|n| n > 0 && call.is_multiple_of(n));
        let turn_is_even = faults
            .fail_every
            .is_some_and(|n| n > 0 && (call / n).is_multiple_of(2));
        Plan {
            call,
            fails_before: chance(1000) < faults.failures_per_1000
                || faults.fail_call == Some(call)
                || (is_turn && !turn_is_even),
            fails_after: chance(1000) < faults.lost_answers_per_1000
                || faults.lose_answer_of_call == Some(call)
                || (is_turn && turn_is_even),
            changes_bytes: faults.change_bytes_of_call == Some(call),
            finds_nothing: faults.find_nothing_at_call == Some(call),
            latency: Duration::from_millis(chance(faults.latency_ms_max + 1)),
            breaks_off: (chance(1000) < faults.broken_reads_per_1000).then(|| match chance(2) {
                0 => BreaksOff::WithError,
                _ => BreaksOff::AsIfComplete,
            }),
        }
    }

    async fn call<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.plan().carry_out(work).await
    }
}

impl Plan {
    fn changed(&self, payload: PutPayload) -> PutPayload {
        if !self.changes_bytes {
            return payload;
        }
        let mut bytes = Vec::from_iter(payload.iter().flatten().copied());
        if let Some(byte) = bytes.last_mut() {
            *byte ^= 1;
        }
        bytes.into()
    }

    /// Does the work, or not, and answers, or not.
    async fn carry_out<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        if !self.latency.is_zero() {
            tokio::time::sleep(self.latency).await;
        }
        if self.fails_before {
            return Err(fault(self.call, "without an effect"));
        }
        let outcome = work.await?;
        if self.fails_after {
            return Err(fault(self.call, "after its effect"));
        }
        Ok(outcome)
    }
}

fn fault(call: u64, moment: &'static str) -> object_store::Error {
    object_store::Error::Generic {
        store: "faulty",
        source: Box::new(InjectedFault { call, moment }),
    }
}

/// SplitMix64.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let plan = self.injector.plan();
        let put = self.inner.put_opts(location, plan.changed(payload), opts);
        plan.carry_out(put).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let begin = self.inner.put_multipart_opts(location, opts);
        let inner = self.injector.call(begin).await?;
        Ok(Box::new(FaultyUpload {
            inner,
            injector: Arc::clone(&self.injector),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let get = self.inner.get_opts(location, options);
        let plan = self.injector.plan();
        let found = plan.carry_out(get).await?;
        if plan.finds_nothing {
            return Err(object_store::Error::NotFound {
                path: location.to_string(),
                source: fault(plan.call, "which finds nothing").into(),
            });
        }
        Ok(match plan.breaks_off {
            Some(how) => break_off(found, how, plan.call),
            None => found,
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (inner, injector) = (Arc::clone(&self.inner), Arc::clone(&self.injector));
        locations
            .and_then(move |location| {
                let (inner, injector) = (Arc::clone(&inner), Arc::clone(&injector));
                async move {
                    let one = futures::stream::once(async { Ok(location) }).boxed();
                    let deleted = inner.delete_stream(one).try_collect::<Vec<_>>();
                    let plan = injector.plan();
                    let mut deleted = plan.carry_out(deleted).await?;
                    deleted
                        .pop()
                        .ok_or_else(|| fault(plan.call, "nothing deleted"))
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let listing = self.inner.list(prefix);
        let injector = Arc::clone(&self.injector);
        let listed = async move {
            let plan = injector.plan();
            let listing = match plan.finds_nothing {
                true => futures::stream::empty().boxed(),
                false => listing,
            };
            plan.carry_out(async { Ok(listing) }).await
        };
        listed.try_flatten_stream().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let listing = self.inner.list_with_delimiter(prefix);
        self.injector.call(listing).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let copy = self.inner.copy_opts(from, to, options);
        self.injector.call(copy).await
    }
}

/// Lets an object end after half of its bytes.
fn break_off(found: GetResult, how: BreaksOff, call: u64) -> GetResult {
    let (meta, range) = (found.meta.clone(), found.range.clone());
    let (attributes, extensions) = (found.attributes.clone(), found.extensions.clone());
    let left = (range.end - range.start) / 2;
    let first_half = found.into_stream().scan(left, |left, bytes| {
        let bytes = bytes.map(|bytes: Bytes| {
            let taken = (*left).min(bytes.len() as u64);
            *left -= taken;
            // Not above the length of `bytes`, which is a usize.
            bytes.slice(..taken as usize)
        });
        let is_over = matches!(&bytes, Ok(bytes) if bytes.is_empty());
        futures::future::ready((!is_over).then_some(bytes))
    });
    let stream = match how {
        BreaksOff::AsIfComplete => first_half.boxed(),
        BreaksOff::WithError => first_half
            .chain(futures::stream::once(async move {
                Err(fault(call, "while it was read"))
            }))
            .boxed(),
    };
    GetResult {
        payload: GetResultPayload::Stream(stream),
        meta,
        range,
        attributes,
        extensions,
    }
}

#[derive(Debug)]
struct FaultyUpload {
    inner: Box<dyn MultipartUpload>,
    injector: Arc<Injector>,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let plan = self.injector.plan();
        let part = self.inner.put_part(plan.changed(data));
        async move { plan.carry_out(part).await }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let complete = self.inner.complete();
        self.injector.call(complete).await
    }

    async fn abort(&mut self) -> Result<()> {
        let abort = self.inner.abort();
        self.injector.call(abort).await
    }
}
