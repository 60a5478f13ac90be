//! Comparisons: every contender against the baseline of its scenario, with the published change
//! beside it where one was published for that arm.

use super::Experiment;
use crate::result::{Comparison, Lap, Results, Series, Variant, metric};
use crate::sim::derive;
use crate::stats;

/// All comparisons of an experiment, in the order of its scenarios, contenders and metrics.
pub(crate) fn all(experiment: &Experiment, results: &Results) -> Vec<Comparison> {
    let mut found = Vec::new();
    for scenario in &results.scenarios {
        let baseline = scenario.variants.iter().find(|one| one.name == experiment.baseline);
        let Some(baseline) = baseline else { continue };
        for contender in scenario.variants.iter().filter(|one| one.name != baseline.name) {
            for path in experiment.metrics {
                let (from, to) = (values(baseline, path), values(contender, path));
                let seed = derive(results.seed, found.len() as u64);
                let Some(change) = stats::change(&from, &to, seed) else { continue };
                let comparison = Comparison {
                    scenario: scenario.name.clone(),
                    baseline: baseline.name.clone(),
                    contender: contender.name.clone(),
                    metric: (*path).to_owned(),
                    change_percent: change.percent,
                    ci95: change.ci95,
                    resolved: change.resolved,
                    published_change_percent: None,
                    published_as: None,
                    verdict: None,
                };
                let published = (experiment.published)(&scenario.name, &contender.name, path);
                found.extend(comparison.beside(published));
            }
        }
    }
    found
}

fn usable(variant: &Variant) -> impl Iterator<Item = &Lap> {
    variant.laps.iter().filter(|lap| lap.valid)
}

/// A metric of each usable lap that has it.
pub(crate) fn values(variant: &Variant, path: &str) -> Vec<f64> {
    usable(variant).filter_map(|lap| metric(lap, path)).collect()
}

/// A metric's mean over laps.
pub(crate) fn value(results: &Results, scenario: &str, variant: &str, path: &str) -> Option<f64> {
    let variant = find(results, scenario, variant)?;
    let values = values(variant, path);
    (!values.is_empty()).then(|| stats::mean(&values))
}

pub(crate) fn find<'a>(results: &'a Results, scenario: &str, variant: &str) -> Option<&'a Variant> {
    let scenario = results.scenarios.iter().find(|one| one.name == scenario)?;
    scenario.variants.iter().find(|one| one.name == variant)
}

/// A node's share of all tasks of a variant.
pub(crate) fn share(results: &Results, scenario: &str, variant: &str, node: &str) -> Option<f64> {
    let variant = find(results, scenario, variant)?;
    let (mut own, mut all) = (0u64, 0u64);
    for lap in usable(variant) {
        for one in &lap.nodes {
            all += one.completed;
            own += if one.name == node { one.completed } else { 0 };
        }
    }
    (all > 0).then(|| own as f64 / all as f64)
}

/// A count of a variant's first lap.
pub(crate) fn count(series: &[Series], scenario: &str, variant: &str, name: &str) -> Option<f64> {
    let one = series.iter().find(|one| one.scenario == scenario && one.variant == variant)?;
    one.counts.get(name).copied()
}
