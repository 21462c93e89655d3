//! `backup-get`: one file out of a backup, proven against PostgreSQL's manifest.

use std::io::{self, Read, Write};

use walzip_repo::{BackupLabel, Repository};

use crate::backups::backup_files::{Entry, FileSink};
use crate::backups::backup_record::{BackupRecord, ListedBackup};
use crate::backups::backup_stream;
use crate::backups::chunks::packed::Packed;
use crate::backups::chunks::reading;
use crate::backups::pg_manifest::PgManifest;
use crate::backups::proven_copy;
use crate::backups::tar_files;
use crate::coding::off_the_runtime;
use crate::error::ArchiveError;
use crate::restore::read_manifest;

/// A file that was got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GotFile {
    /// The backup that it is of.
    pub label: String,
    /// Its length.
    pub size_bytes: u64,
}

/// Writes a file of a backup to `output`, and returns that: of the cluster's newest backup, where none is named. The
/// name is its path below the data directory, as in PostgreSQL's manifest. What was written is
/// worth nothing where this fails.
pub async fn backup_get<W: Write + Send + 'static>(
    repository: &Repository,
    label: Option<&BackupLabel>,
    name: &str,
    output: W,
) -> Result<(GotFile, W), ArchiveError> {
    let record = &match label {
        Some(label) => {
            let record = BackupRecord::read(repository, label).await;
            record.map_err(|error| error.of_named_backup(label))?
        }
        None => newest(repository).await?,
    };
    let label: &BackupLabel = &record.label.parse()?;
    let manifest = read_manifest(repository, record).await?;
    let Some(listed) = manifest.files.get(name.as_bytes()) else {
        let reason = format!("backup {label} has no file {name}");
        return Err(ArchiveError::NoFile(reason));
    };
    let size_bytes = listed.size_bytes;
    let mut one = OneFile {
        backup: format!("backup {label}"),
        name: name.as_bytes().to_vec(),
        manifest,
        output,
        is_found: false,
    };
    for archive in &record.archives {
        let (backup, tablespace) = (one.backup.clone(), archive.tablespace_oid);
        let read = move |content: &mut dyn Read| {
            tar_files::read(&backup, tablespace, content, &mut one).map(|()| one)
        };
        one = backup_stream::read_decompressed(repository, label, archive, read).await?;
    }
    if let Some(files) = &record.files {
        let packed = Packed::read(repository, label, files).await?;
        let is_wanted = |entry: &Entry| entry.name() == name.as_bytes();
        one = reading::read(packed, record, is_wanted, one).await?;
    }
    let output = off_the_runtime(move || one.finish()).await?;
    let label = record.label.clone();
    Ok((GotFile { label, size_bytes }, output))
}

async fn newest(repository: &Repository) -> Result<BackupRecord, ArchiveError> {
    let listed = ListedBackup::all(repository).await?;
    let own = |backup: &ListedBackup| {
        let cluster = backup.cluster();
        cluster.is_none() || cluster == Some(repository.cluster())
    };
    match listed.into_iter().rev().find(own) {
        // One that cannot be read is not passed over.
        Some(backup) => backup.read,
        None => Err(ArchiveError::NoBackup("the repository has none".to_owned())),
    }
}

/// Takes one file, and passes over all others.
struct OneFile<W> {
    backup: String,
    name: Vec<u8>,
    manifest: PgManifest,
    output: W,
    is_found: bool,
}

impl<W: Write> OneFile<W> {
    fn finish(mut self) -> Result<W, ArchiveError> {
        if !self.is_found {
            return Err(self.damaged("is in the manifest and not in the backup"));
        }
        self.output.flush().map_err(unwritable)?;
        Ok(self.output)
    }

    fn damaged(&self, what: &str) -> ArchiveError {
        ArchiveError::Damaged {
            object: self.backup.clone(),
            reason: format!("{} {what}", String::from_utf8_lossy(&self.name)),
        }
    }
}

fn unwritable(error: io::Error) -> ArchiveError {
    ArchiveError::file("write", "the output".as_ref(), error)
}

impl<W: Write> FileSink for OneFile<W> {
    fn directory(&mut self, _: Entry) -> Result<(), ArchiveError> {
        Ok(())
    }

    fn link(&mut self, _: u32, _: String) -> Result<(), ArchiveError> {
        Ok(())
    }

    fn file(
        &mut self,
        entry: Entry,
        size_bytes: u64,
        content: &mut dyn Read,
    ) -> Result<(), ArchiveError> {
        if entry.name() != self.name {
            return Ok(());
        }
        let listed = self.manifest.files.get(&self.name).cloned();
        let listed = listed.filter(|listed| listed.size_bytes == size_bytes && !self.is_found);
        let listed =
            listed.ok_or_else(|| self.damaged("has another size than the manifest says"))?;
        self.is_found = true;
        let shown = entry.path.to_string_lossy();
        proven_copy::copy(&self.backup, &shown, &listed, content, |piece| {
            self.output.write_all(piece).map_err(unwritable)
        })
    }
}
