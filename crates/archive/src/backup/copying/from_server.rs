//! A copy of a cluster that its server sends: `BASE_BACKUP`, as tar archives.

use std::collections::BTreeMap;
use std::io::{self, Read};

use bytes::{Buf, Bytes, BytesMut};
use tokio::sync::mpsc;

use super::beginnings::Beginnings;
use super::{Copy, Request, refuse_in_place};
use crate::backup::databases::{self, Database};
use crate::backup::source_server;
use crate::backups::backup_files::FileSink;
use crate::backups::chunks::writing;
use crate::backups::tar_files;
use crate::error::ArchiveError;
use crate::progress::{Phase, Progress};
use crate::server::replication::{
    BackupPart, BaseBackup, BaseBackupOptions, Connection, Mode, ServerError,
};
use crate::server::tablespaces;

/// How many of the server's messages wait to be cut.
const MESSAGES_WAITING: usize = 64;
/// About seven million files; beyond it something other than a manifest is being sent.
const MANIFEST_BYTES_MAX: usize = 1 << 30;

/// A piece of what the server sends.
#[derive(Debug)]
enum Sent {
    /// The archive of a tablespace, or of the data directory, begins.
    Archive(Option<u32>),
    /// The next bytes of the archive.
    Data(Bytes),
}

/// Takes what the server sends.
pub(super) async fn copy(mut request: Request<'_>) -> Result<Copy, ArchiveError> {
    let label = request.label();
    let base_backup_options = BaseBackupOptions {
        label,
        fast_checkpoint: request.fast_checkpoint,
        checksums: request.encoding.checksums,
        verify_checksums: request.verify_checksums,
        estimate_size: request.estimate_size,
        max_rate_kilobytes: request.max_rate_kilobytes,
    };
    let mut known = request.known_tablespaces.clone();
    let mut beginnings = Beginnings::default();
    loop {
        let mut connection = Connection::open(request.settings, Mode::Replication).await?;
        let base_backup = BaseBackup::start(&mut connection, &base_backup_options).await?;
        refuse_in_place(&base_backup.tablespaces)?;
        if beginnings.is_right(&base_backup.tablespaces, &known)? {
            let databases = databases::list(&mut request.sql).await?;
            let copy = take(request, base_backup, databases).await?;
            connection.close().await;
            return Ok(copy);
        }
        // The server ends the backup when nobody takes it.
        drop(connection);
        known = tablespaces::names(&mut request.sql).await?;
    }
}

/// Takes what the server has begun to send.
async fn take(
    request: Request<'_>,
    mut base_backup: BaseBackup<'_>,
    databases_at_start: BTreeMap<u32, Database>,
) -> Result<Copy, ArchiveError> {
    // It would be idle until the end.
    request.sql.close().await;
    let tablespaces = base_backup.tablespaces.clone();
    let (start, timeline) = (base_backup.start, base_backup.timeline);

    let progress = request.progress;
    progress.begin(Phase::Copying, base_backup.estimated_bytes);
    let (sender, receiver) = mpsc::channel(MESSAGES_WAITING);
    let backup = format!("backup {}", request.writer.label());
    let feed = move |sink: &mut dyn FileSink| {
        let mut archives = Archives::new(receiver);
        while let Some(tablespace) = archives.next_archive() {
            tar_files::read(&backup, tablespace, &mut archives, sink)?;
        }
        Ok(())
    };
    let send = async || send_archives(&mut base_backup, sender, progress).await;
    let stored = writing::store(
        request.writer,
        request.encoding,
        (request.earlier, request.may_store),
        feed,
        send,
    );
    let (manifest, cut, packed) = stored.await?;
    let end = base_backup.finish().await?;
    Ok(Copy {
        start,
        timeline,
        end,
        tablespaces,
        databases_at_start,
        // Only who sees its files knows.
        unlogged: Vec::new(),
        sql: source_server::session(request.settings).await?,
        manifest: manifest.freeze(),
        // Nothing is known of what is in its pg_wal.
        follows: Vec::new(),
        // The server ends a backup in which it finds a page with a wrong one.
        checksums_verified: request.verify_checksums,
        cut,
        packed,
    })
}

/// Passes the archives on and collects the manifest, which comes after them.
async fn send_archives(
    base_backup: &mut BaseBackup<'_>,
    sender: mpsc::Sender<Sent>,
    progress: &Progress,
) -> Result<BytesMut, ArchiveError> {
    let mut manifest = BytesMut::new();
    let mut in_manifest = false;
    while let Some(part) = base_backup.next().await? {
        let sent = match part {
            BackupPart::Data(data) if in_manifest => {
                if manifest.len() + data.len() > MANIFEST_BYTES_MAX {
                    let reason = "the backup manifest is longer than 1 GiB".to_owned();
                    return Err(ServerError::Protocol(reason).into());
                }
                manifest.extend_from_slice(&data);
                continue;
            }
            BackupPart::Data(data) => {
                progress.add(data.len() as u64);
                Sent::Data(data)
            }
            BackupPart::Archive(tablespace) => {
                in_manifest = false;
                let oid = tablespace.map(|tablespace| tablespace.oid);
                match oid {
                    Some(oid) => tracing::info!("copying tablespace {oid}"),
                    None => tracing::info!("copying the data directory"),
                }
                Sent::Archive(oid)
            }
            BackupPart::Manifest => {
                in_manifest = true;
                continue;
            }
        };
        sender.send(sent).await.map_err(|_| writing::stopped())?;
    }
    Ok(manifest)
}

/// The archives, from the task that receives them.
struct Archives {
    receiver: mpsc::Receiver<Sent>,
    /// An archive that began where the last one ended.
    next: Option<Option<u32>>,
    current: Bytes,
}

impl Archives {
    fn new(receiver: mpsc::Receiver<Sent>) -> Archives {
        Archives {
            receiver,
            next: None,
            current: Bytes::new(),
        }
    }

    /// Steps over what is left of the archive, and begins the next one.
    fn next_archive(&mut self) -> Option<Option<u32>> {
        self.current.clear();
        loop {
            if let Some(tablespace) = self.next.take() {
                return Some(tablespace);
            }
            match self.receiver.blocking_recv()? {
                Sent::Archive(tablespace) => self.next = Some(tablespace),
                Sent::Data(_) => {}
            }
        }
    }
}

impl Read for Archives {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.current.has_remaining() && self.next.is_none() {
            match self.receiver.blocking_recv() {
                Some(Sent::Data(data)) => self.current = data,
                Some(Sent::Archive(tablespace)) => self.next = Some(tablespace),
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}
