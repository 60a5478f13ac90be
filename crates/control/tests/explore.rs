//! Exploration.
#![allow(dead_code)]
mod cluster;
use cluster::*;
use plimsoll_control::selection::Rule;
#[test]
fn explore() {
    let which = std::env::var("X").unwrap_or_default();
    if which == "big" {
        for (name, rule) in Rule::NAMED {
            if name == "c3_b4" || name == "c3_first" || name == "prequal" { continue }
            let t = std::time::Instant::now();
            let plan = Plan { rule, nodes: 1000, copies: 1000, partitions: 1000, coordinators: 100, workers: 8, rate: 1000.0 * 8.0 / 0.05 * 0.9, run_ns: 50*MS, end_ns: SECOND, ..Plan::default() };
            let o = run(plan);
            let max = (0..1000).map(|n| (o.share(n, 0, SECOND) * 1000.0 * 100.0) as u64).max();
            println!("util big {name} [{:.1} {:.1} {:.1}] n {} probes {} max share {:?}% {:?}", o.quantile_ms(0.5, SECOND/2), o.quantile_ms(0.9, SECOND/2), o.quantile_ms(0.99, SECOND/2), o.sends.len(), o.probes, max, t.elapsed());
            if name != "ours" { break }
        }
    }
    if which == "ramp" {
        for load in [0.75, 0.93, 1.03, 1.2, 1.74] {
            print!("util ramp {load}");
            for (name, rule) in Rule::NAMED {
                if name == "c3_b4" || name == "c3_first" { continue }
                // half the nodes at half speed: antagonists
                let faults = (0..10).map(|n| (n, Fault::Slow(2.0), 0, 99*SECOND)).collect();
                let plan = Plan { rule, nodes: 20, copies: 20, partitions: 20, coordinators: 20, workers: 8, rate: 15.0 * 8.0 / 0.005 * load, run_ns: 5*MS, end_ns: 3*SECOND, faults, deadline_ns: 5*SECOND, ..Plan::default() };
                let o = run(plan);
                print!(" {}[{:.1} {:.1} {:.1}]", &name[..name.len().min(4)], o.quantile_ms(0.5, SECOND), o.quantile_ms(0.99, SECOND), o.quantile_ms(0.999, SECOND));
            }
            println!();
        }
    }
    if which == "util" {
        for util in [0.3, 0.6, 0.9, 0.97] {
        for (title, faults) in [("healthy", vec![]), ("slow5", vec![(0, Fault::Slow(5.0), 0, 99*SECOND)])] {
            for (coords, nodes, copies) in [(1, 6, 3), (10, 6, 3), (4,6,2), (5,6,6)] {
                let cap = (nodes as f64 - if faults.is_empty() {0.0} else {0.8}) * 8.0 / 0.005;
                print!("util {util} {title} coords {coords} nodes {nodes}/{copies}: ");
                for (name, rule) in Rule::NAMED {
                    if name == "c3_b4" || name=="c3_first" || name == "prequal" || name == "round_robin" { continue }
                    let plan = Plan { rule, nodes, copies, partitions: nodes, coordinators: coords, rate: cap * util, faults: faults.clone(), ..Plan::default() };
                    let o = run(plan);
                    print!(" {}[{:.1} {:.1} {:.1} {:.1}]", &name[..name.len().min(4)], o.quantile_ms(0.5, SECOND/2), o.quantile_ms(0.9, SECOND/2), o.quantile_ms(0.99, SECOND/2), o.quantile_ms(0.999, SECOND/2));
                }
                println!();
            }
        }
        }
    }
}
