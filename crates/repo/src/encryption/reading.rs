//! Encrypted objects, read: from their beginning to their end, or a part of one.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore};

use super::sealed::{self, HEADER_LEN, Header, PIECE_LEN, Sealer, TAG_LEN};
use crate::error::encryption::SealError;

type StoreResult<T> = object_store::Result<T>;

/// Bytes of a sealed piece, the last one excepted.
const SEALED_LEN: usize = PIECE_LEN + TAG_LEN;

/// The bytes of an object as they come.
pub(super) struct Pieces {
    object: BoxStream<'static, StoreResult<Bytes>>,
    waiting: BytesMut,
}

impl Pieces {
    pub(super) fn new(object: BoxStream<'static, StoreResult<Bytes>>) -> Pieces {
        Pieces {
            object,
            waiting: BytesMut::new(),
        }
    }

    /// Takes the header, which comes first.
    pub(super) async fn header(&mut self) -> StoreResult<Header> {
        self.wait_for(HEADER_LEN).await?;
        let header = Header::read(&self.waiting)?;
        let _ = self.waiting.split_to(HEADER_LEN);
        Ok(header)
    }

    /// Waits until so many bytes are there, or all that there are.
    async fn wait_for(&mut self, len: usize) -> StoreResult<()> {
        while self.waiting.len() < len {
            match self.object.try_next().await? {
                Some(bytes) => self.waiting.extend_from_slice(&bytes),
                None => break,
            }
        }
        Ok(())
    }
}

/// Decrypts an object whose content has a length, as it comes.
pub(super) fn whole(
    pieces: Pieces,
    sealer: Sealer,
    content_len: u64,
) -> BoxStream<'static, StoreResult<Bytes>> {
    let last = sealed::pieces(content_len) - 1;
    let state = (pieces, sealer, 0_u64);
    futures::stream::try_unfold(state, move |(mut pieces, sealer, number)| async move {
        if number > last {
            return Ok(None);
        }
        let is_last = number == last;
        let len = match is_last {
            false => SEALED_LEN,
            true => (content_len - number * PIECE_LEN as u64) as usize + TAG_LEN,
        };
        // One byte more than the last piece has: there must be none.
        pieces.wait_for(len + usize::from(is_last)).await?;
        let is_whole = match is_last {
            true => pieces.waiting.len() == len,
            false => pieces.waiting.len() >= len,
        };
        if !is_whole {
            return Err(SealError::Tampered.into());
        }
        let mut piece = pieces.waiting.split_to(len);
        unseal(&sealer, number, is_last, &mut piece)?;
        Ok(Some((piece.freeze(), (pieces, sealer, number + 1))))
    })
    .boxed()
}

/// Decrypts a piece where it lies.
fn unseal(sealer: &Sealer, number: u64, is_last: bool, piece: &mut BytesMut) -> StoreResult<()> {
    let number = u32::try_from(number).map_err(|_| SealError::Tampered)?;
    let content = sealer.unseal(number, is_last, piece)?;
    let len = content.len();
    piece.truncate(len);
    Ok(())
}

/// What is known of an encrypted object of which parts are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sealed {
    pub(super) header: Header,
    pub(super) content_len: u64,
}

/// Some pieces of an object.
pub(super) struct PieceRange {
    first: u64,
    /// Where they are in the object.
    pub(super) in_object: Range<u64>,
}

impl Sealed {
    /// Reads the header of an object.
    pub(super) async fn look(store: &dyn ObjectStore, location: &Path) -> StoreResult<Sealed> {
        let options = GetOptions {
            range: Some((0..HEADER_LEN as u64).into()),
            ..GetOptions::default()
        };
        let found = store.get_opts(location, options).await?;
        let content_len = sealed::content_len(found.meta.size);
        let header = Header::read(&found.bytes().await?)?;
        let content_len = content_len?;
        Ok(Sealed {
            header,
            content_len,
        })
    }

    /// The pieces that hold a range of the content.
    pub(super) fn pieces_of(&self, wanted: &Range<u64>) -> PieceRange {
        let pieces = sealed::pieces(self.content_len);
        let first = (wanted.start / PIECE_LEN as u64).min(pieces - 1);
        let end = wanted
            .end
            .div_ceil(PIECE_LEN as u64)
            .clamp(first + 1, pieces);
        let object_len = HEADER_LEN as u64 + self.content_len + pieces * TAG_LEN as u64;
        let at = |piece: u64| HEADER_LEN as u64 + piece * SEALED_LEN as u64;
        PieceRange {
            first,
            in_object: at(first)..at(end).min(object_len),
        }
    }

    /// Decrypts pieces, and takes out the range of the content that was wanted.
    pub(super) fn part(
        &self,
        sealer: &Sealer,
        pieces: &PieceRange,
        wanted: &Range<u64>,
        object: Bytes,
    ) -> StoreResult<Bytes> {
        let len = pieces.in_object.end - pieces.in_object.start;
        if object.len() as u64 != len {
            return Err(SealError::Tampered.into());
        }
        let last = sealed::pieces(self.content_len) - 1;
        let mut content = BytesMut::with_capacity(object.len());
        for (number, piece) in (pieces.first..).zip(object.chunks(SEALED_LEN)) {
            let mut piece = BytesMut::from(piece);
            unseal(sealer, number, number == last, &mut piece)?;
            content.extend_from_slice(&piece);
        }
        let skipped = (wanted.start - pieces.first * PIECE_LEN as u64) as usize;
        let len = (wanted.end - wanted.start) as usize;
        let mut content = content.freeze();
        if skipped > content.len() || len > content.len() - skipped {
            return Err(SealError::Tampered.into());
        }
        let mut content = content.split_off(skipped);
        Ok(content.split_to(len))
    }
}
