//! The worker behind `archive-get`: fetches the segments that a recovery will ask for next.
//!
//! It follows the position that the calls record. It fetches the segments after it on the same
//! timeline, several at a time, until so many are there that more would only take room. Where one is
//! not in the archive, or cannot be fetched, it waits for the next call. Where the position goes back,
//! it waits for one that follows: pg_rewind asks backwards. What a call does not find it
//! fetches itself, so whatever happens here costs time and nothing else.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};

use crate::error::ArchiveError;
use crate::spool::{GetSpool, Position};

/// How often it looks for the position.
const TICK: Duration = Duration::from_millis(5);

/// How the worker works.
#[derive(Clone, Debug)]
pub struct GetAheadOptions {
    /// How many segments it fetches at a time.
    pub process_max: usize,
    /// How many bytes may lie ready.
    pub bytes_max: u64,
    /// It ends when no call came for so long.
    pub idle: Duration,
}

/// Fetches a segment to a path, and says whether the archive has it.
pub type Fetch<'a> = dyn Fn(String, PathBuf) -> LocalBoxFuture<'a, Result<bool, String>> + 'a;

/// Fetches ahead of the calls until no call comes any more, or `stop` is there.
pub async fn get_ahead(
    spool: &GetSpool,
    options: &GetAheadOptions,
    fetch: &Fetch<'_>,
    stop: impl Future<Output = ()>,
) -> Result<(), ArchiveError> {
    // What a call has left for the next ones stays.
    spool.clear_fetching();
    let ended = follow(spool, options, fetch, stop).await;
    spool.clear();
    ended
}

/// Fetches segments that follow upon the position, one after the other: as many as are asked for, or
/// have so many bytes. The decoder of a pack is there already, and would be gone with this process.
/// Says how many there are now; nothing where a worker does so.
pub async fn fetch_following(
    spool: &GetSpool,
    following: usize,
    bytes_max: u64,
    fetch: &Fetch<'_>,
) -> Result<Option<usize>, ArchiveError> {
    let Some(_lock) = spool.try_lock()? else {
        return Ok(None);
    };
    let options = GetAheadOptions {
        process_max: 1,
        bytes_max,
        idle: Duration::ZERO,
    };
    let mut fetched = 0;
    for name in window(spool.position(), &options)
        .into_iter()
        .take(following)
    {
        let path = spool.begin(&name)?;
        if !finish(spool, &name, fetch(name.clone(), path).await)? {
            break;
        }
        fetched += 1;
    }
    Ok(Some(fetched))
}

async fn follow(
    spool: &GetSpool,
    options: &GetAheadOptions,
    fetch: &Fetch<'_>,
    stop: impl Future<Output = ()>,
) -> Result<(), ArchiveError> {
    let mut running = FuturesUnordered::new();
    let mut fetching = BTreeSet::new();
    let mut position = None;
    let mut missing: Option<String> = None;
    let mut is_at_end = false;
    let mut is_in_order = true;
    let mut is_ending = false;
    let mut last_call = Instant::now();
    let mut alive = spool.alive();
    let mut stop = std::pin::pin!(stop.fuse());
    loop {
        alive.show();
        is_ending |= !spool.are_settings_wanted()
            || !spool.is_of_same_cluster()
            || last_call.elapsed() > options.idle;
        let now = spool.position();
        if now != position {
            is_in_order = position.is_none_or(|last| follows(last, now, options));
            (position, last_call, is_at_end) = (now, Instant::now(), false);
        }
        let window = window(now, options);
        let ahead = spool.keep(|name| window.iter().any(|wanted| wanted == name));
        let is_missing = |name: &&String| !ahead.contains(name) && !fetching.contains(*name);
        // Where the archive ended when it was last asked, one is enough to see whether it goes on.
        missing = missing.filter(|missing| window.contains(missing));
        let process_max = match missing {
            Some(_) => 1,
            None => options.process_max.max(1),
        };
        let room = process_max.saturating_sub(fetching.len());
        let next: Vec<String> = window
            .iter()
            .filter(is_missing)
            .take(room)
            .cloned()
            .collect();
        let fetches = is_in_order && !is_at_end && !is_ending;
        for name in next.into_iter().filter(|_| fetches) {
            let path = spool.begin(&name)?;
            fetching.insert(name.clone());
            running.push(fetch(name.clone(), path).map(move |fetched| (name, fetched)));
        }
        if is_ending && running.is_empty() {
            return Ok(());
        }
        tokio::select! {
            Some((name, fetched)) = running.next() => {
                fetching.remove(&name);
                match finish(spool, &name, fetched)? {
                    true => missing = None,
                    false => (missing, is_at_end) = (Some(name), true),
                }
            }
            () = tokio::time::sleep(TICK) => {}
            () = &mut stop => is_ending = true,
        }
    }
}

/// The segments that should lie ready.
fn window(position: Option<Position>, options: &GetAheadOptions) -> Vec<String> {
    let following = position
        .into_iter()
        .flat_map(|last| ahead_of(last, options));
    following.map(Position::name).collect()
}

/// What may lie ready after a segment was given out.
fn ahead_of(last: Position, options: &GetAheadOptions) -> impl Iterator<Item = Position> {
    let count = options.bytes_max / u64::from(last.segment_size.max(1));
    let following = std::iter::successors(last.next(), |position| position.next());
    following.take(count.max(1) as usize)
}

/// Whether calls went on from one position to another.
fn follows(last: Position, now: Option<Position>, options: &GetAheadOptions) -> bool {
    ahead_of(last, options).any(|position| Some(position) == now)
}

/// Keeps what was fetched. Says whether to go on: not beyond the end of the archive, and not after
/// a failure, which the call that needs the segment will meet and tell.
fn finish(
    spool: &GetSpool,
    name: &str,
    fetched: Result<bool, String>,
) -> Result<bool, ArchiveError> {
    match fetched {
        // What was fetched for another cluster is not this one's.
        Ok(true) if spool.is_of_same_cluster() => {
            spool.finish(name)?;
            return Ok(true);
        }
        Ok(_) => tracing::debug!("{name} is not in the archive"),
        Err(why) => tracing::warn!("{name} cannot be fetched ahead: {why}"),
    }
    spool.abandon(name);
    Ok(false)
}
