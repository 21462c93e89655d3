//! The segment that was pushed last: the next one continues it, and is not compared with the archive.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use walzip_archive::spool::{FileFacts, PushSpool};
use walzip_pgformat::wal_file_name::{SegmentName, WalFileName};

/// What this process has pushed last, and the ones before it. What is not known costs a comparison.
#[derive(Default)]
pub struct LastPushed {
    here: Mutex<Option<(SegmentName, PathBuf)>>,
    spool: OnceLock<PushSpool>,
}

impl LastPushed {
    /// Where the processes note it.
    pub fn note_in(&self, spool: PushSpool) {
        let _ = self.spool.set(spool);
    }

    /// Notes a file that is in all repositories.
    pub fn note(&self, path: &Path, facts: &FileFacts) {
        let (Ok(WalFileName::Segment(segment)), Some(directory)) =
            (facts.name().parse(), path.parent())
        else {
            return;
        };
        let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        *here = Some((segment, directory.to_owned()));
        if let Some(spool) = self.spool.get()
            && let Err(error) = spool.note_last(facts)
        {
            tracing::debug!("what was pushed last is not noted: {error}");
        }
    }

    /// Whether this segment is the one, from the same directory as a file.
    pub fn is(&self, segment: SegmentName, path: &Path) -> bool {
        let directory = path.parent().unwrap_or(Path::new(""));
        let here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        match &*here {
            Some((last, of)) => *last == segment && of == directory,
            None => {
                let spool = self.spool.get();
                spool.is_some_and(|spool| spool.is_last(segment, directory))
            }
        }
    }
}
