//! Distributions, drawn from the one seeded stream of a run. Nothing here keeps a state of its
//! own, so that the order of the draws alone decides what comes out.

use plimsoll_control::Random;
use plimsoll_control::average::whole;

/// A log-normal distribution by its mean and its coefficient of variation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LogNormal {
    mean: f64,
    mu: f64,
    sigma: f64,
}

impl LogNormal {
    /// `variation` is the standard deviation over the mean; 0 gives the mean every time.
    pub(crate) fn new(mean: f64, variation: f64) -> Self {
        let sigma_squared = (1.0 + variation * variation).ln();
        Self { mean, mu: mean.ln() - sigma_squared / 2.0, sigma: sigma_squared.sqrt() }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> f64 {
        if self.sigma == 0.0 { self.mean } else { (self.mu + self.sigma * normal(random)).exp() }
    }
}

/// Standard normal (Box and Muller 1958; the second value is thrown away to stay without state).
pub(crate) fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// Exponential with this mean, as a whole number of ns.
pub(crate) fn exponential_ns(random: &mut Random, mean_ns: f64) -> u64 {
    whole(-mean_ns * (1.0 - random.unit()).ln())
}

/// The seed of part `part` of a run: parts do not share a stream, and neighbours do not correlate.
pub(crate) fn derive(seed: u64, part: u64) -> u64 {
    Random::new(seed ^ part.wrapping_mul(0xD6E8_FEB8_6659_FD93)).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_as_asked_for() {
        let mut random = Random::new(3);
        let distribution = LogNormal::new(10.0, 0.5);
        let draws: Vec<f64> = (0..200_000).map(|_| distribution.draw(&mut random)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!((mean - 10.0).abs() < 0.1, "{mean}");
        assert!((variance.sqrt() / mean - 0.5).abs() < 0.02, "{}", variance.sqrt() / mean);
        assert_eq!(LogNormal::new(7.0, 0.0).draw(&mut random), 7.0);
        let gaps: u64 = (0..100_000).map(|_| exponential_ns(&mut random, 1e6)).sum();
        assert!((gaps as f64 / 1e11 - 1.0).abs() < 0.02);
    }
}
