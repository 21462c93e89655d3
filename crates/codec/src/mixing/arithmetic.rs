//! A binary arithmetic coder, in both directions. Models are generic over [`BitCoder`], as the
//! models of streams are over `Coder`.

/// The encoder or the decoder.
pub trait BitCoder {
    /// It is the encoder, which knows the bits.
    const ENCODING: bool;

    /// Codes one bit. `probability` is that of a 1, in units of 1 / 65,536, from 1 to 65,535. The
    /// encoder returns `bit`; the decoder ignores it and returns the decoded bit.
    fn bit(&mut self, probability: u32, bit: u32) -> u32;

    /// Codes the eight bits of a byte, the top one first, each with probability 1/2.
    fn even_byte(&mut self, byte: u8) -> u8 {
        (0..8).rev().fold(0, |coded, shift| {
            coded << 1 | self.bit(1 << 15, u32::from(byte >> shift) & 1) as u8
        })
    }
}

/// The current interval of the coder, both ends included.
struct Interval {
    low: u32,
    high: u32,
}

impl Interval {
    const WHOLE: Interval = Interval {
        low: 0,
        high: u32::MAX,
    };

    /// The last number of the lower part, which stands for a 1.
    #[inline(always)]
    fn split(&self, probability: u32) -> u32 {
        let width = u64::from(self.high - self.low);
        self.low + ((width * u64::from(probability)) >> 16) as u32
    }

    #[inline(always)]
    fn choose(&mut self, bit: u32, split: u32) {
        if bit == 1 {
            self.high = split;
        } else {
            self.low = split + 1;
        }
    }

    /// Shifts the top byte out if both ends have the same.
    #[inline(always)]
    fn shift(&mut self) -> Option<u8> {
        let known = (self.low ^ self.high) >> 24 == 0;
        known.then(|| {
            let byte = (self.high >> 24) as u8;
            self.low <<= 8;
            self.high = self.high << 8 | 255;
            byte
        })
    }
}

/// Encodes bits to bytes.
pub struct Encoder {
    interval: Interval,
    bytes: Vec<u8>,
}

impl Encoder {
    /// An encoder without bits.
    pub fn new() -> Encoder {
        Encoder {
            interval: Interval::WHOLE,
            bytes: Vec::new(),
        }
    }

    /// The bytes. The last one selects a number of the interval. The decoder reads zeros after it,
    /// so trailing zeros are dropped.
    pub fn finish(mut self) -> Vec<u8> {
        if self.interval.low > 0 {
            self.bytes.push((self.interval.low >> 24) as u8 + 1);
        }
        while self.bytes.last() == Some(&0) {
            self.bytes.pop();
        }
        self.bytes
    }
}

impl BitCoder for Encoder {
    const ENCODING: bool = true;

    #[inline(always)]
    fn bit(&mut self, probability: u32, bit: u32) -> u32 {
        let split = self.interval.split(probability);
        self.interval.choose(bit, split);
        while let Some(byte) = self.interval.shift() {
            self.bytes.push(byte);
        }
        bit
    }
}

/// Decodes bytes to bits. After the last byte it reads zeros.
pub struct Decoder<'d> {
    interval: Interval,
    code: u32,
    bytes: std::slice::Iter<'d, u8>,
}

impl<'d> Decoder<'d> {
    /// A decoder at the front of `bytes`.
    pub fn new(bytes: &'d [u8]) -> Decoder<'d> {
        let mut decoder = Decoder {
            interval: Interval::WHOLE,
            code: 0,
            bytes: bytes.iter(),
        };
        for _ in 0..4 {
            decoder.take();
        }
        decoder
    }

    #[inline(always)]
    fn take(&mut self) {
        let byte = self.bytes.next().copied().unwrap_or(0);
        self.code = self.code << 8 | u32::from(byte);
    }

    /// Whether all bytes have been read.
    pub fn exhausted(&self) -> bool {
        self.bytes.len() == 0
    }
}

impl BitCoder for Decoder<'_> {
    const ENCODING: bool = false;

    #[inline(always)]
    fn bit(&mut self, probability: u32, _bit: u32) -> u32 {
        let split = self.interval.split(probability);
        let bit = u32::from(self.code <= split);
        self.interval.choose(bit, split);
        while self.interval.shift().is_some() {
            self.take();
        }
        bit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn codes_any_bits_with_any_probabilities(bits in proptest::collection::vec((1u32..65536, 0u32..2), 0..500)) {
            let mut encoder = Encoder::new();
            for &(probability, bit) in &bits {
                encoder.bit(probability, bit);
            }
            let bytes = encoder.finish();
            let mut decoder = Decoder::new(&bytes);
            for &(probability, bit) in &bits {
                prop_assert_eq!(decoder.bit(probability, 0), bit);
            }
            prop_assert!(decoder.exhausted());
        }
    }
}
