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

pub(crate) async fn encode(
    name: &str,
    original: Bytes,
    level: Level,
    verify: bool,
) -> Result<Bytes, ArchiveError> {
    let is_wal = SegmentHeader::read(&original).is_ok();
    let encoded = off_the_runtime(move || {
        if verify {
            walzip_codec::encode_verified(&original, level)
        } else {
            walzip_codec::encode(&original, level)
        }
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

pub(crate) async fn decode(name: &str, object: Bytes) -> Result<Vec<u8>, ArchiveError> {
    match off_the_runtime(move || walzip_codec::decode(&object)).await {
        Ok(original) => Ok(original),
        Err(source) => Err(ArchiveError::Undecodable {
            object: name.to_owned(),
            source,
        }),
    }
}
