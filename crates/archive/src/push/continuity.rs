//! Whether a segment that is pushed continues what the archive has before it, and is continued by what it has after it.
//!
//! A copy of a server, started without a recovery, has its system identifier and timeline. Where it archives segments that
//! the original has not archived, nothing has their names. What shows it is the segment before: the archive has the
//! original's.

mod forks;

use std::fmt::Display;
use std::fs;
use std::path::Path;

use futures::future::try_join;
use tokio::sync::OnceCell;
use walzip_pgformat::timeline_history::TimelineHistory;
use walzip_pgformat::wal::{Discontinuity, SegmentHeader};
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};
use walzip_pgformat::{PAGE_SIZE, TimelineId};
use walzip_repo::{RepoError, Repository, WalPack};

use crate::archived::comparing::is_in_up_to_switch;
use crate::archived::neighbours::before_branch;
use crate::archived::own_history;
use crate::archived::stable_file::StableFile;
use crate::archived::stored_wal::StoredWal;
use crate::archived::timelines;
use crate::error::ArchiveError;
use crate::packs::is_damage;

/// How many segments are compared to find the first one that differs.
const LOOKED_BACK_MAX: usize = 100;

/// Refuses a segment, whole or partial, where the archive has another server's before it or after it. The one before in the
/// same directory is compared byte for byte; where it is gone, the archived one has to end as this one says. Where timelines
/// part within the segment, each has a copy of what is before: these are compared too, also where the segment before was
/// pushed a moment ago (`is_next`): that says whose it is, and not whose the later timelines are.
pub(crate) async fn check(
    part: &Repository,
    (name, file): (&WalFileName, &StableFile),
    path: &Path,
    is_next: bool,
) -> Result<(), ArchiveError> {
    let (Some(segment), Ok(header)) = (name.segment(), SegmentHeader::read(file.beginning()))
    else {
        return Ok(());
    };
    let pushed = Pushed {
        name: name.to_string(),
        ..Pushed::whole(part, (segment, &header), (file, path))
    };
    let history = pushed.own_history(header.timeline).await?;
    let forks = try_join(
        pushed.check_parents(history.as_ref()),
        pushed.check_children(history.as_ref()),
    );
    if is_next || matches!(name, WalFileName::Partial(_)) {
        return forks.await.map(|_| ());
    }
    let beside = try_join(
        pushed.check_before(history.as_ref()),
        pushed.check_after(segment.next(header.segment_size).ok()),
    );
    try_join(beside, forks).await.map(|_| ())
}

/// Refuses a history where the first segment of its timeline, which lies beside it, does not continue what is archived:
/// PostgreSQL makes that before the history. It may be incomplete yet: what is not there contradicts nothing.
pub(crate) async fn check_history(
    part: &Repository,
    history: &TimelineHistory,
    path: &Path,
) -> Result<(), ArchiveError> {
    let Some((segment, path)) = forks::first_beside(path, history.timeline) else {
        return Ok(());
    };
    let Ok(file) = StableFile::open(&path, PAGE_SIZE as u64).await else {
        return Ok(());
    };
    let Ok(header) = SegmentHeader::read(file.beginning()) else {
        return Ok(());
    };
    let pushed = Pushed::whole(part, (segment, &header), (&file, &path));
    let checks = try_join(
        pushed.check_parents(Some(history)),
        pushed.check_own_before(history),
    );
    match checks.await.map(|_| ()) {
        // It is being recycled.
        Err(ArchiveError::Invalid { .. } | ArchiveError::File { .. }) => Ok(()),
        checked => checked,
    }
}

/// What cannot be read contradicts nothing. Who pushes may not be let read.
fn tolerate(name: &str, checked: Result<(), ArchiveError>) -> Result<(), ArchiveError> {
    match checked {
        Err(error) if is_damage(&error) || is_permission(&error) => {
            tracing::warn!("{name} cannot be compared with what is beside it: {error}");
            Ok(())
        }
        checked => checked,
    }
}

fn is_permission(error: &ArchiveError) -> bool {
    matches!(
        error,
        ArchiveError::Repository(RepoError::Permission { .. })
    )
}

/// A segment that is pushed into a part of a repository.
struct Pushed<'a> {
    part: &'a Repository,
    segment: SegmentName,
    /// The name of the file: the segment's, or that of a part of it.
    name: String,
    size: u32,
    file: &'a StableFile,
    path: &'a Path,
    /// The packs of the segments beside it, which are listed once.
    packs: OnceCell<Vec<WalPack>>,
}

impl<'a> Pushed<'a> {
    /// A segment under its own name.
    fn whole(
        part: &'a Repository,
        (segment, header): (SegmentName, &SegmentHeader),
        (file, path): (&'a StableFile, &'a Path),
    ) -> Pushed<'a> {
        Pushed {
            part,
            segment,
            name: segment.to_string(),
            size: header.segment_size,
            file,
            path,
            packs: OnceCell::new(),
        }
    }

    /// The history of its timeline: the one beside it. Where there is none, that of the archive for a segment which says that
    /// its timeline begins in it: its first page is of another one.
    async fn own_history(
        &self,
        first_page: TimelineId,
    ) -> Result<Option<TimelineHistory>, ArchiveError> {
        let timeline = self.segment.timeline;
        if let Some(beside) = own_history::left_beside(self.path, timeline) {
            let content = fs::read(beside).ok();
            let read = content.and_then(|content| TimelineHistory::read(timeline, &content).ok());
            return Ok(read);
        }
        match first_page == timeline {
            true => Ok(None),
            false => self.archived_history(timeline).await,
        }
    }

    /// The history of a timeline in the archive. What cannot be read is as good as none.
    async fn archived_history(
        &self,
        timeline: TimelineId,
    ) -> Result<Option<TimelineHistory>, ArchiveError> {
        let read = timelines::read_archived(self.part, timeline).await;
        match read {
            Err(error) => tolerate(&self.name, Err(error)).map(|()| None),
            read => read,
        }
    }

    /// Compares it with the segment before: of its timeline, or of the one that had begun there.
    async fn check_before(&self, history: Option<&TimelineHistory>) -> Result<(), ArchiveError> {
        let of_parent = history.and_then(|of| before_branch(self.segment, self.size, of));
        let before = of_parent.or_else(|| self.segment.previous(self.size).ok()?);
        match before {
            Some(before) => tolerate(&self.name, self.compare_before(before).await),
            None => Ok(()),
        }
    }

    /// The same, if the segment before lies in the same directory.
    async fn check_own_before(&self, history: &TimelineHistory) -> Result<(), ArchiveError> {
        match before_branch(self.segment, self.size, history) {
            Some(before) if own(before, self.path).await.is_some() => {
                tolerate(&self.name, self.compare_before(before).await)
            }
            _ => Ok(()),
        }
    }

    /// The same with the segment after, if it has one.
    async fn check_after(&self, after: Option<SegmentName>) -> Result<(), ArchiveError> {
        match after {
            Some(after) => tolerate(&self.name, self.compare_after(after).await),
            None => Ok(()),
        }
    }

    async fn compare_before(&self, before: SegmentName) -> Result<(), ArchiveError> {
        let Some(stored) = self.archived_beside(before).await? else {
            return Ok(());
        };
        let Some(own) = own(before, self.path).await else {
            return self.check_edges(before, stored).await;
        };
        let name = before.to_string();
        match is_in_up_to_switch(self.part, stored, (&name, &own)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(ArchiveError::NotContinued {
                segment: self.segment.to_string(),
                before: in_repository(before),
                why: differs(self.part, before, self.path).await,
            }),
            // It is being recycled.
            Err(ArchiveError::Invalid { .. } | ArchiveError::File { .. }) => {
                match archived(self.part, before).await? {
                    Some(stored) => self.check_edges(before, stored).await,
                    None => Ok(()),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn check_edges(
        &self,
        before: SegmentName,
        stored: StoredWal,
    ) -> Result<(), ArchiveError> {
        let archived = stored.proof(&before.to_string()).await?.edges.finish();
        let own = self.file.edges().await?;
        let why = own.zip(archived);
        let why = why.and_then(|(own, archived)| own.begin.discontinuity(&archived.end));
        match why {
            None => Ok(()),
            // Its administrator knows, and needs the WAL of the backups to come.
            Some(why @ Discontinuity::Anew) => {
                let segment = self.segment;
                tracing::warn!(
                    "{segment} does not continue {before}: {why}; take a backup, since none from before leads beyond it"
                );
                Ok(())
            }
            Some(why) => Err(ArchiveError::NotContinued {
                segment: self.segment.to_string(),
                before: in_repository(before),
                why: why.to_string(),
            }),
        }
    }

    /// What is archived after it has to continue it: a gap is filled with the server's own.
    async fn compare_after(&self, after: SegmentName) -> Result<(), ArchiveError> {
        let Some(stored) = self.archived_beside(after).await? else {
            return Ok(());
        };
        let archived = stored.proof(&after.to_string()).await?.edges.finish();
        let own = self.file.edges().await?;
        let why = own.zip(archived);
        match why.and_then(|(own, archived)| archived.begin.discontinuity(&own.end)) {
            None | Some(Discontinuity::Anew) => Ok(()),
            Some(why) => Err(ArchiveError::NotContinued {
                segment: in_repository(after),
                before: self.segment.to_string(),
                why: why.to_string(),
            }),
        }
    }

    /// A segment of the archive. The packs of those in this one's directory are listed once.
    async fn archived_beside(
        &self,
        beside: SegmentName,
    ) -> Result<Option<StoredWal>, ArchiveError> {
        let (name, packs) = (beside.to_string(), self.part.packs());
        let is_near = (beside.timeline, beside.log) == (self.segment.timeline, self.segment.log);
        if !is_near {
            return archived(self.part, beside).await;
        }
        let listed = async {
            let listed = self.packs.get_or_try_init(|| packs.beside(&name)).await?;
            let with = listed.iter().filter(|of| of.name.index_of(&name).is_some());
            Ok::<_, RepoError>(with.cloned().collect())
        };
        let of = (self.part.store(), self.part.cluster());
        StoredWal::get_among(of, &name, listed).await
    }
}

fn in_repository(file: impl Display) -> String {
    format!("{file} in the repository")
}

async fn archived(
    part: &Repository,
    segment: SegmentName,
) -> Result<Option<StoredWal>, ArchiveError> {
    let (store, cluster) = (part.store(), part.cluster());
    StoredWal::get_unopened(store, cluster, &segment.to_string()).await
}

/// The segment beside a file, if it is there under its name and whole. What a server keeps for later use is not.
async fn own(segment: SegmentName, beside: &Path) -> Option<StableFile> {
    let path = beside.with_file_name(segment.to_string());
    let file = StableFile::open(&path, PAGE_SIZE as u64).await.ok()?;
    let header = SegmentHeader::read(file.beginning()).ok()?;
    let start = segment.start(header.segment_size).ok()?;
    let is_it = start == header.start && file.len() == header.segment_size as usize;
    is_it.then_some(file)
}

/// Says from which segment on the archive has others than this directory: that is where it is to be set aside from.
async fn differs(part: &Repository, before: SegmentName, path: &Path) -> String {
    let directory = path.parent().unwrap_or(Path::new("")).display();
    let first = first_that_differs(part, before, path).await;
    match first == before {
        true => format!("{directory} has another one; those before it may be others too"),
        false => format!("{directory} has another one, and others from {first} on"),
    }
}

async fn first_that_differs(part: &Repository, before: SegmentName, path: &Path) -> SegmentName {
    let mut first = before;
    for _ in 0..LOOKED_BACK_MAX {
        let Some(file) = own(first, path).await else {
            break;
        };
        let size = SegmentHeader::read(file.beginning()).map(|header| header.segment_size);
        let Some(previous) = size.ok().and_then(|size| first.previous(size).ok()?) else {
            break;
        };
        let (Some(file), Ok(Some(stored))) =
            (own(previous, path).await, archived(part, previous).await)
        else {
            break;
        };
        let name = previous.to_string();
        match is_in_up_to_switch(part, stored, (&name, &file)).await {
            Ok(false) => first = previous,
            _ => break,
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use walzip_repo::testing::memory_store;

    use super::*;
    use crate::push::{PushOptions, push};
    use crate::wal::testing::{CLUSTER, Record, segment};

    /// The old primary has archived its last segment with zeros behind the switch; who is promoted was not sent these.
    #[tokio::test]
    async fn what_follows_a_switch_is_no_other_segment() {
        let ended = |fill| segment(3, &[Record::row(100, fill), Record::switch()]);
        let older = segment(1, &[60, 60, 60].map(|len| Record::row(len, 1)));
        let end = 40 + 104 + 24;
        for (fill, is_continued) in [(1, true), (2, false)] {
            let repository = Repository::init(memory_store(), CLUSTER).await;
            let (repository, _) = repository.expect("a repository");
            let level = walzip_codec::Level::default();
            let object = walzip_codec::encode(&ended(fill), level).expect("encoded");
            let put = repository.put_wal("000000010000000000000003", object.into());
            put.await.expect("archived");

            let directory = tempfile::tempdir().expect("a directory");
            let write = |name: &str, content: &[u8]| {
                fs::write(directory.path().join(name), content).expect("written");
            };
            let own = [&ended(1)[..end], &older[end..]].concat();
            write("000000010000000000000003", &own);
            write("00000002.history", b"1\t0/400000\tx\n");
            write(
                "000000020000000000000004",
                &segment(4, &[Record::row(90, 1)]),
            );
            for name in ["00000002.history", "000000020000000000000004"] {
                let path = directory.path().join(name);
                let pushed = push(&repository, &path, &PushOptions::default()).await;
                match is_continued {
                    true => _ = pushed.expect("archived"),
                    false => assert!(matches!(pushed, Err(ArchiveError::NotContinued { .. }))),
                }
            }
        }
    }
}
