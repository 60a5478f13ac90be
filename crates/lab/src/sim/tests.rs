//! The simulator against what must hold for any queueing system.

use plimsoll_control::Class;
use plimsoll_control::admission::AdmissionRule;
use plimsoll_control::selection::Rule;

use super::*;

const RESOURCES: Resources = Resources {
    memory_bytes: 1 << 30,
    request_bytes: 1e8,
    request_variation: 2.0,
    disk_bytes_s: 100_000_000,
    background_threads: 3.0,
    amplification: 5.0,
    stall_bytes: 5e8,
    quiet_bytes_s: 5e6,
    burst_bytes_s: 4e7,
    burst_every_s: 3,
};

/// A small cluster in which everything happens: a stressed, a hung, a failing and a pausing node,
/// a node that joins cold, refusals, retries, hedges, deadlines, fetches.
pub(crate) fn eventful(selection: Rule) -> RunSpec {
    let mut nodes: Vec<NodeSpec> =
        (1..=5).map(|number| NodeSpec::healthy(format!("n{number}"), 4)).collect();
    let kinds = [
        FaultKind::Stress { competitors: 8.0 },
        FaultKind::Hung,
        FaultKind::Failing,
        FaultKind::Pauses { every_ns: 2e8, for_ns: 3e7 },
    ];
    for (node, kind) in nodes.iter_mut().zip(kinds) {
        node.faults.push(Fault::between(SECOND_NS, 3 * SECOND_NS, kind));
    }
    nodes[4].joins_ns = SECOND_NS;
    (nodes[4].cold_factor, nodes[4].cold_requests) = (5.0, 50.0);
    RunSpec {
        cluster: Cluster {
            nodes,
            copies: (0..4).map(|p| (0..3).map(|step| (p + step) % 5).collect()).collect(),
            coordinators: 3,
            network_ns: 3e5,
        },
        operation: Operation {
            class: Class::Search,
            spread: Spread::All,
            work_ns: 8e6,
            variation: 0.5,
            part_variation: 0.5,
            fetch_ns: Some(1e6),
            invalid_share: 0.01,
            deadline_ns: Some(400 * MS_NS),
        },
        load: Load::Open { rates: vec![(0, 150.0), (2 * SECOND_NS, 450.0)] },
        policy: Policy {
            selection,
            hedging: true,
            admission: AdmissionRule::LoadAware,
            breakers: true,
            pacing: true,
        },
        stop: Stop::At(4 * SECOND_NS),
        windows_ns: vec![0, 2 * SECOND_NS],
        sample_ns: SECOND_NS / 10,
        frame_tasks: 100,
        resources: Some(RESOURCES),
    }
}

fn calm(clients: usize) -> RunSpec {
    let mut spec = eventful(Rule::RoundRobin);
    spec.cluster.nodes.iter_mut().for_each(|node| {
        node.faults.clear();
        node.joins_ns = 0;
    });
    spec.operation.deadline_ns = None;
    spec.operation.invalid_share = 0.0;
    spec.resources = None;
    spec.load = Load::Closed { clients, pace_ns: 0 };
    spec.policy = Policy::select(Rule::RoundRobin);
    spec.stop = Stop::Requests(2_000);
    spec
}

#[test]
fn every_request_ends_once() {
    for (name, rule) in Rule::NAMED {
        let outcome = run(&eventful(rule), 1, false);
        let issued = outcome.sum(|window| window.issued);
        let ended =
            outcome.sum(|window| window.answered + window.refused + window.failed + window.invalid);
        assert_eq!(issued, ended, "{name}");
        assert!(outcome.sum(|window| window.answered) > issued / 4, "{name}");
    }
}

#[test]
fn a_closed_loop_obeys_littles_law() {
    let outcome = run(&calm(20), 5, false);
    let rate = 2_000.0 / (outcome.ended_ns as f64 / 1e9);
    let under_way = rate * outcome.latency_us().mean() / 1e6;
    // The last requests leave the loop one after another.
    assert!((under_way - 20.0).abs() < 0.6, "{under_way}");
}

#[test]
fn utilisation_is_work_over_time() {
    let outcome = run(&calm(200), 5, false);
    let cpu_s: f64 = outcome.nodes.iter().map(|node| node.cpu_s).sum();
    // Four parts of 8 ms and their fetches of 1 ms for each request.
    let work_s = 2_000.0 * 4.0 * 0.009;
    assert!((cpu_s / work_s - 1.0).abs() < 0.05, "{cpu_s} {work_s}");
    let capacity_s = 5.0 * 4.0 * outcome.ended_ns as f64 / 1e9;
    assert!(cpu_s <= capacity_s, "{cpu_s} of {capacity_s}");
}

#[test]
fn variants_meet_the_same_requests() {
    let mut rotation = calm(1);
    rotation.cluster.nodes.truncate(1);
    rotation.cluster.copies = vec![vec![0]; 4];
    let mut ours = rotation.clone();
    ours.policy.selection = Rule::LoadAware;
    let of = |spec: &RunSpec| run(spec, 9, false).latency_us();
    // One node, one client: no rule can make a difference but by the network's chance.
    let (one, two) = (of(&rotation), of(&ours));
    assert!((one.mean() / two.mean() - 1.0).abs() < 0.01, "{} {}", one.mean(), two.mean());
}

#[test]
fn a_hung_node_loses_nothing_and_goes_on() {
    let mut spec = calm(10);
    spec.cluster.copies = vec![vec![1]];
    spec.cluster.nodes[1].faults = vec![Fault::between(SECOND_NS, 2 * SECOND_NS, FaultKind::Hung)];
    let outcome = run(&spec, 3, false);
    assert_eq!(outcome.sum(|window| window.answered), 2_000);
    let longest_s = outcome.latency_us().max() as f64 / 1e6;
    assert!((1.0..1.2).contains(&longest_s), "{longest_s}");
}

#[test]
fn hedges_stay_within_their_budget() {
    let mut spec = eventful(Rule::LoadAware);
    spec.operation.deadline_ns = Some(10 * SECOND_NS);
    let outcome = run(&spec, 4, false);
    let sent: u64 = outcome.windows.iter().flat_map(|window| &window.sent).sum();
    let hedges = outcome.sum(|window| window.hedges);
    assert!(hedges > 0 && hedges as f64 <= sent as f64 * 0.021 + 30.0, "{hedges} of {sent}");
}

#[test]
fn without_breakers_a_node_swaps_and_with_them_someone_yields() {
    let mut spec = calm(60);
    spec.resources = Some(Resources { request_bytes: 6e7, ..RESOURCES });
    let free = run(&spec, 2, false);
    spec.policy.breakers = true;
    let kept = run(&spec, 2, false);
    let refused: u64 = kept.nodes.iter().map(|node| node.rejected).sum();
    assert!(refused > 0);
    assert!(kept.ended_ns < free.ended_ns, "{} {}", kept.ended_ns, free.ended_ns);
}

#[test]
fn what_nobody_waits_for_any_more_is_not_run() {
    // Twice what the nodes can do: without a drop at the deadline nearly all would be run late.
    let mut spec = calm(1);
    spec.load = Load::Open { rates: vec![(0, 1_000.0)] };
    spec.stop = Stop::At(10 * SECOND_NS);
    (spec.operation.deadline_ns, spec.operation.fetch_ns) = (Some(400 * MS_NS), None);
    let outcome = run(&spec, 6, false);
    let cpu_s: f64 = outcome.nodes.iter().map(|node| node.cpu_s).sum();
    let asked_s = outcome.sum(|window| window.issued) as f64 * 4.0 * 0.008;
    assert!(cpu_s < 0.75 * asked_s, "{cpu_s} of {asked_s}");
    // The nodes stop with the clients.
    assert!(outcome.ended_ns < 10 * SECOND_NS + 500 * MS_NS, "{}", outcome.ended_ns);
}

#[test]
fn background_work_goes_no_faster_than_its_processors() {
    let owed_s = |share: f64| {
        let mut holdings = resources::Holdings::new(RESOURCES, &Policy::select(Rule::LoadAware));
        (1..=30).for_each(|second| holdings.step(second * SECOND_NS, share));
        (holdings.owed_s(), holdings.stalled_s)
    };
    // With processors of its own it keeps up; with a quarter of each, writes come to a stall.
    let ((idle_s, _), (busy_s, stalled_s)) = (owed_s(1.0), owed_s(0.25));
    assert!(busy_s > 1.5 * idle_s && stalled_s > 1.0, "{idle_s} {busy_s} {stalled_s}");
}
