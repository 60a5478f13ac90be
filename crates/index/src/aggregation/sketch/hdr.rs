//! Quantiles by a histogram whose buckets have a relative width, after Tene's HdrHistogram: each
//! power of two is cut into equal parts, so many that a value keeps its first decimal digits.

use serde::{Deserialize, Serialize};

/// A histogram of doubles that are not negative.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hdr {
    /// Bits of the mantissa that a bucket's number keeps.
    bits: u32,
    /// (bucket, count), in order.
    buckets: Vec<(u64, u64)>,
}

impl Hdr {
    /// Keeps so many decimal digits (0 to 5).
    pub(crate) fn new(digits: u8) -> Self {
        // 2 * 10^digits parts tell 10^digits numbers apart at the upper end of a power of two.
        let parts = 2 * 10u32.pow(u32::from(digits.min(5)));
        Self { bits: parts.next_power_of_two().trailing_zeros() - 1, buckets: Vec::new() }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<(u64, u64)>()
    }

    /// Counts a value; false where it is negative or no number, and cannot be counted.
    pub(crate) fn add(&mut self, value: f64) -> bool {
        if value.is_nan() || value < 0.0 || value.is_infinite() {
            return false;
        }
        self.count(value.abs().to_bits() >> (52 - self.bits), 1);
        true
    }

    fn count(&mut self, bucket: u64, by: u64) {
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(position) => {
                if let Some((_, count)) = self.buckets.get_mut(position) {
                    *count = count.saturating_add(by);
                }
            }
            Err(position) => self.buckets.insert(position, (bucket, by)),
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.buckets {
            self.count(*bucket, *count);
        }
    }

    fn low(&self, bucket: u64) -> f64 {
        f64::from_bits(bucket << (52 - self.bits))
    }

    fn total(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The smallest difference the histogram of integers behind the original would know: the
    /// smallest value's power of two is cut into the parts of one.
    fn unit(&self) -> f64 {
        let smallest =
            self.buckets.iter().map(|(bucket, _)| self.low(*bucket)).find(|low| *low > 0.0);
        smallest.map_or(0.0, |low| {
            let power = f64::from_bits(low.to_bits() >> 52 << 52);
            power / f64::from(1u32 << self.bits)
        })
    }

    /// The greatest value that counts as the same as those below which `q` (0 to 1) of all lie.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts stay far below 2^53"
    )]
    pub(crate) fn quantile(&self, q: f64) -> f64 {
        let wanted = ((q * self.total() as f64 + 0.5) as u64).max(1);
        let mut seen = 0u64;
        for (bucket, count) in &self.buckets {
            seen = seen.saturating_add(*count);
            if seen >= wanted {
                let low = self.low(*bucket);
                return if low > 0.0 { (self.low(bucket + 1) - self.unit()).max(low) } else { 0.0 };
            }
        }
        f64::NAN
    }

    /// The share (0 to 1) of the values at or below `value`.
    pub(crate) fn rank(&self, value: f64) -> f64 {
        if self.buckets.is_empty() {
            return f64::NAN;
        }
        if value < 0.0 {
            return 0.0;
        }
        let own = value.abs().to_bits() >> (52 - self.bits);
        let below = self.buckets.iter().take_while(|(bucket, _)| *bucket <= own);
        below.map(|(_, count)| *count as f64).sum::<f64>() / self.total() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_original() {
        let mut histogram = Hdr::new(3);
        for value in [151.0, 1.0, 101.0, 51.0] {
            assert!(histogram.add(value));
        }
        assert!(!histogram.add(-1.0));
        let asked = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];
        let known = [
            1.0,
            1.0,
            1.0,
            51.030_273_437_5,
            101.061_523_437_5,
            151.124_023_437_5,
            151.124_023_437_5,
        ];
        assert_eq!(asked.map(|q| histogram.quantile(q)), known);
        assert_eq!(histogram.rank(51.0), 0.5);
    }

    proptest::proptest! {
        #[test]
        fn merging_is_counting_together(a in proptest::collection::vec(0f64..1e9, 0..50), b in proptest::collection::vec(0f64..1.0, 1..50)) {
            let (mut left, mut right, mut both) = (Hdr::new(2), Hdr::new(2), Hdr::new(2));
            for value in &a {
                left.add(*value);
                both.add(*value);
            }
            for value in &b {
                right.add(*value);
                both.add(*value);
            }
            left.merge(&right);
            for q in [0.0, 0.3, 0.5, 0.99, 1.0] {
                proptest::prop_assert_eq!(left.quantile(q), both.quantile(q));
            }
        }
    }
}
