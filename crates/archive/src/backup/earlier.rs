//! Which earlier backup a new one is compared with.

use walzip_repo::{BackupType, Repository};

use crate::archived::timelines::Timelines;
use crate::backup::source_server::Server;
use crate::backups::backup_record::BackupRecord;
use crate::backups::chunks::prior::Prior;
use crate::error::ArchiveError;

/// The newest one on the history of the server.
pub(super) async fn choose(
    repository: &Repository,
    server: &Server,
    wanted: BackupType,
) -> Result<Option<Prior>, ArchiveError> {
    let histories = match wanted {
        BackupType::Full => Vec::new(),
        _ => repository.survey_wal().await?.histories,
    };
    let mut timelines = Timelines::read(repository, &histories).await;
    if let Some(failure) = timelines.take_failure() {
        return Err(failure);
    }
    let is_own = |record: &BackupRecord| {
        timelines.passes(server.timeline, record.stop.timeline, record.stop.lsn)
    };
    Prior::choose(repository, wanted, is_own).await
}
