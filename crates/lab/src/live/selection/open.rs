//! Open loops of `replica-selection`: requests that come by the clock, at parts of what the stressed
//! cluster can do, with the node stressed and, for the rule that all this is about, without; and
//! what is said of them. The stress itself is `stress.rs`'s, the laps are `mod.rs`'s.

use super::Run;
use super::arms::OURS;
use super::plan::{ONE, ONE_LOADED, OPEN, PERCENTS};
use crate::LabError;
use crate::live::context::{Arm, Ask};
use crate::live::load::Pace;
use crate::live::measure::Measured;
use crate::live::method;
use crate::result::{Comparison, FaultNote, Finding, Results, Scenario, Variant, over_laps};
use crate::stats;

/// Requests under way at once, at least: fewer would close the loop where a burst comes.
const CLIENTS_MIN: usize = 64;
/// The median under stress may be so many times that without it.
const P50_RATIO_MAX: f64 = 1.05;
const P50: &str = "latency_ms.p50";
const PERCENTILES: [&str; 3] = [P50, "latency_ms.p90", "latency_ms.p99"];

impl Run<'_, '_> {
    /// What the stressed cluster can do: the most that any arm did in the closed loop; where there
    /// was none, what ours does in one lap.
    pub(super) fn capacity_ops_s(&mut self, closed: &Ask) -> Result<f64, LabError> {
        let scenarios = &self.found.results.scenarios;
        let loaded = scenarios.iter().find(|one| one.name == ONE_LOADED);
        let capacity_ops_s = match loaded.and_then(most_ops_s) {
            Some(most) => most,
            None => {
                let ours = self.arms.iter().find(|arm| arm.name == OURS).unwrap_or(&self.arms[0]);
                self.cluster.set(&ours.settings)?;
                let lap = self.context.try_lap(&mut self.cluster, closed)?;
                lap.lap.throughput_ops_s.mean
            }
        };
        let told = format!("{OPEN}: the stressed cluster can do {capacity_ops_s:.1}/s");
        self.context.note(told);
        Ok(capacity_ops_s)
    }

    /// Every rate while the node is stressed.
    pub(super) fn open_stressed(
        &mut self,
        index: &str,
        closed: &Ask,
        mut fault: FaultNote,
        capacity_ops_s: f64,
    ) -> Result<(), LabError> {
        let arms = self.plan.arms(OPEN, &self.arms);
        fault.fit.insert("stressed_cluster_ops_s".to_owned(), capacity_ops_s);
        for percent in PERCENTS {
            let name = stressed(percent);
            let ask = self.open(closed, capacity_ops_s, percent);
            let laps = self.laps(&name, index, &arms, &ask, fault.clone())?;
            let compared = self.against_others(&name, &arms, &laps);
            self.found.plots.findings.extend(no_worse(&name, &others(&arms), &compared));
        }
        Ok(())
    }

    /// Every rate without the stress, by ours alone: what the stress costs it.
    pub(super) fn open_unstressed(
        &mut self,
        index: &str,
        closed: &Ask,
        capacity_ops_s: f64,
    ) -> Result<(), LabError> {
        let arms: Vec<Arm> = self.arms.iter().filter(|arm| arm.name == OURS).cloned().collect();
        if arms.is_empty() {
            return Ok(());
        }
        for percent in PERCENTS {
            let name = unstressed(percent);
            let ask = self.open(closed, capacity_ops_s, percent);
            self.laps(&name, index, &arms, &ask, FaultNote::default())?;
            let p50_ms = |scenario: &str| p50_ms(&self.found.results, scenario);
            let scenario = stressed(percent);
            let finding = near_unloaded(&scenario, p50_ms(&scenario), p50_ms(&name));
            self.found.plots.findings.push(finding);
        }
        Ok(())
    }

    fn open(&self, closed: &Ask, capacity_ops_s: f64, percent: u32) -> Ask {
        let rate_ops_s = (capacity_ops_s * f64::from(percent) / 100.0).max(1.0);
        let clients = CLIENTS_MIN.max(self.clients * 2);
        Ask { pace: Pace::Open { rate_ops_s, clients }, ..closed.clone() }
    }

    /// Ours against each other rule; against the baseline as it stands in the results.
    fn against_others(&self, name: &str, arms: &[Arm], laps: &[Vec<Measured>]) -> Vec<Comparison> {
        let all = self.found.results.comparisons.iter();
        let of_first = all.filter(|one| one.scenario == name && one.contender == OURS).cloned();
        let ours = arms.iter().position(|arm| arm.name == OURS);
        let Some(ours) = ours.and_then(|at| laps.get(at)) else { return Vec::new() };
        let seed = self.context.options.seed;
        let more = arms.iter().zip(laps).skip(1).filter(|(arm, _)| !arm.name.starts_with(OURS));
        let more = more.flat_map(|(arm, laps)| {
            let other = (arm.name.as_str(), laps.as_slice());
            method::compare(name, other, (OURS, ours.as_slice()), seed)
        });
        of_first.chain(more).collect()
    }
}

fn stressed(percent: u32) -> String {
    format!("{OPEN}-{percent}")
}

fn unstressed(percent: u32) -> String {
    format!("{ONE}-open-{percent}")
}

/// Arms of other rules; none where ours is not there to be set beside them.
fn others(arms: &[Arm]) -> Vec<&str> {
    let has_ours = arms.iter().any(|arm| arm.name == OURS);
    let names = arms.iter().map(|arm| arm.name.as_str());
    names.filter(|name| has_ours && !name.starts_with(OURS)).collect()
}

/// The most that any arm did, as the mean of its valid laps.
fn most_ops_s(scenario: &Scenario) -> Option<f64> {
    let rate = |variant: &Variant| {
        let valid = variant.laps.iter().filter(|lap| lap.valid);
        let rates: Vec<f64> = valid.map(|lap| lap.throughput_ops_s.mean).collect();
        (!rates.is_empty()).then(|| stats::mean(&rates))
    };
    scenario.variants.iter().filter_map(rate).max_by(f64::total_cmp)
}

/// The median of ours over all laps of a scenario.
fn p50_ms(results: &Results, scenario: &str) -> Option<f64> {
    let scenario = results.scenarios.iter().find(|one| one.name == scenario)?;
    over_laps(scenario.variants.iter().find(|one| one.name == OURS)?, P50)
}

/// Ours beside every other rule: it is worse where the whole interval says so.
fn no_worse(scenario: &str, others: &[&str], compared: &[Comparison]) -> Vec<Finding> {
    let mut found = Vec::new();
    for other in others {
        for path in PERCENTILES {
            let mut all = compared.iter().filter(|one| one.contender == OURS);
            let one = all.find(|one| one.baseline == *other && one.metric == path);
            found.push(Finding::compare(
                format!("{scenario}: {path} of ours against {other}"),
                "no worse, by the 95 % interval".to_owned(),
                one.map(|one| {
                    let [from, to] = one.ci95;
                    format!("{:+.1} % ({from:+.1} to {to:+.1})", one.change_percent)
                }),
                one.map(|one| one.ci95[0] <= 0.0),
            ));
        }
    }
    found
}

/// The median under stress beside the one without.
fn near_unloaded(scenario: &str, loaded_ms: Option<f64>, unloaded_ms: Option<f64>) -> Finding {
    let ratio = loaded_ms.zip(unloaded_ms).map(|(loaded, unloaded)| loaded / unloaded);
    Finding::compare(
        format!("{scenario}: p50 of ours over its unloaded p50"),
        format!("at most {P50_RATIO_MAX}"),
        ratio.map(|ratio| format!("{ratio:.3}")),
        ratio.map(|ratio| ratio <= P50_RATIO_MAX),
    )
}

#[cfg(test)]
mod tests {
    use super::super::arms::arms;
    use super::*;
    use crate::live::options::LiveSize;
    use crate::result::{Lap, LoadNote, Spread};

    fn compared(baseline: &str, metric: &str, ci95: [f64; 2]) -> Comparison {
        Comparison {
            scenario: "s".to_owned(),
            baseline: baseline.to_owned(),
            contender: OURS.to_owned(),
            metric: metric.to_owned(),
            change_percent: f64::midpoint(ci95[0], ci95[1]),
            ci95,
            resolved: false,
            published_change_percent: None,
            published_as: None,
            verdict: None,
        }
    }

    #[test]
    fn ours_is_worse_where_the_whole_interval_says_so() {
        let all = [
            compared("off", "latency_ms.p50", [0.1, 9.0]),
            compared("off", "latency_ms.p90", [-1.0, 9.0]),
            compared("off", "latency_ms.p99", [-9.0, -1.0]),
            compared("c3", "latency_ms.p50", [-2.0, 2.0]),
            compared("c3", "latency_ms.p90", [1.0, 2.0]),
        ];
        let found = no_worse("s", &["off", "c3"], &all);
        let reached: Vec<Option<bool>> = found.iter().map(|one| one.reached).collect();
        // What could not be measured is not reached.
        assert_eq!(reached, [false, true, true, true, false, false].map(Some));
        assert_eq!(found[0].what, "s: latency_ms.p50 of ours against off");
        assert_eq!(found[1].measured, "+4.0 % (-1.0 to +9.0)");
        assert_eq!(found[5].measured, "n/a");
    }

    #[test]
    fn ours_is_set_beside_other_rules_only() {
        let all = arms(LiveSize::Study, &[]);
        assert_eq!(others(&all), ["off", "c3"]);
        assert_eq!(others(&all[..2]), Vec::<&str>::new());
    }

    #[test]
    fn the_median_may_be_a_twentieth_above_the_unloaded_one() {
        let reached = |loaded, unloaded| near_unloaded("s", loaded, unloaded).reached;
        assert_eq!(reached(Some(105.0), Some(100.0)), Some(true));
        assert_eq!(reached(Some(105.2), Some(100.0)), Some(false));
        assert_eq!(reached(Some(90.0), Some(100.0)), Some(true));
        assert_eq!(reached(Some(105.0), None), Some(false));
    }

    #[test]
    fn capacity_is_that_of_the_best_arm_by_its_valid_laps() {
        let lap = |valid: bool, mean: f64| {
            let throughput_ops_s = Spread { mean, ..Spread::default() };
            Lap { valid, throughput_ops_s, ..Lap::default() }
        };
        let variant = |name: &str, laps: Vec<Lap>| Variant {
            name: name.to_owned(),
            settings: std::collections::BTreeMap::new(),
            laps,
            pooled: None,
        };
        let scenario = |variants: Vec<Variant>| Scenario {
            name: ONE_LOADED.to_owned(),
            fault: FaultNote::default(),
            load: LoadNote::Clients(1),
            variants,
        };
        let off = variant("off", vec![lap(true, 40.0), lap(true, 50.0)]);
        let c3 = variant("c3", vec![lap(true, 80.0), lap(true, 60.0), lap(false, 900.0)]);
        assert_eq!(most_ops_s(&scenario(vec![c3, off])), Some(70.0));
        assert_eq!(most_ops_s(&scenario(vec![variant("off", vec![lap(false, 40.0)])])), None);
    }
}
