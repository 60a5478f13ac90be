//! Chance, in streams: one a purpose, so that drawing more often for one shifts nothing of another.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Where streams come from.
#[derive(Clone, Debug)]
pub struct Random {
    seed: u64,
}

/// The numbers drawn for one purpose. Not for secrets: who sees a few of them knows the rest.
#[derive(Clone, Debug)]
pub struct Stream {
    state: u64,
}

/// A stream that several threads draw from.
#[derive(Debug)]
pub struct Draws(AtomicU64);

impl Draws {
    /// The next number: as [`Stream::next_u64`].
    pub fn next_u64(&self) -> u64 {
        mixed(self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP))
    }

    /// The higher half of the next number.
    pub fn next_u32(&self) -> u32 {
        u32::try_from(self.next_u64() >> 32).unwrap_or(u32::MAX)
    }
}

impl Random {
    /// From the machine: other numbers each time.
    #[must_use]
    pub fn of_the_machine() -> Self {
        // The standard library seeds its hash keys from the system, each time anew.
        Self::seeded(RandomState::new().hash_one(std::process::id()))
    }

    /// From a seed: the same numbers each time.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { seed }
    }

    /// The stream of a purpose. Asked for again, it begins anew.
    #[must_use]
    pub fn of(&self, purpose: &str) -> Stream {
        Stream { state: xxh3_64_with_seed(purpose.as_bytes(), self.seed) }
    }

    /// The same stream, for several threads.
    #[must_use]
    pub fn draws(&self, purpose: &str) -> Draws {
        Draws(AtomicU64::new(self.of(purpose).state))
    }

    /// Chance for a part that has purposes of its own, a node's for one.
    #[must_use]
    pub fn part(&self, name: &str) -> Self {
        Self { seed: self.of(name).next_u64() }
    }
}

/// By how much a stream's state grows with each number.
///
/// SplitMix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA
/// 2014), figure 17.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of a state: see [`STEP`].
fn mixed(state: u64) -> u64 {
    let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Stream {
    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mixed(self.state)
    }

    /// A number below `end`, each as likely as any other but for one part in 2^64 / `end`.
    ///
    /// # Panics
    /// Where `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is no number below 0");
        let product = u128::from(self.next_u64()) * u128::from(end);
        u64::try_from(product >> 64).unwrap_or(u64::MAX)
    }

    /// Whether what happens once in so many times happens now; never where that is 0.
    pub fn once_in(&mut self, times: u64) -> bool {
        times > 0 && self.below(times) == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn first(random: &Random, purpose: &str) -> [u64; 3] {
        let mut stream = random.of(purpose);
        [0; 3].map(|_| stream.next_u64())
    }

    #[test]
    fn a_stream_is_its_seed_and_purpose() {
        let random = Random::seeded(7);
        assert_eq!(first(&random, "lead"), first(&random.clone(), "lead"));
        assert_ne!(first(&random, "lead"), first(&random, "session"));
        assert_ne!(first(&random, "lead"), first(&Random::seeded(8), "lead"));
        assert_ne!(first(&random.part("n1"), "lead"), first(&random.part("n2"), "lead"));
        let of_the_machine = [(); 2].map(|()| first(&Random::of_the_machine(), "lead"));
        assert_ne!(of_the_machine[0], of_the_machine[1]);
    }

    #[test]
    fn several_threads_draw_what_one_would() {
        let (random, mut alone) = (Random::seeded(7), Random::seeded(7).of("lead"));
        let draws = random.draws("lead");
        assert!((0..3).all(|_| draws.next_u64() == alone.next_u64()));
    }

    #[test]
    fn numbers_are_those_of_the_paper() {
        // Published first outputs for the state 1234567.
        let mut stream = Stream { state: 1_234_567 };
        let drawn = [0; 3].map(|_| stream.next_u64());
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    proptest! {
        #[test]
        fn numbers_stay_below_their_end_and_reach_all_of_it(seed: u64, end in 1u64..20) {
            let mut stream = Random::seeded(seed).of("test");
            let mut seen = vec![0u32; usize::try_from(end).unwrap()];
            for _ in 0..end * 100 {
                seen[usize::try_from(stream.below(end)).unwrap()] += 1;
            }
            prop_assert!(seen.iter().all(|count| *count > 20), "{seen:?}");
            prop_assert!(!stream.once_in(0) && stream.once_in(1));
        }
    }
}
