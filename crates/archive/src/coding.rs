//! The codec, called where it does not hold up the tasks of the runtime.

pub(crate) mod decoding;
pub mod members;
pub(crate) mod pack_header;
pub(crate) mod two_threads;
pub(crate) mod workers;

use std::io::{self, Write};
use std::panic::resume_unwind;

use bytes::Bytes;
use walzip_codec::{DecodeError, EncodeError, Encoder, Header, Level};
use walzip_pgformat::PAGE_SIZE;
use walzip_pgformat::wal::{EdgeReader, SegmentHeader, TellingRecords};

use crate::coding::members::{EncodedMember, Members};
use crate::error::ArchiveError;

/// Runs work that computes or blocks on a thread for such work.
pub(crate) async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        // Nobody aborts these tasks, so the work itself panicked: a defect, which goes on here.
        Err(failure) => resume_unwind(failure.into_panic()),
    }
}

/// Encodes a file, a member at a time; returns the object, which says whose it is.
pub(crate) fn encode(
    name: &str,
    file: &Members<'_>,
    level: Level,
    verify: bool,
) -> Result<Bytes, EncodeError> {
    let mut object = Vec::new();
    file.encode(Encoder::new(level, verify), |member: EncodedMember| {
        let is_wal = SegmentHeader::read(&member.beginning).is_ok();
        let bytes = member.bytes;
        if is_wal && Header::read(&bytes).is_ok_and(|header| header.identity.is_none()) {
            tracing::warn!(
                "{name}: not understood as WAL, stored {} bytes as zstd makes them; \
                 please report it",
                bytes.len()
            );
        }
        object.extend_from_slice(&bytes);
        Ok::<_, EncodeError>(())
    })?;
    walzip_codec::name_file(&mut object, name)?;
    Ok(object.into())
}

/// Decodes the object of a WAL file.
pub(crate) async fn decode(name: &str, object: Bytes) -> Result<Vec<u8>, ArchiveError> {
    check_name(name, &object)?;
    match off_the_runtime(move || walzip_codec::decode(&object)).await {
        Ok(original) => Ok(original),
        Err(source) => Err(undecodable(name, source)),
    }
}

pub(crate) fn undecodable(name: &str, source: DecodeError) -> ArchiveError {
    ArchiveError::Undecodable {
        object: name.to_owned(),
        source,
    }
}

/// The first page of what is written to it, and how much it was.
#[derive(Debug, Default)]
pub(crate) struct Beginning {
    pub(crate) page: Vec<u8>,
    pub(crate) len: usize,
}

impl Beginning {
    /// That of what is in memory.
    pub(crate) fn of(content: &[u8]) -> Beginning {
        let page = content.get(..content.len().min(PAGE_SIZE));
        Beginning {
            page: page.unwrap_or_default().to_vec(),
            len: content.len(),
        }
    }
}

impl Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let missing = PAGE_SIZE - self.page.len();
        let first = &bytes[..bytes.len().min(missing)];
        self.page.extend_from_slice(first);
        self.len += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is kept of a file that is decoded to prove it.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    pub(crate) beginning: Beginning,
    pub(crate) edges: EdgeReader,
    pub(crate) records: TellingRecords,
}

impl Write for Proof {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.beginning.write_all(bytes)?;
        self.records.feed(bytes);
        self.edges.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Refuses an object that lies under another file's name: histories and backup histories do not
/// say themselves whose they are. Objects of the first days have no name, and are taken.
pub(crate) fn check_name(name: &str, object: &[u8]) -> Result<(), ArchiveError> {
    // Decoding says what is wrong with a header.
    let found = Header::read(object).ok().and_then(|header| header.name);
    match found {
        Some(found) if found != name => Err(ArchiveError::Damaged {
            object: name.to_owned(),
            reason: format!("the object is that of {found}"),
        }),
        _ => Ok(()),
    }
}
