//! What the experiments beyond the studies share: a plain cluster of interchangeable nodes, point
//! reads in an open loop, and the rules to compare.

use std::collections::BTreeMap;

use plimsoll_control::Class;
use plimsoll_control::selection::Rule;
use serde_json::{Value, json};

use super::job::{Job, Note};
use crate::result::{FaultNote, LoadNote};
use crate::sim::{
    Cluster, Load, MS_NS, NodeSpec, Operation, Policy, RunSpec, SECOND_NS, Spread, Stop,
};

/// The rules that selection is compared by, by name; whether late requests are hedged.
pub(crate) fn rules() -> Vec<(&'static str, Rule, bool)> {
    let named = |name| Rule::named(name).unwrap_or_default();
    let others = ["c3", "least_outstanding", "p2c_peak_ewma", "prequal"];
    let mut all = vec![("off", Rule::RoundRobin, false), ("ours", Rule::LoadAware, false)];
    all.push(("ours+hedging", Rule::LoadAware, true));
    all.extend(others.map(|name| (name, named(name), false)));
    all
}

/// A cluster of equal nodes with as many workers as processors, each partition on all of them.
pub(crate) struct Plain {
    pub(crate) nodes: usize,
    pub(crate) cpus: u32,
    pub(crate) coordinators: usize,
    /// Processor time of a request, and how much requests differ.
    pub(crate) work_ms: f64,
    pub(crate) variation: f64,
    pub(crate) deadline_ms: u64,
}

impl Plain {
    /// Requests a second that the nodes can serve when nothing is wrong with them.
    pub(crate) fn capacity(&self) -> f64 {
        self.nodes as f64 * f64::from(self.cpus) / (self.work_ms / 1e3)
    }

    /// Rates from times (s) on, as parts of the capacity.
    pub(crate) fn spec(&self, rates: &[(f64, f64)], end_s: f64) -> RunSpec {
        let node = |number: usize| NodeSpec {
            workers: self.cpus,
            ..NodeSpec::healthy(format!("n{}", number + 1), self.cpus)
        };
        let rate = |(from_s, part): &(f64, f64)| (ns(*from_s), part * self.capacity());
        RunSpec {
            cluster: Cluster {
                nodes: (0..self.nodes).map(node).collect(),
                copies: vec![(0..self.nodes).collect()],
                coordinators: self.coordinators,
                network_ns: 0.2 * MS_NS as f64,
            },
            operation: Operation {
                class: Class::Get,
                spread: Spread::One,
                work_ns: self.work_ms * MS_NS as f64,
                variation: self.variation,
                part_variation: 0.0,
                fetch_ns: None,
                invalid_share: 0.0,
                deadline_ns: Some(self.deadline_ms * MS_NS),
            },
            load: Load::Open { rates: rates.iter().map(rate).collect() },
            policy: Policy::select(Rule::RoundRobin),
            stop: Stop::At(ns(end_s)),
            windows_ns: vec![0],
            sample_ns: SECOND_NS / 20,
            frame_tasks: 0,
            resources: None,
        }
    }
}

pub(crate) fn ns(seconds: f64) -> u64 {
    plimsoll_control::average::whole(seconds * SECOND_NS as f64)
}

/// A scenario of an open loop.
pub(crate) fn note(scenario: String, fault: &str, rate_ops_s: f64) -> Note {
    Note {
        scenario,
        fault: FaultNote { kind: fault.to_owned(), fit: BTreeMap::new() },
        load: LoadNote::RateOpsS(rate_ops_s),
    }
}

/// One job for each rule of selection.
pub(crate) fn by_rule(spec: &RunSpec, notes: &[Option<Note>], laps: u64) -> Vec<Job> {
    let job = |(name, rule, hedging): (&'static str, Rule, bool)| {
        let mut spec = spec.clone();
        (spec.policy.selection, spec.policy.hedging) = (rule, hedging);
        let settings: BTreeMap<String, Value> = BTreeMap::from([
            ("selection".to_owned(), json!(format!("{rule:?}"))),
            ("hedging".to_owned(), json!(hedging)),
        ]);
        Job { variant: name.to_owned(), settings, spec, notes: notes.to_vec(), laps, first_lap: 0 }
    };
    rules().into_iter().map(job).collect()
}
