//! Where to start to receive: at what is missing here, and never behind it.

use walzip_pgformat::timeline_history::TimelineHistory;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{Lsn, TimelineId};
use walzip_repo::{ClusterIdentity, Repository};

use super::Place;
use crate::cluster;
use crate::error::ArchiveError;
use crate::server::replication::{ServerError, SlotPosition};

/// The server, as a new connection shows it.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) cluster: ClusterIdentity,
    pub(super) segment_size: u32,
    pub(super) timeline: TimelineId,
    /// The end of its WAL.
    pub(super) flushed: Lsn,
    /// It says that it writes WAL, and replays none.
    pub(super) is_primary: bool,
    /// How its timeline came to be; the first one has no history.
    pub(super) history: Option<TimelineHistory>,
}

/// The whole segments that a repository has of a cluster.
pub async fn stored_segments(
    repository: &Repository,
    cluster: ClusterIdentity,
) -> Result<Vec<SegmentName>, ArchiveError> {
    let part = cluster::part_of(repository, cluster, || "the server".to_owned()).await?;
    let listing = part.list_wal().await?;
    let names = listing
        .iter()
        .filter_map(|entry| entry.name.parse::<WalFileName>().ok());
    let segments = names.filter_map(|name| match name {
        WalFileName::Segment(segment) => Some(segment),
        _ => None,
    });
    Ok(segments.collect())
}

impl Server {
    /// The timeline of the byte at a position, on the way to the server's own.
    pub(super) fn timeline_at(&self, position: Lsn) -> TimelineId {
        match &self.history {
            Some(history) => history.timeline_at(position),
            None => self.timeline,
        }
    }

    /// The beginning of the segment that holds a position.
    pub(super) fn segment_start(&self, position: Lsn) -> Lsn {
        Lsn(position.0 - position.0 % u64::from(self.segment_size))
    }

    /// The beginning of what a repository lacks: nothing where it has no WAL on the way to the
    /// server's timeline.
    fn end_of(&self, segments: &[SegmentName]) -> Result<Option<Lsn>, ArchiveError> {
        let mut end = None;
        for segment in segments {
            let range = segment.range(self.segment_size)?;
            let last_byte = Lsn(range.end.0 - 1);
            if self.timeline_at(last_byte) == segment.timeline {
                end = end.max(Some(range.end));
            }
        }
        Ok(end)
    }

    /// Where to start without local WAL: at the slot's segment, or before it where a repository
    /// ends earlier. Without either, at the segment that the server writes.
    pub(super) fn first_place(
        &self,
        slot: Option<SlotPosition>,
        stored: &[Vec<SegmentName>],
    ) -> Result<Place, ArchiveError> {
        let mut ends = Vec::new();
        for segments in stored {
            ends.extend(self.end_of(segments)?);
        }
        if let Some(&end) = ends.iter().max()
            && self.is_primary
            && self.flushed < end
        {
            return Err(self.set_back(&format!("WAL up to {end} is archived")));
        }
        let slot = slot.map(|slot| Place {
            timeline: slot.timeline,
            position: self.segment_start(slot.restart),
        });
        let stored = ends.into_iter().min().map(|position| Place {
            timeline: self.timeline_at(position),
            position,
        });
        Ok(match (slot, stored) {
            (Some(slot), Some(stored)) if stored.position < slot.position => stored,
            (Some(slot), _) => slot,
            (None, Some(stored)) => stored,
            (None, None) => self.present_place(),
        })
    }

    /// The beginning of the segment that the server writes.
    fn present_place(&self) -> Place {
        Place {
            timeline: self.timeline,
            position: self.segment_start(self.flushed),
        }
    }

    /// Where to go on behind a gap: as early as the server surely can.
    pub(super) fn place_behind_gap(&self, slot: Option<SlotPosition>) -> Place {
        match slot {
            Some(slot) => Place {
                timeline: slot.timeline,
                position: self.segment_start(slot.restart),
            },
            None => self.present_place(),
        }
    }

    /// Fails where the server's WAL does not lead through a place.
    pub(super) fn check(&self, place: Place) -> Result<(), ArchiveError> {
        let Place { timeline, position } = place;
        if timeline == self.timeline {
            return Ok(());
        }
        let history = self.history.as_ref();
        match history.and_then(|history| history.switch_of(timeline)) {
            Some(switch) if position <= switch => Ok(()),
            Some(switch) => Err(ArchiveError::Diverged(format!(
                "WAL of timeline {timeline} was received up to {position}, and the server's \
                 timeline {} left it at {switch}",
                self.timeline
            ))),
            None => Err(ArchiveError::Diverged(format!(
                "WAL of timeline {timeline} was received, which is none of the server's, timeline {}",
                self.timeline
            ))),
        }
    }

    /// Fails where the server does not have yet what comes next. A standby may receive it later; a
    /// primary was set back, and would write other WAL there.
    pub(super) fn check_end(&self, place: Place) -> Result<(), ArchiveError> {
        let Place { timeline, position } = place;
        if timeline != self.timeline || position <= self.flushed {
            return Ok(());
        }
        let ends = format!("WAL up to {position} was received");
        match self.is_primary {
            true => Err(self.set_back(&ends)),
            false => {
                let reason = format!("{ends}, and the server's ends at {}", self.flushed);
                Err(ServerError::Behind(reason).into())
            }
        }
    }

    /// Fails where a primary does not have WAL of a segment that was received in part: it was set
    /// back, perhaps to the segment's beginning. A server sends only what it has synced.
    pub(super) fn check_received(
        &self,
        timeline: TimelineId,
        end: Lsn,
    ) -> Result<(), ArchiveError> {
        match timeline == self.timeline && self.is_primary && self.flushed < end {
            true => Err(self.set_back(&format!("WAL up to {end} was received"))),
            false => Ok(()),
        }
    }

    fn set_back(&self, ends: &str) -> ArchiveError {
        ArchiveError::Diverged(format!("{ends}, and the server's ends at {}", self.flushed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u32 = 1 << 20;

    fn segment(timeline: u32, number: u64) -> SegmentName {
        SegmentName::from_number(TimelineId(timeline), number, SIZE).expect("a name")
    }

    fn place(timeline: u32, number: u64) -> Place {
        Place {
            timeline: TimelineId(timeline),
            position: Lsn(number * u64::from(SIZE)),
        }
    }

    /// A server on timeline 2, which left timeline 1 in segment 5.
    fn server() -> Server {
        let history = TimelineHistory::read(TimelineId(2), b"1\t0/580000\tno recovery target\n");
        Server {
            cluster: ClusterIdentity {
                system_id: 7,
                major: 15,
            },
            segment_size: SIZE,
            timeline: TimelineId(2),
            flushed: Lsn(0x91_2345),
            is_primary: true,
            history: Some(history.expect("a history")),
        }
    }

    fn slot(timeline: u32, position: u64) -> Option<SlotPosition> {
        Some(SlotPosition {
            restart: Lsn(position),
            timeline: TimelineId(timeline),
        })
    }

    #[track_caller]
    fn assert_first(slot: Option<SlotPosition>, stored: &[Vec<SegmentName>], expected: Place) {
        let found = server().first_place(slot, stored).expect("valid names");
        assert_eq!(found, expected);
    }

    #[test]
    fn starts_at_the_beginning_of_the_slots_segment() {
        assert_first(slot(2, 0x78_0000), &[], place(2, 7));
        assert_first(
            slot(2, 0x78_0000),
            &[vec![], vec![segment(2, 8)]],
            place(2, 7),
        );
    }

    #[test]
    fn starts_before_the_slot_where_a_repository_would_have_a_hole() {
        let stored = [vec![segment(2, 6)], vec![segment(1, 3), segment(1, 4)]];
        assert_first(slot(2, 0x98_0000), &stored, place(1, 5));
    }

    #[test]
    fn starts_behind_the_newest_stored_segment_on_the_servers_way() {
        // Segment 5 of timeline 1, and what follows it there, is another branch's.
        let stored = [vec![segment(1, 4), segment(1, 5), segment(1, 9)]];
        assert_first(None, &stored, place(1, 5));
        assert_first(None, &[vec![segment(1, 4), segment(2, 5)]], place(2, 6));
    }

    #[test]
    fn starts_at_the_servers_own_segment_where_nothing_says_where() {
        assert_first(None, &[vec![]], place(2, 9));
        assert_first(None, &[vec![segment(1, 9)]], place(2, 9));
    }

    #[test]
    fn what_the_server_does_not_lead_through_is_refused() {
        let server = server();
        for good in [place(1, 5), place(1, 2), place(2, 5), place(2, 9)] {
            server.check(good).expect("on the way");
        }
        for wrong in [place(1, 6), place(3, 5)] {
            let error = server.check(wrong).expect_err("another way");
            assert!(matches!(error, ArchiveError::Diverged(_)), "{error}");
        }
    }

    #[test]
    fn a_primary_that_has_less_than_was_received_or_archived_was_set_back() {
        let mut server = server();
        for good in [place(2, 9), place(1, 5)] {
            server.check_end(good).expect("there");
        }
        let diverged = |error: ArchiveError| assert!(matches!(error, ArchiveError::Diverged(_)));
        diverged(server.check_end(place(2, 10)).expect_err("set back"));
        let stored = [vec![segment(2, 9)]];
        diverged(
            server
                .first_place(slot(2, 0x78_0000), &stored)
                .expect_err("set back"),
        );

        // At a segment's end, and within a segment.
        for flushed in [Lsn(0x90_0000), Lsn(0x91_2345)] {
            server.flushed = flushed;
            server
                .check_end(place(2, 9))
                .expect("it has what comes next");
            let received = |timeline, end| server.check_received(TimelineId(timeline), end);
            received(2, flushed).expect("as much as it has");
            received(1, Lsn(0x99_0000)).expect("the end of another timeline");
            diverged(received(2, Lsn(flushed.0 + 1)).expect_err("set back"));
        }

        server.is_primary = false;
        server
            .check_received(TimelineId(2), Lsn(0x99_0000))
            .expect("it may receive it");
        let behind = server.check_end(place(2, 10)).expect_err("not yet");
        let is_behind = matches!(&behind, ArchiveError::Server(ServerError::Behind(_)));
        assert!(is_behind, "{behind}");
        let first = server
            .first_place(slot(2, 0x78_0000), &stored)
            .expect("a place");
        assert_eq!(first, place(2, 7));
    }
}
