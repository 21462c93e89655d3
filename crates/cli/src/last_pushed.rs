//! What was pushed last: the segment after it continues it, and is not compared with the archive.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use walzip_archive::push::WalFile;
use walzip_archive::spool::{FileFacts, LAST_VALID, PushSpool};
use walzip_pgformat::wal_file_name::SegmentName;

/// What this process has pushed last, and the one before it. What is not known costs a comparison.
#[derive(Default)]
pub struct LastPushed {
    here: Mutex<Option<(FileFacts, Instant)>>,
    spool: OnceLock<PushSpool>,
    /// The first segments of connections.
    firsts: Mutex<BTreeSet<SegmentName>>,
}

impl LastPushed {
    /// Where the processes note it.
    pub fn note_in(&self, spool: PushSpool) {
        let _ = self.spool.set(spool);
    }

    /// Notes a file that is in all repositories.
    pub fn note(&self, facts: &FileFacts) {
        *self.here() = Some((facts.clone(), Instant::now()));
        if let Some(spool) = self.spool.get()
            && let Err(error) = spool.note_last(facts)
        {
            tracing::debug!("what was pushed last is not noted: {error}");
        }
    }

    /// This segment is the first one of a connection, which may be to another server.
    pub fn begin_session(&self, first: SegmentName) {
        self.firsts().insert(first);
    }

    /// Whether it is known that a file of `pg_wal` continues what is archived: the one before it was pushed a moment
    /// ago, or it was itself. The files have to be the very same.
    pub fn tells_of(&self, file: &WalFile, path: &Path) -> bool {
        let is_last = |name: String| {
            let facts = FileFacts::read(&path.with_file_name(name));
            facts.is_ok_and(|facts| match &*self.here() {
                Some((last, at)) => *last == facts && at.elapsed() < LAST_VALID,
                None => (self.spool.get()).is_some_and(|spool| spool.is_last(&facts)),
            })
        };
        let segments = file.segment_before();
        segments.is_some_and(|segments| segments.map(|of| of.to_string()).into_iter().any(is_last))
    }

    /// The same for a file that is received, one after the other. They are removed when they are pushed, and within a
    /// connection they are of one server.
    pub fn tells_of_received(&self, file: &WalFile) -> bool {
        let Some([before, segment]) = file.segment_before() else {
            return false;
        };
        let is_last = |of: SegmentName| match &*self.here() {
            Some((last, _)) => last.name() == of.to_string(),
            None => false,
        };
        !self.firsts().contains(&segment) && (is_last(before) || is_last(segment))
    }

    fn firsts(&self) -> MutexGuard<'_, BTreeSet<SegmentName>> {
        self.firsts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn here(&self) -> MutexGuard<'_, Option<(FileFacts, Instant)>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
