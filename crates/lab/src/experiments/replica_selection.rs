//! `replica-selection`: the published study of adaptive replica selection, with its machines,
//! partitions, clients and requests. Six nodes of 16 processors, one of which only coordinates.
//!
//! Fitted to runs by rotation: processor time of a part and how much parts differ (one replica,
//! unloaded), the stressed node's competitors (each loaded scenario), one node's handicap (four
//! replicas, unloaded: its response times have two humps, which one slower node explains), and
//! for each PMC operation processor time, length and distance of pauses. Which searches meet
//! which copy under rotation follows from the order of the copies; it is chosen so that half of
//! the searches pass the stressed node by (one replica) and two fifths (four), as published.

use std::collections::BTreeMap;

use plimsoll_control::Class;
use plimsoll_control::selection::Rule;
use serde_json::json;

use super::calibrate::{Unknown, fit, percentile, rate};
use super::plan::{Job, Note, Plan};
use super::{Setup, Size, pmc};
use crate::published::SELECTION;
use crate::result::{FaultNote, LoadNote};
use crate::sim::{
    Cluster, Fault, FaultKind, Load, MS_NS, NodeSpec, Operation, Policy, RunSpec, SECOND_NS,
    Spread, Stop,
};

/// The study's scenarios; a PMC operation other than the first has its own.
pub(crate) const SCENARIOS: [&str; 10] = [
    "one-replica",
    "one-replica-loaded",
    "four-replicas",
    "four-replicas-loaded",
    "round-robin",
    "pmc",
    "pmc-term",
    "pmc-phrase",
    "pmc-articles-monthly-agg-uncached",
    "pmc-articles-monthly-agg-cached",
];

/// Variants by name, their rule, and whether late requests are hedged.
pub(crate) fn variants() -> Vec<(&'static str, Rule, bool)> {
    let rule = |name| Rule::named(name).unwrap_or_default();
    let mut all = vec![("off", Rule::RoundRobin, false)];
    all.extend(["c3", "c3_b4", "c3_first", "ours"].map(|name| (name, rule(name), false)));
    all.push(("ours+hedging", Rule::Ours, true));
    all.extend(["least_outstanding", "p2c_peak_ewma", "prequal"].map(|n| (n, rule(n), false)));
    all
}

const CLIENTS: usize = 100;
const CPUS: u32 = 16;
const STRESSED: usize = 2;
const HANDICAPPED: usize = 4;
/// The share of the study's queries that ended in an error.
const INVALID_SHARE: f64 = 0.0099;
/// How much one search differs from the next; that parts of one differ is fitted.
const VARIATION: f64 = 0.3;

/// A fitted scenario.
#[derive(Clone, Debug)]
pub(crate) struct Situation {
    pub(crate) name: &'static str,
    pub(crate) spec: RunSpec,
    pub(crate) fault: FaultNote,
    pub(crate) clients: usize,
    pub(crate) requests: u64,
}

pub(crate) fn plan(setup: &Setup) -> Plan {
    let laps = match setup.size {
        Size::Quick => 2,
        Size::Study | Size::Full => 5,
    };
    let mut jobs = Vec::new();
    for situation in situations(setup) {
        for (name, rule, hedging) in variants() {
            let mut spec = situation.spec.clone();
            spec.policy = Policy { hedging, ..Policy::select(rule) };
            spec.stop = Stop::Requests(situation.requests);
            let settings = BTreeMap::from([
                ("selection".to_owned(), json!(format!("{rule:?}"))),
                ("hedging".to_owned(), json!(hedging)),
            ]);
            let note = Note {
                scenario: situation.name.to_owned(),
                fault: situation.fault.clone(),
                load: LoadNote::Clients(situation.clients),
            };
            let notes = vec![Some(note)];
            jobs.push(Job { variant: name.to_owned(), settings, spec, notes, laps, first_lap: 0 });
        }
    }
    Plan { experiment: "replica-selection".to_owned(), jobs }
}

/// All scenarios of the study, fitted, on two threads.
pub(crate) fn situations(setup: &Setup) -> Vec<Situation> {
    let (complex, pmc) = std::thread::scope(|scope| {
        let other = scope.spawn(|| pmc::situations(setup));
        let complex = complex(setup);
        (complex, other.join().unwrap_or_default())
    });
    complex.into_iter().chain(pmc).collect()
}

/// The complex query's five scenarios.
pub(crate) fn complex(setup: &Setup) -> Vec<Situation> {
    let requests = setup.fanned(40_000, 1_500);
    let sample = setup.fanned(12_000, 2_000);
    let nodes = setup.nodes.unwrap_or(5);
    let of = |scenario, metric| SELECTION.total(scenario, "off", "first", metric).unwrap_or(1.0);
    let throughput = "throughput_ops_s.median";

    let mut one = base(nodes, pairs(nodes));
    let work = Unknown {
        name: "work_ms",
        range: (60.0, 400.0),
        rising: false,
        target: of("one-replica", throughput),
        set: &|spec, ms| spec.operation.work_ns = ms * MS_NS as f64,
        measure: &rate,
    };
    let apart = Unknown {
        name: "part_variation",
        range: (0.1, 1.5),
        rising: true,
        target: of("one-replica", "latency_ms.p99") / of("one-replica", "latency_ms.p50"),
        set: &|spec, variation| spec.operation.part_variation = variation,
        measure: &|outcome| percentile(outcome, 0.99) / percentile(outcome, 0.5),
    };
    let shape = fit(&mut one, &[work, apart], setup.rounds().min(2), sample);
    let situation = |name, spec: &RunSpec, kind: &str, fit: BTreeMap<String, f64>| Situation {
        name,
        spec: spec.clone(),
        fault: FaultNote { kind: kind.to_owned(), fit },
        clients: CLIENTS,
        requests,
    };
    let mut all = vec![situation("one-replica", &one, "none", shape.clone())];
    let mut loaded = one.clone();
    let found = fit_stress(&mut loaded, of("one-replica-loaded", throughput), sample);
    all.push(situation("one-replica-loaded", &loaded, "stress", found));

    let mut four = RunSpec { cluster: cluster(nodes, rings(nodes)), ..one.clone() };
    let handicap = Unknown {
        name: "slow_factor",
        range: (1.0, 2.0),
        rising: false,
        target: of("four-replicas", throughput),
        set: &|spec, factor| set_fault(spec, HANDICAPPED, FaultKind::Slow { factor }),
        measure: &rate,
    };
    let found = fit(&mut four, &[handicap], 1, sample);
    all.push(situation("four-replicas", &four, "none", found));
    let mut loaded = four.clone();
    let found = fit_stress(&mut loaded, of("four-replicas-loaded", throughput), sample);
    all.push(situation("four-replicas-loaded", &loaded, "stress", found));

    // Every node coordinates; nothing is fitted.
    let mut spread = one.clone();
    spread.cluster.coordinators = nodes + 1;
    all.push(situation("round-robin", &spread, "none", BTreeMap::new()));
    all
}

fn fit_stress(spec: &mut RunSpec, target: f64, sample: u64) -> BTreeMap<String, f64> {
    let competitors = Unknown {
        name: "competitors",
        range: (2.0, 200.0),
        rising: false,
        target,
        set: &|spec, competitors| set_fault(spec, STRESSED, FaultKind::Stress { competitors }),
        measure: &rate,
    };
    fit(spec, &[competitors], 1, sample)
}

fn set_fault(spec: &mut RunSpec, node: usize, kind: FaultKind) {
    let node = node % spec.cluster.nodes.len();
    spec.cluster.nodes[node].faults = vec![Fault::always(kind)];
}

/// The unloaded cluster with the complex query; what is fitted starts anywhere.
pub(crate) fn base(nodes: usize, copies: Vec<Vec<usize>>) -> RunSpec {
    RunSpec {
        cluster: cluster(nodes, copies),
        operation: Operation {
            class: Class::Search,
            spread: Spread::All,
            work_ns: 160.0 * MS_NS as f64,
            variation: VARIATION,
            part_variation: 0.5,
            fetch_ns: None,
            invalid_share: INVALID_SHARE,
            deadline_ns: None,
        },
        load: Load::Closed { clients: CLIENTS, pace_ns: 0 },
        policy: Policy::select(Rule::RoundRobin),
        stop: Stop::Requests(0),
        windows_ns: vec![0],
        sample_ns: SECOND_NS,
        frame_tasks: 0,
        resources: None,
    }
}

fn cluster(nodes: usize, copies: Vec<Vec<usize>>) -> Cluster {
    let node = |number: usize| NodeSpec::healthy(format!("es{}", number + 1), CPUS);
    Cluster {
        nodes: (0..nodes).map(node).collect(),
        copies,
        coordinators: 1,
        network_ns: 0.2 * MS_NS as f64,
    }
}

/// One replica: each partition on two neighbours. The stressed node comes first in both of its
/// partitions, so that one search meets it twice and the next one not at all.
pub(crate) fn pairs(nodes: usize) -> Vec<Vec<usize>> {
    let pair = |partition: usize| {
        let (first, second) = (partition, (partition + 1) % nodes);
        if second == STRESSED { vec![second, first] } else { vec![first, second] }
    };
    (0..nodes).map(pair).collect()
}

/// Four replicas: each partition on five nodes; where these are all, rotation starts so that a
/// search meets three of them.
pub(crate) fn rings(nodes: usize) -> Vec<Vec<usize>> {
    const STARTS: [usize; 5] = [0, 0, 1, 1, 2];
    let ring = |partition: usize| {
        let start = if nodes <= 5 { STARTS[partition % 5] } else { partition };
        (0..nodes.min(5)).map(|step| (start + step) % nodes).collect()
    };
    (0..nodes).map(ring).collect()
}

/// What the study says about a change, by generation. The run without selection was made once.
pub(crate) fn published(scenario: &str, variant: &str, metric: &str) -> Vec<(String, f64)> {
    let changes = SELECTION.changes(scenario, metric).into_iter();
    let first = &SELECTION.generations["first"];
    changes
        .filter(|(name, _)| match variant {
            "c3" | "c3_first" => true,
            "c3_b4" => name == first,
            _ => false,
        })
        .map(|(name, change)| (name.to_owned(), change))
        .collect()
}
