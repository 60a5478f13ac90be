//! Quantiles by a merging t-digest: Dunning and Ertl, "Computing Extremely Accurate Quantiles Using
//! t-Digests" (2019), sections 2.6 (merging) and 2.9 (interpolation), with the scale function k1.
//!
//! Few values are kept as they are, so that small sets are answered exactly, as Elasticsearch does.

use serde::{Deserialize, Serialize};

/// A digest of doubles.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TDigest {
    compression: f64,
    /// (mean, weight); the first `sorted` are in order and compressed, the others wait.
    centroids: Vec<(f64, f64)>,
    sorted: usize,
    #[serde(with = "crate::aggregation::bits")]
    min: f64,
    #[serde(with = "crate::aggregation::bits")]
    max: f64,
}

impl TDigest {
    pub(crate) fn new(compression: f64) -> Self {
        Self {
            compression,
            centroids: Vec::new(),
            sorted: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }

    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.centroids.capacity() * size_of::<(f64, f64)>()
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the compression lies between 10 and 10,000"
    )]
    fn waiting_max(&self) -> usize {
        // Compressing leaves about twice the compression, so that most of the room is for waiting.
        (self.compression * 10.0) as usize
    }

    pub(crate) fn add(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.centroids.push((value, 1.0));
        if self.centroids.len() > self.waiting_max() {
            self.compress();
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        for centroid in &other.centroids {
            self.centroids.push(*centroid);
            if self.centroids.len() > self.waiting_max() {
                self.compress();
            }
        }
    }

    fn sort(&mut self) {
        if self.sorted < self.centroids.len() {
            self.centroids.sort_by(|a, b| a.0.total_cmp(&b.0));
            self.sorted = self.centroids.len();
        }
    }

    fn compress(&mut self) {
        self.sort();
        let total: f64 = self.centroids.iter().map(|(_, weight)| weight).sum();
        // Four times the scale of the paper, at which the middle is as exact as Elasticsearch's.
        let scale = self.compression * 2.0 / std::f64::consts::PI;
        // The largest quantile a centroid may reach that begins at `q`: one step of k1.
        let limit = |q: f64| {
            let k = (scale * (2.0 * q - 1.0).asin() + 1.0) / scale;
            if k >= std::f64::consts::FRAC_PI_2 { 1.0 } else { f64::midpoint(k.sin(), 1.0) }
        };
        let mut kept = 0;
        let mut before = 0.0;
        let mut until = limit(0.0) * total;
        for next in 1..self.centroids.len() {
            let (Some(&(mean, weight)), Some(&(own_mean, own_weight))) =
                (self.centroids.get(next), self.centroids.get(kept))
            else {
                break;
            };
            let together = own_weight + weight;
            if before + together <= until {
                if let Some(own) = self.centroids.get_mut(kept) {
                    *own = (own_mean + (mean - own_mean) * weight / together, together);
                }
            } else {
                before += own_weight;
                until = limit(before / total) * total;
                kept += 1;
                if let Some(own) = self.centroids.get_mut(kept) {
                    *own = (mean, weight);
                }
            }
        }
        self.centroids.truncate(kept + 1);
        self.sorted = self.centroids.len();
    }

    /// The value below which the share `q` (0 to 1) of the weight lies; NaN where there is none.
    pub(crate) fn quantile(&mut self, q: f64) -> f64 {
        self.sort();
        let (Some(first), Some(last)) = (self.centroids.first(), self.centroids.last()) else {
            return f64::NAN;
        };
        let total: f64 = self.centroids.iter().map(|(_, weight)| weight).sum();
        let index = q * total;
        if index < first.1 / 2.0 {
            return if first.1 <= 1.0 {
                self.min
            } else {
                self.min + index * 2.0 / first.1 * (first.0 - self.min)
            };
        }
        if index > total - last.1 / 2.0 {
            let rest = total - index;
            return if last.1 <= 1.0 {
                self.max
            } else {
                self.max - rest * 2.0 / last.1 * (self.max - last.0)
            };
        }
        // Between the middles of two centroids values are spread evenly.
        let mut middle = first.1 / 2.0;
        for pair in self.centroids.windows(2) {
            let [(mean, weight), (next_mean, next_weight)] = pair else { break };
            let step = f64::midpoint(*weight, *next_weight);
            if index <= middle + step {
                return mean + (index - middle) / step * (next_mean - mean);
            }
            middle += step;
        }
        self.max
    }

    /// The share (0 to 1) of the weight at or below `value`; NaN where there is none.
    pub(crate) fn rank(&mut self, value: f64) -> f64 {
        self.sort();
        let (Some(first), Some(last)) = (self.centroids.first(), self.centroids.last()) else {
            return f64::NAN;
        };
        if value < self.min {
            return 0.0;
        }
        if value >= self.max {
            return 1.0;
        }
        let total: f64 = self.centroids.iter().map(|(_, weight)| weight).sum();
        if value < first.0 {
            return (value - self.min) / (first.0 - self.min) * (first.1 / 2.0) / total;
        }
        if value >= last.0 {
            let share =
                if self.max > last.0 { (self.max - value) / (self.max - last.0) } else { 0.0 };
            return 1.0 - share * (last.1 / 2.0) / total;
        }
        let mut middle = first.1 / 2.0;
        let mut found = 0.0;
        for pair in self.centroids.windows(2) {
            let [(mean, weight), (next_mean, next_weight)] = pair else { break };
            let step = f64::midpoint(*weight, *next_weight);
            if *mean <= value && value < *next_mean {
                found = middle + (value - mean) / (next_mean - mean) * step;
                break;
            }
            middle += step;
        }
        found / total
    }

    /// The median of the distances from the median.
    pub(crate) fn median_absolute_deviation(&mut self) -> f64 {
        let median = self.quantile(0.5);
        let mut distances = Self::new(self.compression);
        for (mean, weight) in &self.centroids {
            let distance = (mean - median).abs();
            distances.min = distances.min.min(distance);
            distances.max = distances.max.max(distance);
            distances.centroids.push((distance, *weight));
        }
        distances.quantile(0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_answered_exactly() {
        let mut digest = TDigest::new(100.0);
        for value in [5.0, 2.0, 6.0] {
            digest.add(value);
        }
        let asked = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];
        assert_eq!(asked.map(|q| digest.quantile(q)), [2.0, 2.0, 2.75, 5.0, 5.75, 6.0, 6.0]);
        assert_eq!(digest.median_absolute_deviation(), 1.0);
        assert!(TDigest::new(100.0).quantile(0.5).is_nan());
    }

    proptest::proptest! {
        #[test]
        fn many_values_are_answered_nearly(seed in 0u64..1_000, parts in 1usize..5) {
            let mut digests = vec![TDigest::new(100.0); parts];
            let mut values = Vec::new();
            let mut state = seed;
            for i in 0..20_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let value = ((state >> 33) as f64).powf(1.5);
                values.push(value);
                digests[i % parts].add(value);
            }
            let mut whole = TDigest::new(100.0);
            for digest in &digests {
                whole.merge(digest);
            }
            proptest::prop_assert!(whole.centroids.len() <= whole.waiting_max());
            values.sort_by(f64::total_cmp);
            for q in [0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999] {
                let estimate = whole.quantile(q);
                let below = values.partition_point(|value| *value <= estimate) as f64 / values.len() as f64;
                proptest::prop_assert!((below - q).abs() < 0.01, "{} {}", q, below);
                proptest::prop_assert!((whole.rank(estimate) - q).abs() < 0.01);
            }
        }
    }
}
