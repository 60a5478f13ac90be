//! The method of a comparison: laps of all arms in turns (ABBA), paired by block; a bootstrap that
//! draws whole blocks and merges the distributions of those that it drew, because the requests of a
//! lap are not independent of one another and percentiles cannot be averaged; and words for what
//! the interval says. An arm that is the baseline once more (A/A) has to straddle zero.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use plimsoll_control::Random;
use plimsoll_control::average::whole;

use super::load::histogram;
use super::measure::Measured;
use crate::result::{Comparison, Pooled};
use crate::stats;

/// Resamples of a comparison.
const RESAMPLES: usize = 1_000;
/// Two arms are the same where the whole interval lies this near to zero, %.
pub(crate) const EQUIVALENT_PERCENT: f64 = 5.0;
/// Blocks below which a comparison only indicates.
pub(crate) const BLOCKS_MIN: usize = 10;
/// What is compared: the paths of metrics. A lap has those of requests, of a copy, or of following.
pub(crate) const METRICS: [&str; 15] = [
    "throughput_ops_s.median",
    "latency_ms.mean",
    "latency_ms.p50",
    "latency_ms.p90",
    "latency_ms.p99",
    "latency_ms.p99_9",
    "latency_ms.p100",
    "cpu_s_per_op",
    "recovery_seconds",
    "level_seconds",
    "tail_seconds",
    "share_of_raw",
    "wire_bytes",
    "lag_ms.p99",
    "foreground.latency_ms.p99",
];

/// How many of [`METRICS`] are of requests: the first ones.
const OF_REQUESTS: usize = 8;

/// The order of the arms in one block: forth in even ones, back in odd ones, so that what drifts
/// meets all arms alike.
pub(crate) fn order(arms: usize, block: usize) -> Vec<usize> {
    match block % 2 {
        0 => (0..arms).collect(),
        _ => (0..arms).rev().collect(),
    }
}

/// All valid laps of an arm together; all laps where none is valid, and then of no valid ones.
pub(crate) fn pooled(laps: &[Measured]) -> Pooled {
    let has_valid = laps.iter().any(|one| one.lap.valid);
    let valid: Vec<&Measured> = laps.iter().filter(|one| one.lap.valid || !has_valid).collect();
    let sum = Sum::of(&valid);
    let mut service_us = histogram();
    for one in &valid {
        service_us.add(&one.service_us).unwrap_or_else(|e| unreachable!("the same bounds: {e}"));
    }
    Pooled {
        laps: if has_valid { valid.len() as u64 } else { 0 },
        n: valid.iter().map(|one| one.lap.n).sum(),
        latency_ms: stats::quantiles(&sum.latency_us),
        service_time_ms: stats::quantiles(&service_us),
        cpu_s_per_op: sum.metric("cpu_s_per_op"),
    }
}

/// Laps taken together.
struct Sum {
    latency_us: Histogram<u64>,
    throughput: Vec<f64>,
    cpu_s: f64,
    answered: f64,
    /// What the laps say themselves of copies, by the path.
    of_copies: BTreeMap<&'static str, Vec<f64>>,
}

impl Sum {
    fn of(laps: &[&Measured]) -> Self {
        let mut sum = Self {
            latency_us: histogram(),
            throughput: Vec::new(),
            cpu_s: 0.0,
            answered: 0.0,
            of_copies: BTreeMap::new(),
        };
        for one in laps {
            let of = &one.lap;
            let is_of_copies =
                of.recovery.is_some() || of.lag_ms.is_some() || of.foreground.is_some();
            for path in METRICS.iter().skip(OF_REQUESTS).filter(|_| is_of_copies) {
                let said = crate::result::metric(&one.lap, path);
                sum.of_copies.entry(path).or_default().extend(said);
            }
            sum.latency_us
                .add(&one.latency_us)
                .unwrap_or_else(|e| unreachable!("the same bounds: {e}"));
            if !is_of_copies {
                sum.throughput.push(one.lap.throughput_ops_s.median);
            }
            sum.cpu_s += one.lap.cpu_s.unwrap_or(0.0);
            sum.answered += one.lap.n as f64 * (1.0 - one.lap.error_rate);
        }
        sum
    }

    fn metric(&self, path: &str) -> Option<f64> {
        let quantiles = stats::quantiles(&self.latency_us);
        match path {
            "throughput_ops_s.median" if self.throughput.is_empty() => None,
            "throughput_ops_s.median" => Some(stats::mean(&self.throughput)),
            "latency_ms.mean" => quantiles.mean,
            "latency_ms.p50" => quantiles.p50,
            "latency_ms.p90" => quantiles.p90,
            "latency_ms.p99" => quantiles.p99,
            "latency_ms.p99_9" => quantiles.p99_9,
            "latency_ms.p100" => quantiles.p100,
            "cpu_s_per_op" if self.answered > 0.0 && self.cpu_s > 0.0 => {
                Some(self.cpu_s / self.answered)
            }
            path => {
                let laps = self.of_copies.get(path).filter(|laps| !laps.is_empty())?;
                Some(stats::mean(laps))
            }
        }
    }
}

/// Compares a contender with the baseline in all of [`METRICS`] that both have. Blocks in which
/// either has no valid lap are left out.
pub(crate) fn compare(
    scenario: &str,
    (baseline, of_baseline): (&str, &[Measured]),
    (contender, of_contender): (&str, &[Measured]),
    seed: u64,
) -> Vec<Comparison> {
    let blocks = pairs(of_baseline, of_contender);
    let change = |drawn: &[usize]| -> [Option<f64>; METRICS.len()] {
        let pick = |second: bool| {
            let of = |at: &usize| if second { blocks[*at].1 } else { blocks[*at].0 };
            Sum::of(&drawn.iter().map(of).collect::<Vec<_>>())
        };
        let (base, other) = (pick(false), pick(true));
        METRICS.map(|path| {
            let (from, to) = base.metric(path).zip(other.metric(path))?;
            (from != 0.0).then(|| (to / from - 1.0) * 100.0)
        })
    };
    let all: Vec<usize> = (0..blocks.len()).collect();
    let found = if blocks.is_empty() { [None; METRICS.len()] } else { change(&all) };
    let mut random = Random::new(seed);
    let mut samples: [Vec<f64>; METRICS.len()] = Default::default();
    for _ in 0..if blocks.len() > 1 { RESAMPLES } else { 0 } {
        let drawn: Vec<usize> = all.iter().map(|_| random.below(all.len())).collect();
        for (into, percent) in samples.iter_mut().zip(change(&drawn)) {
            into.extend(percent);
        }
    }
    let with_samples = METRICS.iter().zip(found).zip(samples);
    with_samples
        .filter_map(|((path, percent), samples)| {
            let percent = percent?;
            let ci95 = interval(samples).unwrap_or([percent; 2]);
            let resolved = blocks.len() > 1 && (ci95[0] > 0.0 || ci95[1] < 0.0);
            Some(Comparison {
                scenario: scenario.to_owned(),
                baseline: baseline.to_owned(),
                contender: contender.to_owned(),
                metric: (*path).to_owned(),
                change_percent: percent,
                ci95,
                resolved,
                published_change_percent: None,
                published_as: None,
                verdict: Some(verdict(ci95, blocks.len())),
            })
        })
        .collect()
}

/// Valid laps of both, by block.
fn pairs<'a>(one: &'a [Measured], other: &'a [Measured]) -> Vec<(&'a Measured, &'a Measured)> {
    let valid = |laps: &'a [Measured], block: usize| {
        laps.iter().find(|lap| lap.lap.valid && lap.block == block)
    };
    let last = one.iter().chain(other).map(|lap| lap.block).max().unwrap_or(0);
    (0..=last).filter_map(|block| valid(one, block).zip(valid(other, block))).collect()
}

fn interval(mut samples: Vec<f64>) -> Option<[f64; 2]> {
    samples.sort_by(f64::total_cmp);
    let at = |p: f64| {
        let place = usize::try_from(whole(p * (samples.len() as f64 - 1.0))).unwrap_or(0);
        samples.get(place).copied()
    };
    Some([at(0.025)?, at(0.975)?])
}

/// What an interval of so many blocks says.
pub(crate) fn verdict(ci95: [f64; 2], blocks: usize) -> String {
    let far = ci95[0].abs().max(ci95[1].abs());
    let said = match blocks {
        0 | 1 => "not resolved".to_owned(),
        // Small and certain is still small.
        _ if far <= EQUIVALENT_PERCENT => format!("equivalent within {EQUIVALENT_PERCENT:.0} %"),
        _ if ci95[0] > 0.0 || ci95[1] < 0.0 => "resolved".to_owned(),
        _ => "not resolved".to_owned(),
    };
    if blocks < BLOCKS_MIN { format!("{said} (indicative: {blocks} laps)") } else { said }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Lap, Spread};

    /// A lap of 200 requests around so many ms.
    fn measured(block: usize, ms: u64, valid: bool) -> Measured {
        let mut latency_us = histogram();
        (0..200u64).for_each(|n| latency_us.saturating_record((ms + n % 20) * 1_000));
        let throughput = 1_000.0 / ms as f64;
        let spread = Spread { median: throughput, ..Spread::default() };
        let lap =
            Lap { valid, n: 200, throughput_ops_s: spread, cpu_s: Some(2.0), ..Lap::default() };
        Measured {
            service_us: latency_us.clone(),
            latency_us,
            ..Measured::without_requests(lap, block)
        }
    }

    fn arm(ms: &[u64]) -> Vec<Measured> {
        ms.iter().enumerate().map(|(block, ms)| measured(block, *ms, true)).collect()
    }

    fn of<'a>(all: &'a [Comparison], metric: &str) -> &'a Comparison {
        all.iter().find(|one| one.metric == metric).unwrap()
    }

    #[test]
    fn arms_take_turns_forth_and_back() {
        assert_eq!((order(3, 0), order(3, 1)), (vec![0, 1, 2], vec![2, 1, 0]));
        // Over any two blocks every arm's places add up to the same.
        let places = |arm| -> usize {
            (0..4).map(|block| order(3, block).iter().position(|at| *at == arm).unwrap()).sum()
        };
        assert_eq!([0, 1, 2].map(places), [4, 4, 4]);
    }

    #[test]
    fn distributions_are_merged_not_averaged() {
        // A tenth of the laps is slow: the 99th percentile of all is theirs, not between.
        let slow = arm(&[10, 10, 10, 10, 10, 10, 10, 10, 10, 500]);
        let all = pooled(&slow);
        assert_eq!((all.laps, all.n), (10, 2_000));
        assert!(all.latency_ms.p99.is_some_and(|ms| ms > 500.0), "{all:?}");
        assert!(all.latency_ms.p50.is_some_and(|ms| ms < 30.0), "{all:?}");
        assert_eq!(all.cpu_s_per_op, Some(0.01));
    }

    #[test]
    fn a_difference_is_resolved_an_a_a_is_not() {
        let noise = [100, 110, 95, 104, 99, 120, 101, 93, 98, 107];
        let other = [102, 97, 113, 96, 104, 103, 92, 118, 100, 101];
        let half: Vec<u64> = noise.iter().map(|ms| ms / 2).collect();
        let same = compare("s", ("off", &arm(&noise)), ("off again", &arm(&other)), 7);
        let p50 = of(&same, "latency_ms.p50");
        assert!(!p50.resolved && p50.ci95[0] < 0.0 && p50.ci95[1] > 0.0, "{p50:?}");
        let faster = compare("s", ("off", &arm(&noise)), ("ours", &arm(&half)), 7);
        let p50 = of(&faster, "latency_ms.p50");
        assert!(p50.resolved && p50.change_percent < -30.0, "{p50:?}");
        assert_eq!(p50.verdict.as_deref(), Some("resolved"));
        let cpu = of(&faster, "cpu_s_per_op");
        assert_eq!(cpu.verdict.as_deref(), Some("equivalent within 5 %"));
    }

    #[test]
    fn blocks_without_a_valid_lap_of_both_do_not_count() {
        let mut one = arm(&[100, 100, 100]);
        one.push(measured(3, 100_000, false));
        let other = arm(&[100, 100, 100, 100]);
        let found = compare("s", ("a", &one), ("b", &other), 1);
        assert_eq!(of(&found, "latency_ms.p50").change_percent, 0.0);
        let verdict = of(&found, "latency_ms.p50").verdict.clone().unwrap();
        assert_eq!(verdict, "equivalent within 5 % (indicative: 3 laps)");
        assert!(compare("s", ("a", &[]), ("b", &other), 1).is_empty());
    }

    #[test]
    fn an_interval_is_told_as_a_whole() {
        assert_eq!(verdict([-4.0, 3.0], 10), "equivalent within 5 %");
        assert_eq!(verdict([1.0, 3.0], 12), "equivalent within 5 %");
        assert_eq!(verdict([-4.0, 6.0], 10), "not resolved");
        assert_eq!(verdict([2.0, 6.0], 10), "resolved");
        assert_eq!(verdict([2.0, 6.0], 1), "not resolved (indicative: 1 laps)");
    }
}
