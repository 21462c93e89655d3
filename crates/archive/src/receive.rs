//! `receive`: a server's WAL as it is written, into the repositories.
//!
//! Two tiers. WAL is synced in a local directory before the server is told that it is safe, so that
//! a commit can wait for that. A segment that is whole goes from there into the repositories; when
//! all have it, it goes from the local directory. `directory` has the local files, `following` the
//! stream, `upload` the way into the repositories, and `start` the decision where to start.
//!
//! The WAL of a timeline ends where another one left it. The new timeline's history is kept before
//! any of its WAL is, and the old one's last, incomplete segment stays beside it.

mod directory;
mod files;
mod following;
mod pause;
mod segment;
mod spare;
mod start;
mod state;
#[cfg(test)]
mod tests;
mod upload;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{LocalBoxFuture, Shared};
use walzip_pgformat::timeline_history::TimelineHistory;
use walzip_pgformat::wal_file_name::SegmentName;
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::ClusterIdentity;

use crate::error::ArchiveError;
use crate::server::replication::{
    Connection, ConnectionSettings, Mode, NextTimeline, ServerError, SlotName, SlotPosition,
    WalStream, slot_restart,
};
use directory::Directory;
use following::{Followed, Following};
use pause::Pause;
use segment::Expected;
use start::Server;
pub use start::stored_segments;
pub use state::{ReceiveState, receive_state};
use upload::Uploads;

/// The timeline that initdb makes; the only one without a history.
const FIRST_TIMELINE: TimelineId = TimelineId(1);

/// The longest pause before the server is tried again.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How long the end of a stream that we end may take.
const FAREWELL: Duration = Duration::from_secs(5);

/// `undefined_file`: the server has no such segment any more.
const REMOVED: &str = "58P01";

/// `object_not_in_prerequisite_state`: newer servers say so of a slot that has lost its WAL.
const LOST: &str = "55000";

/// Too many connections (utils/errcodes.txt).
const TOO_MANY: &str = "53300";

/// `undefined_object`.
const NO_SLOT: &str = "42704";

/// Where received WAL goes: all repositories.
pub trait Destination {
    /// Puts a file into every repository.
    fn push<'f>(
        &'f self,
        path: &'f Path,
        cluster: ClusterIdentity,
    ) -> LocalBoxFuture<'f, Result<(), PushFailure>>;

    /// A connection begins, which may be to another server: this segment is the first one that it receives.
    fn begin_session(&self, first: SegmentName);

    /// The whole segments that each repository has of a cluster ([`stored_segments`]).
    fn stored(
        &self,
        cluster: ClusterIdentity,
    ) -> LocalBoxFuture<'_, Result<Vec<Vec<SegmentName>>, ArchiveError>>;
}

/// Why a file could not be pushed into every repository.
#[derive(Clone, Debug)]
pub struct PushFailure {
    /// For people.
    pub message: String,
    /// A repository has other content under the name.
    pub is_taken: bool,
}

/// How to receive.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// The slot that keeps the server from removing WAL that is not received.
    pub slot: SlotName,
    /// Make the slot first.
    pub create_slot: bool,
    /// With `create_slot`, take one that is there.
    pub if_not_exists: bool,
    /// Where WAL is synced.
    pub directory: PathBuf,
    /// How often the server is told how far we are, if there is nothing new.
    pub status_interval: Duration,
    /// Connect again when the server goes away.
    pub reconnects: bool,
    /// Where the server has removed WAL, go on behind the gap.
    pub accepts_gap: bool,
}

/// How far it came, by tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// WAL up to here is synced in the local directory.
    pub synced: Option<Lsn>,
    /// Segments up to here are in every repository.
    pub stored: Option<Lsn>,
    /// So many files have yet to be pushed.
    pub waiting: usize,
}

/// A position on a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    timeline: TimelineId,
    position: Lsn,
}

/// Receives until `stop` is there, or something is wrong that does not pass by itself.
pub async fn receive<'s>(
    settings: &ConnectionSettings,
    destination: &dyn Destination,
    options: &ReceiveOptions,
    stop: impl Future<Output = ()> + 's,
) -> Result<Received, ArchiveError> {
    let directory = Directory::open(&options.directory)?;
    let cluster = directory.cluster()?;
    let uploads = Uploads::new(&directory, destination, cluster);
    let receiver = Receiver {
        settings,
        destination,
        options,
        directory: &directory,
        uploads: &uploads,
        cluster: Cell::new(cluster),
        has_slot: Cell::new(!options.create_slot),
        is_behind_gap: Cell::new(false),
        histories: RefCell::default(),
        synced: Cell::new(None),
    };
    let stop = stop.boxed_local().shared();
    tokio::select! {
        ended = receiver.run(&stop) => ended?,
        failed = uploads.run() => failed?,
    }
    Ok(Received {
        synced: receiver.synced.get(),
        stored: uploads.stored(),
        waiting: uploads.waiting()?.len(),
    })
}

/// Asks again how far the server is: what was archived since it was asked ends after that.
async fn look_again(connection: &mut Connection, server: &mut Server) -> Result<(), ArchiveError> {
    let now = connection.identify_system().await?;
    if now.timeline == server.timeline {
        server.flushed = now.flushed;
    }
    Ok(())
}

type Stop<'s> = Shared<LocalBoxFuture<'s, ()>>;

struct Receiver<'r> {
    settings: &'r ConnectionSettings,
    destination: &'r dyn Destination,
    options: &'r ReceiveOptions,
    directory: &'r Directory,
    uploads: &'r Uploads<'r>,
    /// Whose WAL is received, as soon as it is known.
    cluster: Cell<Option<ClusterIdentity>>,
    has_slot: Cell<bool>,
    /// The next connection goes on behind a gap.
    is_behind_gap: Cell<bool>,
    /// Timelines whose histories are kept already.
    histories: RefCell<BTreeSet<TimelineId>>,
    synced: Cell<Option<Lsn>>,
}

impl Receiver<'_> {
    /// One connection after the other.
    async fn run(&self, stop: &Stop<'_>) -> Result<(), ArchiveError> {
        let mut pause = Pause::new(PAUSE_MAX);
        loop {
            let before = self.synced.get();
            let was_behind_gap = self.is_behind_gap.get();
            let Err(error) = self.session(stop).await else {
                return Ok(());
            };
            let is_progress = self.synced.get() != before;
            if is_progress {
                pause.reset();
            }
            let is_removed = matches!(error, ArchiveError::WalRemoved { .. });
            if is_removed && self.options.accepts_gap && (is_progress || !was_behind_gap) {
                tracing::warn!("{error}; going on behind the gap, after which a backup is needed");
                self.is_behind_gap.set(true);
                continue;
            }
            if !self.is_passing(&error) || !self.options.reconnects {
                self.uploads.finish().await?;
                return Err(error);
            }
            let wait = pause.next();
            let why = match error.is_full() {
                true => ": there is no room until the repositories have taken what waits",
                false => "",
            };
            tracing::warn!("{error}{why}; trying again in {} s", wait.as_secs());
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stop.clone() => return Ok(()),
            }
        }
    }

    /// Whether the next attempt may succeed.
    fn is_passing(&self, error: &ArchiveError) -> bool {
        match error {
            ArchiveError::Server(error) => error.is_passing(),
            // What waits goes when the repositories have it.
            error if error.is_full() => {
                let waiting = self.uploads.waiting();
                waiting.is_ok_and(|waiting| !waiting.is_empty())
            }
            // After a failover the slot has to be made on the new server.
            ArchiveError::NoSlot { source, .. } if source.sqlstate() == Some(NO_SLOT) => {
                self.options.if_not_exists && self.has_slot.replace(false)
            }
            _ => false,
        }
    }

    /// One connection, through all timelines.
    async fn session(&self, stop: &Stop<'_>) -> Result<(), ArchiveError> {
        let begun = tokio::select! {
            biased;
            () = stop.clone() => return Ok(()),
            begun = self.begin() => begun?,
        };
        let (mut connection, server, mut place) = begun;
        let expected = Expected {
            cluster: server.cluster,
            segment_size: server.segment_size,
        };
        loop {
            tracing::info!(
                "receiving from {} on timeline {}",
                place.position,
                place.timeline
            );
            let end = server.flushed;
            let streamed = self.stream(&mut connection, expected, place, end, stop);
            let streamed = streamed.await;
            let next = match streamed.map_err(|error| self.explain(error, place, &server))? {
                Some(next) => next,
                None => {
                    connection.close().await;
                    return Ok(());
                }
            };
            place = self.switch(&mut connection, &server, place, next).await?;
        }
    }

    /// Connects, and finds out where to start.
    async fn begin(&self) -> Result<(Connection, Server, Place), ArchiveError> {
        let mut connection = Connection::open(self.settings, Mode::Replication).await?;
        let mut server = self.inspect(&mut connection).await?;
        // A server before 14 does not say which it is; a standby may follow later.
        if server.is_primary {
            self.directory.check_not_left(server.timeline)?;
        }
        if !self.has_slot.get() {
            let (slot, may_exist) = (&self.options.slot, self.options.if_not_exists);
            connection.create_slot(slot, may_exist).await?;
            self.has_slot.set(true);
        }
        let archives = connection.archives().await?;
        self.uploads
            .set_server(server.cluster, server.segment_size, !archives);
        let place = self.place(&mut connection, &mut server).await?;
        server.check(place)?;
        self.keep_history(&mut connection, place.timeline).await?;
        server.check_end(place)?;
        let size = server.segment_size;
        if let Some(end) = self.directory.received_end(place, size)? {
            server.check_received(place.timeline, end)?;
            self.warn_of_lost_commits(&server, place, end)?;
        }
        let current = SegmentName::from_lsn(place.timeline, place.position, size)?;
        self.directory.leave_others(Some(current))?;
        self.destination.begin_session(current);
        Ok((connection, server, place))
    }

    /// A server that was promoted may lack what was received of its primary, and acknowledged.
    fn warn_of_lost_commits(
        &self,
        server: &Server,
        place: Place,
        end: Lsn,
    ) -> Result<(), ArchiveError> {
        let history = server.history.as_ref();
        let switch = history.and_then(|history| history.switch_of(place.timeline));
        let Some(switch) = switch.filter(|&switch| switch < end) else {
            return Ok(());
        };
        let commits = self
            .directory
            .commits_from(place, server.segment_size, switch)?;
        if commits > 0 {
            let segment =
                SegmentName::from_lsn(place.timeline, place.position, server.segment_size)?;
            tracing::warn!(
                "the server DOES NOT HAVE commits that were received after {switch}, where its timeline {} left \
                 timeline {}: {commits} in {segment}.partial, here and then in the repository; \
                 \"walzip restore --target-timeline {}\" says how to get them back",
                server.timeline,
                place.timeline,
                place.timeline
            );
        }
        Ok(())
    }

    async fn inspect(&self, connection: &mut Connection) -> Result<Server, ArchiveError> {
        let segment_size = connection.segment_size().await?;
        let system = connection.identify_system().await?;
        let cluster = ClusterIdentity {
            system_id: system.system_id.0,
            major: connection.major()?,
        };
        match self.cluster.get() {
            Some(known) if known != cluster => {
                return Err(self.directory.of_another(known, cluster));
            }
            _ => self.cluster.set(Some(cluster)),
        }
        let timeline = system.timeline;
        let mut history = None;
        if timeline > FIRST_TIMELINE {
            let content = connection.timeline_history(timeline).await?;
            history = Some(read_history(timeline, &content)?);
        }
        Ok(Server {
            cluster,
            segment_size,
            timeline,
            flushed: system.flushed,
            is_primary: connection.is_standby() == Some(false),
            history,
        })
    }

    /// Where to start: what is here says it, or else the slot and the repositories.
    async fn place(
        &self,
        connection: &mut Connection,
        server: &mut Server,
    ) -> Result<Place, ArchiveError> {
        if self.is_behind_gap.replace(false) {
            let slot = self.slot_position(connection, server).await?;
            look_again(connection, server).await?;
            return Ok(server.place_behind_gap(slot));
        }
        if let Some(place) = self.directory.place(server.segment_size)? {
            return Ok(place);
        }
        let slot = self.slot_position(connection, server).await?;
        let stored = self.destination.stored(server.cluster).await?;
        look_again(connection, server).await?;
        server.first_place(slot, &stored)
    }

    /// From where on the slot keeps WAL, if that can be found out.
    async fn slot_position(
        &self,
        connection: &mut Connection,
        server: &Server,
    ) -> Result<Option<SlotPosition>, ArchiveError> {
        let slot = &self.options.slot;
        if connection.can_read_slots()? {
            return Ok(connection.read_slot(slot).await?);
        }
        // A role may be let in for replication only. Then the repositories have to say it.
        match slot_restart(self.settings, slot).await {
            Ok(restart) => Ok(Some(SlotPosition {
                restart,
                timeline: server.timeline_at(restart),
            })),
            // A role's limit of connections does not pass.
            Err(error) if error.is_passing() && error.sqlstate() != Some(TOO_MANY) => {
                Err(error.into())
            }
            Err(error) => {
                tracing::info!("where the slot {slot} is cannot be asked: {error}");
                Ok(None)
            }
        }
    }

    /// Streams one timeline; returns the one that follows, or nothing when it was to stop.
    async fn stream(
        &self,
        connection: &mut Connection,
        expected: Expected,
        place: Place,
        end: Lsn,
        stop: &Stop<'_>,
    ) -> Result<Option<NextTimeline>, ArchiveError> {
        let Place { timeline, position } = place;
        let slot = &self.options.slot;
        let mut stream = WalStream::start(connection, slot, position, timeline).await?;
        let interval = self.options.status_interval;
        let (directory, uploads) = (self.directory, self.uploads);
        let mut following = Following::new(
            directory,
            uploads,
            &mut stream,
            expected,
            interval,
            place,
            end,
        );
        let followed = following.run(std::pin::pin!(stop.clone())).await;
        if followed.is_err() {
            // The server may never send again what has come.
            following.sync().await?;
        }
        let synced = following.synced;
        if synced > position {
            self.synced.set(self.synced.get().max(Some(synced)));
        }
        match followed? {
            Followed::Stopped => {
                // All is safe, whatever the server still says.
                let _ = tokio::time::timeout(FAREWELL, stream.finish()).await;
                Ok(None)
            }
            Followed::TimelineEnded => match stream.finish().await? {
                Some(next) if next.timeline > timeline && next.switch == synced => Ok(Some(next)),
                next => Err(ServerError::Protocol(format!(
                    "timeline {timeline} ended at {synced}, and then comes {next:?}"
                ))
                .into()),
            },
        }
    }

    /// Leaves a timeline for the one that follows. The history is kept before anything else of it,
    /// and the place where to go on is made before the old timeline's segment goes.
    async fn switch(
        &self,
        connection: &mut Connection,
        server: &Server,
        old: Place,
        next: NextTimeline,
    ) -> Result<Place, ArchiveError> {
        tracing::info!(
            "timeline {} ends at {}, where timeline {} begins",
            old.timeline,
            next.switch,
            next.timeline
        );
        let NextTimeline { timeline, switch } = next;
        self.keep_history(connection, timeline).await?;
        let position = server.segment_start(switch);
        let place = Place { timeline, position };
        if position < switch {
            segment::make(self.directory, timeline, position, server.segment_size).await?;
        }
        let current = SegmentName::from_lsn(timeline, position, server.segment_size)?;
        self.directory.leave_others(Some(current))?;
        self.uploads.wake();
        Ok(place)
    }

    /// Keeps the history of a timeline, and those of its ancestors as far as the server has them,
    /// once. For every connection it is compared with the one that is known: under the same
    /// address there may be another server now.
    async fn keep_history(
        &self,
        connection: &mut Connection,
        timeline: TimelineId,
    ) -> Result<(), ArchiveError> {
        if timeline == FIRST_TIMELINE {
            return Ok(());
        }
        let content = connection.timeline_history(timeline).await?;
        let history = read_history(timeline, &content)?;
        self.directory.check_history(timeline, &content)?;
        let is_kept = |timeline| self.histories.borrow().contains(&timeline);
        if is_kept(timeline) {
            return Ok(());
        }
        for ancestor in history.ancestors {
            let ancestor = ancestor.timeline;
            if ancestor == FIRST_TIMELINE || is_kept(ancestor) {
                continue;
            }
            match connection.timeline_history(ancestor).await {
                Ok(content) => self.write_history(ancestor, &content)?,
                Err(ServerError::Sql(error)) => {
                    tracing::debug!("the history of timeline {ancestor}: {error}");
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.write_history(timeline, &content)
    }

    fn write_history(&self, timeline: TimelineId, content: &[u8]) -> Result<(), ArchiveError> {
        self.directory.write_history(timeline, content)?;
        self.histories.borrow_mut().insert(timeline);
        self.uploads.wake();
        Ok(())
    }

    /// Names the WAL that the server has removed, and the slot that it does not give.
    fn explain(&self, error: ArchiveError, place: Place, server: &Server) -> ArchiveError {
        let ArchiveError::Server(source) = error else {
            return error;
        };
        match source.sqlstate() {
            Some(REMOVED) => {
                let Place { timeline, position } = place;
                // What was synced since is not missing.
                let position = self.synced.get().unwrap_or_default().max(position);
                match SegmentName::from_lsn(timeline, position, server.segment_size) {
                    Ok(segment) => ArchiveError::WalRemoved {
                        segment: segment.to_string(),
                        source: source.into(),
                    },
                    Err(error) => error.into(),
                }
            }
            Some(LOST | NO_SLOT) => ArchiveError::NoSlot {
                slot: self.options.slot.to_string(),
                source: source.into(),
            },
            _ => source.into(),
        }
    }
}

fn read_history(timeline: TimelineId, content: &[u8]) -> Result<TimelineHistory, ArchiveError> {
    TimelineHistory::read(timeline, content).map_err(|error| {
        let reason = format!("the history of timeline {timeline}: {error}");
        ServerError::Protocol(reason).into()
    })
}
