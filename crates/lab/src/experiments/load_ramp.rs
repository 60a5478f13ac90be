//! `load-ramp`: Prequal's ramp (Wydrowski, Kleinberg, Rumble and Archer, NSDI 2024, figure 6):
//! load grows by steps from 0.75 to 1.74 of what the nodes were allotted. Each machine has twice
//! its allotment, and neighbours that take a share of it, which changes every few seconds and is
//! different on each machine; so what a node can do is not known beforehand.

use plimsoll_control::Random;

use super::bench::{Plain, by_rule, note, ns};
use super::compare::value;
use super::job::{Job, Note};
use super::plan::Plan;
use super::{Setup, Size};
use crate::result::{Finding, Results, Series};
use crate::sim::{Fault, FaultKind, RunSpec, derive};

const STEPS: [f64; 9] = [0.75, 0.83, 0.93, 1.03, 1.15, 1.27, 1.41, 1.57, 1.74];
/// Seconds of a step; the first is left out, because it still carries the step before.
const STEP_S: f64 = 8.5;
const SETTLE_S: f64 = 1.0;
/// How often the neighbours change.
const CHANGE_S: f64 = 4.0;
const WITHIN: f64 = 1.05;

/// Pools to try it with: a worker for each processor, as a node of ours has it, and so many that
/// nothing ever waits for one, as in the paper.
const POOLS: [(&str, u32, usize); 2] = [("", 16, 4), ("wide-", 96, 16)];

pub(crate) fn plan(setup: &Setup) -> Plan {
    let (nodes, seeds) = match setup.size {
        Size::Quick => (6, 1),
        Size::Study => (20, 10),
        Size::Full => (100, 10),
    };
    let nodes = setup.nodes.unwrap_or(nodes);
    let step_s = if setup.size == Size::Quick { 2.0 } else { STEP_S };
    let mut jobs: Vec<Job> = Vec::new();
    for (pool, workers, neighbours_max) in POOLS {
        let (mut spec, notes) = ramp(nodes, step_s, pool);
        let end_s = STEPS.len() as f64 * step_s;
        for node in &mut spec.cluster.nodes {
            (node.cpus, node.workers) = (16.0, workers);
        }
        for seed in 0..seeds {
            // The neighbours are part of the seed as well: one job for each, of one lap.
            for (number, node) in spec.cluster.nodes.iter_mut().enumerate() {
                let mut random = Random::new(derive(seed, number as u64));
                node.faults = neighbours(&mut random, end_s, neighbours_max);
            }
            let of_seed = by_rule(&spec, &notes, 1);
            jobs.extend(of_seed.into_iter().map(|job| Job { first_lap: seed, ..job }));
        }
    }
    Plan { experiment: "load-ramp".to_owned(), jobs }
}

fn ramp(nodes: usize, step_s: f64, pool: &str) -> (RunSpec, Vec<Option<Note>>) {
    // The allotment: half of the machine's 16 processors.
    let plain = Plain {
        nodes,
        cpus: 8,
        coordinators: nodes,
        work_ms: 80.0,
        variation: 1.0,
        deadline_ms: 5_000,
    };
    let rates: Vec<(f64, f64)> =
        STEPS.iter().enumerate().map(|(at, load)| (at as f64 * step_s, *load)).collect();
    let mut spec = plain.spec(&rates, STEPS.len() as f64 * step_s);
    spec.windows_ns = Vec::new();
    let mut notes: Vec<Option<Note>> = Vec::new();
    for (from_s, load) in &rates {
        spec.windows_ns.extend([ns(*from_s), ns(from_s + SETTLE_S.min(step_s / 2.0))]);
        let scenario = format!("{pool}load-{load:.2}");
        notes.extend([None, Some(note(scenario, "neighbours", load * plain.capacity()))]);
    }
    (spec, notes)
}

/// So many threads of others, changing every few seconds.
fn neighbours(random: &mut Random, end_s: f64, most: usize) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut from_s = 0.0;
    while from_s < end_s {
        let until_s = from_s + CHANGE_S * (0.5 + random.unit());
        let competitors = random.below(most + 1) as f64;
        faults.push(Fault::between(ns(from_s), ns(until_s), FaultKind::Stress { competitors }));
        from_s = until_s;
    }
    faults
}

pub(crate) fn findings(results: &Results, _: &[Series]) -> Vec<Finding> {
    let mut found = Vec::new();
    for scenario in &results.scenarios {
        for percentile in ["latency_ms.p99", "latency_ms.p99_9"] {
            let of = |variant: &str| value(results, &scenario.name, variant, percentile);
            let names = scenario.variants.iter().map(|one| one.name.as_str());
            let best = names
                .filter(|name| *name != "ours+hedging")
                .filter_map(|name| Some((of(name)?, name)))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            let (Some(ours), Some((ms, name))) = (of("ours"), best) else { continue };
            found.push(Finding::compare(
                format!("{}: {percentile} of ours", scenario.name),
                format!("within 5 % of the best rule ({name} {ms:.0} ms)"),
                Some(format!("{ours:.0} ms ({:+.1} %)", (ours / ms - 1.0) * 100.0)),
                Some(ours <= ms * WITHIN),
            ));
        }
    }
    found
}
