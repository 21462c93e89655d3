//! An encrypted object that is put in parts.

use async_trait::async_trait;
use futures::future::try_join_all;
use futures::{FutureExt, TryFutureExt};
use object_store::{MultipartUpload, PutPayload, PutResult, UploadPart};

use super::sealed::{HEADER_LEN, PIECE_LEN, Sealer, TAG_LEN};
use crate::error::encryption::SealError;
use crate::layout::PART_BYTES;

/// Encrypts the parts on their way. The last piece is sealed as such, so the end of what has come
/// is held back until more comes, or nothing more. Stores refuse a short part before the last one,
/// and some want all parts but the last equal: so parts are cut anew.
pub(super) struct SealedUpload {
    inner: Box<dyn MultipartUpload>,
    sealer: Sealer,
    /// Sealed pieces so far.
    pieces: u32,
    has_header: bool,
    /// Content that is not sealed yet, at most a piece.
    held: Vec<u8>,
    /// Sealed bytes that are no whole part yet.
    waiting: Vec<u8>,
    /// Something failed: what was sent is of no use.
    is_lost: bool,
}

impl std::fmt::Debug for SealedUpload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedUpload")
            .field("inner", &self.inner)
            .field("pieces", &self.pieces)
            .finish_non_exhaustive()
    }
}

impl SealedUpload {
    pub(super) fn new(inner: Box<dyn MultipartUpload>, sealer: Sealer) -> SealedUpload {
        SealedUpload {
            inner,
            sealer,
            pieces: 0,
            has_header: false,
            held: Vec::new(),
            waiting: Vec::new(),
            is_lost: false,
        }
    }

    /// Seals what is held and came, as far as it is certain not to be the last piece.
    fn seal(&mut self, data: &PutPayload) -> Result<(), SealError> {
        let len = self.held.len() + data.content_length();
        let mut sealed = std::mem::take(&mut self.waiting);
        sealed.reserve(HEADER_LEN + len + (len / PIECE_LEN + 1) * TAG_LEN);
        for mut bytes in data.iter().map(|bytes| bytes.as_ref()) {
            while !bytes.is_empty() {
                if self.held.len() == PIECE_LEN {
                    self.seal_held(false, &mut sealed)?;
                }
                let room = PIECE_LEN - self.held.len();
                let (fits, rest) = bytes.split_at(room.min(bytes.len()));
                self.held.extend_from_slice(fits);
                bytes = rest;
            }
        }
        self.waiting = sealed;
        Ok(())
    }

    /// Sends whole parts.
    fn send(&mut self) -> Vec<UploadPart> {
        let mut sent = Vec::new();
        while self.waiting.len() >= PART_BYTES {
            let rest = self.waiting.split_off(PART_BYTES);
            let part = std::mem::replace(&mut self.waiting, rest);
            sent.push(self.inner.put_part(part.into()));
        }
        sent
    }

    fn seal_held(&mut self, is_last: bool, sealed: &mut Vec<u8>) -> Result<(), SealError> {
        if !self.has_header {
            sealed.extend_from_slice(&self.sealer.header().0);
            self.has_header = true;
        }
        self.sealer.seal(self.pieces, is_last, &self.held, sealed)?;
        self.held.clear();
        self.pieces = self.pieces.checked_add(1).ok_or(SealError::Failed)?;
        Ok(())
    }
}

#[async_trait]
impl MultipartUpload for SealedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        match self.seal(&data) {
            Ok(()) => try_join_all(self.send()).map_ok(drop).boxed(),
            Err(error) => {
                self.is_lost = true;
                std::future::ready(Err(object_store::Error::from(error))).boxed()
            }
        }
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        let mut sealed = std::mem::take(&mut self.waiting);
        let sealing = match self.is_lost {
            true => Err(SealError::Failed),
            false => self.seal_held(true, &mut sealed),
        };
        sealing?;
        self.waiting = sealed;
        let parts = self.send();
        try_join_all(parts).await?;
        // An object of whole parts has no other one.
        if !self.waiting.is_empty() {
            let last = std::mem::take(&mut self.waiting);
            self.inner.put_part(last.into()).await?;
        }
        self.inner.complete().await
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        self.inner.abort().await
    }
}
