//! Statistics of laps: percentiles with enough samples behind them, and comparisons over whole
//! laps. Requests of one lap are not independent of one another, so that only laps are resampled.

use hdrhistogram::Histogram;
use plimsoll_control::Random;
use plimsoll_control::average::whole;

use crate::result::quantiles::Quantiles;

/// A percentile is told if at least so many samples lie beyond it.
const BEYOND_MIN: f64 = 10.0;
/// Resamples of a comparison.
const RESAMPLES: usize = 2_000;

/// The distribution of a histogram of µs, in ms.
pub(crate) fn quantiles(latency_us: &Histogram<u64>) -> Quantiles {
    let n = latency_us.len();
    if n == 0 {
        return Quantiles::default();
    }
    let at = |p: f64| {
        let beyond = n as f64 * (1.0 - p);
        // 100 * (1 - 0.9) is a little under ten in floating point.
        (beyond + 1e-6 >= BEYOND_MIN).then(|| latency_us.value_at_quantile(p) as f64 / 1e3)
    };
    Quantiles {
        mean: Some(latency_us.mean() / 1e3),
        min: Some(latency_us.min() as f64 / 1e3),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p99_9: at(0.999),
        p99_99: at(0.9999),
        p100: Some(latency_us.max() as f64 / 1e3),
    }
}

/// A change in percent and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) percent: f64,
    pub(crate) ci95: [f64; 2],
    /// Whether the interval leaves out zero. A single lap resolves nothing.
    pub(crate) resolved: bool,
}

/// The contender's mean over laps against the baseline's. Where both have as many laps, lap `i`
/// of both met the same requests, and the pairs are resampled; else each side by itself.
pub(crate) fn change(baseline: &[f64], contender: &[f64], seed: u64) -> Option<Change> {
    if baseline.is_empty() || contender.is_empty() {
        return None;
    }
    let percent = percent(mean(baseline), mean(contender))?;
    let mut random = Random::new(seed);
    let paired = baseline.len() == contender.len();
    let mut changes: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let mut draw = |count: usize| (0..count).map(|_| random.below(count)).collect();
            let of_baseline: Vec<usize> = draw(baseline.len());
            let of_contender = if paired { of_baseline.clone() } else { draw(contender.len()) };
            let picked = |laps: &[f64], which: &[usize]| {
                which.iter().map(|at| laps[*at]).sum::<f64>() / which.len() as f64
            };
            self::percent(picked(baseline, &of_baseline), picked(contender, &of_contender))
        })
        .collect();
    changes.sort_by(f64::total_cmp);
    let at = |p: f64| {
        let place = usize::try_from(whole(p * (changes.len() - 1) as f64)).unwrap_or(0);
        changes.get(place).copied().unwrap_or(percent)
    };
    let ci95 = if changes.is_empty() { [percent; 2] } else { [at(0.025), at(0.975)] };
    let laps = baseline.len().min(contender.len());
    Some(Change { percent, ci95, resolved: laps > 1 && (ci95[0] > 0.0 || ci95[1] < 0.0) })
}

/// The lower end of the 95 % interval of the mean over whole laps; the value itself of a single one.
pub(crate) fn mean_lower(laps: &[f64], seed: u64) -> Option<f64> {
    let mut random = Random::new(seed);
    let mut draw = || laps.iter().map(|_| laps[random.below(laps.len())]).collect::<Vec<f64>>();
    let count = if laps.is_empty() { 0 } else { RESAMPLES };
    let mut means: Vec<f64> = (0..count).map(|_| mean(&draw())).collect();
    means.sort_by(f64::total_cmp);
    means.get(count / 40).copied()
}

pub(crate) fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len().max(1) as f64
}

/// The middle of a list, the mean of the two middle ones where it is even; 0 for none.
pub(crate) fn median(of: &[f64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

fn percent(from: f64, to: f64) -> Option<f64> {
    (from != 0.0).then(|| (to / from - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        let mut latency_us = crate::sim::histogram();
        (1..=100u64).for_each(|us| latency_us.saturating_record(us * 1_000));
        let found = quantiles(&latency_us);
        assert_eq!(found.p50.map(f64::round), Some(50.0));
        assert_eq!(found.p90.map(f64::round), Some(90.0));
        assert_eq!((found.p99, found.p100.map(f64::round)), (None, Some(100.0)));
        assert_eq!(quantiles(&crate::sim::histogram()), Quantiles::default());
    }

    #[test]
    fn a_difference_within_the_spread_of_laps_is_not_resolved() {
        let same = change(&[100.0, 110.0, 90.0], &[108.0, 95.0, 99.0], 1).expect("laps");
        assert!(!same.resolved && same.ci95[0] < 0.0 && same.ci95[1] > 0.0, "{same:?}");
        let other = change(&[100.0, 101.0, 99.0], &[150.0, 149.0, 151.0], 1).expect("laps");
        assert!(other.resolved && (other.percent - 50.0).abs() < 0.5, "{other:?}");
        assert!(change(&[1.0], &[2.0], 1).is_some_and(|one| !one.resolved));
        assert_eq!(change(&[], &[2.0], 1), None);
    }

    #[test]
    fn the_lower_end_of_a_mean_is_below_it_and_above_the_least() {
        let laps = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let lower = mean_lower(&laps, 1).expect("laps");
        assert!(lower > 1.5 && lower < 3.0, "{lower}");
        assert_eq!((mean_lower(&[7.0], 1), mean_lower(&[], 1)), (Some(7.0), None));
    }
}
