//! Parts of backup objects, for threads that may block.

use std::ops::Range;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use walzip_repo::{BackupLabel, Repository};

use crate::error::ArchiveError;

/// Reads on the runtime, and waits for it.
#[derive(Debug)]
pub(crate) struct BlockingReads {
    repository: Repository,
    runtime: Handle,
}

impl BlockingReads {
    /// To be called on the runtime.
    pub(crate) fn of(repository: &Repository) -> BlockingReads {
        BlockingReads {
            repository: repository.clone(),
            runtime: Handle::current(),
        }
    }

    /// Reads a part of an object, all of it or none. A command that fails elsewhere ends its runtime
    /// while threads still read: they get an error, where waiting on the runtime itself would panic.
    pub(crate) fn range(
        &self,
        label: &BackupLabel,
        name: &str,
        range: Range<u64>,
    ) -> Result<Bytes, ArchiveError> {
        let (sender, read) = oneshot::channel();
        let (repository, label, name) = (self.repository.clone(), label.clone(), name.to_owned());
        self.runtime.spawn(async move {
            let read = repository.read_backup_range(&label, &name, range).await;
            // Nobody waits for it any more where the thread has ended.
            let _ = sender.send(read);
        });
        match read.blocking_recv() {
            Ok(read) => Ok(read?),
            Err(_) => Err(ArchiveError::Internal("the command has ended".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use walzip_repo::ClusterIdentity;
    use walzip_repo::testing::memory_store;

    use super::*;

    #[test]
    fn a_thread_that_outlives_the_runtime_gets_an_error() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let (go_on, waiting) = mpsc::channel::<()>();
        let reads = runtime.block_on(async {
            let cluster = ClusterIdentity {
                system_id: 1,
                major: 15,
            };
            let made = Repository::init(memory_store(), cluster).await;
            BlockingReads::of(&made.expect("made").0)
        });
        let thread = std::thread::spawn(move || {
            waiting.recv().expect("told");
            let label: BackupLabel = "20261127-120000F".parse().expect("a label");
            reads.range(&label, "pack.0000", 0..1)
        });
        drop(runtime);
        go_on.send(()).expect("it waits");
        let read = thread.join().expect("no panic");
        assert!(matches!(read, Err(ArchiveError::Internal(_))), "{read:?}");
    }
}
