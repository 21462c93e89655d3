//! The packs of a backup, and the index of what is in them.

use std::sync::Arc;

use walzip_repo::{BackupLabel, Repository};

use super::index::Index;
use crate::backups::backup_record::{FilesRecord, ObjectRecord};
use crate::backups::backup_stream;
use crate::error::ArchiveError;

/// Where the packs of a backup are, and what is in them.
pub(crate) struct Packed<'r> {
    pub(crate) repository: &'r Repository,
    pub(crate) label: &'r BackupLabel,
    pub(crate) packs: &'r [ObjectRecord],
    pub(crate) index: Arc<Index>,
}

impl<'r> Packed<'r> {
    /// Reads the index.
    pub(crate) async fn read(
        repository: &'r Repository,
        label: &'r BackupLabel,
        files: &'r FilesRecord,
    ) -> Result<Packed<'r>, ArchiveError> {
        let size_bytes = files.original_bytes;
        let what = format!("the index of backup {label}");
        let index = backup_stream::read_whole(repository, label, &files.index, what, move |text| {
            let index = Index::read(text)?;
            match index.original_bytes() == size_bytes {
                true => Ok(index),
                false => Err("it has more or fewer bytes than backup.json says".to_owned()),
            }
        });
        Ok(Packed {
            repository,
            label,
            packs: &files.packs,
            index: Arc::new(index.await?),
        })
    }
}
