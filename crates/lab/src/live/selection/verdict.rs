//! What the live `replica-selection` says of its own laps: how much of the unloaded throughput each
//! arm keeps, and whether the baseline differs from itself.

use super::arms::AGAIN;
use crate::live::context::Arm;
use crate::live::measure::Measured;
use crate::result::{Comparison, Finding, Results};

/// What every arm keeps of rotation's unloaded throughput.
pub(crate) fn kept(results: &Results, arms: &[Arm], name: &str, unloaded: f64) -> Vec<Finding> {
    let Some(scenario) = results.scenarios.iter().find(|one| one.name == name) else {
        return Vec::new();
    };
    let of = |arm: &str| {
        let variant = scenario.variants.iter().find(|one| one.name == arm)?;
        let rate = crate::result::over_laps(variant, "throughput_ops_s.median")?;
        Some(rate / unloaded.max(1e-9))
    };
    let aim = if name.starts_with("one") { 0.95 } else { 0.99 };
    let mut found = Vec::new();
    for arm in arms {
        let kept = of(&arm.name);
        let what = format!("{name}: throughput kept by {}", arm.name);
        let told = kept.map(|kept| format!("{kept:.3}"));
        found.push(match arm.name.as_str() {
            "ours" => Finding::compare(
                what,
                format!("at least {aim}, never below c3"),
                told,
                kept.map(|kept| kept >= aim && of("c3").is_none_or(|c3| kept >= c3)),
            ),
            _ => Finding::told(what, told),
        });
    }
    found
}

/// Mean of an arm's throughput over its valid laps; over all where none is.
pub(crate) fn rate(laps: &[Measured]) -> f64 {
    let has_valid = laps.iter().any(|one| one.lap.valid);
    let usable = laps.iter().filter(|one| one.lap.valid || !has_valid);
    crate::stats::mean(&usable.map(|one| one.lap.throughput_ops_s.median).collect::<Vec<_>>())
}

/// The baseline against itself: the interval has to straddle zero.
pub(crate) fn same_again(compared: &[Comparison]) -> Vec<Finding> {
    // Of seven metrics one would miss zero now and then by chance alone; all are in the tables.
    const TOLD: [&str; 2] = ["throughput_ops_s.median", "latency_ms.mean"];
    let again = compared.iter().filter(|one| one.contender == AGAIN);
    let again = again.filter(|one| TOLD.contains(&one.metric.as_str()));
    let told = again.map(|one| {
        let straddles = one.ci95[0] <= 0.0 && one.ci95[1] >= 0.0;
        Finding::compare(
            format!("A/A, {}: {} of rotation against itself", one.scenario, one.metric),
            "the interval holds 0 %".to_owned(),
            Some(format!("{:+.1} to {:+.1} %", one.ci95[0], one.ci95[1])),
            Some(straddles),
        )
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_a_a_is_good_where_its_interval_holds_zero() {
        let compared = |ci95: [f64; 2], metric: &str| Comparison {
            scenario: "one-replica".to_owned(),
            baseline: "off".to_owned(),
            contender: AGAIN.to_owned(),
            metric: metric.to_owned(),
            change_percent: f64::midpoint(ci95[0], ci95[1]),
            ci95,
            resolved: false,
            published_change_percent: None,
            published_as: None,
            verdict: None,
        };
        let all = [
            compared([-1.0, 2.0], "latency_ms.mean"),
            compared([0.5, 2.0], "throughput_ops_s.median"),
            compared([0.5, 2.0], "latency_ms.p100"),
        ];
        let reached: Vec<Option<bool>> = same_again(&all).iter().map(|one| one.reached).collect();
        assert_eq!(reached, [Some(true), Some(false)]);
    }
}
