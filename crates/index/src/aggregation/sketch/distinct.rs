//! How many distinct values there are: exactly while they are few, then by HyperLogLog with the
//! estimator of Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017),
//! algorithm 6, which needs no tables for small counts.

use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

/// A count of distinct 64-bit hashes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Distinct {
    /// Up to so many hashes are kept as they are.
    threshold: usize,
    state: SeenHashes,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum SeenHashes {
    Exact(#[serde(with = "as_list")] HashTable<u64>),
    /// One register for each prefix of hashes.
    Registers(Vec<u8>),
}

/// A hash table travels as the list of its hashes.
mod as_list {
    use hashbrown::HashTable;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        table: &HashTable<u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(table)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<HashTable<u64>, D::Error> {
        let list = Vec::<u64>::deserialize(deserializer)?;
        let mut table = HashTable::with_capacity(list.len());
        for hash in list {
            table.entry(hash, |other| *other == hash, |other| *other).or_insert(hash);
        }
        Ok(table)
    }
}

impl Distinct {
    /// Exact up to `threshold` values; beyond, the registers are as many as Elasticsearch's would be.
    pub(crate) fn new(threshold: usize) -> Self {
        Self { threshold, state: SeenHashes::Exact(HashTable::new()) }
    }

    /// log2 of the number of registers: 4 to 18.
    fn precision(&self) -> u32 {
        // The exact form holds a hash in three quarters of 32 bits' slots; registers take their place.
        let slots = self.threshold.saturating_mul(4).div_ceil(3).max(1);
        slots.next_power_of_two().trailing_zeros().saturating_add(2).clamp(4, 18)
    }

    pub(crate) fn bytes(&self) -> usize {
        match &self.state {
            SeenHashes::Exact(table) => table.allocation_size(),
            SeenHashes::Registers(registers) => registers.len(),
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, hash: u64) {
        match &mut self.state {
            SeenHashes::Exact(table) => {
                table.entry(hash, |other| *other == hash, |other| *other).or_insert(hash);
                if table.len() > self.threshold {
                    self.estimate_from_now();
                }
            }
            SeenHashes::Registers(registers) => register(registers, hash),
        }
    }

    fn estimate_from_now(&mut self) {
        let mut registers = vec![0; 1 << self.precision()];
        if let SeenHashes::Exact(table) = &self.state {
            for hash in table {
                register(&mut registers, *hash);
            }
        }
        self.state = SeenHashes::Registers(registers);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        match &other.state {
            SeenHashes::Exact(table) => table.iter().for_each(|hash| self.add(*hash)),
            SeenHashes::Registers(theirs) => {
                if matches!(self.state, SeenHashes::Exact(_)) {
                    self.estimate_from_now();
                }
                if let SeenHashes::Registers(own) = &mut self.state {
                    for (own, their) in own.iter_mut().zip(theirs) {
                        *own = (*own).max(*their);
                    }
                }
            }
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of at most 2^64 that is an estimate anyway"
    )]
    pub(crate) fn count(&self) -> u64 {
        match &self.state {
            SeenHashes::Exact(table) => table.len() as u64,
            SeenHashes::Registers(registers) => {
                let m = registers.len() as f64;
                let q = 64 - registers.len().trailing_zeros() as usize;
                let mut histogram = vec![0u32; q + 2];
                for value in registers {
                    if let Some(count) = histogram.get_mut(usize::from(*value).min(q + 1)) {
                        *count += 1;
                    }
                }
                let at = |k: usize| f64::from(histogram.get(k).copied().unwrap_or(0));
                let mut z = m * tau(1.0 - at(q + 1) / m);
                for k in (1..=q).rev() {
                    z = 0.5 * (z + at(k));
                }
                z += m * sigma(at(0) / m);
                (m * m / (2.0 * std::f64::consts::LN_2 * z)).round() as u64
            }
        }
    }
}

fn register(registers: &mut [u8], hash: u64) {
    let precision = registers.len().trailing_zeros();
    let index = usize::try_from(hash >> (64 - precision)).unwrap_or(0);
    let rest = hash << precision;
    let rank = u8::try_from(rest.leading_zeros().min(64 - precision) + 1).unwrap_or(u8::MAX);
    if let Some(value) = registers.get_mut(index) {
        *value = (*value).max(rank);
    }
}

fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z <= before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z >= before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(value: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&value.to_le_bytes())
    }

    #[test]
    fn few_are_counted_and_many_are_estimated() {
        for n in [0u64, 1, 2_999, 3_000, 3_001, 10_000, 1_000_000] {
            let mut count = Distinct::new(3_000);
            for value in 0..n {
                count.add(hash(value));
                count.add(hash(value / 2));
            }
            let error = count.count().abs_diff(n) as f64 / n.max(1) as f64;
            assert!(if n <= 3_000 { error == 0.0 } else { error < 0.02 }, "{n}: {}", count.count());
        }
    }

    proptest::proptest! {
        #[test]
        fn merging_is_counting_together(a in 0u64..9_000, b in 0u64..9_000, at in 0u64..9_000, threshold in 0usize..4_000) {
            let (mut left, mut right, mut both) = (Distinct::new(threshold), Distinct::new(threshold), Distinct::new(threshold));
            for value in 0..a {
                left.add(hash(value));
                both.add(hash(value));
            }
            for value in at..at + b {
                right.add(hash(value));
                both.add(hash(value));
            }
            let sent: Distinct = serde_json::from_str(&serde_json::to_string(&right).unwrap()).unwrap();
            left.merge(&sent);
            proptest::prop_assert_eq!(left.count(), both.count());
        }
    }
}
