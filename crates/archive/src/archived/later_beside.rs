//! What the histories beside a segment say of it, in the directory of a server or a copy of one.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use walzip_pgformat::TimelineId;
use walzip_pgformat::timeline_history::TimelineHistory;
use walzip_pgformat::wal::SegmentHeader;
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};

use crate::archived::shared_segment::SharedSegment;
use crate::archived::stable_file::StableFile;

/// The timelines that left that of a segment within it, as the histories beside it say. What is no segment, and what was
/// unpacked, has none.
pub(crate) fn left_in(name: &str, file: &StableFile) -> impl Iterator<Item = SharedSegment> {
    let segment = match name.parse() {
        Ok(WalFileName::Segment(segment) | WalFileName::Partial(segment)) => Some(segment),
        _ => None,
    };
    let size = SegmentHeader::read(file.beginning()).map(|header| header.segment_size);
    let known = segment.zip(size.ok()).filter(|_| file.opened().is_some());
    let histories = known.map(|known| (known, histories_beside(file.path())));
    let of = |((segment, size), histories): ((SegmentName, u32), Vec<TimelineHistory>)| {
        let shared = histories.into_iter().flat_map(move |history| {
            let first = SegmentName {
                timeline: history.timeline,
                ..segment
            };
            SharedSegment::all(first, size, &history)
        });
        shared.filter(move |shared| shared.parent == segment.timeline)
    };
    histories.into_iter().flat_map(of)
}

/// A timeline with which the server has gone on, of which WAL lies beside a segment, and that left the segment's before its end:
/// then what is needed of the segment has the later timeline's name too. A history alone shows nothing: an old primary may be
/// given that of the new one.
pub(crate) fn gone_on_with(path: &Path, segment: SegmentName, size: u32) -> Option<TimelineId> {
    let end = segment.range(size).ok()?.end;
    let names = names_beside(path);
    let parsed = names.iter().filter_map(|name| name.to_str()?.parse().ok());
    let with_wal: Vec<TimelineId> = parsed
        .filter_map(|name| match name {
            WalFileName::Segment(of) => Some(of.timeline),
            _ => None,
        })
        .collect();
    let left = |history: &TimelineHistory| {
        let at = history.switch_of(segment.timeline);
        at.is_some_and(|at| at < end) && with_wal.contains(&history.timeline)
    };
    let found = histories_beside(path).into_iter().find(left);
    found.map(|history| history.timeline)
}

/// Whether a segment's timeline begins in it, as its history beside it says; nothing where that is not there, or says nothing.
pub(crate) fn begins_in(path: &Path, segment: SegmentName, size: u32) -> Option<bool> {
    let name = WalFileName::History(segment.timeline).to_string();
    let content = fs::read(path.with_file_name(name)).ok()?;
    let history = TimelineHistory::read(segment.timeline, &content).ok()?;
    let is_known = !history.ancestors.is_empty();
    is_known.then(|| !SharedSegment::all(segment, size, &history).is_empty())
}

/// The histories in the directory of a file.
fn histories_beside(path: &Path) -> Vec<TimelineHistory> {
    let read = |name: OsString| {
        let Ok(WalFileName::History(timeline)) = name.to_str()?.parse() else {
            return None;
        };
        TimelineHistory::read(timeline, &fs::read(path.with_file_name(name)).ok()?).ok()
    };
    names_beside(path).into_iter().filter_map(read).collect()
}

fn names_beside(path: &Path) -> Vec<OsString> {
    let directory = path.parent().filter(|of| !of.as_os_str().is_empty());
    let Ok(entries) = fs::read_dir(directory.unwrap_or(Path::new("."))) else {
        return Vec::new();
    };
    entries.flatten().map(|entry| entry.file_name()).collect()
}
