//! The simulator against itself: the same seed gives the same log. Scripts name this test first.

use plimsoll_control::Class;
use plimsoll_control::selection::Rule;
use super::*;

fn spec(rule: Rule, clients: usize, work_ms: f64, v: f64, pv: f64, h: f64, copies: Vec<Vec<usize>>, n: u64) -> RunSpec {
    let mut nodes: Vec<NodeSpec> = (1..=5).map(|i| NodeSpec::healthy(format!("es{i}"), 16)).collect();
    if h > 0.0 { nodes[2].faults.push(Fault::always(FaultKind::Stress { competitors: h })); }
    RunSpec {
        cluster: Cluster { nodes, copies, coordinators: 1, network_ns: 200_000.0 },
        operation: Operation { class: Class::Search, spread: Spread::All, work_ns: work_ms * 1e6, variation: v, part_variation: pv, fetch_ns: None, invalid_share: 0.0098, deadline_ns: None },
        load: Load::Closed { clients, pace_ns: 0 },
        policy: Policy::select(rule),
        stop: Stop::Requests(n),
        windows_ns: vec![0],
        sample_ns: SECOND_NS,
        frame_tasks: 0,
    }
}

#[test]
fn scratch() {
    let two = vec![vec![0, 1], vec![2, 1], vec![2, 3], vec![3, 4], vec![4, 0]];
    let rot = |o: usize| -> Vec<usize> { (0..5).map(|i| (i + o) % 5).collect() };
    let five: Vec<Vec<usize>> = [0, 0, 1, 1, 2].iter().map(|o| rot(*o)).collect();
    let n: u64 = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(40_000);
    let f = |name: &str, d: f64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(d);
    let (w, v, pv, h1, h4) = (f("W", 150.0), f("V", 0.1), f("PV", 0.5), f("H1", 39.0), f("H4", 26.0));
    for (name, copies, h) in [("1", two.clone(), 0.0), ("1L", two, h1), ("4", five.clone(), 0.0), ("4L", five, h4)] {
        for (rn, rule) in Rule::NAMED.iter().filter(|r| ["round_robin","c3","c3_first","ours","c3_b4"].contains(&r.0)) {
            let t = std::time::Instant::now();
            let o = run(&spec(*rule, 100, w, v, pv, h, copies.clone(), n), 7, false);
            let l = o.latency_us();
            let q = |p: f64| l.value_at_quantile(p) as f64 / 1e3;
            let total: u64 = o.nodes.iter().map(|n| n.completed).sum();
            let share: Vec<f64> = o.nodes.iter().map(|n| (n.completed as f64 / total as f64 * 1000.0).round() / 10.0).collect();
            println!("{name:3} {rn:12} tput {:6.1} p50 {:7.0} p90 {:7.0} p99 {:7.0} p999 {:7.0} share {share:?} events {} {:.2}s", n as f64 / (o.ended_ns as f64 / 1e9), q(0.5), q(0.9), q(0.99), q(0.999), o.events, t.elapsed().as_secs_f64());
        }
    }
}
