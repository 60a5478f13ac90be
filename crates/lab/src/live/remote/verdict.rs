//! What came out of `remote-recovery`: shares of the raw copy by round, comparisons, and the aims.
//! Pure.

use super::arms::{AGAIN, DEFAULT, OURS, PLAIN, RAW, RemoteArm, Way, default_bytes};
use crate::live::measure::Measured;
use crate::live::method;
use crate::result::{Comparison, Finding, Scenario, over_laps};
use crate::sim::derive;

/// What ours is to reach of the raw copy.
const SHARE_MIN: f64 = 0.95;
/// How much longer than the best fixed arm it may take.
const WITHIN: f64 = 0.05;
/// How many times as fast as the published default it is to be, where that leaves the link idle.
const TIMES: f64 = 2.0;
const METRIC: &str = "recovery_seconds";

/// Gives every lap its share of the better raw copy of its round.
pub(crate) fn shares(arms: &[RemoteArm], laps: &mut [Vec<Measured>]) {
    let seconds = |one: &Measured| one.lap.recovery.map(|it| it.recovery_seconds);
    let best = |laps: &[Vec<Measured>], block: usize| {
        let raw = arms.iter().zip(laps).filter(|(arm, _)| matches!(arm.way, Way::Raw { .. }));
        let all = raw.flat_map(|(_, laps)| laps).filter(|one| one.block == block);
        let (valid, others): (Vec<&Measured>, Vec<&Measured>) = all.partition(|one| one.lap.valid);
        // A raw copy that something disturbed is better than none.
        let of = |laps: Vec<&Measured>| laps.into_iter().filter_map(seconds).reduce(f64::min);
        of(valid).or_else(|| of(others))
    };
    let blocks: Vec<usize> = laps.iter().flatten().map(|one| one.block).collect();
    for block in blocks {
        let Some(raw) = best(laps, block) else { continue };
        for one in laps.iter_mut().flatten().filter(|one| one.block == block) {
            if let Some(recovery) = &mut one.lap.recovery {
                recovery.share_of_raw = raw / recovery.recovery_seconds.max(1e-9);
            }
        }
    }
}

/// Every arm against the raw copy, and ours against every other that nodes have.
pub(crate) fn comparisons(
    scenario: &str,
    arms: &[RemoteArm],
    laps: &[Vec<Measured>],
    seed: u64,
) -> Vec<Comparison> {
    let with_laps = || arms.iter().zip(laps).map(|(arm, laps)| (arm.name, laps.as_slice()));
    let mut pairs = Vec::new();
    if let Some(raw) = with_laps().next() {
        pairs.extend(with_laps().skip(1).map(|one| (raw, one)));
    }
    if let Some(ours) = with_laps().find(|(name, _)| *name == OURS) {
        let fixed = arms.iter().zip(with_laps());
        let fixed = fixed
            .filter(|(arm, _)| matches!(arm.way, Way::Fixed { .. } | Way::Ours { plain: true }));
        pairs.extend(fixed.map(|(_, one)| (one, ours)));
    }
    let numbered = pairs.into_iter().enumerate();
    let each = |(number, (base, other))| {
        method::compare(scenario, base, other, derive(seed, number as u64))
    };
    numbered.flat_map(each).collect()
}

/// Whether the published default has less than half of what the link holds under way.
fn leaves_idle(scenario: &Scenario) -> bool {
    let of = |name: &str| scenario.fault.fit.get(name).copied();
    let Some((rate, trip_ms)) = of("link_bytes_s").zip(of("trip_ms")) else { return false };
    let under_way = default_bytes(rate);
    under_way * 2.0 < rate * trip_ms / 1e3
}

/// The aims, over one scenario.
pub(crate) fn findings(scenario: &Scenario, compared: &[Comparison]) -> Vec<Finding> {
    let of = |baseline: &str, contender: &str| {
        compared.iter().find(|one| {
            one.scenario == scenario.name
                && one.metric == METRIC
                && one.baseline == baseline
                && one.contender == contender
        })
    };
    let seconds = |name: &str| {
        let variant = scenario.variants.iter().find(|variant| variant.name == name)?;
        over_laps(variant, METRIC)
    };
    let what = |text: &str| format!("{}: {text}", scenario.name);
    let mut found = Vec::new();
    if let Some(again) = of(RAW, AGAIN) {
        let [from, to] = again.ci95;
        found.push(Finding::compare(
            what("A/A, the raw copy against itself"),
            "the interval holds 0 %".to_owned(),
            Some(format!("{from:+.1} to {to:+.1} %")),
            Some(from <= 0.0 && to >= 0.0),
        ));
    }
    if let Some(ours) = of(RAW, OURS) {
        let share = |percent: f64| 1.0 / (1.0 + percent / 100.0).max(1e-9);
        let (share, lower) = (share(ours.change_percent), share(ours.ci95[1]));
        found.push(Finding::compare(
            what("ours, share of the raw copy over one connection"),
            format!("at least {SHARE_MIN}, lower bound"),
            Some(format!("{share:.3}, lower bound {lower:.3}")),
            Some(lower >= SHARE_MIN),
        ));
    }
    let is_fixed = |name: &str| !name.starts_with(RAW) && name != OURS && name != PLAIN;
    let fixed = scenario.variants.iter().filter(|variant| is_fixed(&variant.name));
    let fixed = fixed.filter_map(|variant| Some((over_laps(variant, METRIC)?, &variant.name)));
    if let (Some((best_s, best)), Some(ours_s)) =
        (fixed.min_by(|one, other| one.0.total_cmp(&other.0)), seconds(OURS))
    {
        found.push(Finding::compare(
            what("ours against the best fixed arm"),
            format!("within {:.0} % of {best} ({best_s:.1} s)", WITHIN * 100.0),
            Some(format!("{ours_s:.1} s ({:+.1} %)", (ours_s / best_s - 1.0) * 100.0)),
            Some(ours_s <= best_s * (1.0 + WITHIN)),
        ));
    }
    if let Some((plain_s, ours_s)) = seconds(PLAIN).zip(seconds(OURS)) {
        found.push(Finding::compare(
            what("ours against the same without compression"),
            format!("within {:.0} % of it ({plain_s:.1} s), or better", WITHIN * 100.0),
            Some(format!("{ours_s:.1} s ({:+.1} %)", (ours_s / plain_s - 1.0) * 100.0)),
            Some(ours_s <= plain_s * (1.0 + WITHIN)),
        ));
    }
    if let Some((default_s, ours_s)) = seconds(DEFAULT).zip(seconds(OURS))
        && leaves_idle(scenario)
    {
        let times = default_s / ours_s.max(1e-9);
        found.push(Finding::compare(
            what("ours against the published default"),
            format!("{TIMES} times as fast"),
            Some(format!("{times:.2} times ({default_s:.1} s, {ours_s:.1} s)")),
            Some(times >= TIMES),
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::arms::arms;
    use super::*;
    use crate::live::LiveSize;
    use crate::live::load::histogram;
    use crate::result::{Lap, RecoveryLap};

    fn measured(block: usize, seconds: f64, valid: bool) -> Measured {
        let recovery = RecoveryLap { recovery_seconds: seconds, ..RecoveryLap::default() };
        let lap = Lap { valid, recovery: Some(recovery), ..Lap::default() };
        Measured { lap, latency_us: histogram(), service_us: histogram(), block }
    }

    fn laps() -> (Vec<RemoteArm>, Vec<Vec<Measured>>) {
        let wanted = [AGAIN, DEFAULT, OURS].map(str::to_owned);
        let arms = arms(LiveSize::Quick, &wanted, 12_500_000);
        let of = |seconds: [f64; 2]| -> Vec<Measured> {
            seconds.into_iter().enumerate().map(|(at, s)| measured(at, s, true)).collect()
        };
        let laps = vec![of([10.0, 12.0]), of([11.0, 11.0]), of([26.0, 26.0]), of([10.5, 11.5])];
        (arms, laps)
    }

    #[test]
    fn a_share_is_of_the_better_raw_copy_of_the_same_round() {
        let (arms, mut laps) = laps();
        laps[0].push(measured(1, 5.0, false));
        shares(&arms, &mut laps);
        let share = |arm: usize, at: usize| laps[arm][at].lap.recovery.unwrap().share_of_raw;
        assert_eq!((share(0, 0), share(3, 0)), (1.0, 10.0 / 10.5));
        // What was disturbed is not the better one.
        assert_eq!((share(0, 1), share(3, 1)), (11.0 / 12.0, 11.0 / 11.5));
    }

    #[test]
    fn ours_is_compared_with_the_raw_copy_and_each_fixed_arm() {
        let (arms, mut laps) = laps();
        shares(&arms, &mut laps);
        let found = comparisons("s", &arms, &laps, 1);
        let pairs: Vec<(&str, &str)> = found
            .iter()
            .filter(|one| one.metric == METRIC)
            .map(|one| (one.baseline.as_str(), one.contender.as_str()))
            .collect();
        assert_eq!(pairs, [(RAW, AGAIN), (RAW, DEFAULT), (RAW, OURS), (DEFAULT, OURS)]);
        assert!(found.iter().any(|one| one.metric == "share_of_raw"));
        assert!(found.iter().all(|one| !one.metric.starts_with("throughput")));
    }
}
