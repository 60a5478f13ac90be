//! `open-loop`: the loaded scenarios of the selection study, but with requests that come by the
//! clock, at 30, 60 and 90 % of what the stressed cluster can do; and the same rates on the
//! cluster without the stress, to tell what the stress costs.

use super::bench::by_rule;
use super::compare::value;
use super::job::Note;
use super::plan::Plan;
use super::replica_selection::complex;
use super::situation::Situation;
use super::{Setup, Size};
use crate::result::{Finding, LoadNote, Results, Series};
use crate::sim::{FaultKind, Load, NodeSpec, RunSpec, Stop};

const PERCENTS: [u32; 3] = [30, 60, 90];
/// Among equals no rule can be first in every lap.
const NO_WORSE: f64 = 1.01;

pub(crate) fn plan(setup: &Setup) -> Plan {
    let requests = setup.fanned(20_000, 2_000);
    let laps = match setup.size {
        Size::Quick => 1,
        Size::Study => 5,
        Size::Full => 20,
    };
    let situations = complex(setup);
    let find = |name: &str| situations.iter().find(|one| one.name == name);
    let mut jobs = Vec::new();
    for (loaded, unloaded) in
        [("one-replica-loaded", "one-replica"), ("four-replicas-loaded", "four-replicas")]
    {
        let Some((loaded, unloaded)) = find(loaded).zip(find(unloaded)) else { continue };
        for percent in PERCENTS {
            let rate = capacity(&loaded.spec) * f64::from(percent) / 100.0;
            for situation in [loaded, unloaded] {
                let (spec, note) = at_rate(situation, rate, percent, requests);
                jobs.extend(by_rule(&spec, &[Some(note)], laps));
            }
        }
    }
    Plan { experiment: "open-loop".to_owned(), jobs }
}

fn at_rate(situation: &Situation, rate: f64, percent: u32, requests: u64) -> (RunSpec, Note) {
    let mut spec = situation.spec.clone();
    spec.load = Load::Open { rates: vec![(0, rate)] };
    spec.stop = Stop::Requests(requests);
    spec.operation.invalid_share = 0.0;
    let note = Note {
        scenario: format!("{}-{percent}", situation.name),
        fault: situation.fault.clone(),
        load: LoadNote::RateOpsS(rate),
    };
    (spec, note)
}

/// Searches a second that all processors together could serve, with what the faults leave.
fn capacity(spec: &RunSpec) -> f64 {
    let node = |node: &NodeSpec| {
        let left = |kind: FaultKind| match kind {
            FaultKind::Stress { competitors } => {
                f64::from(node.workers) / (f64::from(node.workers) + competitors)
            }
            FaultKind::Slow { factor } => 1.0 / factor,
            _ => 1.0,
        };
        node.cpus * node.faults.iter().map(|fault| left(fault.kind)).product::<f64>()
    };
    let cpus: f64 = spec.cluster.nodes.iter().map(node).sum();
    cpus / (spec.operation.work_ns / 1e9) / spec.cluster.copies.len() as f64
}

pub(crate) fn findings(results: &Results, _: &[Series]) -> Vec<Finding> {
    let mut found = Vec::new();
    for scenario in results.scenarios.iter().filter(|one| one.name.contains("-loaded-")) {
        for percentile in ["latency_ms.p50", "latency_ms.p90", "latency_ms.p99"] {
            let of = |variant: &str| value(results, &scenario.name, variant, percentile);
            let names = scenario.variants.iter().map(|one| one.name.as_str());
            let best = names
                .filter(|name| !name.starts_with("ours"))
                .filter_map(|name| Some((of(name)?, name)))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            let (Some(ours), Some((ms, name))) = (of("ours"), best) else { continue };
            found.push(Finding::compare(
                format!("{}: {percentile} of ours", scenario.name),
                format!("no worse than the best other rule's ({name} {ms:.1} ms)"),
                Some(format!("{ours:.1} ms")),
                Some(ours <= ms * NO_WORSE),
            ));
        }
        let unloaded = scenario.name.replace("-loaded", "");
        let p50 = |name: &str| value(results, name, "ours", "latency_ms.p50");
        let ratio = p50(&scenario.name).zip(p50(&unloaded)).map(|(loaded, free)| loaded / free);
        found.push(Finding::compare(
            format!("{}: p50 of ours over its unloaded p50", scenario.name),
            "at most 1.05".to_owned(),
            ratio.map(|ratio| format!("{ratio:.3}")),
            ratio.map(|ratio| ratio <= 1.05),
        ));
        found.push(Finding::told(
            format!(
                "{}: the least p50 of any rule over the unloaded one, and its p99",
                scenario.name
            ),
            least_p50(results, &scenario.name, &unloaded),
        ));
    }
    found
}

/// What the rule with the least p50 has to show: over the least p50 that any rule has without the
/// stress, and what its slowest requests pay for it.
fn least_p50(results: &Results, loaded: &str, unloaded: &str) -> Option<String> {
    let least = |scenario: &str| {
        let found = results.scenarios.iter().find(|one| one.name == scenario)?;
        let p50 = |name: &str| value(results, scenario, name, "latency_ms.p50");
        let names = found.variants.iter().map(|one| one.name.as_str());
        names.filter_map(|name| Some((p50(name)?, name))).min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let ((ms, name), (free_ms, _)) = (least(loaded)?, least(unloaded)?);
    let p99 = value(results, loaded, name, "latency_ms.p99")?;
    Some(format!("{name} {:.3}, p99 {p99:.0} ms", ms / free_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_what_is_left() {
        let setup = Setup { size: Size::Quick, nodes: None };
        let all = complex(&setup);
        let (free, loaded) = (capacity(&all[0].spec), capacity(&all[1].spec));
        let left = all[1].fault.fit["competitors"];
        assert!((loaded / free - (4.0 + 25.0 / (25.0 + left)) / 5.0).abs() < 0.01);
    }
}
