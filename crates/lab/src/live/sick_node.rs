//! `sick-node`, live: every kind of fault, in an open loop at half of what the healthy cluster can
//! do, and every workload with a slow node; with all protections off and on. In an open loop
//! requests come whatever became of earlier ones, as users do, and latency counts from when one was
//! due. Nothing was published to compare with.

use std::collections::BTreeMap;

use serde_json::json;

use super::cluster::Cluster;
use super::context::{Arm, Ask, Context, comparisons, variants};
use super::corpus::{Corpus, Shape};
use super::fault::{FaultKind, NAMED as FAULTS};
use super::found::Found;
use super::generator::Generator;
use super::load::Pace;
use super::measure;
use super::study::{self, DATA_NODES, GENERATOR_SHARE};
use super::workload::{self, Operation};
use crate::LabError;
use crate::result::{FaultNote, LoadNote, Scenario};

const SICK: usize = 2;
/// The part of what the cluster can do that is asked for.
const PART: f64 = 0.5;
/// Requests under way at most.
const CLIENTS: usize = 64;
const PROBING_CLIENTS: usize = 12;
/// How slow a slow node is.
const SLOW: FaultKind = FaultKind::Slow { part: 0.15 };

/// Workloads: scenario, documents, operation.
const WORKLOADS: [(&str, usize, Operation); 9] = [
    ("logs-range", 60_000, Operation::Named("range")),
    ("logs-status", 60_000, Operation::Named("status-200s-in-range")),
    ("logs-hourly", 60_000, Operation::Named("hourly-agg")),
    ("logs-sorted", 60_000, Operation::Named("desc-sort-timestamp")),
    ("geo-box", 60_000, Operation::Named("bbox")),
    ("geo-distance", 60_000, Operation::Named("distance")),
    ("geo-ring", 60_000, Operation::Named("distance-range")),
    ("gets", 20_000, Operation::Documents { reads: 1.0 }),
    ("gets-and-puts", 20_000, Operation::Documents { reads: 0.9 }),
];

const ARMS: [&str; 4] = ["off", "c3", "ours", "ours+hedging"];

/// Names of variants that may be asked for.
pub(crate) fn names() -> Vec<&'static str> {
    ARMS.to_vec()
}

/// Laps that a run makes, about.
pub(crate) fn steps(laps: usize, full: bool, variants: &[String]) -> usize {
    let scenarios = FAULTS.len() + if full { WORKLOADS.len() } else { 0 };
    laps * arms(variants).len() * scenarios
}

/// Documents that a run searches, by their shape.
pub(crate) fn corpora(full: bool) -> Vec<(Shape, usize)> {
    let all = WORKLOADS.iter().filter(|_| full);
    all.map(|(_, count, operation)| (operation.shape(), *count)).collect()
}

fn arms(wanted: &[String]) -> Vec<Arm> {
    let is_wanted = |at: usize, name: &str| match wanted.is_empty() {
        true => name != "c3",
        false => at == 0 || wanted.iter().any(|one| one == name),
    };
    let all = ARMS.iter().enumerate().filter(|(at, name)| is_wanted(*at, name));
    all.map(|(_, name)| arm(name)).collect()
}

fn arm(name: &str) -> Arm {
    let (rule, hedging) = match name {
        "off" => ("round_robin", "off"),
        "c3" => ("c3", "off"),
        "ours" => ("ours", "off"),
        _ => ("ours", "on"),
    };
    let admission = if rule == "ours" { "ours" } else { "fixed" };
    let settings = BTreeMap::from([
        ("cluster.routing.use_adaptive_replica_selection".to_owned(), json!(name != "off")),
        ("cluster.routing.replica_selection".to_owned(), json!(rule)),
        ("cluster.routing.hedging".to_owned(), json!(hedging)),
        ("thread_pool.search.admission".to_owned(), json!(admission)),
        ("thread_pool.search.queue_size".to_owned(), json!(1_000)),
    ]);
    Arm { name: name.to_owned(), settings }
}

/// Runs the experiment; what there is when it is stopped.
pub(crate) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let mut cluster = study::start(context)?;
    let seed = context.options.seed;
    let places = Corpus::of_seed(Shape::Places, 40_000, seed);
    let (table, _) = cluster.load_evenly("places", &places, DATA_NODES, 1)?;
    let mut tables = Vec::new();
    let full = context.options.size == super::LiveSize::Full;
    for (name, count, operation) in WORKLOADS.into_iter().filter(|_| full) {
        let corpus = context.corpora.of(operation.shape(), count, seed);
        context.progress.note(&format!("loading {} documents for {name}", corpus.count));
        let (table, _) = cluster.load_evenly(name, &corpus, DATA_NODES, 1)?;
        tables.push((name, table, operation, corpus));
    }
    cluster.limit()?;
    let generator = Generator::enter(&cluster.limits, &cluster.guardian, GENERATOR_SHARE);
    let _generator =
        generator.map_err(|error| LabError::live("limit the generator".to_owned(), error))?;
    context.note(format!("processor shares by {}", cluster.limits.about()));
    let complex = Operation::Complex { terms: 200 };
    for (name, kind) in FAULTS {
        let kind = if name == "slow" { SLOW } else { kind };
        scenario(context, &mut cluster, found, (name, &table, kind), (complex, &places))?;
    }
    for (name, table, operation, corpus) in &tables {
        scenario(context, &mut cluster, found, (name, table, SLOW), (*operation, corpus))?;
    }
    Ok(())
}

fn scenario(
    context: &mut Context<'_>,
    cluster: &mut Cluster,
    found: &mut Found,
    (name, index, kind): (&str, &str, FaultKind),
    (operation, corpus): (Operation, &Corpus),
) -> Result<(), LabError> {
    let host = cluster.coordinator().http();
    let seed = context.options.seed;
    let arms = arms(&context.options.variants);
    let mut ask = Ask {
        requests: workload::requests(operation, corpus, index, &host, seed),
        addresses: vec![host],
        pace: Pace::Closed { clients: PROBING_CLIENTS },
        warm_up: context.options.warm_up,
        window: context.options.window,
    };
    cluster.set(&arms[0].settings)?;
    let most = context.try_lap(cluster, &ask)?.lap.throughput_ops_s.mean;
    let rate_ops_s = (most * PART).max(1.0);
    ask.pace = Pace::Open { rate_ops_s, clients: CLIENTS };
    let kind = kind.possible(cluster);
    context.note(format!("{name}: {}; the healthy cluster can do {most:.0}/s", kind.about()));
    // A node that is gone for a minute is given up: each lap has a fault of its own.
    let laps = context.paired(cluster, name, &arms, &ask, Some((SICK, kind)))?;
    let fit = BTreeMap::from([("healthy_ops_s".to_owned(), most)]);
    found.results.mode = crate::result::Mode::Open;
    found.results.scenarios.push(Scenario {
        name: name.to_owned(),
        fault: FaultNote { kind: kind.name().to_owned(), fit },
        load: LoadNote::RateOpsS(rate_ops_s),
        variants: variants(&arms, &laps, None),
    });
    let compared = comparisons(name, &arms, &laps, seed, |_, _, _| Vec::new());
    found.results.comparisons.extend(compared);
    let series = arms.iter().zip(&laps);
    found.plots.series.extend(series.filter_map(|(a, l)| measure::series(name, &a.name, l)));
    if context.is_stopped() { Err(LabError::Stopped) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hedging_is_an_arm_of_its_own() {
        let names: Vec<String> = arms(&[]).into_iter().map(|arm| arm.name).collect();
        assert_eq!(names, ["off", "ours", "ours+hedging"]);
        assert_eq!(arms(&["c3".to_owned()]).len(), 2);
        assert_eq!(arm("ours").settings["cluster.routing.hedging"], "off");
    }
}
