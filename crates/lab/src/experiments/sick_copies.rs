//! `sick-copies`: three copies of everything, one of which hangs, fails at once, is ten times as
//! slow, has a cold cache, or is new; then it heals. What share of the requests still goes there,
//! and how soon is it back? By 1, 3, 10 and 50 coordinators.

use super::bench::{Plain, by_rule, note, ns};
use super::compare::{find, share};
use super::job::Job;
use super::plan::Plan;
use super::{Setup, Size};
use crate::result::{Finding, Results, Series};
use crate::sim::{Fault, FaultKind, RunSpec};

const NODES: usize = 3;
const SICK: usize = 2;
/// The part of all three nodes' capacity that is asked for: two can bear it.
const LOAD: f64 = 0.5;
/// What two sick copies of three are called, and the load that the third can bear.
const TWO: &str = "two-";
const LOAD_TWO: f64 = 0.25;
const SLOW: f64 = 10.0;
/// Times in seconds: sick from, healed at, measured as healed from, end.
const FROM_S: f64 = 5.0;
const HEALED_S: f64 = 15.0;
const BACK_S: f64 = 25.0;
const END_S: f64 = 30.0;
const WINDOWS: [(&str, f64); 5] = [
    ("before", 0.0),
    ("first-second", FROM_S),
    ("after-1s", FROM_S + 1.0),
    ("healing", HEALED_S),
    ("healed", BACK_S),
];

pub(crate) fn plan(setup: &Setup) -> Plan {
    let (coordinators, laps): (&[usize], u64) = match setup.size {
        Size::Quick => (&[3], 1),
        Size::Study => (&[1, 3, 10], 3),
        Size::Full => (&[1, 3, 10, 50], 5),
    };
    let mut jobs: Vec<Job> = Vec::new();
    for count in coordinators {
        for (fault, set) in FAULTS {
            let plain = Plain {
                nodes: setup.nodes.unwrap_or(NODES),
                cpus: 4,
                coordinators: *count,
                work_ms: 4.0,
                variation: 0.5,
                deadline_ms: 500,
            };
            let load = if fault.starts_with(TWO) { LOAD_TWO } else { LOAD };
            let mut spec = plain.spec(&[(0.0, load)], END_S);
            set(&mut spec);
            spec.windows_ns = WINDOWS.iter().map(|(_, from_s)| ns(*from_s)).collect();
            let notes: Vec<_> = WINDOWS
                .iter()
                .map(|(window, _)| {
                    let name = format!("{fault}-{count}-coordinators/{window}");
                    Some(note(name, fault, load * plain.capacity()))
                })
                .collect();
            jobs.extend(by_rule(&spec, &notes, laps));
        }
    }
    Plan { experiment: "sick-copies".to_owned(), jobs }
}

type Set = fn(&mut RunSpec);

/// Each fault and how it is put into a specification.
const FAULTS: [(&str, Set); 8] = [
    ("hung", |spec| sick(spec, SICK, FaultKind::Hung)),
    ("failing", |spec| sick(spec, SICK, FaultKind::Failing)),
    ("slow", |spec| sick(spec, SICK, FaultKind::Slow { factor: SLOW })),
    ("new", |spec| join(spec, 1.0)),
    ("cold", |spec| join(spec, SLOW)),
    ("two-slow", |spec| two_sick(spec, FaultKind::Slow { factor: SLOW })),
    ("two-hung", |spec| two_sick(spec, FaultKind::Hung)),
    ("two-failing", |spec| two_sick(spec, FaultKind::Failing)),
];

fn sick(spec: &mut RunSpec, node: usize, kind: FaultKind) {
    let node = node % spec.cluster.nodes.len();
    spec.cluster.nodes[node].faults = vec![Fault::between(ns(FROM_S), ns(HEALED_S), kind)];
}

fn two_sick(spec: &mut RunSpec, kind: FaultKind) {
    sick(spec, SICK, kind);
    sick(spec, SICK - 1, kind);
}

fn join(spec: &mut RunSpec, cold_factor: f64) {
    let node = SICK % spec.cluster.nodes.len();
    let node = &mut spec.cluster.nodes[node];
    node.joins_ns = ns(FROM_S);
    (node.cold_factor, node.cold_requests) = (cold_factor, 500.0);
}

pub(crate) fn findings(results: &Results, _: &[Series]) -> Vec<Finding> {
    let mut found = Vec::new();
    let cases = results.scenarios.iter().filter_map(|one| one.name.strip_suffix("/before"));
    for case in cases {
        let fair = 1.0 / NODES as f64;
        let two = case.starts_with(TWO);
        let of = |window: &str| {
            let share = |node| share(results, &format!("{case}/{window}"), "ours", node);
            if two { Some(share("n2")? + share("n3")?) } else { share("n3") }
        };
        let told = |share: Option<f64>| share.map(|share| format!("{:.2} %", share * 100.0));
        let mut tell = |window: &str, aim: String, good: &dyn Fn(f64) -> bool| {
            let share = of(window);
            let what = format!("{case}/{window}: share of what is sick under ours");
            found.push(Finding::compare(what, aim, told(share), share.map(good)));
        };
        let fault = case.strip_prefix(TWO).unwrap_or(case).split('-').next();
        match fault {
            Some("hung" | "failing") => {
                tell("after-1s", "under 1 %".to_owned(), &|share| share < 0.01);
            }
            Some("slow") if !two => {
                let best = best_static_share();
                tell(
                    "after-1s",
                    format!(
                        "within a quarter of the best static weight ({:.1} %), or trials: under 1 %",
                        best * 100.0
                    ),
                    &|share| (share - best).abs() <= best / 4.0 || share < 0.01,
                );
            }
            Some("new" | "cold") => {
                for window in ["first-second", "after-1s"] {
                    tell(window, "never over twice the fair share".to_owned(), &|share| {
                        share <= 2.0 * fair
                    });
                }
            }
            _ => {}
        }
        if !two {
            tell("healed", "back 10 s later (fair within a quarter)".to_owned(), &|share| {
                (share - fair).abs() <= fair / 4.0
            });
        }
        let lost = find(results, &format!("{case}/after-1s"), "ours").map(|one| {
            one.laps.iter().map(|lap| lap.error_rate).sum::<f64>() / one.laps.len() as f64
        });
        found.push(Finding::told(
            format!("{case}/after-1s: requests lost under ours"),
            lost.map(|rate| format!("{:.3} %", rate * 100.0)),
        ));
    }
    found
}

/// The slow copy's part of the best static weights: the one that makes the mean response time
/// least, where each node is an M/M/4 queue.
fn best_static_share() -> f64 {
    let arrivals = LOAD * NODES as f64 * 4.0;
    let response = |share: f64| {
        let slow = share * response_mmc(share * arrivals * SLOW, SLOW);
        let healthy = (1.0 - share) * response_mmc((1.0 - share) * arrivals / 2.0, 1.0);
        slow + healthy
    };
    let shares = (0..400).map(|step| f64::from(step) / 1_000.0);
    shares.min_by(|a, b| response(*a).total_cmp(&response(*b))).unwrap_or(0.0)
}

/// Mean response time of M/M/4 at `offered` Erlang, with this service time (Erlang's C formula).
fn response_mmc(offered: f64, service: f64) -> f64 {
    const SERVERS: i32 = 4;
    let c = f64::from(SERVERS);
    if offered >= c {
        return f64::INFINITY;
    }
    let mut term = 1.0;
    let mut sum = 0.0;
    for busy in 0..SERVERS {
        sum += term;
        term *= offered / f64::from(busy + 1);
    }
    let waits = term * c / (c - offered);
    let wait = waits / (sum + waits) * service / (c - offered);
    service + wait
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erlangs_formula_at_known_points() {
        // M/M/4 at 3 Erlang: the chance to wait is 0.5094, the wait 0.5094 services.
        assert!((response_mmc(3.0, 1.0) - 1.5094).abs() < 1e-3, "{}", response_mmc(3.0, 1.0));
        assert!((response_mmc(0.0, 7.0) - 7.0).abs() < 1e-9);
        assert_eq!(response_mmc(4.0, 1.0), f64::INFINITY);
    }
}
