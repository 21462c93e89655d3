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

/// The last bytes as a word, which may have others in front of them; without a copy of so many.
#[inline]
fn last_word(bytes: &[u8], rest: &[u8]) -> u64 {
    let four =
        |place: Option<&[u8; 4]>| u64::from(place.map_or(0, |four| u32::from_le_bytes(*four)));
    if let Some(last) = bytes.last_chunk() {
        return u64::from_le_bytes(*last);
    }
    match *rest {
        [] => 0,
        [one] => one.into(),
        [first, .., last] if rest.len() < 4 => {
            let middle = rest[rest.len() / 2];
            u64::from(first) | u64::from(middle) << 8 | u64::from(last) << 16
        }
        _ => four(rest.first_chunk()) | four(rest.last_chunk()) << 32,
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
        self.add(last_word(bytes, rest) ^ (bytes.len() as u64) << 56);
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
