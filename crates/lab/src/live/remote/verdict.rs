//! What came out of `remote-recovery`: shares of the raw copy by round, comparisons, and the aims.
//! Pure.

use std::collections::BTreeMap;

use super::arms::{AGAIN, DEFAULT, OURS, PLAIN, RAW, RemoteArm, Way, default_bytes};
use super::pair::SHARE;
use crate::live::measure::Measured;
use crate::live::method;
use crate::result::{Comparison, Finding, Lap, Scenario, over_laps};
use crate::sim::derive;
use crate::stats;

/// What ours is to reach of the raw copy.
const SHARE_MIN: f64 = 0.95;
/// How long it may take to be level, of the raw copy's time and beyond that, s.
const LEVEL_TIMES: f64 = 1.1;
const LEVEL_MORE_S: f64 = 3.0;
/// How much longer than the best fixed arm it may take.
const WITHIN: f64 = 0.05;
/// By how much the time left may be told wrong, %.
const OFF_PERCENT_MAX: f64 = 20.0;
/// How many times as fast as the published default it is to be, where that leaves the link idle.
const TIMES: f64 = 2.0;
const METRIC: &str = "recovery_seconds";

/// Gives every lap its share of the better raw copy of its round: over one connection, which is
/// copied twice, or over several.
pub(crate) fn shares(arms: &[RemoteArm], laps: &mut [Vec<Measured>]) {
    let better = |laps: &[Vec<Measured>], block: usize, valid: bool| {
        let mut seconds: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for (arm, laps) in arms.iter().zip(laps) {
            let Way::Raw { connections } = arm.way else { continue };
            let laps = laps.iter().filter(|one| one.block == block && one.lap.valid == valid);
            let of = laps.filter_map(|one| one.lap.recovery.map(|it| it.recovery_seconds));
            seconds.entry(connections).or_default().extend(of);
        }
        seconds.retain(|_, seconds| !seconds.is_empty());
        // The mean, else the luckiest of more copies would count.
        seconds.values().map(|seconds| stats::mean(seconds)).reduce(f64::min)
    };
    // A raw copy that something disturbed is better than none.
    let better = |laps: &[Vec<Measured>], block: usize| {
        better(laps, block, true).or_else(|| better(laps, block, false))
    };
    let blocks: Vec<usize> = laps.iter().flatten().map(|one| one.block).collect();
    for block in blocks {
        let Some(raw) = better(laps, block) else { continue };
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

/// Whether the published default has less than half of what the link holds under way: of each partition.
fn leaves_idle(scenario: &Scenario) -> bool {
    let of = |name: &str| scenario.fault.fit.get(name).copied();
    let Some((rate, trip_ms)) = of("link_bytes_s").zip(of("trip_ms")) else { return false };
    let under_way = default_bytes(rate) * of("partitions").unwrap_or(1.0);
    under_way * 2.0 < rate * trip_ms / 1e3
}

/// What ours came to beside the better raw copy.
fn beside_raw(scenario: &Scenario, seed: u64) -> Vec<Finding> {
    let Some(ours) = scenario.variants.iter().find(|it| it.name == OURS) else { return Vec::new() };
    let has_valid = ours.laps.iter().any(|lap| lap.valid);
    let laps: Vec<&Lap> = ours.laps.iter().filter(|lap| lap.valid || !has_valid).collect();
    let copies = laps.iter().filter_map(|lap| lap.recovery).filter(|it| it.share_of_raw > 0.0);
    let copies: Vec<_> = copies.collect();
    let shares: Vec<f64> = copies.iter().map(|it| it.share_of_raw).collect();
    let Some(lower) = stats::mean_lower(&shares, seed) else { return Vec::new() };
    let share = format!("{:.3}, lower bound {lower:.3}", stats::mean(&shares));
    let what = format!("{}: ours, share of the better raw copy", scenario.name);
    let fit = |name: &str| scenario.fault.fit.get(name).copied();
    // Small nodes and lossy links are promised nothing.
    if fit("loss") > Some(0.0) || fit("processors") < Some(SHARE) {
        return vec![Finding::told(what, Some(share))];
    }
    let aim = format!("at least {SHARE_MIN}, lower bound");
    let reached = Some(lower >= SHARE_MIN);
    let mut found = vec![Finding::compare(what, aim, Some(share), reached)];
    let raw_s = stats::mean(
        &copies.iter().map(|it| it.share_of_raw * it.recovery_seconds).collect::<Vec<_>>(),
    );
    let limit_s = raw_s * LEVEL_TIMES + LEVEL_MORE_S;
    let level: Option<Vec<f64>> = copies.iter().map(|it| it.level_seconds).collect();
    let level_s = level.map(|level| stats::mean(&level));
    found.push(Finding::compare(
        format!("{}: ours, from the order until level", scenario.name),
        format!("within {LEVEL_TIMES} of raw + {LEVEL_MORE_S:.0} s ({limit_s:.1} s)"),
        Some(level_s.map_or("not every lap was".to_owned(), |s| format!("{s:.1} s"))),
        Some(level_s.is_some_and(|s| s <= limit_s)),
    ));
    found
}

/// How well followers told how long they would take.
fn time_left(scenario: &Scenario) -> Option<Finding> {
    let laps = scenario.variants.iter().flat_map(|variant| &variant.laps);
    let off = laps.filter(|lap| lap.valid).filter_map(|lap| lap.recovery?.time_left_off_percent);
    let off: Vec<f64> = off.collect();
    let most = off
        .iter()
        .copied()
        .reduce(|one, other| if one.abs() > other.abs() { one } else { other })?;
    Some(Finding::compare(
        format!("{}: the time left, as told after 10 s", scenario.name),
        format!("within {OFF_PERCENT_MAX:.0} %"),
        Some(format!("{most:+.0} % at most, of {} laps", off.len())),
        Some(most.abs() <= OFF_PERCENT_MAX),
    ))
}

/// The aims, over one scenario.
pub(crate) fn findings(scenario: &Scenario, compared: &[Comparison], seed: u64) -> Vec<Finding> {
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
        let ([from, to], what) = (again.ci95, what("A/A, the raw copy against itself"));
        let measured = Some(format!("{from:+.1} to {to:+.1} %"));
        // One lap has no interval.
        found.push(match from < to {
            true => {
                let aim = "the interval holds 0 %".to_owned();
                Finding::compare(what, aim, measured, Some(from <= 0.0 && to >= 0.0))
            }
            false => Finding::told(what, measured),
        });
    }
    found.extend(beside_raw(scenario, derive(seed, 1_000)));
    found.extend(time_left(scenario));
    let is_fixed = |name: &str| !name.starts_with(RAW) && !name.starts_with(OURS);
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
    use super::super::arms::{RAW_4, arms};
    use super::*;
    use crate::live::options::LiveSize;
    use crate::result::{FaultNote, LoadNote, RecoveryLap, Variant};

    fn measured(block: usize, seconds: f64, valid: bool) -> Measured {
        let recovery = RecoveryLap { recovery_seconds: seconds, ..RecoveryLap::default() };
        let lap = Lap { valid, recovery: Some(recovery), ..Lap::default() };
        Measured::without_requests(lap, block)
    }

    fn laps() -> (Vec<RemoteArm>, Vec<Vec<Measured>>) {
        let wanted = [AGAIN, RAW_4, DEFAULT, OURS].map(str::to_owned);
        let arms = arms(LiveSize::Quick, &wanted, 12_500_000);
        let of = |seconds: [f64; 2]| -> Vec<Measured> {
            seconds.into_iter().enumerate().map(|(at, s)| measured(at, s, true)).collect()
        };
        let (raw, again, raw_4) = (of([10.0, 12.0]), of([11.0, 11.0]), of([11.5, 11.0]));
        let laps = vec![raw, again, raw_4, of([26.0, 26.0]), of([10.5, 11.5])];
        (arms, laps)
    }

    #[test]
    fn a_share_is_of_the_better_raw_copy_of_the_same_round() {
        let (arms, mut laps) = laps();
        laps[0].push(measured(1, 5.0, false));
        shares(&arms, &mut laps);
        let share = |arm: usize, at: usize| laps[arm][at].lap.recovery.unwrap().share_of_raw;
        // That over one connection is copied twice; the one over four is better once.
        assert_eq!((share(0, 0), share(4, 0)), (10.5 / 10.0, 10.5 / 10.5));
        // What was disturbed does not count.
        assert_eq!((share(0, 1), share(4, 1)), (11.0 / 12.0, 11.0 / 11.5));
    }

    #[test]
    fn aims_beside_the_raw_copy_are_of_all_laps() {
        let scenario = |laps: &[(f64, Option<f64>)], processors: f64| {
            let lap = |(share, level): &(f64, Option<f64>)| Lap {
                valid: true,
                recovery: Some(RecoveryLap {
                    recovery_seconds: 10.0 / share,
                    share_of_raw: *share,
                    level_seconds: *level,
                    ..RecoveryLap::default()
                }),
                ..Lap::default()
            };
            let ours = Variant {
                name: OURS.to_owned(),
                settings: BTreeMap::new(),
                laps: laps.iter().map(lap).collect(),
                pooled: None,
            };
            let fit = [("processors".to_owned(), processors), ("loss".to_owned(), 0.0)];
            Scenario {
                name: "s".to_owned(),
                fault: FaultNote { kind: String::new(), fit: fit.into() },
                load: LoadNote::Clients(0),
                variants: vec![ours],
            }
        };
        let reached = |laps: &[(f64, Option<f64>)]| -> Vec<Option<bool>> {
            let found = beside_raw(&scenario(laps, SHARE), 7);
            found.into_iter().map(|it| it.reached).collect()
        };
        assert_eq!(reached(&[(0.97, Some(13.9)), (0.98, Some(13.9))]), [Some(true); 2]);
        // One bad lap of three is within the interval; 14 s are the limit.
        let bad = [(0.98, Some(13.0)), (0.98, Some(13.0)), (0.8, Some(17.0))];
        assert_eq!(reached(&bad), [Some(false); 2]);
        assert_eq!(reached(&[(0.96, None), (0.96, Some(11.0))]), [Some(true), Some(false)]);
        let small = beside_raw(&scenario(&[(0.5, Some(30.0))], SHARE / 4.0), 7);
        assert!(small.len() == 1 && small[0].reached.is_none(), "{small:?}");
        assert!(beside_raw(&scenario(&[], SHARE), 7).is_empty());
    }

    #[test]
    fn the_time_left_is_judged_by_the_lap_that_was_most_wrong() {
        let reached = |off: &[Option<f64>]| {
            let lap = |off: &Option<f64>| {
                let recovery =
                    RecoveryLap { time_left_off_percent: *off, ..RecoveryLap::default() };
                Lap { valid: true, recovery: Some(recovery), ..Lap::default() }
            };
            let laps = off.iter().map(lap).collect();
            let settings = BTreeMap::new();
            let variant = Variant { name: DEFAULT.to_owned(), settings, laps, pooled: None };
            let scenario = Scenario {
                name: "s".to_owned(),
                fault: FaultNote::default(),
                load: LoadNote::Clients(0),
                variants: vec![variant],
            };
            time_left(&scenario).map(|it| (it.reached, it.measured))
        };
        let told = |text: &str| text.to_owned();
        let good = reached(&[Some(12.0), None, Some(-19.0)]);
        assert_eq!(good, Some((Some(true), told("-19 % at most, of 2 laps"))));
        assert_eq!(reached(&[Some(-25.0), Some(3.0)]).and_then(|it| it.0), Some(false));
        assert_eq!(reached(&[None]), None);
    }

    #[test]
    fn a_copy_against_itself_is_judged_by_more_than_one_lap() {
        let reached = |count: usize| {
            let (arms, mut laps) = laps();
            laps.iter_mut().for_each(|laps| laps.truncate(count));
            let compared = comparisons("s", &arms, &laps, 1);
            let scenario = Scenario {
                name: "s".to_owned(),
                fault: FaultNote::default(),
                load: LoadNote::Clients(0),
                variants: Vec::new(),
            };
            findings(&scenario, &compared, 1)[0].reached
        };
        assert_eq!((reached(2), reached(1)), (Some(true), None));
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
        let with_raw = [AGAIN, RAW_4, DEFAULT, OURS].map(|name| (RAW, name));
        assert_eq!(pairs, [with_raw.as_slice(), &[(DEFAULT, OURS)]].concat());
        assert!(found.iter().any(|one| one.metric == "share_of_raw"));
        assert!(found.iter().all(|one| !one.metric.starts_with("throughput")));
    }
}
