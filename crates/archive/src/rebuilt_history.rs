//! A timeline's history, made of that of a later timeline or of its WAL: where the archive has lost it, and no server
//! has it any more.

use std::path::Path;

use walzip_pgformat::wal::{PageHeader, TimedRecord};
use walzip_pgformat::wal_file_name::WalFileName;
use walzip_pgformat::{Lsn, PAGE_SIZE, TimelineId};
use walzip_repo::{Repository, WalEntry};

use crate::archived::archived_wal::ArchivedWal;
use crate::archived::branches::readable;
use crate::archived::own_history::REBUILT;
use crate::archived::stored_wal::StoredWal;
use crate::archived::timelines::{self, FIRST_TIMELINE, Timelines};
use crate::archived::wal_index;
use crate::archived::wal_times::SegmentTimes;
use crate::error::ArchiveError;
use crate::push::{PushOptions, WalFile};

/// A history, as PostgreSQL would have written it, but for the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebuiltHistory {
    /// The timeline.
    pub timeline: TimelineId,
    /// The name of the file.
    pub name: String,
    /// Its content.
    pub content: Vec<u8>,
    /// The timeline that it left.
    pub parent: TimelineId,
    /// Where it left that.
    pub switch: Lsn,
}

/// Makes the history of a timeline. One that followed it has the same lines, and one more; but the follower may be another
/// server's, which had taken the same number. Where the first segment is archived, it tells, or the history is made of
/// that and of the history of the timeline which it left.
pub async fn rebuild_history(
    repository: &Repository,
    timeline: TimelineId,
) -> Result<RebuiltHistory, ArchiveError> {
    let refuse = |reason: String| Err(ArchiveError::Request(reason));
    let name = WalFileName::History(timeline).to_string();
    if repository.find_wal(&name).await?.is_some() {
        return refuse(format!(
            "{name} is in the archive; one that is damaged has to be removed first: \"walzip verify\" \
             names it, \"walzip repo rm KEY --force --confirm\" removes it"
        ));
    }
    let listing = repository.list_wal().await?;
    let size = wal_index::segment_size(repository, &listing).await?;
    let size = size.unwrap_or(wal_index::DEFAULT_SEGMENT_SIZE);
    let wal = ArchivedWal::of(&listing, size);
    let first = wal.numbers_from(timeline, 0).next();
    let first = first.map(|first| wal.name(timeline, first)).transpose()?;
    let times = match first {
        // Where it is damaged, a follower may tell.
        Some(segment) => readable(SegmentTimes::read(repository, segment).await)?,
        None => None,
    };
    let begins = times.as_ref().and_then(|times| times.beginning(timeline));
    let mut followed = of_followers(repository, &listing, timeline).await?;
    followed.retain(|history| begins.is_none_or(|begins| begins.is_right_after(history.switch)));
    match followed.as_slice() {
        [] => {}
        [history] => return Ok(history.clone()),
        [one, other, ..] => {
            return refuse(format!(
                "timelines that followed timeline {timeline} do not agree where it began: at {} or at {}. Two servers have \
                 taken the number; push the history from pg_wal of the one that is meant",
                one.switch, other.switch
            ));
        }
    }
    let Some(segment) = first else {
        return refuse(format!("the archive has no WAL of timeline {timeline}"));
    };
    let Some((lsn, parent)) = begins.and_then(|timed| Some((timed.lsn, parent_of(&timed.record)?)))
    else {
        return refuse(format!(
            "{segment}, the first archived segment of timeline {timeline}, does not say where the \
             timeline began"
        ));
    };
    let mut content = history_of(repository, parent).await?;
    let switch = end_before(lsn, size);
    refuse_before_parent((timeline, switch), (parent, &content))?;
    content.extend_from_slice(format!("{parent}\t{switch}\t{REBUILT}\n").as_bytes());
    Ok(RebuiltHistory {
        timeline,
        name,
        content,
        parent,
        switch,
    })
}

/// Refuses to let a timeline leave its parent before that began: the parent was another server's.
fn refuse_before_parent(
    (timeline, switch): (TimelineId, Lsn),
    (parent, history): (TimelineId, &[u8]),
) -> Result<(), ArchiveError> {
    let name = WalFileName::History(parent).to_string();
    let history = timelines::read_history(&name, parent, history)?;
    match history.ancestors.last() {
        Some(last) if switch <= last.switch => Err(ArchiveError::Request(format!(
            "timeline {timeline} left a timeline {parent} at {switch}, where the one in the archive had not begun: it is \
             another server's. \"walzip timeline set-aside {timeline}\" puts it away"
        ))),
        _ => Ok(()),
    }
}

/// What the histories of timelines that followed this one have of it, each once: PostgreSQL adds a line to the lines of the
/// timeline that it followed (`writeTimeLineHistory`, access/transam/timeline.c, 13 to 18).
async fn of_followers(
    repository: &Repository,
    listing: &[WalEntry],
    timeline: TimelineId,
) -> Result<Vec<RebuiltHistory>, ArchiveError> {
    let timelines = Timelines::read(repository, listing).await;
    let follows = |other: &TimelineId| {
        let history = timelines.history(*other);
        let mut ancestors = history.into_iter().flat_map(|history| &history.ancestors);
        ancestors.any(|ancestor| ancestor.timeline == timeline)
    };
    let mut known: Vec<RebuiltHistory> = Vec::new();
    for follower in timelines.known().filter(follows) {
        let content = history_of(repository, follower).await?;
        let Some(lines) = lines_before(&content, timeline) else {
            continue;
        };
        let history = from_lines(timeline, lines)?;
        let is_same = |other: &RebuiltHistory| {
            (other.parent, other.switch) == (history.parent, history.switch)
        };
        if !known.iter().any(is_same) {
            known.push(history);
        }
    }
    Ok(known)
}

/// The lines before that of a timeline, without the empty line that PostgreSQL puts between two.
fn lines_before(content: &[u8], timeline: TimelineId) -> Option<Vec<u8>> {
    let number = timeline.to_string();
    let mut end = 0;
    for line in content.split_inclusive(|&byte| byte == b'\n') {
        let mut fields = line.split(|byte| byte.is_ascii_whitespace());
        if fields.find(|field| !field.is_empty()) == Some(number.as_bytes()) {
            let before = content.get(..end)?;
            return Some(match before.strip_suffix(b"\n\n") {
                Some(lines) => [lines, b"\n"].concat(),
                None => before.to_vec(),
            });
        }
        end += line.len();
    }
    None
}

fn from_lines(timeline: TimelineId, content: Vec<u8>) -> Result<RebuiltHistory, ArchiveError> {
    let name = WalFileName::History(timeline).to_string();
    let history = timelines::read_history(&name, timeline, &content)?;
    let Some(parent) = history.ancestors.last() else {
        return Err(ArchiveError::Request(format!(
            "timeline {timeline} left no other: it has no history"
        )));
    };
    Ok(RebuiltHistory {
        timeline,
        name,
        parent: parent.timeline,
        switch: parent.switch,
        content,
    })
}

impl RebuiltHistory {
    /// Archives it. The beginning of its timeline may have expired.
    pub async fn archive(&self, repository: &Repository) -> Result<(), ArchiveError> {
        let options = PushOptions::default();
        self.file().archive_in_doubt(repository, &options).await?;
        Ok(())
    }

    /// Fails where it would not be archived.
    pub async fn check(&self, repository: &Repository) -> Result<(), ArchiveError> {
        self.file().check_in_doubt(repository).await
    }

    fn file(&self) -> WalFile {
        let name = WalFileName::History(self.timeline);
        WalFile::unpacked(Path::new(&self.name), name, self.content.clone())
    }
}

fn parent_of(record: &TimedRecord) -> Option<TimelineId> {
    match record {
        TimedRecord::Checkpoint {
            previous_timeline, ..
        } => Some(*previous_timeline),
        _ => None,
    }
}

/// The lines of the history of a timeline, each with its end.
async fn history_of(
    repository: &Repository,
    timeline: TimelineId,
) -> Result<Vec<u8>, ArchiveError> {
    if timeline <= FIRST_TIMELINE {
        return Ok(Vec::new());
    }
    let name = WalFileName::History(timeline).to_string();
    let Some(stored) = StoredWal::get(repository, &name).await? else {
        return Err(ArchiveError::Request(format!(
            "it left timeline {timeline}, whose history is lost too: rebuild that one first"
        )));
    };
    let mut content = stored.content(&name).await?;
    if !content.is_empty() && !content.ends_with(b"\n") {
        content.push(b'\n');
    }
    Ok(content)
}

/// The position behind the record before, which a page header may separate from this one.
fn end_before(record: Lsn, segment_size_bytes: u32) -> Lsn {
    let header_len = match record.0 % u64::from(segment_size_bytes) < PAGE_SIZE as u64 {
        true => PageHeader::LONG_LEN,
        false => PageHeader::SHORT_LEN,
    };
    match record.0 % PAGE_SIZE as u64 == header_len as u64 {
        true => Lsn(record.0 - header_len as u64),
        false => record,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_timeline_leaves_its_parent_before_that_began() {
        let history = b"1\t0/500\tx\n";
        let refused = |parent, history, switch| {
            let own = (TimelineId(3), Lsn(switch));
            refuse_before_parent(own, (TimelineId(parent), history)).is_err()
        };
        assert!(refused(2, &history[..], 0x300));
        assert!(refused(2, &history[..], 0x500));
        assert!(!refused(2, &history[..], 0x900));
        assert!(!refused(1, b"", 0x300));
    }

    #[test]
    fn the_lines_of_a_timeline_are_those_before_its_own_in_a_later_history() {
        let later = b"1\t0/500\tno recovery target specified\n\n2\t0/900\tx 2\n\n12\t0/A00\tx\n";
        let before = |timeline| lines_before(later, TimelineId(timeline));
        let second = b"1\t0/500\tno recovery target specified\n";
        assert_eq!(before(2).as_deref(), Some(&second[..]));
        assert_eq!(before(12).as_deref(), later.get(..later.len() - 12));
        assert_eq!(before(1).as_deref(), Some(&b""[..]));
        assert_eq!(before(3), None);
    }

    #[test]
    fn a_timeline_begins_before_the_header_of_its_first_page() {
        let size = 1 << 20;
        for (record, expected) in [
            (0x30_0028, 0x30_0000),
            (0x30_2018, 0x30_2000),
            (0x30_2028, 0x30_2028),
            (0x30_0018, 0x30_0018),
            (0x30_2100, 0x30_2100),
        ] {
            assert_eq!(end_before(Lsn(record), size), Lsn(expected));
        }
    }
}
