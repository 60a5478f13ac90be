//! `replica-selection`: the published study of adaptive replica selection, with its machines,
//! partitions, clients and requests. Six nodes of 16 processors, one of which only coordinates.
//!
//! Fitted to the runs of the complex query by rotation: processor time of a part and how much parts
//! differ (one replica, unloaded); what one node loses to the crowd of its own queue (four replicas,
//! unloaded: "one node sometimes ends up with a queue", its response times have two humps, and
//! selection alone makes it as fast as the others again, so that it is not slow for good); the
//! stressed node's competitors, and what its crowd costs it (each loaded scenario, by throughput and
//! by the seconds of garbage collection that the study reports). For each PMC operation processor time, length and distance of pauses are fitted. Which
//! searches meet which copy under rotation follows from the order of the copies; it is chosen so
//! that half of the searches pass the stressed node by (one replica) and two fifths (four), as
//! published.

use std::collections::BTreeMap;

use plimsoll_control::selection::Rule;
use serde_json::json;

use super::calibrate::{Unknown, fit, percentile, rate};
use super::job::{Job, Note};
use super::plan::Plan;
use super::situation::{CLIENTS, STRESSED, Situation, base, cluster, pairs, rings};
use super::{Setup, Size, pmc};
use crate::published::SELECTION;
use crate::result::{FaultNote, LoadNote};
use crate::sim::{Fault, FaultKind, MS_NS, Policy, RunSpec, Stop};

/// Variants by name, their rule, and whether late requests are hedged.
pub(crate) fn variants() -> Vec<(&'static str, Rule, bool)> {
    let rule = |name| Rule::named(name).unwrap_or_default();
    let mut all = vec![("off", Rule::RoundRobin, false)];
    all.extend(["c3", "c3_first", "c3_proposed", "ours"].map(|name| (name, rule(name), false)));
    all.push(("ours+hedging", Rule::LoadAware, true));
    all.extend(["least_outstanding", "p2c_peak_ewma", "prequal"].map(|n| (n, rule(n), false)));
    all
}

/// The node that suffers from crowding without stress, where every node has every partition.
const HANDICAPPED: usize = 4;
const THROUGHPUT: &str = "throughput_ops_s.median";
/// Where the scale of crowding may lie, in requests in flight.
const CROWDING_AT: (f64, f64) = (50.0, 5_000.0);
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
    let nodes = setup.nodes.unwrap_or(5);
    let fitting = Fitting { sample: setup.fanned(12_000, 2_000) };
    let mut one = base(nodes, pairs(nodes));
    let shape = fitting.shape(&mut one, setup.rounds().min(2));
    let mut four = RunSpec { cluster: cluster(nodes, rings(nodes)), ..one.clone() };
    let crowded = fitting.handicap(&mut four);
    let (mut one_loaded, mut four_loaded) = (one.clone(), four.clone());
    let stress = fitting.stress(&mut one_loaded, "one-replica", setup.rounds());
    let more = fitting.stress(&mut four_loaded, "four-replicas", setup.rounds());
    // Every node coordinates; nothing is fitted.
    let mut spread = one.clone();
    spread.cluster.coordinators = nodes + 1;
    let situation = |name, spec: RunSpec, kind: &str, fit: BTreeMap<String, f64>| Situation {
        name,
        spec,
        fault: FaultNote { kind: kind.to_owned(), fit },
        clients: CLIENTS,
        requests,
    };
    vec![
        situation("one-replica", one, "none", shape),
        situation("one-replica-loaded", one_loaded, "stress", stress),
        situation("four-replicas", four, "crowding", crowded),
        situation("four-replicas-loaded", four_loaded, "stress", more),
        situation("round-robin", spread, "none", BTreeMap::new()),
    ]
}

/// The fits to the study's runs of the complex query by rotation.
struct Fitting {
    /// Requests of one try.
    sample: u64,
}

impl Fitting {
    /// Processor time of a part, and how much parts differ.
    fn shape(&self, one: &mut RunSpec, rounds: usize) -> BTreeMap<String, f64> {
        let of = |metric| off("one-replica", metric);
        let work = Unknown {
            name: "work_ms",
            range: (60.0, 400.0),
            rising: false,
            target: of(THROUGHPUT),
            set: &|spec, ms| spec.operation.work_ns = ms * MS_NS as f64,
            measure: &rate,
        };
        let apart = Unknown {
            name: "part_variation",
            range: (0.1, 1.5),
            rising: true,
            target: of("latency_ms.p99") / of("latency_ms.p50"),
            set: &|spec, variation| spec.operation.part_variation = variation,
            measure: &|outcome| percentile(outcome, 0.99) / percentile(outcome, 0.5),
        };
        fit(one, &[work, apart], rounds, self.sample)
    }

    /// What the crowd costs the node that ends up with a queue.
    fn handicap(&self, four: &mut RunSpec) -> BTreeMap<String, f64> {
        let at = Unknown {
            name: "crowding_at",
            range: CROWDING_AT,
            rising: true,
            target: off("four-replicas", THROUGHPUT),
            set: &|spec, at| set_crowding(spec, HANDICAPPED, at),
            measure: &rate,
        };
        fit(four, &[at], 1, self.sample)
    }

    /// What the stress takes from the processors, by throughput, and what the crowd takes at the
    /// stressed node, by the time spent on garbage collection.
    fn stress(&self, loaded: &mut RunSpec, scenario: &str, rounds: usize) -> BTreeMap<String, f64> {
        let name = format!("{scenario}-loaded");
        let at = Unknown {
            name: "crowding_at",
            range: CROWDING_AT,
            rising: false,
            target: collecting(&name, scenario),
            set: &|spec, at| set_crowding(spec, STRESSED, at),
            measure: &|outcome| {
                outcome.nodes.get(STRESSED).map_or(0.0, |node| node.crowding_s / node.cpu_s)
            },
        };
        fit(loaded, &[competitors(&name), at], rounds, self.sample)
    }
}

fn competitors(scenario: &str) -> Unknown<'static> {
    Unknown {
        name: "competitors",
        range: (2.0, 200.0),
        rising: false,
        target: off(scenario, THROUGHPUT),
        set: &|spec, competitors| set_fault(spec, STRESSED, FaultKind::Stress { competitors }),
        measure: &rate,
    }
}

/// A figure of a run without selection.
fn off(scenario: &str, metric: &str) -> f64 {
    SELECTION.total(scenario, "off", "first", metric).unwrap_or(1.0)
}

/// The part of the stressed node's time that went into more garbage collection than in the run
/// without stress. The other four collect as they do there, because they serve the same searches.
fn collecting(loaded: &str, unloaded: &str) -> f64 {
    let of = |scenario: &str| {
        SELECTION.young_collections_s_without_selection.get(scenario).copied().unwrap_or(0.0)
    };
    let run_s = 200_000.0 / off(loaded, THROUGHPUT);
    (of(loaded) - of(unloaded)) / run_s
}

fn set_crowding(spec: &mut RunSpec, node: usize, at: f64) {
    set_fault(spec, node, FaultKind::Crowding { at });
}

/// Puts a fault on a node for the whole run, in the place of one of its kind.
fn set_fault(spec: &mut RunSpec, node: usize, kind: FaultKind) {
    let node = node % spec.cluster.nodes.len();
    let faults = &mut spec.cluster.nodes[node].faults;
    faults.retain(|fault| std::mem::discriminant(&fault.kind) != std::mem::discriminant(&kind));
    faults.push(Fault::always(kind));
}

/// The rule that a generation of the study's runs was made with. All of them had the formula of
/// 6.1, in which the service time stands where its inverse belongs (Elasticsearch 70283). Until
/// `b` went back to 3 the count of outstanding requests asked for those of an action that only
/// clients send, and was the same for all nodes (review of Elasticsearch 26128, 2017-08-11).
pub(crate) fn rule_of(generation: &str) -> &'static str {
    if generation == "b3" { "c3_first" } else { "c3_proposed" }
}

/// What the study says about a change, by the generation that it was measured with: for the rule
/// of that generation, and for the corrected one, which was never measured. The run without
/// selection was made once.
pub(crate) fn published(scenario: &str, variant: &str, metric: &str) -> Vec<(String, f64)> {
    let counts = |name: &str| {
        let keys = SELECTION.generations.iter().filter(|(_, known)| *known == name);
        variant == "c3" || keys.map(|(key, _)| rule_of(key)).any(|rule| rule == variant)
    };
    let changes = SELECTION.changes(scenario, metric).into_iter();
    changes
        .filter(|(name, _)| counts(name))
        .map(|(name, change)| (name.to_owned(), change))
        .collect()
}
