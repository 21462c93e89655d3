//! The codec, called where it does not hold up the tasks of the runtime.

use std::panic::resume_unwind;

use bytes::Bytes;
use walzip_codec::{Header, Level};
use walzip_pgformat::wal::SegmentHeader;

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

/// Encodes a WAL file; its object says which file it is.
pub(crate) async fn encode(
    name: &str,
    original: Bytes,
    level: Level,
    verify: bool,
) -> Result<Bytes, ArchiveError> {
    let is_wal = SegmentHeader::read(&original).is_ok();
    let file_name = name.to_owned();
    let encoded = off_the_runtime(move || {
        let mut object = if verify {
            walzip_codec::encode_verified(&original, level)?
        } else {
            walzip_codec::encode(&original, level)?
        };
        walzip_codec::name_file(&mut object, &file_name)?;
        Ok(object)
    });
    match encoded.await {
        Ok(object) => {
            if is_wal && Header::read(&object).is_ok_and(|header| header.identity.is_none()) {
                tracing::warn!(
                    "{name}: not understood as WAL, stored {} bytes as zstd makes them; \
                     please report it",
                    object.len()
                );
            }
            Ok(object.into())
        }
        Err(source) => Err(ArchiveError::Encode {
            name: name.to_owned(),
            source,
        }),
    }
}

/// Decodes the object of a WAL file.
pub(crate) async fn decode(name: &str, object: Bytes) -> Result<Vec<u8>, ArchiveError> {
    check_name(name, &object)?;
    match off_the_runtime(move || walzip_codec::decode(&object)).await {
        Ok(original) => Ok(original),
        Err(source) => Err(ArchiveError::Undecodable {
            object: name.to_owned(),
            source,
        }),
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
