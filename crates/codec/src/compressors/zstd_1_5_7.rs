//! zstd frames as libzstd 1.5.7 writes them.
//!
//! Its match finder at PostgreSQL's level differs from that of 1.5.2 to 1.5.6, to which the codec
//! is linked. A program cannot be linked to two versions of libzstd. So this module uses a
//! translation of 1.5.7 to Rust, which writes the same bytes.
#![allow(unsafe_code)]

use libzstd_rs_sys as zstd;

/// A compression context, reused from page to page.
pub struct Compressor(*mut zstd::ZSTD_CCtx);

impl Compressor {
    /// Allocates a context.
    pub fn new() -> Compressor {
        // SAFETY: the function only allocates; null is checked where it is used.
        Compressor(unsafe { zstd::ZSTD_createCCtx() })
    }

    /// Compresses as `ZSTD_compress` and replaces `out`. Returns `false` if that fails.
    pub fn compress(&mut self, input: &[u8], out: &mut Vec<u8>, level: i32) -> bool {
        out.clear();
        out.resize(zstd_safe::compress_bound(input.len()), 0);
        if self.0.is_null() {
            return false;
        }
        // SAFETY: the context is one that ZSTD_createCCtx returned and nobody else has; both
        // pointers are to slices of the lengths given.
        let written = unsafe {
            zstd::ZSTD_compressCCtx(
                self.0,
                out.as_mut_ptr().cast(),
                out.len(),
                input.as_ptr().cast(),
                input.len(),
                level,
            )
        };
        let fits = written <= out.len();
        out.truncate(if fits { written } else { 0 });
        fits
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        // SAFETY: the context is freed once; freeing null is allowed.
        unsafe { zstd::ZSTD_freeCCtx(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_frames_that_the_other_library_reads() {
        let input: Vec<u8> = (0..8000u32).map(|i| (i * i / 77) as u8).collect();
        let mut packed = Vec::new();
        assert!(Compressor::new().compress(&input, &mut packed, 3));
        let mut back = vec![0; input.len()];
        assert_eq!(
            zstd_safe::decompress(&mut back[..], &packed),
            Ok(input.len())
        );
        assert_eq!(back, input);
    }
}
