//! Checks of selection with copies that go bad in a small simulated cluster: what share a slow,
//! hung, failing, new or healed copy gets under our rule, and how its times compare with those of
//! the other rules. Everything is drawn from seeds, so a result is a fact and not a sample.

mod cluster;

use cluster::{Fault, MS, Outcome, Plan, SECOND, run};
use plimsoll_control::selection::Rule;

/// Capacity of the default plan's six nodes is 9,600 requests a second.
const CAPACITY: f64 = 9_600.0;
const EVER: u64 = u64::MAX;

fn with(coordinators: usize, load: f64, faults: Vec<(usize, Fault, u64, u64)>) -> Plan {
    Plan { coordinators, rate: CAPACITY * load, faults, ..Plan::default() }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for (_, rule) in Rule::NAMED {
        let plan = Plan { rule, end_ns: SECOND / 2, ..with(3, 0.7, vec![]) };
        let (a, b) = (run(plan.clone()), run(plan));
        assert_eq!(a.sends, b.sends, "{rule:?}");
        assert_eq!(a.requests, b.requests, "{rule:?}");
    }
}

#[test]
fn a_hung_or_failing_copy_gets_under_one_percent_after_a_second() {
    for coordinators in [1, 3, 10, 50] {
        for fault in [Fault::Hung, Fault::Failing] {
            let outcome = run(with(coordinators, 0.5, vec![(0, fault, SECOND, EVER)]));
            let share = outcome.share(0, 2 * SECOND, EVER);
            assert!(share < 0.01, "{fault:?} at {coordinators} coordinators: {share}");
        }
    }
}

#[test]
fn two_of_three_copies_gone_leave_the_third_in_charge() {
    for fault in [Fault::Hung, Fault::Failing] {
        let faults = vec![(0, fault, SECOND, EVER), (1, fault, SECOND, EVER)];
        let plan = Plan { nodes: 3, partitions: 3, rate: 1_000.0, ..with(3, 0.1, faults) };
        let outcome = run(plan);
        let share = outcome.share(2, 2 * SECOND, EVER);
        assert!(share > 0.98, "{fault:?}: {share}");
    }
}

#[test]
fn a_copy_that_heals_is_back_in_ten_seconds() {
    for fault in [Fault::Hung, Fault::Failing, Fault::Slow(10.0)] {
        let plan = with(3, 0.3, vec![(0, fault, SECOND, 3 * SECOND)]);
        let outcome = run(Plan { end_ns: 15 * SECOND, ..plan });
        let share = outcome.share(0, 13 * SECOND, 15 * SECOND);
        assert!(share > 0.5 / 6.0, "{fault:?}: {share}");
    }
}

#[test]
fn a_slow_copy_gets_about_what_the_best_static_weights_would_give() {
    // Ten times slower: at 90 % of what is left, weights by speed give it 0.1 / 5.1 of the work;
    // well below capacity the best static share is nothing.
    let faults = vec![(0, Fault::Slow(10.0), 0, EVER)];
    let outcome = run(with(10, 0.9 * 5.1 / 6.0, faults.clone()));
    let share = outcome.share(0, SECOND, EVER);
    assert!(share < 1.25 * 0.1 / 5.1, "{share}");
    let outcome = run(with(10, 0.4, faults));
    assert!(outcome.share(0, SECOND, EVER) < 0.01);
}

#[test]
fn a_new_copy_is_neither_flooded_nor_starved() {
    for coordinators in [1, 10, 50] {
        let plan = with(coordinators, 0.9, vec![(0, Fault::Absent, 0, 6 * SECOND)]);
        let outcome = run(Plan { end_ns: 13 * SECOND, rate: CAPACITY * 0.75, ..plan });
        let shares: Vec<f64> = (0..14)
            .map(|half| 6 * SECOND + half * SECOND / 2)
            .map(|from| outcome.share(0, from, from + SECOND / 2))
            .collect();
        let fair = 1.0 / 6.0;
        assert!(shares.iter().all(|share| *share < 2.0 * fair), "{coordinators}: {shares:?}");
        assert!(shares[2..].iter().all(|share| *share > 0.3 * fair), "{coordinators}: {shares:?}");
    }
}

#[test]
fn one_slow_copy_hurts_nobody_more_than_under_any_other_rule() {
    for load in [0.3, 0.6, 0.9] {
        let of = |rule: Rule| -> Outcome {
            let plan = with(10, load * 5.2 / 6.0, vec![(0, Fault::Slow(5.0), 0, EVER)]);
            run(Plan { rule, ..plan })
        };
        let (ours, healthy) = (of(Rule::LoadAware), run(with(10, load * 5.2 / 6.0, vec![])));
        let p50 = ours.quantile_ms(0.5, SECOND);
        if load < 0.7 {
            assert!(p50 <= 1.06 * healthy.quantile_ms(0.5, SECOND), "{load}: {p50}");
        }
        for (name, rule) in Rule::NAMED.into_iter().skip(1) {
            let other = of(rule);
            let (p99, theirs) = (ours.quantile_ms(0.99, SECOND), other.quantile_ms(0.99, SECOND));
            assert!(p99 <= 1.05 * theirs, "{load}: p99 {p99} against {name} {theirs}");
        }
    }
}

#[test]
fn a_ramp_beyond_capacity_is_met_as_well_as_by_the_best_rule() {
    // Twenty nodes, half of them at half their speed, twenty coordinators, any node may serve.
    for load in [0.75, 1.03, 1.74] {
        let p99 = |rule: Rule| {
            let faults = (0..10).map(|node| (node, Fault::Slow(2.0), 0, EVER)).collect();
            let layout = Plan { nodes: 20, copies: 20, partitions: 20, faults, ..Plan::default() };
            let rate = 15.0 * 8.0 / 0.005 * load;
            let load = Plan { coordinators: 20, rate, deadline_ns: 5 * SECOND, ..layout };
            run(Plan { rule, end_ns: 2 * SECOND, ..load }).quantile_ms(0.99, SECOND)
        };
        let ours = p99(Rule::LoadAware);
        for (name, rule) in Rule::NAMED.into_iter().skip(1) {
            let theirs = p99(rule);
            assert!(ours <= 1.05 * theirs, "{load}: {ours} against {name} {theirs}");
        }
    }
}

#[test]
fn a_closed_loop_keeps_its_throughput_beside_a_slow_node() {
    // A hundred clients, each request to all of five partitions, two copies: the layout of the
    // first study, with a node that keeps a third of its speed.
    let of = |rule: Rule, slow: bool| {
        let faults = if slow { vec![(2, Fault::Slow(3.0), 0, EVER)] } else { vec![] };
        let layout = Plan {
            nodes: 5,
            partitions: 5,
            copies: 2,
            workers: 16,
            scatter: true,
            ..Plan::default()
        };
        let load = Plan { clients: 100, coordinators: 1, run_ns: 100 * MS, ..layout };
        let outcome =
            run(Plan { rule, faults, end_ns: 60 * SECOND, deadline_ns: 60 * SECOND, ..load });
        outcome.throughput(10 * SECOND, 60 * SECOND)
    };
    let kept = of(Rule::LoadAware, true) / of(Rule::LoadAware, false);
    // Four nodes and a third are 0.867 of five.
    assert!(kept > 0.8, "{kept}");
    assert!(
        of(Rule::LoadAware, true)
            >= 0.99
                * of(Rule::C3 { b: 3, form: plimsoll_control::selection::C3Form::Corrected }, true)
    );
}
