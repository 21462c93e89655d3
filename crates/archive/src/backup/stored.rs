//! The index and the manifest of a copy, which say what it has: checked against each other, and stored.

use bytes::Bytes;
use walzip_repo::BackupWriter;

use crate::backups::backup_files::{BACKUP_LABEL, CONTROL_FILE};
use crate::backups::backup_record::{ArchiveRecord, BlockHashesRecord, FilesRecord, Moment};
use crate::backups::backup_stream;
use crate::backups::chunks::cutter::Cut;
use crate::backups::chunks::index::{Chunk, Index, StoredTable};
use crate::backups::chunks::sources::Referred;
use crate::backups::chunks::writing::Packed;
use crate::backups::pg_manifest::{ManifestError, PgManifest, WalRange};
use crate::error::ArchiveError;
use crate::server::replication::ServerError;

/// What was stored of a copy, and what it says.
pub(crate) struct Stored {
    pub(crate) files: FilesRecord,
    /// Whether indexes are told from their tables.
    pub(crate) has_tables: bool,
    pub(crate) block_hashes: BlockHashesRecord,
    /// The labels of the backups that it refers to.
    pub(crate) references: Vec<String>,
    pub(crate) manifest: ArchiveRecord,
    pub(crate) wal_ranges: Vec<WalRange>,
    /// The content of `backup_label` and of the control file.
    pub(crate) backup_label: Vec<u8>,
    pub(crate) control_file: Vec<u8>,
}

/// Stores the index of what was packed, and the manifest.
pub(crate) async fn store(
    writer: &BackupWriter,
    (mut cut, packed, manifest): (Cut, Packed, Bytes),
    (start, stop): (&Moment, &Moment),
    referred: &[Referred],
) -> Result<Stored, ArchiveError> {
    let wal_ranges = checked_ranges(&manifest, &mut cut, (start, stop))?;
    let mut kept = |name: &str| cut.kept.remove(name.as_bytes()).unwrap_or_default();
    let (backup_label, control_file) = (kept(BACKUP_LABEL), kept(CONTROL_FILE));
    if cut.unread_bytes > 0 {
        let (unread, all) = (cut.unread_bytes, cut.original_bytes);
        tracing::info!("{unread} of {all} bytes have not changed, and were not read");
    }
    let has_tables = !packed.tables.is_empty();
    let named = (packed.chunks, packed.tables);
    let (index, references) = index(named, &mut cut, referred)?;
    let (index, manifest) = tokio::try_join!(
        backup_stream::write(writer, "index", &index),
        backup_stream::write(writer, "backup_manifest", &manifest),
    )?;
    Ok(Stored {
        files: FilesRecord {
            original_bytes: cut.original_bytes,
            packs: packed.packs,
            index,
        },
        has_tables,
        block_hashes: packed.block_hashes,
        references,
        manifest,
        wal_ranges,
        backup_label,
        control_file,
    })
}

/// The WAL that the server's manifest names, whose files have to be those that came.
fn checked_ranges(
    manifest: &[u8],
    cut: &mut Cut,
    (start, stop): (&Moment, &Moment),
) -> Result<Vec<WalRange>, ArchiveError> {
    let listed = PgManifest::read(manifest).map_err(incredible)?;
    check_ranges(&listed.wal_ranges, start, stop)?;
    listed
        .check_sent(std::mem::take(&mut cut.seen))
        .map_err(incredible)?;
    Ok(listed.wal_ranges)
}

/// The index, and the labels of the backups that it names.
fn index(
    (chunks, tables): (Vec<Chunk>, Vec<StoredTable>),
    cut: &mut Cut,
    referred: &[Referred],
) -> Result<(Vec<u8>, Vec<String>), ArchiveError> {
    let mut index = Index {
        chunks,
        tables,
        members: Vec::new(),
    };
    cut.place_changed(index.changed_start());
    index.members = std::mem::take(&mut cut.members);
    let labels = referred.iter().map(|of| of.record.label.clone()).collect();
    let references = index.without_unused(labels);
    let text = index.write().map_err(ArchiveError::Internal)?;
    // No backup is listed whose index cannot be read.
    Index::read(&mut text.as_slice()).map_err(|wrong| {
        ArchiveError::Internal(format!("the index of the new backup is none: {wrong}"))
    })?;
    Ok((text, references))
}

fn incredible(error: ManifestError) -> ArchiveError {
    ServerError::Protocol(error.to_string()).into()
}

fn check_ranges(ranges: &[WalRange], start: &Moment, stop: &Moment) -> Result<(), ArchiveError> {
    let first = ranges.first().map(|range| (range.start, range.timeline));
    let last = ranges.last().map(|range| (range.end, range.timeline));
    if first == Some((start.lsn, start.timeline)) && last == Some((stop.lsn, stop.timeline)) {
        return Ok(());
    }
    let reason = format!(
        "the backup runs from {} to {}, its manifest says otherwise: {ranges:?}",
        start.lsn, stop.lsn
    );
    Err(ServerError::Protocol(reason).into())
}
