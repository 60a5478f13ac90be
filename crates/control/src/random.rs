//! A tiny seeded generator (splitmix64, Steele, Lea and Flood 2014), so that every choice can be
//! repeated from its seed. It is not fit for secrets.

/// A stream of pseudo-random numbers; the same seed gives the same stream on every machine.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of `seed`; any value is good, also 0.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        // 53 bits are what a double holds exactly.
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0..n; 0 where n is 0.
    pub fn below(&mut self, n: usize) -> usize {
        let wide = u128::from(self.next_u64()) * n as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_stream() {
        let (mut a, mut b) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        assert_ne!(Random::new(8).next_u64(), Random::new(7).next_u64());
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut random = Random::new(1);
        let mut seen = [0u32; 5];
        for _ in 0..10_000 {
            seen[random.below(5)] += 1;
        }
        assert!(seen.iter().all(|n| (1_800..2_200).contains(n)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
