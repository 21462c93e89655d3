//! Bits in bytes, the low ones first.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

/// Bits that a look at the next ones shows at least.
pub const SEEN_BITS: u32 = 57;

/// The number that a row of at most 8 bytes is.
#[inline(always)]
pub fn number<const W: usize>(row: &[u8; W]) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(row) {
        *to = *from;
    }
    u64::from_le_bytes(bytes)
}

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

/// Writes numbers from the last one to the first, for a reader from the first one on.
pub struct BackwardWriter {
    /// Filled from its end.
    bytes: Vec<u8>,
    start: usize,
    pending: u64,
    count: u32,
}

impl BackwardWriter {
    /// For so many bytes, about.
    pub fn with_capacity(len: usize) -> BackwardWriter {
        BackwardWriter {
            bytes: vec![0; len + 8],
            start: len + 8,
            pending: 0,
            count: 0,
        }
    }

    /// Puts a number of at most so many bits before all others.
    #[inline]
    pub fn put(&mut self, value: u64, bits: u32) {
        let count = self.count + bits;
        if count < u64::BITS {
            self.pending = self.pending << bits | value;
            self.count = count;
            return;
        }
        // The high bits of the number are the low ones of a whole word.
        let left = count - u64::BITS;
        let word = self.pending.checked_shl(bits - left).unwrap_or(0) | value >> left;
        self.put_word(word);
        self.pending = value & low_bits(left);
        self.count = left;
    }

    #[inline]
    fn put_word(&mut self, word: u64) {
        if self.start < 8 {
            self.make_room();
        }
        self.start -= 8;
        let place = self.bytes.get_mut(self.start..);
        if let Some(place) = place.and_then(|bytes| bytes.first_chunk_mut()) {
            *place = word.to_le_bytes();
        }
    }

    #[cold]
    fn make_room(&mut self) {
        let more = self.bytes.len();
        let mut bytes = vec![0; more];
        bytes.extend_from_slice(&self.bytes);
        self.bytes = bytes;
        self.start += more;
    }

    /// The bytes: zeros up to the first bit that is set, which is followed by the numbers.
    pub fn finish(&mut self) -> &[u8] {
        self.put(1, 1);
        let padding = self.count.wrapping_neg() % 8;
        self.put(0, padding);
        let word = self
            .pending
            .checked_shl(u64::BITS - self.count)
            .unwrap_or(0);
        let used = self.count as usize / 8;
        self.put_word(word);
        self.bytes.get(self.start + 8 - used..).unwrap_or_default()
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

    /// Goes to the next whole byte, and there after the first bit that is set: `false` where the
    /// byte has none.
    pub fn skip_to_start(&mut self) -> bool {
        self.at = self.at.next_multiple_of(8);
        let zeros = self.see().trailing_zeros();
        self.skip(zeros + 1);
        zeros < 8
    }

    /// All bits were taken.
    pub fn is_at_last_bit(&self) -> bool {
        self.at == self.bytes.len() * 8
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
            let mut writer = BackwardWriter::with_capacity(3);
            for &(number, bits) in numbers.iter().rev() {
                writer.put(low(number, bits), bits);
            }
            let mut bytes = vec![0xFF];
            bytes.extend_from_slice(writer.finish());
            let mut reader = BitReader::new(&bytes);
            reader.skip(3);
            prop_assert!(reader.skip_to_start());
            for &(number, bits) in &numbers {
                prop_assert_eq!(reader.take(bits), low(number, bits));
            }
            prop_assert!(reader.is_at_last_bit());
        }
    }

    #[test]
    fn needs_a_bit_to_start_at() {
        assert!(!BitReader::new(&[0, 1]).skip_to_start());
        assert!(!BitReader::new(&[]).skip_to_start());
        let mut reader = BitReader::new(&[0b0101_1000]);
        assert!(reader.skip_to_start());
        assert_eq!(reader.take(4), 0b0101);
        assert!(reader.is_at_last_bit());
    }
}
