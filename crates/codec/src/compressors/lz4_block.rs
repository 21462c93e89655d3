//! LZ4 blocks as liblz4 writes them. Only the same library recreates PostgreSQL's images bit for
//! bit.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

/// Compresses as `LZ4_compress_default` and appends to `out`. Returns `false` if that fails.
pub fn compress(input: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(len) = c_int::try_from(input.len()) else {
        return false;
    };
    // SAFETY: the function only computes a number.
    let bound = unsafe { lz4_sys::LZ4_compressBound(len) };
    let start = out.len();
    out.resize(start + bound.max(0) as usize, 0);
    let output = &mut out[start..];
    // SAFETY: both pointers are to slices of at least the lengths given.
    let written = unsafe {
        lz4_sys::LZ4_compress_default(
            input.as_ptr().cast::<c_char>(),
            output.as_mut_ptr().cast::<c_char>(),
            len,
            bound,
        )
    };
    out.truncate(start + written.max(0) as usize);
    written > 0
}

/// Decompresses into `out` and returns the number of bytes written. `None` if that fails.
pub fn decompress(input: &[u8], out: &mut [u8]) -> Option<usize> {
    let input_len = c_int::try_from(input.len()).ok()?;
    let out_len = c_int::try_from(out.len()).ok()?;
    // SAFETY: LZ4_decompress_safe reads and writes only within the lengths given.
    let written = unsafe {
        lz4_sys::LZ4_decompress_safe(
            input.as_ptr().cast::<c_char>(),
            out.as_mut_ptr().cast::<c_char>(),
            input_len,
            out_len,
        )
    };
    usize::try_from(written).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_refuses_what_is_cut() {
        let input: Vec<u8> = (0..4000u32).map(|i| (i % 97) as u8).collect();
        let mut packed = Vec::new();
        assert!(compress(&input, &mut packed));
        let mut back = vec![0; input.len()];
        assert_eq!(decompress(&packed, &mut back), Some(input.len()));
        assert_eq!(back, input);
        assert_eq!(decompress(&packed[..packed.len() - 1], &mut back), None);
    }
}
