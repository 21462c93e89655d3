//! A hash for small keys: one multiplication a word.

use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

/// For keys out of tables of ours.
pub type FastHash = BuildHasherDefault<FastHasher>;

/// For keys that whoever writes to the database may choose: begins at random, so that they
/// cannot be chosen to collide. Nothing that is written may depend on the order it gives.
#[derive(Clone, Copy, Debug)]
pub struct SeededHash(u64);

impl Default for SeededHash {
    fn default() -> Self {
        SeededHash(random_seed())
    }
}

/// A number that nobody can foresee.
pub fn random_seed() -> u64 {
    RandomState::new().hash_one(0)
}

/// Mixes the bits of a word.
#[inline]
pub fn fold(word: u64) -> u64 {
    let product = u128::from(word) * 0x9E37_79B9_7F4A_7C15;
    (product >> 64) as u64 ^ product as u64
}

impl BuildHasher for SeededHash {
    type Hasher = FastHasher;

    fn build_hasher(&self) -> FastHasher {
        FastHasher(self.0)
    }
}

/// Multiplies and folds each word.
#[derive(Clone, Copy, Debug, Default)]
pub struct FastHasher(u64);

impl FastHasher {
    #[inline]
    fn add(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word);
    }
}

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    fn write_u8(&mut self, value: u8) {
        self.add(u64::from(value) | 0x100);
    }

    fn write_u32(&mut self, value: u32) {
        self.add(u64::from(value) | 1 << 32);
    }

    fn write_usize(&mut self, value: usize) {
        self.add(value as u64 ^ 1 << 62);
    }
}
