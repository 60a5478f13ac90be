//! `controllers`: all sixteen on/off combinations of selection, admission, breakers and pacing,
//! on a cluster in which each has something to do: a stressed node, a load that peaks above what
//! the nodes can do, requests of very unequal memory, and bursts of writes. Nobody should be worse
//! off for having one more of them on. Goodput is taken less what the processors still owe to the
//! debt of writes at the end: whoever lets debt grow serves more until then, on credit.

use std::collections::BTreeMap;

use plimsoll_control::admission::AdmissionRule;
use plimsoll_control::selection::Rule;
use serde_json::json;

use super::bench::{Plain, note, ns};
use super::compare::{count, value};
use super::job::Job;
use super::plan::Plan;
use super::{Setup, Size};
use crate::result::{Finding, Results, Series};
use crate::sim::{Fault, FaultKind, Policy, Resources, RunSpec};

pub(crate) const CONTROLLERS: [&str; 4] = ["selection", "admission", "breakers", "pacing"];
pub(crate) const NONE: &str = "none";
const SCENARIOS: [(&str, f64); 3] = [("calm", 0.4), ("busy", 0.7), ("overloaded", 1.1)];
/// A part of the goodput that may be chance.
const CHANCE: f64 = 0.01;

const RESOURCES: Resources = Resources {
    memory_bytes: 4 << 30,
    request_bytes: 1.2e8,
    request_variation: 2.0,
    disk_bytes_s: 400_000_000,
    background_threads: 8.0,
    amplification: 5.0,
    stall_bytes: 8e9,
    quiet_bytes_s: 1e7,
    burst_bytes_s: 8e7,
    burst_every_s: 12,
};

pub(crate) fn plan(setup: &Setup) -> Plan {
    let (end_s, laps) = match setup.size {
        Size::Quick => (4.0, 1),
        Size::Study => (36.0, 3),
        Size::Full => (120.0, 10),
    };
    let mut jobs = Vec::new();
    for (scenario, load) in SCENARIOS {
        let plain = Plain {
            nodes: setup.nodes.unwrap_or(4),
            cpus: 8,
            coordinators: 3,
            work_ms: 10.0,
            variation: 0.7,
            deadline_ms: 500,
        };
        let mut spec = plain.spec(&[(0.0, load)], end_s);
        spec.resources = Some(RESOURCES);
        let stress = Fault::between(
            ns(end_s / 3.0),
            ns(end_s * 2.0 / 3.0),
            FaultKind::Stress { competitors: 16.0 },
        );
        spec.cluster.nodes[1].faults = vec![stress];
        let notes = vec![Some(note(scenario.to_owned(), "stress", load * plain.capacity()))];
        jobs.extend((0..16u32).map(|set| {
            Job {
                variant: name_of(set),
                settings: CONTROLLERS
                    .iter()
                    .enumerate()
                    .map(|(at, name)| ((*name).to_owned(), json!(is_on(set, at))))
                    .collect::<BTreeMap<_, _>>(),
                spec: RunSpec { policy: policy(set), ..spec.clone() },
                notes: notes.clone(),
                laps,
                first_lap: 0,
            }
        }));
    }
    Plan { experiment: "controllers".to_owned(), jobs }
}

fn is_on(set: u32, controller: usize) -> bool {
    set >> controller & 1 == 1
}

pub(crate) fn name_of(set: u32) -> String {
    let on: Vec<&str> =
        CONTROLLERS.iter().enumerate().filter(|(at, _)| is_on(set, *at)).map(|(_, n)| *n).collect();
    if on.is_empty() { NONE.to_owned() } else { on.join("+") }
}

fn policy(set: u32) -> Policy {
    Policy {
        selection: if is_on(set, 0) { Rule::LoadAware } else { Rule::RoundRobin },
        hedging: false,
        admission: match is_on(set, 1) {
            true => AdmissionRule::LoadAware,
            false => AdmissionRule::Fixed { capacity: 1_000 },
        },
        breakers: is_on(set, 2),
        pacing: is_on(set, 3),
    }
}

pub(crate) fn findings(results: &Results, series: &[Series]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (scenario, _) in SCENARIOS {
        let goodput = |set: u32| value(results, scenario, &name_of(set), "throughput_ops_s.mean");
        for set in 1..16u32 {
            // Its parts: the same with one controller less.
            let parts = (0..4).filter(|at| is_on(set, *at)).map(|at| set & !(1 << at));
            let best = parts
                .filter_map(|part| Some((goodput(part)?, part)))
                .max_by(|a, b| a.0.total_cmp(&b.0));
            let (Some(own), Some((rate, part))) = (goodput(set), best) else { continue };
            found.push(Finding::compare(
                format!("{scenario}: goodput of {}", name_of(set)),
                format!("no worse than its best part ({} {rate:.0}/s)", name_of(part)),
                Some(format!("{own:.0}/s ({:+.1} %)", (own / rate - 1.0) * 100.0)),
                Some(own >= rate * (1.0 - CHANCE)),
            ));
        }
        for set in [0, 8, 15u32] {
            let of = |name| count(series, scenario, &name_of(set), name);
            let told = of("writes_held_s").zip(of("owed_ops_s"));
            found.push(Finding::told(
                format!(
                    "{scenario}: writes held back, and requests still owed, by {}",
                    name_of(set)
                ),
                told.map(|(held_s, owed)| {
                    format!("{held_s:.1} s of all nodes, {owed:.0}/s (first lap)")
                }),
            ));
        }
    }
    found
}
