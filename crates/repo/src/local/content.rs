//! The content of an object, from its beginning to its end.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::{GetResult, GetResultPayload};

use super::disk_error::DiskError;
use super::{StoreResult, store_error};

/// Bytes of a piece. Each is read on a thread for blocking work: with object_store's own pieces of
/// 8 KiB, going there and back takes many times as long as reading.
const PIECE_LEN: u64 = 512 << 10;

/// What a store found, as it comes, in large pieces where it is a file. A file that has become
/// shorter ends early.
pub(crate) fn content(found: GetResult) -> BoxStream<'static, StoreResult<Bytes>> {
    let (range, key) = (found.range.clone(), found.meta.location.clone());
    let (file, path) = match found.payload {
        GetResultPayload::File(file, path) => (Arc::new(file), path),
        GetResultPayload::Stream(stream) => return stream,
    };
    futures::stream::try_unfold(range, move |range| {
        let (file, path, key) = (Arc::clone(&file), path.clone(), key.clone());
        async move {
            if range.is_empty() {
                return Ok(None);
            }
            let piece = range.start..range.end.min(range.start + PIECE_LEN);
            let read = tokio::task::spawn_blocking(move || read(&file, piece)).await?;
            let bytes = read
                .map_err(DiskError::at("read", path))
                .map_err(|error| store_error(&key, error))?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let rest = range.start + bytes.len() as u64..range.end;
            Ok(Some((bytes, rest)))
        }
    })
    .boxed()
}

/// Reads a part of a file, or as much of it as there is.
fn read(file: &File, part: Range<u64>) -> io::Result<Bytes> {
    let mut bytes = vec![0; (part.end - part.start) as usize];
    let mut len = 0;
    while len < bytes.len() {
        match file.read_at(&mut bytes[len..], part.start + len as u64) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(len);
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
    use object_store::path::Path;
    use object_store::{GetOptions, ObjectStore};

    use super::*;
    use crate::local::LocalStore;

    /// A store with an object of `len` bytes, and those.
    async fn store(len: u64) -> (tempfile::TempDir, LocalStore, Vec<u8>) {
        let directory = tempfile::tempdir().expect("a directory");
        let store = LocalStore::new(directory.path().join("store"));
        let bytes: Vec<u8> = (0..len).map(|n| (n * 31 / 8) as u8).collect();
        let payload = bytes.clone().into();
        let key = Path::from("object");
        let put = store.put_opts(&key, payload, Default::default()).await;
        put.expect("put");
        (directory, store, bytes)
    }

    async fn get(store: &LocalStore, range: Option<Range<u64>>) -> GetResult {
        let options = GetOptions {
            range: range.map(Into::into),
            ..GetOptions::default()
        };
        let found = store.get_opts(&Path::from("object"), options).await;
        found.expect("it is there")
    }

    #[tokio::test]
    async fn comes_in_large_pieces() {
        for len in [0, 1, PIECE_LEN - 1, PIECE_LEN, PIECE_LEN + 1, 3 * PIECE_LEN] {
            let (_directory, store, bytes) = store(len).await;
            let pieces: Vec<Bytes> = content(get(&store, None).await)
                .try_collect()
                .await
                .expect("readable");
            assert_eq!(pieces.len() as u64, len.div_ceil(PIECE_LEN));
            assert!(pieces.concat() == bytes, "{len}");
        }
    }

    #[tokio::test]
    async fn a_part_is_that_part() {
        let (_directory, store, bytes) = store(2 * PIECE_LEN).await;
        for range in [0..1, 5..PIECE_LEN + 9, PIECE_LEN..2 * PIECE_LEN] {
            let found = content(get(&store, Some(range.clone())).await);
            let pieces: Vec<Bytes> = found.try_collect().await.expect("readable");
            let expected = &bytes[range.start as usize..range.end as usize];
            assert!(pieces.concat() == expected, "{range:?}");
        }
    }

    #[tokio::test]
    async fn what_became_shorter_ends_early() {
        let (directory, store, bytes) = store(2 * PIECE_LEN).await;
        let found = get(&store, None).await;
        let path = directory.path().join("store/object");
        let file = File::options().write(true).open(path).expect("a file");
        file.set_len(PIECE_LEN + 7).expect("cut off");
        let pieces: Vec<Bytes> = content(found).try_collect().await.expect("readable");
        assert!(pieces.concat() == bytes[..PIECE_LEN as usize + 7]);
    }
}
