//! `scale`: many coordinators over many nodes, each partition on three of them, one node in
//! twenty stressed: 20 coordinators and 200 nodes, in full 100 and 1,000. No coordinator sees
//! more than its own part of the traffic.

use super::bench::{Plain, by_rule, note};
use super::compare::{find, value};
use super::plan::Plan;
use super::{Setup, Size};
use crate::result::{Finding, Results};
use crate::sim::{Fault, FaultKind};

const SCENARIO: &str = "one-in-twenty-stressed";
const LOAD: f64 = 0.6;

pub(crate) fn plan(setup: &Setup) -> Plan {
    let (nodes, coordinators, end_s, laps) = match setup.size {
        Size::Quick => (40, 4, 1.0, 1),
        Size::Study => (200, 20, 10.0, 3),
        Size::Full => (1_000, 100, 5.0, 3),
    };
    let nodes = setup.nodes.unwrap_or(nodes);
    let plain = Plain {
        nodes,
        cpus: 8,
        coordinators,
        work_ms: 50.0,
        variation: 0.5,
        deadline_ms: 5_000,
    };
    let mut spec = plain.spec(&[(0.0, LOAD)], end_s);
    let copies = |partition: usize| (0..3).map(|step| (partition + step * 7) % nodes).collect();
    spec.cluster.copies = (0..nodes).map(copies).collect();
    for node in spec.cluster.nodes.iter_mut().step_by(20) {
        node.faults = vec![Fault::always(FaultKind::Stress { competitors: 16.0 })];
    }
    let notes = [Some(note(SCENARIO.to_owned(), "stress", LOAD * plain.capacity()))];
    Plan { experiment: "scale".to_owned(), jobs: by_rule(&spec, &notes, laps) }
}

pub(crate) fn findings(results: &Results) -> Vec<Finding> {
    let variants = results.scenarios.iter().flat_map(|scenario| &scenario.variants);
    let tell = |name: &str| {
        let of = |path| value(results, SCENARIO, name, path).unwrap_or(f64::NAN);
        let lap = find(results, SCENARIO, name).and_then(|one| one.laps.first());
        let sick: u64 = lap.map_or(0, |lap| lap.nodes.iter().step_by(20).map(|n| n.completed).sum());
        let all: u64 = lap.map_or(1, |lap| lap.nodes.iter().map(|n| n.completed).sum());
        Finding::told(
            format!("{name}: p50, p99; share of the stressed twentieth"),
            Some(format!(
                "{:.1} ms, {:.1} ms; {:.2} %",
                of("latency_ms.p50"),
                of("latency_ms.p99"),
                sick as f64 / all.max(1) as f64 * 100.0
            )),
        )
    };
    variants.map(|variant| tell(&variant.name)).collect()
}
