//! The verdict on `replica-selection`: predictions beside what was published, and the shares of
//! unloaded throughput that each rule keeps when one node is stressed.
//!
//! The study leaves no room for a bottleneck beside the data nodes, behind which the loss of a node
//! would cost nothing: under selection the four healthy nodes finished as many tasks a second with
//! the fifth stressed as without ([`saturated`]), so they had nothing left, and the whole lost what
//! the stressed node lost. What can be kept is therefore bounded ([`ceiling`],
//! [`published_ceiling`]); shares close to 1 come from a rotation that did not use all there was.

use super::compare::{share, value};
use super::replica_selection::{published, rule_of};
use super::situation::SCENARIOS;
use crate::published::SELECTION;
use crate::result::{Finding, Results, Series};

const THROUGHPUT: &str = "throughput_ops_s.median";
/// A prediction is good if it is off by so many points at most.
const POINTS: f64 = 15.0;
/// A part of the throughput that is chance between runs.
const CHANCE: f64 = 0.005;

pub(crate) fn findings(results: &Results, _: &[Series]) -> Vec<Finding> {
    let mut found = predictions(results);
    found.extend(kept(results));
    found.extend(unfitted(results));
    found
}

/// Each published change of the loaded scenarios beside the predicted one.
fn predictions(results: &Results) -> Vec<Finding> {
    let mut found = Vec::new();
    for scenario in SCENARIOS {
        for metric in [THROUGHPUT, "latency_ms.p50", "latency_ms.p90", "latency_ms.p99"] {
            let of = |variant| value(results, scenario, variant, metric);
            for (generation, was) in published(scenario, "c3", metric) {
                let key = SELECTION.generations.iter().find(|(_, name)| **name == generation);
                let rule = key.map_or("c3", |(key, _)| rule_of(key));
                let Some((off, with)) = of("off").zip(of(rule)) else { continue };
                let predicted = (with / off - 1.0) * 100.0;
                // Medians and unloaded scenarios are told; the promise is about the rest.
                let promised = scenario.ends_with("-loaded") && !metric.ends_with("p50");
                found.push(Finding {
                    what: format!("{scenario}: {rule}'s {metric} against off"),
                    aim: format!("{was:+.1} % ({generation})"),
                    measured: format!("{predicted:+.1} %"),
                    reached: promised.then_some((predicted - was).abs() <= POINTS),
                });
            }
        }
    }
    found
}

/// Throughput with one stressed node, of the rotation's without.
fn kept(results: &Results) -> Vec<Finding> {
    let mut found = Vec::new();
    for (copies, aim, rotation, c3) in [("one", 0.95, 0.43, 0.92), ("four", 0.99, 0.60, 0.99)] {
        let of = |variant: &str| {
            let unloaded =
                value(results, &format!("{copies}-replica{}", plural(copies)), "off", THROUGHPUT)?;
            let scenario = format!("{copies}-replica{}-loaded", plural(copies));
            Some(value(results, &scenario, variant, THROUGHPUT)? / unloaded)
        };
        let tell = |variant: &str, aim: String, reached: Option<bool>| Finding {
            what: format!("{copies} replica{}: throughput kept by {variant}", plural(copies)),
            aim,
            measured: of(variant).map_or_else(|| "n/a".to_owned(), |kept| format!("{kept:.3}")),
            reached,
        };
        found.push(tell("off", format!("{rotation} (published)"), None));
        found.push(tell("c3", format!("{c3} (published)"), None));
        let ours = of("ours").zip(of("c3"));
        let reached = ours.map(|(ours, c3)| ours >= aim && ours >= c3 * (1.0 - CHANCE));
        found.push(tell("ours", format!("at least {aim}, never below c3"), reached));
        found.push(Finding::told(
            format!(
                "{copies} replica{}: published tasks a second of a healthy node",
                plural(copies)
            ),
            saturated(copies).map(|(unloaded, loaded)| {
                format!("{unloaded:.1} with none stressed, {loaded:.1} with one")
            }),
        ));
        found.push(Finding::told(
            format!("{copies} replica{}: the most that any rule could keep", plural(copies)),
            ceiling(results, copies)
                .map(|kept| format!("{kept:.3} (processors not taken by the stress, no crowd)")),
        ));
        found.push(Finding::told(
            format!("{copies} replica{}: the most that the study leaves room for", plural(copies)),
            published_ceiling(copies).map(|kept| {
                format!("{kept:.3} (four nodes at c3's unloaded rate, one at es3's best)")
            }),
        ));
    }
    found
}

fn plural(copies: &str) -> &'static str {
    if copies == "one" { "" } else { "s" }
}

/// If every processor that is left worked all the time and no crowd cost anything, of what rotation
/// has unloaded.
fn ceiling(results: &Results, copies: &str) -> Option<f64> {
    let loaded = format!("{copies}-replica{}-loaded", plural(copies));
    let unloaded = format!("{copies}-replica{}", plural(copies));
    let fault = |name: &str| {
        results.scenarios.iter().find(|one| one.name == name).map(|one| &one.fault.fit)
    };
    let competitors = *fault(&loaded)?.get("competitors")?;
    let work_s = fault("one-replica")?.get("work_ms")? / 1e3;
    let (nodes, parts, workers, cpus) = (5.0, 5.0, 25.0, 16.0);
    let left = (nodes - 1.0) + workers / (workers + competitors);
    let most = left * cpus / work_s / parts;
    Some(most / value(results, &unloaded, "off", THROUGHPUT)?)
}

/// Tasks a second of a healthy node under selection, without and with another one stressed, from
/// the study's counts of the first runs.
fn saturated(copies: &str) -> Option<(f64, f64)> {
    const NODES: f64 = 5.0;
    let unloaded = format!("{copies}-replica{}", plural(copies));
    let loaded = format!("{unloaded}-loaded");
    let rate = |scenario: &str| SELECTION.total(scenario, "c3", "first", THROUGHPUT);
    let counts = SELECTION.nodes.iter().find(|nodes| nodes.scenario == loaded)?;
    let of = |name: &str| counts.completed.get(name).map_or(0.0, |count| *count as f64);
    let data: f64 = ["es1", "es2", "es3", "es4", "es5"].map(of).iter().sum();
    let healthy = (data - of("es3")) / (NODES - 1.0) / data;
    // A search is a task for each of the five partitions.
    Some((rate(&unloaded)?, healthy * NODES * rate(&loaded)?))
}

/// What the study's own figures allow: four nodes at the most that c3 got out of a node without
/// stress, and the stressed one at the most that it did in any run (four replicas, rotation, where
/// every search is one task there).
fn published_ceiling(copies: &str) -> Option<f64> {
    let unloaded = format!("{copies}-replica{}", plural(copies));
    let of = |scenario: &str, variant: &str, generation: &str| {
        SELECTION.total(scenario, variant, generation, THROUGHPUT)
    };
    let best = SELECTION.generations.keys().filter_map(|key| of(&unloaded, "c3", key));
    let healthy = best.fold(0.0, f64::max);
    let stressed = of("four-replicas-loaded", "off", "first")?;
    Some((4.0 * healthy + stressed) / 5.0 / of(&unloaded, "off", "first")?)
}

/// What the model says without having been told: the unfitted rotation runs and the node shares.
fn unfitted(results: &Results) -> Vec<Finding> {
    let mut found = Vec::new();
    for (scenario, metric) in [
        ("one-replica", "latency_ms.p50"),
        ("one-replica", "latency_ms.p90"),
        ("one-replica-loaded", "latency_ms.p90"),
        ("one-replica-loaded", "latency_ms.p99"),
        ("four-replicas", "latency_ms.p50"),
        ("four-replicas", "latency_ms.p99"),
        ("four-replicas-loaded", "latency_ms.p50"),
        ("four-replicas-loaded", "latency_ms.p99"),
        ("round-robin", THROUGHPUT),
        ("round-robin", "latency_ms.p99"),
    ] {
        let was = SELECTION.total(scenario, "off", "first", metric);
        let Some((was, is)) = was.zip(value(results, scenario, "off", metric)) else { continue };
        found.push(Finding {
            what: format!("{scenario}: off's {metric}, not fitted"),
            aim: format!("{was:.1} (published)"),
            measured: format!("{is:.1}"),
            reached: None,
        });
    }
    for nodes in &SELECTION.nodes {
        // The client node counts its own searches; it holds no data.
        let data = nodes.completed.iter().filter(|(name, _)| *name != "esclient");
        let all: u64 = data.map(|(_, count)| count).sum();
        let was = nodes.completed.get("es3").map(|count| *count as f64 / all as f64);
        // The counts were given for the first runs.
        let rule = rule_of("first");
        let is = share(results, &nodes.scenario, rule, "es3");
        let Some((was, is)) = was.zip(is) else { continue };
        found.push(Finding {
            what: format!("{}: stressed node's share under {rule}", nodes.scenario),
            aim: format!("{:.1} % (published)", was * 100.0),
            measured: format!("{:.1} %", is * 100.0),
            reached: None,
        });
    }
    found
}
