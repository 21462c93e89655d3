//! CRC-32C of records, most of which are so short that a general function takes longer to begin
//! than to end.
#![allow(unsafe_code)]

/// The CRC-32C of two parts, one behind the other.
#[inline]
pub fn crc32c_of_parts(first: &[u8], second: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if first.len() < short::LEN_END && is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instructions.
        return unsafe { short::crc32c_of_parts(first, second) };
    }
    crc32c::crc32c_append(crc32c::crc32c(first), second)
}

#[cfg(target_arch = "x86_64")]
mod short {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};

    /// From so many bytes on the general function reads three places at once.
    pub const LEN_END: usize = 768;

    /// See [`super::crc32c_of_parts`].
    #[target_feature(enable = "sse4.2")]
    pub fn crc32c_of_parts(first: &[u8], second: &[u8]) -> u32 {
        !append(append(!0, first), second)
    }

    #[inline]
    #[target_feature(enable = "sse4.2")]
    fn append(crc: u32, bytes: &[u8]) -> u32 {
        let (words, rest) = bytes.as_chunks();
        let add = |crc, word: &[u8; 8]| _mm_crc32_u64(crc, u64::from_le_bytes(*word));
        let mut crc = words.iter().fold(u64::from(crc), add) as u32;
        let (half, rest) = rest.as_chunks();
        for half in half {
            crc = _mm_crc32_u32(crc, u32::from_le_bytes(*half));
        }
        let add = |crc, byte: &u8| _mm_crc32_u8(crc, *byte);
        rest.iter().fold(crc, add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn two_parts_are_one_whole(bytes in prop::collection::vec(any::<u8>(), 0..1200), cut in any::<prop::sample::Index>()) {
            let (first, second) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(crc32c_of_parts(first, second), crc32c::crc32c(&bytes));
        }
    }
}
