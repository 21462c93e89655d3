//! Bits in bytes, the low ones first.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

/// Bits that a look at the next ones shows at least.
pub const SEEN_BITS: u32 = 57;

/// Writes bits.
#[derive(Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// Bits that are no 8 bytes yet.
    pending: u64,
    count: u32,
}

impl BitWriter {
    /// Writes after these bytes.
    pub fn after(bytes: Vec<u8>) -> BitWriter {
        BitWriter {
            bytes,
            pending: 0,
            count: 0,
        }
    }

    /// Appends a number of at most so many bits.
    #[inline]
    pub fn put(&mut self, value: u64, bits: u32) {
        self.pending |= value << self.count;
        let count = self.count + bits;
        if count >= u64::BITS {
            self.bytes.extend_from_slice(&self.pending.to_le_bytes());
            self.pending = value.checked_shr(u64::BITS - self.count).unwrap_or(0);
        }
        self.count = count % u64::BITS;
    }

    /// The bytes, of which the last one is filled with zeros.
    pub fn finish(mut self) -> Vec<u8> {
        let last = self.pending.to_le_bytes();
        let used = self.count.div_ceil(8) as usize;
        self.bytes.extend(last.iter().take(used));
        self.bytes
    }
}

/// Reads bits; zeros after the end.
pub struct BitReader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> BitReader<'b> {
    /// Reads from the front.
    pub fn new(bytes: &'b [u8]) -> BitReader<'b> {
        BitReader { bytes, at: 0 }
    }

    /// The next bits: [`SEEN_BITS`] of them at least.
    #[inline(always)]
    pub fn see(&self) -> u64 {
        let at = self.at / 8;
        let word = match self.bytes.get(at..).and_then(<[u8]>::first_chunk) {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => self.last_word(at),
        };
        word >> (self.at % 8)
    }

    #[cold]
    fn last_word(&self, at: usize) -> u64 {
        let last = self.bytes.get(at..).unwrap_or_default();
        last.iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | u64::from(byte))
    }

    /// Goes on by so many bits.
    #[inline(always)]
    pub fn skip(&mut self, bits: u32) {
        self.at += bits as usize;
    }

    /// Takes a number of at most 64 bits.
    #[inline]
    pub fn take(&mut self, bits: u32) -> u64 {
        if bits > 32 {
            let low = self.take(32);
            return low | self.take(bits - 32) << 32;
        }
        let value = self.see() & low_bits(bits);
        self.skip(bits);
        value
    }

    /// All bits were taken but for zeros in the last byte.
    pub fn is_at_end(&self) -> bool {
        self.at.div_ceil(8) == self.bytes.len() && self.see() == 0
    }
}

/// As many ones, from the lowest on: fewer than 64.
#[inline(always)]
pub fn low_bits(bits: u32) -> u64 {
    !u64::MAX.wrapping_shl(bits)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn takes_what_was_put(numbers in proptest::collection::vec((any::<u64>(), 0u32..=64), 0..100)) {
            let mut writer = BitWriter::default();
            let low = |number: u64, bits| number & u64::MAX.checked_shr(64 - bits).unwrap_or(0);
            for &(number, bits) in &numbers {
                writer.put(low(number, bits), bits);
            }
            let bytes = writer.finish();
            let mut reader = BitReader::new(&bytes);
            for &(number, bits) in &numbers {
                prop_assert_eq!(reader.take(bits), low(number, bits));
            }
            prop_assert!(reader.is_at_end());
        }
    }

    #[test]
    fn notices_what_is_left_over() {
        let mut reader = BitReader::new(&[0b101, 0]);
        reader.take(3);
        assert!(!reader.is_at_end());
        reader.take(6);
        assert!(reader.is_at_end());
        reader.take(8);
        assert!(!reader.is_at_end());
    }
}
