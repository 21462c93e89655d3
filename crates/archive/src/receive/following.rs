//! One timeline's stream into segments, up to its end or until it is to stop.
//!
//! The server is told of a position as synced only after that. It is told at once: commits wait
//! for it.

use std::pin::Pin;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use walzip_pgformat::{Lsn, TimelineId};

use super::Place;
use super::directory::Directory;
use super::segment::{Expected, OpenSegment};
use super::spare::Spare;
use super::upload::Uploads;
use crate::error::ArchiveError;
use crate::server::replication::{ServerError, StreamPart, WalStream};

/// Data that is there is written together before it is synced, so much at most.
const SYNC_BYTES: u64 = 1 << 20;

/// A server that says nothing for so long is asked whether it is there.
const QUIET: Duration = Duration::from_secs(30);
/// After so long, the connection is given up.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Followed {
    /// It was asked to.
    Stopped,
    /// The timeline has no more WAL.
    TimelineEnded,
}

/// A stream that is written down.
pub(super) struct Following<'f, 'c> {
    directory: &'f Directory,
    uploads: &'f Uploads<'f>,
    stream: &'f mut WalStream<'c>,
    expected: Expected,
    status_interval: Duration,
    timeline: TimelineId,
    /// The position after the last byte that was written.
    written: Lsn,
    /// And the one after the last byte that was synced.
    pub(super) synced: Lsn,
    /// What of that the server was told.
    reported: Lsn,
    /// Whether the server has the WAL from the beginning on, so far as there is any.
    is_proven: bool,
    segment: Option<OpenSegment>,
    /// A file for the next segment.
    spare: Spare,
}

impl<'f, 'c> Following<'f, 'c> {
    /// Begins at a segment's beginning. Nothing is reported before the server has sent something: a
    /// report moves the slot, and would move it to where the server may have removed the WAL. If
    /// its WAL ends at the beginning, there is nothing to send.
    pub(super) fn new(
        directory: &'f Directory,
        uploads: &'f Uploads<'f>,
        stream: &'f mut WalStream<'c>,
        expected: Expected,
        status_interval: Duration,
        place: Place,
        server_end: Lsn,
    ) -> Following<'f, 'c> {
        Following {
            directory,
            uploads,
            stream,
            expected,
            status_interval,
            timeline: place.timeline,
            written: place.position,
            synced: place.position,
            reported: place.position,
            is_proven: place.position >= server_end,
            segment: None,
            spare: Spare::default(),
        }
    }

    /// Writes down what comes.
    pub(super) async fn run(
        &mut self,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Followed, ArchiveError> {
        self.report(false).await?;
        let mut last_status = Instant::now();
        let mut last_heard = Instant::now();
        let mut is_asked = false;
        loop {
            let quiet_until = last_heard + if is_asked { SILENCE_MAX } else { QUIET };
            let wake = quiet_until.min(last_status + self.status_interval);
            let part = tokio::select! {
                biased;
                () = stop.as_mut() => {
                    self.sync().await?;
                    self.report(false).await?;
                    return Ok(Followed::Stopped);
                }
                part = self.stream.next() => Some(part?),
                () = tokio::time::sleep_until(wake) => None,
            };
            let now = Instant::now();
            let Some(part) = part else {
                if now >= quiet_until && is_asked {
                    return Err(ServerError::Silent(SILENCE_MAX).into());
                }
                is_asked = now >= quiet_until || is_asked;
                self.report(is_asked).await?;
                last_status = now;
                continue;
            };
            (last_heard, is_asked) = (now, false);
            match self.take(part).await? {
                Taken::Ended => return Ok(Followed::TimelineEnded),
                Taken::Reported => last_status = now,
                Taken::Quietly => {}
            }
        }
    }

    /// Takes a part and all that is there already, syncs it and says so.
    async fn take(&mut self, part: StreamPart) -> Result<Taken, ArchiveError> {
        let mut next = Some(part);
        let mut wants_reply = false;
        let mut is_ended = false;
        while let Some(part) = next.take() {
            match part {
                StreamPart::Data { start, bytes } => self.write(start, &bytes).await?,
                StreamPart::Keepalive { wants_reply: wants } => wants_reply |= wants,
                StreamPart::End => {
                    is_ended = true;
                    break;
                }
            }
            if self.written.0 - self.synced.0 < SYNC_BYTES {
                next = self.stream.next().now_or_never().transpose()?;
            }
        }
        let is_news = self.written > self.reported || wants_reply || is_ended;
        self.sync().await?;
        if is_news {
            self.report(false).await?;
        }
        Ok(match (is_ended, is_news) {
            (true, _) => Taken::Ended,
            (false, true) => Taken::Reported,
            (false, false) => Taken::Quietly,
        })
    }

    /// Writes bytes, into several segments where they belong to several.
    async fn write(&mut self, start: Lsn, mut bytes: &[u8]) -> Result<(), ArchiveError> {
        if start != self.written {
            let reason = format!("WAL at {start} where {} is to follow", self.written);
            return Err(ServerError::Protocol(reason).into());
        }
        self.is_proven = true;
        while !bytes.is_empty() {
            let segment = match self.segment.take() {
                Some(segment) => segment,
                None => {
                    let (position, size) = (self.written, self.expected.segment_size);
                    self.spare.wait().await;
                    let opened = OpenSegment::open(self.directory, self.timeline, position, size);
                    let segment = opened.await?;
                    self.spare.prepare(self.directory.spare(), size);
                    segment
                }
            };
            let segment = self.segment.insert(segment);
            let room = segment.end().0 - self.written.0;
            let len = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
            let (here, rest) = bytes.split_at(len);
            segment.write(self.written, here, &self.expected)?;
            self.written.0 += here.len() as u64;
            bytes = rest;
            if self.written == segment.end() {
                self.complete().await?;
            }
        }
        Ok(())
    }

    async fn complete(&mut self) -> Result<(), ArchiveError> {
        if let Some(segment) = self.segment.take() {
            let name = segment.name();
            segment.complete(self.directory).await?;
            self.synced = self.written;
            tracing::info!(
                "received {name}: synced in {}",
                self.directory.path().display()
            );
            self.uploads.wake();
        }
        Ok(())
    }

    /// Makes what was written durable.
    pub(super) async fn sync(&mut self) -> Result<(), ArchiveError> {
        if let (Some(segment), true) = (&self.segment, self.written > self.synced) {
            segment.sync().await?;
        }
        self.synced = self.written;
        Ok(())
    }

    async fn report(&mut self, wants_reply: bool) -> Result<(), ArchiveError> {
        let (written, synced) = match self.is_proven {
            true => (self.written, self.synced),
            false => (Lsn(0), Lsn(0)),
        };
        self.stream.report(written, synced, wants_reply).await?;
        self.reported = self.synced;
        Ok(())
    }
}

enum Taken {
    Ended,
    Reported,
    Quietly,
}
