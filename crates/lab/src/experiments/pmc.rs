//! The PMC operations of the selection study: short requests, and nodes that pause now and then
//! (garbage collection). For each operation the processor time, how much parts differ, and length
//! and distance of the pauses are fitted to the run by rotation.

use super::Setup;
use super::calibrate::{Unknown, fit, percentile, rate};
use super::situation::{SCENARIOS, Situation, base, pairs};
use crate::published::SELECTION;
use crate::result::FaultNote;
use crate::sim::{Fault, FaultKind, Load, MS_NS, RunSpec, SECOND_NS};

/// The operations as scenarios, fitted.
pub(crate) fn situations(setup: &Setup) -> Vec<Situation> {
    // Throughput times response time, as published.
    const CLIENTS_OF: [usize; 5] = [100, 100, 100, 10, 10];
    let nodes = setup.nodes.unwrap_or(5);
    let sample = setup.fanned(8_000, 800);
    SCENARIOS[5..]
        .iter()
        .zip(CLIENTS_OF)
        .map(|(name, clients)| {
            let of = |metric| SELECTION.total(name, "off", "first", metric).unwrap_or(1.0);
            let mut spec = base(nodes, pairs(nodes));
            spec.load = Load::Closed { clients, pace_ns: 0 };
            spec.operation.variation = 0.05;
            spec.operation.invalid_share = 0.0;
            spec.sample_ns = SECOND_NS / 10;
            pauses(&mut spec, 2e9, 5e7);
            let unknowns = [
                Unknown {
                    name: "work_ms",
                    range: (0.05, 60.0),
                    rising: true,
                    target: of("latency_ms.p50"),
                    set: &|spec, ms| spec.operation.work_ns = ms * MS_NS as f64,
                    measure: &|outcome| percentile(outcome, 0.5),
                },
                Unknown {
                    name: "part_variation",
                    range: (0.02, 4.0),
                    rising: true,
                    target: of("latency_ms.p90") / of("latency_ms.p50"),
                    set: &|spec, variation| spec.operation.part_variation = variation,
                    measure: &|outcome| percentile(outcome, 0.9) / percentile(outcome, 0.5),
                },
                Unknown {
                    name: "pause_ms",
                    range: (1.0, 400.0),
                    rising: true,
                    target: of("latency_ms.p99"),
                    set: &|spec, ms| {
                        let (every_ns, _) = paused(spec);
                        pauses(spec, every_ns, ms * MS_NS as f64);
                    },
                    measure: &|outcome| percentile(outcome, 0.99),
                },
                Unknown {
                    name: "pause_every_ms",
                    range: (50.0, 60_000.0),
                    rising: true,
                    target: of("throughput_ops_s.median"),
                    set: &|spec, ms| {
                        let (_, for_ns) = paused(spec);
                        pauses(spec, ms * MS_NS as f64, for_ns);
                    },
                    measure: &rate,
                },
            ];
            let found = fit(&mut spec, &unknowns, setup.rounds(), sample);
            let fault = FaultNote { kind: "pauses".to_owned(), fit: found };
            let requests = setup.fanned(20_000, 1_000);
            Situation { name, spec, fault, clients, requests }
        })
        .collect()
}

fn pauses(spec: &mut RunSpec, every_ns: f64, for_ns: f64) {
    for node in &mut spec.cluster.nodes {
        node.faults = vec![Fault::always(FaultKind::Pauses { every_ns, for_ns })];
    }
}

fn paused(spec: &RunSpec) -> (f64, f64) {
    let fault = spec.cluster.nodes.first().and_then(|node| node.faults.first());
    match fault.map(|fault| fault.kind) {
        Some(FaultKind::Pauses { every_ns, for_ns }) => (every_ns, for_ns),
        _ => (1e9, 1e6),
    }
}
