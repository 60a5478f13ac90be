//! Averages that forget by time, never by the number of samples, and a histogram that does so
//! too. They take the time from the caller and keep no other state.

/// A mean whose samples fade by e every `span_ns`, however many arrive.
#[derive(Clone, Copy, Debug)]
pub struct FadingMean {
    span_ns: u64,
    at_ns: u64,
    sum: f64,
    weight: f64,
}

impl FadingMean {
    /// An empty mean. `span_ns` is the time in which a sample loses 63 % of its weight.
    #[must_use]
    pub const fn new(span_ns: u64) -> Self {
        Self { span_ns, at_ns: 0, sum: 0.0, weight: 0.0 }
    }

    /// Adds a sample taken at `now_ns`. A time before the latest one counts as the latest one.
    pub fn add(&mut self, now_ns: u64, sample: f64) {
        let keep = self.keep(now_ns);
        self.sum = self.sum * keep + sample;
        self.weight = self.weight * keep + 1.0;
        self.at_ns = self.at_ns.max(now_ns);
    }

    /// The mean; none before the first sample.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }

    /// What is left of the sum of all samples at `now_ns`.
    #[must_use]
    pub fn sum(&self, now_ns: u64) -> f64 {
        self.sum * self.keep(now_ns)
    }

    /// What is left of the number of samples at `now_ns`.
    #[must_use]
    pub fn weight(&self, now_ns: u64) -> f64 {
        self.weight * self.keep(now_ns)
    }

    fn keep(&self, now_ns: u64) -> f64 {
        fade(now_ns.saturating_sub(self.at_ns), self.span_ns)
    }
}

/// e to the power of -age/span: 1 for news, 0 for what is long past.
#[must_use]
pub fn fade(age_ns: u64, span_ns: u64) -> f64 {
    if age_ns == 0 { 1.0 } else { (-(age_ns as f64) / span_ns.max(1) as f64).exp() }
}

/// The nearest whole number; what does not fit becomes the end of the range, and no number 0.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, which is what is wanted here"
)]
pub fn whole(x: f64) -> u64 {
    x.round() as u64
}

/// Steps per doubling: a bucket is at most 9 % wide.
const STEPS: usize = 8;
const BUCKETS: usize = 64 * STEPS;

/// Quantiles of times from 1 ns up, within 9 %, of which half is forgotten every half-life.
#[derive(Clone, Debug)]
pub struct FadingHistogram {
    half_life_ns: u64,
    halved_ns: u64,
    counts: Vec<f32>,
    total: f64,
}

impl FadingHistogram {
    /// An empty histogram (2 KiB).
    #[must_use]
    pub fn new(half_life_ns: u64) -> Self {
        Self { half_life_ns, halved_ns: 0, counts: vec![0.0; BUCKETS], total: 0.0 }
    }

    /// Adds one time.
    pub fn add(&mut self, now_ns: u64, sample_ns: u64) {
        if now_ns.saturating_sub(self.halved_ns) >= self.half_life_ns {
            self.halved_ns = now_ns;
            self.counts.iter_mut().for_each(|count| *count *= 0.5);
            self.total *= 0.5;
        }
        self.counts[bucket(sample_ns)] += 1.0;
        self.total += 1.0;
    }

    /// The number of samples that are still remembered.
    #[must_use]
    pub fn weight(&self) -> f64 {
        self.total
    }

    /// The upper end of the bucket in which the quantile `p` (0 to 1) lies; none without samples.
    #[must_use]
    pub fn quantile(&self, p: f64) -> Option<u64> {
        if self.total < 0.5 {
            return None;
        }
        let mut left = p.clamp(0.0, 1.0) * self.total;
        let mut last = None;
        for (at, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            last = Some(upper_end(at));
            left -= f64::from(*count);
            if left <= 0.0 {
                break;
            }
        }
        last
    }
}

fn bucket(sample_ns: u64) -> usize {
    let steps = (sample_ns.max(1) as f64).log2() * STEPS as f64;
    usize::try_from(whole(steps.floor())).unwrap_or(0).min(BUCKETS - 1)
}

fn upper_end(bucket: usize) -> u64 {
    whole(((bucket + 1) as f64 / STEPS as f64).exp2())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn forgetting_is_by_time_and_not_by_count() {
        let mut mean = FadingMean::new(1_000);
        mean.add(0, 100.0);
        (0..50).for_each(|_| mean.add(0, 100.0));
        assert_eq!(mean.mean(), Some(100.0));
        // Ten spans later one sample outweighs fifty old ones.
        mean.add(10_000, 1.0);
        assert!(mean.mean().is_some_and(|m| m < 2.0));
        assert!(mean.weight(30_000) < 1e-6);
    }

    #[test]
    fn a_clock_that_jumps_back_does_not_revive_the_past() {
        let mut mean = FadingMean::new(1_000);
        mean.add(5_000, 10.0);
        mean.add(0, 20.0);
        assert_eq!(mean.mean(), Some(15.0));
    }

    #[test]
    fn an_old_peak_leaves_the_histogram() {
        let mut histogram = FadingHistogram::new(1_000_000);
        (0..100).for_each(|_| histogram.add(0, 1_000_000));
        for step in 1..20u64 {
            (0..10).for_each(|_| histogram.add(step * 1_000_000, 1_000));
        }
        assert!(histogram.quantile(0.99).is_some_and(|q| q < 1_200));
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_a_bucket(samples in prop::collection::vec(1u64..1 << 40, 1..200), p in 0.01f64..1.0) {
            let mut histogram = FadingHistogram::new(u64::MAX);
            samples.iter().for_each(|s| histogram.add(0, *s));
            let mut sorted = samples.clone();
            sorted.sort_unstable();
            let rank = usize::try_from(whole((p * sorted.len() as f64).ceil())).unwrap().max(1);
            let exact = sorted[rank - 1] as f64;
            let found = histogram.quantile(p).unwrap() as f64;
            prop_assert!(found >= exact * 0.999 - 1.0 && found <= exact * 1.1 + 1.0, "{found} {exact}");
        }
    }
}
