//! The situations of the replica selection study: its scenarios by name, the cluster that they begin with, and
//! where copies lie. How they are fitted is left to who fits them.

use plimsoll_control::Class;
use plimsoll_control::selection::Rule;

use crate::result::FaultNote;
use crate::sim::{
    Cluster, Load, MS_NS, NodeSpec, Operation, Policy, RunSpec, SECOND_NS, Spread, Stop,
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

pub(super) const CLIENTS: usize = 100;
const CPUS: u32 = 16;
pub(super) const STRESSED: usize = 2;
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

pub(super) fn cluster(nodes: usize, copies: Vec<Vec<usize>>) -> Cluster {
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
