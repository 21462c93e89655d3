//! zstd frames of matches that somebody else found.
#![allow(unsafe_code)]

use zstd_safe::zstd_sys::{self as zstd, ZSTD_cParameter};

use super::matches::Sequence;
use crate::error::EncodeError;

/// What decides how zstd codes literals and lengths. The tables of its own search, which has nothing to do, are small.
const LEVEL: i32 = 3;
const TABLE_LOG: i32 = 10;
/// `ZSTD_MINMATCH_MIN` is 3, and blocks have room for a third more sequences then.
const MIN_MATCH: i32 = 4;

/// A context of libzstd's.
struct Context(*mut zstd::ZSTD_CCtx);

impl Context {
    fn new() -> Context {
        // SAFETY: the function only allocates; setting a parameter fails where it returned null.
        Context(unsafe { zstd::ZSTD_createCCtx() })
    }

    fn set(&mut self, parameter: ZSTD_cParameter, value: i32) -> Result<(), EncodeError> {
        if self.0.is_null() {
            return Err(EncodeError::Zstd("no memory"));
        }
        // SAFETY: the context is one that ZSTD_createCCtx returned and nobody else has.
        let code = unsafe { zstd::ZSTD_CCtx_setParameter(self.0, parameter, value) };
        checked(code).map(|_| ())
    }

    /// Appends a frame.
    fn compress(
        &mut self,
        content: &[u8],
        sequences: &[Sequence],
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let space = out.spare_capacity_mut();
        // SAFETY: the context is as in `set`; each pointer is to as many bytes or sequences as are given beside it. libzstd
        // writes into the space and does not read it.
        let code = unsafe {
            zstd::ZSTD_compressSequences(
                self.0,
                space.as_mut_ptr().cast(),
                space.len(),
                sequences.as_ptr(),
                sequences.len(),
                content.as_ptr().cast(),
                content.len(),
            )
        };
        let written = checked(code)?;
        // SAFETY: libzstd has written that many bytes there.
        unsafe { out.set_len(out.len() + written) };
        Ok(())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is freed once; freeing null is allowed.
        unsafe { zstd::ZSTD_freeCCtx(self.0) };
    }
}

fn checked(code: usize) -> Result<usize, EncodeError> {
    // SAFETY: both functions take any number.
    let is_error = unsafe { zstd::ZSTD_isError(code) } != 0;
    match is_error {
        true => Err(EncodeError::Zstd(zstd_safe::get_error_name(code))),
        false => Ok(code),
    }
}

/// Packs `content` as one frame without a magic number, with these matches and a window of 2^`window_log` bytes.
///
/// libzstd trusts them: the lengths of a block's sequences have to be its length, and each distance has to lie in the content
/// before the match and in the window.
pub fn compress(
    content: &[u8],
    sequences: &[Sequence],
    window_log: u32,
) -> Result<Vec<u8>, EncodeError> {
    let blocks = sequences
        .iter()
        .filter(|sequence| sequence.matchLength == 0);
    // Each block has a header, and what is not shorter is stored.
    const HEADERS_LEN: usize = 64;
    const BLOCK_HEADER_LEN: usize = 16;
    let headers_len = HEADERS_LEN + blocks.count() * BLOCK_HEADER_LEN;
    let mut packed = Vec::with_capacity(zstd_safe::compress_bound(content.len()) + headers_len);
    let mut context = Context::new();
    use ZSTD_cParameter::*;
    context.set(ZSTD_c_compressionLevel, LEVEL)?;
    context.set(ZSTD_c_windowLog, window_log as i32)?;
    context.set(ZSTD_c_hashLog, TABLE_LOG)?;
    context.set(ZSTD_c_chainLog, TABLE_LOG)?;
    context.set(ZSTD_c_minMatch, MIN_MATCH)?;
    context.set(ZSTD_c_contentSizeFlag, 0)?;
    context.set(FORMAT, zstd::ZSTD_format_e::ZSTD_f_zstd1_magicless as i32)?;
    let explicit = zstd::ZSTD_sequenceFormat_e::ZSTD_sf_explicitBlockDelimiters;
    context.set(BLOCK_DELIMITERS, explicit as i32)?;
    let enabled = zstd::ZSTD_paramSwitch_e::ZSTD_ps_enable;
    context.set(SEARCH_FOR_REPEATED_DISTANCES, enabled as i32)?;
    context.compress(content, sequences, &mut packed)?;
    packed.shrink_to_fit();
    Ok(packed)
}

// Names of experimental parameters, which are macros in zstd.h.
/// `ZSTD_c_format`.
const FORMAT: ZSTD_cParameter = ZSTD_cParameter::ZSTD_c_experimentalParam2;
/// `ZSTD_c_blockDelimiters`.
const BLOCK_DELIMITERS: ZSTD_cParameter = ZSTD_cParameter::ZSTD_c_experimentalParam11;
/// `ZSTD_c_searchForExternalRepcodes`.
const SEARCH_FOR_REPEATED_DISTANCES: ZSTD_cParameter = ZSTD_cParameter::ZSTD_c_experimentalParam19;
