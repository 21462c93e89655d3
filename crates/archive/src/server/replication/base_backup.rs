//! `BASE_BACKUP`: a running cluster as a stream of tar archives.
//!
//! Up to 14 each tablespace is a COPY of its own, in the order of the tablespaces that were
//! announced, and the manifest is a last one. From 15 there is one COPY whose messages say what
//! they are: `n` a new archive, `m` the manifest, `d` data, `p` progress. Callers see the second
//! form for both.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use postgres_protocol::message::backend::Message;
use walzip_pgformat::{Lsn, TimelineId};

use super::ServerError;
use super::connection::{Connection, Row, malformed, protocol, read_row, unexpected};

/// The first major whose `BASE_BACKUP` takes options in parentheses.
const FIRST_MAJOR_WITH_TAGS: u32 = 15;

/// Which checksum the server computes for each file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManifestChecksums {
    /// PostgreSQL's default: fast, finds damage, does not stop an attacker.
    #[default]
    Crc32c,
    /// Cryptographic.
    Sha256,
}

/// How to take a base backup.
#[derive(Clone, Debug)]
pub struct BaseBackupOptions {
    /// The label, which the server writes into `backup_label`.
    pub label: String,
    /// Checkpoint at once instead of waiting for the next one.
    pub fast_checkpoint: bool,
    /// The checksum of each file.
    pub checksums: ManifestChecksums,
    /// Have the server verify data checksums, if the cluster has them.
    pub verify_checksums: bool,
    /// Look for the size of everything before sending it.
    pub estimate_size: bool,
    /// Send no faster than this many kilobytes a second.
    pub max_rate_kilobytes: Option<u32>,
}

/// A tablespace that is part of the backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupTablespace {
    /// Its OID.
    pub oid: u32,
    /// Its directory on the server.
    pub location: String,
}

/// Where a backup ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupEnd {
    /// WAL up to here is needed for a consistent cluster.
    pub lsn: Lsn,
    /// The timeline of that position.
    pub timeline: TimelineId,
}

/// A piece of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupPart {
    /// A tar archive begins: of this tablespace, or of the data directory.
    Archive(Option<BackupTablespace>),
    /// The manifest begins.
    Manifest,
    /// The next bytes of the archive or the manifest.
    Data(Bytes),
}

/// A base backup under way.
pub struct BaseBackup<'c> {
    connection: &'c mut Connection,
    /// Where recovery of this backup starts.
    pub start: Lsn,
    /// The timeline of the start.
    pub timeline: TimelineId,
    /// The tablespaces other than the data directory.
    pub tablespaces: Vec<BackupTablespace>,
    /// About how much will be sent; 0 where that was not asked for.
    pub estimated_bytes: u64,
    stream: StreamState,
}

enum StreamState {
    Tagged {
        open: bool,
    },
    /// What the next COPY will hold: `Some(None)` stands for the data directory.
    Untagged {
        archives: VecDeque<Option<BackupTablespace>>,
        in_copy: bool,
        manifest: bool,
    },
}

impl<'c> BaseBackup<'c> {
    /// Starts a base backup on a replication connection.
    ///
    /// WAL is not included and the server does not wait for its archiving (`NOWAIT`): the caller
    /// waits for its own archive, which only it can see.
    pub async fn start(
        connection: &'c mut Connection,
        options: &BaseBackupOptions,
    ) -> Result<BaseBackup<'c>, ServerError> {
        let tagged = connection.major()? >= FIRST_MAJOR_WITH_TAGS;
        connection.send_query(&command(options, tagged)).await?;
        let start = read_end(&result_set(connection).await?)?;
        let rows = result_set(connection).await?;
        let archives = rows
            .iter()
            .map(read_tablespace)
            .collect::<Result<VecDeque<_>, _>>()?;
        let tablespaces = archives.iter().flatten().cloned().collect();
        let estimated_bytes = rows.iter().map(estimated_bytes).sum();
        let stream = if tagged {
            match connection.receive().await? {
                Message::CopyOutResponse(_) => StreamState::Tagged { open: true },
                other => return Err(unexpected("BASE_BACKUP", &other)),
            }
        } else {
            StreamState::Untagged {
                archives,
                in_copy: false,
                manifest: false,
            }
        };
        Ok(BaseBackup {
            connection,
            start: start.lsn,
            timeline: start.timeline,
            tablespaces,
            estimated_bytes,
            stream,
        })
    }

    /// The next piece, `None` after the last.
    pub async fn next(&mut self) -> Result<Option<BackupPart>, ServerError> {
        match &mut self.stream {
            StreamState::Tagged { .. } => self.next_tagged().await,
            StreamState::Untagged { .. } => self.next_untagged().await,
        }
    }

    /// Reads the end of the backup, after the last piece.
    pub async fn finish(self) -> Result<BackupEnd, ServerError> {
        let end = read_end(&result_set(self.connection).await?)?;
        loop {
            match self.connection.receive().await? {
                Message::CommandComplete(_) => {}
                Message::ReadyForQuery(_) => return Ok(end),
                other => return Err(unexpected("the end of BASE_BACKUP", &other)),
            }
        }
    }

    async fn next_tagged(&mut self) -> Result<Option<BackupPart>, ServerError> {
        let StreamState::Tagged { open } = &mut self.stream else {
            return Ok(None);
        };
        while *open {
            let mut data = match self.connection.receive().await? {
                Message::CopyData(body) => body.into_bytes(),
                Message::CopyDone => {
                    *open = false;
                    break;
                }
                other => return Err(unexpected("BASE_BACKUP's data", &other)),
            };
            if !data.has_remaining() {
                return Err(protocol(
                    "an empty message in BASE_BACKUP's data".to_owned(),
                ));
            }
            match data.get_u8() {
                b'd' => return Ok(Some(BackupPart::Data(data))),
                b'm' => return Ok(Some(BackupPart::Manifest)),
                b'n' => return self.archive_named(&data).map(Some),
                b'p' => {}
                tag => return Err(protocol(format!("unknown tag {tag} in BASE_BACKUP's data"))),
            }
        }
        Ok(None)
    }

    /// `base.tar`, or `<oid>.tar` with its location.
    fn archive_named(&self, message: &[u8]) -> Result<BackupPart, ServerError> {
        let name = message.split(|&byte| byte == 0).next().unwrap_or_default();
        if name == b"base.tar" {
            return Ok(BackupPart::Archive(None));
        }
        let name = String::from_utf8_lossy(name);
        let oid = name
            .strip_suffix(".tar")
            .and_then(|oid| oid.parse::<u32>().ok());
        let tablespace = self.tablespaces.iter().find(|known| Some(known.oid) == oid);
        match tablespace {
            Some(tablespace) => Ok(BackupPart::Archive(Some(tablespace.clone()))),
            None => Err(protocol(format!(
                "the archive \"{name}\" was not announced"
            ))),
        }
    }

    async fn next_untagged(&mut self) -> Result<Option<BackupPart>, ServerError> {
        let StreamState::Untagged {
            archives,
            in_copy,
            manifest,
        } = &mut self.stream
        else {
            return Ok(None);
        };
        loop {
            if !*in_copy {
                if *manifest {
                    return Ok(None);
                }
                match self.connection.receive().await? {
                    Message::CopyOutResponse(_) => *in_copy = true,
                    other => return Err(unexpected("BASE_BACKUP", &other)),
                }
                return Ok(Some(match archives.pop_front() {
                    Some(tablespace) => BackupPart::Archive(tablespace),
                    None => {
                        *manifest = true;
                        BackupPart::Manifest
                    }
                }));
            }
            match self.connection.receive().await? {
                Message::CopyData(body) => return Ok(Some(BackupPart::Data(body.into_bytes()))),
                Message::CopyDone => *in_copy = false,
                other => return Err(unexpected("BASE_BACKUP's data", &other)),
            }
        }
    }
}

fn command(options: &BaseBackupOptions, tagged: bool) -> String {
    let label = options.label.replace('\'', "''");
    let checksums = match options.checksums {
        ManifestChecksums::Crc32c => "CRC32C",
        ManifestChecksums::Sha256 => "SHA256",
    };
    let max_rate = options.max_rate_kilobytes.map(|rate| rate.to_string());
    if tagged {
        let checkpoint = if options.fast_checkpoint {
            "fast"
        } else {
            "spread"
        };
        let progress = if options.estimate_size {
            ", PROGRESS"
        } else {
            ""
        };
        let max_rate = max_rate.map_or(String::new(), |rate| format!(", MAX_RATE {rate}"));
        let verify = if options.verify_checksums {
            ""
        } else {
            ", VERIFY_CHECKSUMS false"
        };
        format!(
            "BASE_BACKUP (LABEL '{label}', CHECKPOINT '{checkpoint}', WAIT false, \
             MANIFEST 'yes', MANIFEST_CHECKSUMS '{checksums}'{progress}{max_rate}{verify})"
        )
    } else {
        let fast = if options.fast_checkpoint { "FAST " } else { "" };
        let progress = if options.estimate_size {
            "PROGRESS "
        } else {
            ""
        };
        let max_rate = max_rate.map_or(String::new(), |rate| format!("MAX_RATE {rate} "));
        let verify = if options.verify_checksums {
            ""
        } else {
            "NOVERIFY_CHECKSUMS "
        };
        format!(
            "BASE_BACKUP LABEL '{label}' {progress}{fast}NOWAIT {max_rate}{verify}\
             MANIFEST 'yes' MANIFEST_CHECKSUMS '{checksums}'"
        )
    }
}

/// A backup's header has a row for each tablespace.
const HEADER_ROWS_MAX: usize = 1 << 16;

/// One result set of several: its rows, up to its CommandComplete.
async fn result_set(connection: &mut Connection) -> Result<Vec<Row>, ServerError> {
    match connection.receive().await? {
        Message::RowDescription(_) => {}
        other => return Err(unexpected("BASE_BACKUP's header", &other)),
    }
    let mut rows = Vec::new();
    loop {
        match connection.receive().await? {
            Message::DataRow(row) if rows.len() < HEADER_ROWS_MAX => {
                rows.push(read_row(&row).map_err(malformed)?);
            }
            Message::CommandComplete(_) => return Ok(rows),
            other => return Err(unexpected("BASE_BACKUP's header", &other)),
        }
    }
}

fn read_end(rows: &[Row]) -> Result<BackupEnd, ServerError> {
    let column = |at: usize| rows.first().and_then(|row| row.get(at)?.as_deref());
    let parsed = (|| {
        Some(BackupEnd {
            lsn: column(0)?.parse().ok()?,
            timeline: TimelineId(column(1)?.parse().ok()?),
        })
    })();
    parsed.ok_or_else(|| protocol(format!("BASE_BACKUP's position is {rows:?}")))
}

/// A row of `spcoid, spclocation, size`; the data directory's has neither OID nor location.
fn read_tablespace(row: &Row) -> Result<Option<BackupTablespace>, ServerError> {
    let column = |at: usize| row.get(at).and_then(Option::as_deref);
    let Some(oid) = column(0) else {
        return Ok(None);
    };
    match (oid.parse(), column(1)) {
        (Ok(oid), Some(location)) if !location.is_empty() => Ok(Some(BackupTablespace {
            oid,
            location: location.to_owned(),
        })),
        _ => Err(protocol(format!(
            "BASE_BACKUP announced the tablespace {row:?}"
        ))),
    }
}

/// The size in a row of the header, which has kilobytes: a help, so that nonsense is none.
fn estimated_bytes(row: &Row) -> u64 {
    let size = row.get(2).and_then(Option::as_deref);
    let kilobytes: u64 = size.and_then(|size| size.parse().ok()).unwrap_or(0);
    kilobytes.saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_in_both_grammars() {
        let mut options = BaseBackupOptions {
            label: "it's".to_owned(),
            fast_checkpoint: true,
            checksums: ManifestChecksums::Crc32c,
            verify_checksums: true,
            estimate_size: false,
            max_rate_kilobytes: None,
        };
        assert_eq!(
            command(&options, true),
            "BASE_BACKUP (LABEL 'it''s', CHECKPOINT 'fast', WAIT false, MANIFEST 'yes', \
             MANIFEST_CHECKSUMS 'CRC32C')"
        );
        assert_eq!(
            command(&options, false),
            "BASE_BACKUP LABEL 'it''s' FAST NOWAIT MANIFEST 'yes' MANIFEST_CHECKSUMS 'CRC32C'"
        );
        options.estimate_size = true;
        options.max_rate_kilobytes = Some(1000);
        assert_eq!(
            command(&options, true),
            "BASE_BACKUP (LABEL 'it''s', CHECKPOINT 'fast', WAIT false, MANIFEST 'yes', \
             MANIFEST_CHECKSUMS 'CRC32C', PROGRESS, MAX_RATE 1000)"
        );
        assert_eq!(
            command(&options, false),
            "BASE_BACKUP LABEL 'it''s' PROGRESS FAST NOWAIT MAX_RATE 1000 MANIFEST 'yes' \
             MANIFEST_CHECKSUMS 'CRC32C'"
        );
        options.verify_checksums = false;
        assert_eq!(
            command(&options, true),
            "BASE_BACKUP (LABEL 'it''s', CHECKPOINT 'fast', WAIT false, MANIFEST 'yes', \
             MANIFEST_CHECKSUMS 'CRC32C', PROGRESS, MAX_RATE 1000, VERIFY_CHECKSUMS false)"
        );
        assert_eq!(
            command(&options, false),
            "BASE_BACKUP LABEL 'it''s' PROGRESS FAST NOWAIT MAX_RATE 1000 NOVERIFY_CHECKSUMS \
             MANIFEST 'yes' MANIFEST_CHECKSUMS 'CRC32C'"
        );
    }

    #[test]
    fn tells_the_data_directory_from_a_tablespace() {
        let row = |oid: Option<&str>, location: Option<&str>| -> Row {
            vec![oid.map(str::to_owned), location.map(str::to_owned), None]
        };
        assert_eq!(read_tablespace(&row(None, None)).unwrap(), None);
        let tablespace = read_tablespace(&row(Some("16384"), Some("/ts"))).unwrap();
        assert_eq!(
            tablespace,
            Some(BackupTablespace {
                oid: 16384,
                location: "/ts".to_owned()
            })
        );
        assert!(read_tablespace(&row(Some("x"), Some("/ts"))).is_err());
        assert!(read_tablespace(&row(Some("1"), None)).is_err());
    }
}
