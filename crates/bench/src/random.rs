//! Numbers that look random and are the same for the same seed, on every machine.

/// A sequence of numbers (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of a seed; each `stream` of a seed is another one.
    pub(crate) fn new(seed: u64, stream: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ stream.rotate_left(32));
        random.next();
        random
    }

    /// Any 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// From 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Evenly from 0 to below a limit.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        (self.unit() * limit as f64) as u64
    }

    /// From 0 to below a limit, the small ones far more often, as popularity is.
    pub(crate) fn skewed(&mut self, limit: u64) -> u64 {
        (self.unit().powi(3) * limit as f64) as u64
    }

    /// Whether something happens that does in so many of a hundred cases.
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of a list, each as often.
    pub(crate) fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        let index = self.below(list.len() as u64) as usize;
        list.get(index).copied().unwrap_or_default()
    }

    /// About as often below 0 as above, mostly near it.
    pub(crate) fn bell(&mut self) -> f64 {
        self.unit() + self.unit() + self.unit() - 1.5
    }

    /// A random UUID (version 4).
    pub(crate) fn uuid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xFFFF,
            high & 0xFFF,
            0x8000 | (low >> 50),
            low & 0xFFFF_FFFF_FFFF
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_stream_others() {
        let numbers = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.next(), random.below(1000), random.skewed(1000)]
        };
        assert_eq!(numbers(1, 2), numbers(1, 2));
        assert_ne!(numbers(1, 2), numbers(1, 3));
        assert_ne!(numbers(1, 2), numbers(2, 2));
    }

    #[test]
    fn a_uuid_has_its_form_and_version() {
        let uuid = Random::new(7, 7).uuid();
        let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(&uuid[14..15], "4");
        assert!("89ab".contains(&uuid[19..20]));
    }

    #[test]
    fn small_numbers_are_the_popular_ones() {
        let mut random = Random::new(1, 1);
        let small = (0..1000).filter(|_| random.skewed(1000) < 100).count();
        assert!((400..550).contains(&small), "{small}");
    }
}
