//! The laws of our rule as properties, its treatment of sick, new and far nodes as scripts, and
//! what every rule must keep.

use super::*;
use crate::load_line::Class;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const ASK: Ask = Ask { class: Class::Get, partition: 0 };
const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);
const C: NodeId = NodeId(2);

fn near(nodes: &[NodeId]) -> Vec<Candidate> {
    nodes.iter().map(|node| Candidate::near(*node)).collect()
}

fn line(run_ns: u64, in_flight: u32, workers: u32) -> LoadLine {
    let run_ns = [run_ns; Class::COUNT];
    LoadLine { in_flight, run_ns, runs: 1_000, ..LoadLine::idle(7, workers) }
}

/// One request to the node at `now_ns`, answered after `took_ns` with the line.
fn answer(selector: &mut Selector, now_ns: u64, node: NodeId, took_ns: u64, line: &LoadLine) {
    let flight = selector.on_send(now_ns, ASK, node);
    selector.on_reply(now_ns + took_ns, flight, Some(took_ns), Some(line));
}

/// A selector that has known both nodes for ten seconds; the time is then ten seconds.
fn grown(nodes: &[NodeId], run_ns: u64) -> Selector {
    let mut selector = Selector::new(Rule::LoadAware, 5);
    for step in 0..100 {
        for node in nodes {
            answer(&mut selector, step * 100 * MS, *node, run_ns, &line(run_ns, 0, 4));
        }
    }
    selector
}

fn picks(
    selector: &mut Selector,
    now_ns: u64,
    candidates: &[Candidate],
    count: usize,
) -> Vec<usize> {
    let mut counts = vec![0; candidates.len()];
    for _ in 0..count {
        counts[selector.pick(now_ns, ASK, candidates).unwrap()] += 1;
    }
    counts
}

fn any_estimate() -> impl Strategy<Value = Estimate> {
    let times = prop::array::uniform5(0.0f64..1e10);
    let cpus = prop_oneof![Just(f64::INFINITY), (1u32..64).prop_map(f64::from)];
    let sizes = (1.0f64..64.0, cpus, 0.0f64..64.0);
    (times, 0.0f64..500.0, sizes, 1.0f64..5.0, 0.0f64..1.0, 0.0f64..1e10).prop_map(
        |(times, in_flight, (workers, cpus, competitors), pressure, failing, deadline_ns)| {
            let [run_ns, backlog_ns, oldest_wait_ns, network_ns, unanswered_ns] = times;
            Estimate {
                run_ns,
                pressure,
                in_flight: in_flight.round(),
                backlog_ns,
                workers: workers.round(),
                cpus,
                competitors,
                oldest_wait_ns,
                network_ns,
                failing,
                deadline_ns,
                unanswered_ns,
                zone_ns: 0.0,
            }
        },
    )
}

fn any_line() -> impl Strategy<Value = LoadLine> {
    (0u32..200, 0u64..1 << 34, 0u64..1 << 32, 1u64..1 << 32, 1u32..32).prop_map(
        |(in_flight, work_ns, oldest_wait_ns, run_ns, workers)| LoadLine {
            work_ns,
            oldest_wait_ns,
            ..line(run_ns, in_flight, workers)
        },
    )
}

proptest! {
    #[test]
    fn slower_busier_failing_or_older_in_flight_never_ranks_better(
        good in any_estimate(), field in 0usize..11, more in 0.0f64..1e9,
    ) {
        let mut bad = good;
        match field {
            0 => bad.run_ns += more,
            1 => bad.in_flight += more,
            2 => bad.backlog_ns += more,
            3 => bad.oldest_wait_ns += more,
            4 => bad.network_ns += more,
            5 => bad.failing = (bad.failing + more / 1e9).min(1.0),
            6 => bad.deadline_ns += more,
            7 => bad.unanswered_ns += more,
            8 => bad.competitors += more,
            9 if good.cpus.is_finite() && good.cpus > 1.0 => bad.cpus -= 1.0,
            _ => bad.pressure += more / 1e9,
        }
        prop_assert!(cost_ns(&bad) >= cost_ns(&good) * (1.0 - 1e-12));
        // Fewer workers are worse where they are all that limits; where processors are shared, a
        // smaller pool only moves the queue.
        if bad.cpus.is_infinite() {
            bad.workers = (bad.workers - 1.0).max(1.0);
            prop_assert!(cost_ns(&bad) >= cost_ns(&good) * (1.0 - 1e-12));
        }
    }

    #[test]
    fn the_own_oldest_unanswered_request_outranks_any_report(estimate in any_estimate()) {
        prop_assert!(cost_ns(&estimate) >= estimate.unanswered_ns);
    }

    #[test]
    fn no_report_draws_requests_to_a_node_that_owes_an_answer(report in any_line(), age_ms in 5u64..900) {
        let mut selector = grown(&[A, B], MS);
        let now = 10 * SECOND;
        let _owed = selector.on_send(now, ASK, A);
        let then = now + age_ms * MS;
        answer(&mut selector, then - MS, B, MS, &line(MS, 0, 4));
        selector.on_probe(then, A, &LoadLine { boot: 7, ..report });
        prop_assert!(selector.cost(then, ASK, Candidate::near(A)) >= (age_ms * MS) as f64);
        prop_assert_eq!(picks(&mut selector, then, &near(&[A, B]), 20), vec![0, 20]);
    }

    #[test]
    fn a_worse_line_never_ranks_better(good in any_line(), field in 0usize..4, more in 1u32..1000) {
        let mut bad = good;
        match field {
            0 => bad.in_flight += more,
            1 => bad.work_ns += u64::from(more) * MS,
            2 => bad.oldest_wait_ns += u64::from(more) * MS,
            _ => bad.run_ns[ASK.class.slot()] += u64::from(more) * MS,
        }
        let cost = |line: &LoadLine, age_ns: u64| {
            let mut selector = Selector::new(Rule::LoadAware, 1);
            answer(&mut selector, 0, A, MS, line);
            selector.cost(MS + age_ns, ASK, Candidate::near(A))
        };
        for age_ns in [0, MS, 100 * MS, 10 * SECOND] {
            prop_assert!(cost(&bad, age_ns) >= cost(&good, age_ns) * (1.0 - 1e-12));
        }
    }

    #[test]
    fn a_failure_or_refusal_never_looks_fast(
        kind in 0usize..4, took_ns in 0u64..MS, deadline_ms in 10u64..10_000, count in 1u64..20,
    ) {
        let kind = [FailureKind::Refused, FailureKind::Error, FailureKind::Timeout, FailureKind::Unreachable][kind];
        let failure = Failure { kind, deadline_ns: deadline_ms * MS, line: None };
        let (mut failing, mut answering) = (grown(&[A], MS), grown(&[A], MS));
        for step in 0..count {
            let now = 10 * SECOND + step * MS;
            let flight = failing.on_send(now, ASK, A);
            failing.on_failure(now + took_ns, flight, &failure);
            answer(&mut answering, now, A, took_ns, &line(MS, 0, 4));
        }
        let now = 10 * SECOND + count * MS;
        let cost = |selector: &Selector| selector.cost(now, ASK, Candidate::near(A));
        // Ten answers were on record: the price of the failures among them is a deadline each.
        let share = count as f64 / (count as f64 + 12.0);
        let price = share * (deadline_ms * MS) as f64;
        prop_assert!(cost(&failing) > cost(&answering) + 0.9 * price - MS as f64);
    }

    #[test]
    fn every_rule_names_a_candidate_and_ranks_each_once(
        rule in 0usize..Rule::NAMED.len(),
        count in 1usize..40,
        steps in prop::collection::vec((0u8..6, 0u64..50 * MS), 1..120),
    ) {
        let mut selector = Selector::new(Rule::NAMED[rule].1, 3);
        let candidates: Vec<Candidate> =
            (0..count).map(|node| Candidate::near(NodeId(u32::try_from(node).unwrap()))).collect();
        let (mut now, mut flights, mut order) = (0, Vec::new(), Vec::new());
        for (what, wait_ns) in steps {
            now += wait_ns;
            selector.rank(now, ASK, &candidates, &mut order);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..count).collect::<Vec<_>>());
            flights.push(selector.on_send(now, ASK, candidates[order[0]].node));
            let mut probes = Vec::new();
            selector.probes(now, ASK, &candidates, &mut probes);
            prop_assert!(probes.iter().all(|node| candidates.iter().any(|c| c.node == *node)));
            for node in probes {
                match what {
                    0 => selector.on_probe_lost(now, node),
                    _ => selector.on_probe(now, node, &line(MS, 3, 2)),
                }
            }
            let kind = FailureKind::Timeout;
            match (what, flights.pop()) {
                (1 | 2, Some(flight)) => selector.on_reply(now, flight, None, Some(&line(MS, 1, 2))),
                (3, Some(flight)) => {
                    selector.on_failure(now, flight, &Failure { kind, deadline_ns: MS, line: None });
                }
                (4, Some(flight)) => selector.on_cancel(now, flight),
                (_, Some(flight)) => flights.push(flight),
                (_, None) => {}
            }
        }
        let out: u32 = candidates.iter().map(|c| selector.book().outstanding(c.node)).sum();
        prop_assert_eq!(usize::try_from(out).unwrap(), flights.len());
    }
}

#[test]
fn no_candidates_no_choice() {
    for (_, rule) in Rule::NAMED {
        assert_eq!(Selector::new(rule, 1).pick(0, ASK, &[]), None);
    }
    assert_eq!(Rule::named("load_aware"), Some(Rule::LoadAware));
    assert_eq!(Rule::named("ours"), Some(Rule::LoadAware), "its word before");
    assert_eq!(Rule::named("fastest"), None);
}

#[test]
fn forgetting_is_by_time_and_not_by_decision() {
    let mut selector = grown(&[A, B], MS);
    let now = 10 * SECOND;
    let failure = Failure { kind: FailureKind::Refused, deadline_ns: SECOND, line: None };
    for _ in 0..5 {
        let flight = selector.on_send(now, ASK, A);
        selector.on_failure(now, flight, &failure);
    }
    let cost = |selector: &Selector, at: u64| selector.cost(at, ASK, Candidate::near(A));
    let before = cost(&selector, now);
    picks(&mut selector, now, &near(&[A, B]), 1_000);
    assert_eq!(cost(&selector, now), before);
    assert!(cost(&selector, now + 10 * SECOND) < before / 20.0);
}

#[test]
fn a_sick_node_is_tried_by_one_request_at_a_time_and_ever_less_often() {
    let mut selector = grown(&[A, B], MS);
    let candidates = near(&[A, B]);
    let failure = Failure { kind: FailureKind::Error, deadline_ns: SECOND, line: None };
    let mut now = 10 * SECOND;
    for _ in 0..3 {
        let flight = selector.on_send(now, ASK, A);
        selector.on_failure(now, flight, &failure);
    }
    let mut trials = Vec::new();
    while now < 30 * SECOND {
        let at = selector.pick(now, ASK, &candidates).unwrap();
        let flight = selector.on_send(now, ASK, candidates[at].node);
        match at {
            0 => {
                trials.push(now);
                selector.on_failure(now, flight, &failure);
            }
            _ => selector.on_reply(now + MS, flight, Some(MS), Some(&line(MS, 0, 4))),
        }
        now += 2 * MS;
    }
    let gaps: Vec<u64> = trials.windows(2).map(|pair| (pair[1] - pair[0]) / MS).collect();
    assert!(gaps.windows(2).all(|pair| pair[1] >= pair[0]), "{gaps:?}");
    assert_eq!((gaps[0] / 100, gaps.last().map(|gap| gap / 100)), (10, Some(40)), "{gaps:?}");
    // While a trial is out, there is no second one.
    now += 10 * SECOND;
    while selector.pick(now, ASK, &candidates) != Some(0) {}
    let _trial = selector.on_send(now, ASK, A);
    assert_eq!(picks(&mut selector, now + MS, &candidates, 2_000)[0], 0);
}

#[test]
fn one_silent_time_out_is_enough_and_all_sick_still_serve() {
    let mut selector = grown(&[A, B], MS);
    let failure = Failure { kind: FailureKind::Timeout, deadline_ns: SECOND, line: None };
    let now = 10 * SECOND;
    let flight = selector.on_send(now, ASK, A);
    selector.on_failure(now + SECOND, flight, &failure);
    let counts = picks(&mut selector, now + SECOND, &near(&[A, B]), 100);
    // One of them may be a trial.
    assert!(counts[0] <= 1, "{counts:?}");
    let flight = selector.on_send(now + SECOND, ASK, B);
    selector.on_failure(now + 2 * SECOND, flight, &failure);
    assert_eq!(
        picks(&mut selector, now + 2 * SECOND, &near(&[A, B]), 100).iter().sum::<usize>(),
        100
    );
}

#[test]
fn a_copy_whose_clock_jumps_is_back_to_its_share_in_ten_seconds() {
    // For a second its times are off by an hour, forward and then back; answers come as ever.
    let hour = LoadLine { oldest_wait_ns: 3_600 * SECOND, ..line(3_600 * SECOND, 1, 4) };
    let mut selector = grown(&[A, B, C], MS);
    let candidates = near(&[A, B, C]);
    let (mut now, mut share, mut all) = (10 * SECOND, 0, 0);
    while now < 25 * SECOND {
        let node = candidates[selector.pick(now, ASK, &candidates).unwrap()].node;
        let jumped = node == A && now < 11 * SECOND;
        let back = LoadLine { run_ns: [0; Class::COUNT], ..line(0, 0, 4) };
        let wrong = if now < 10 * SECOND + SECOND / 2 { hour } else { back };
        let told = if jumped { wrong } else { line(MS, 0, 4) };
        answer(&mut selector, now, node, MS, &told);
        now += 2 * MS;
        if now > 21 * SECOND {
            all += 1;
            share += usize::from(node == A);
        }
    }
    assert!((share as f64 / f64::from(all) - 1.0 / 3.0).abs() < 1.0 / 12.0, "{share} of {all}");
}

#[test]
fn a_restarted_node_is_new() {
    let mut selector = grown(&[A, B, C], MS);
    let candidates = near(&[A, B, C]);
    let mut now = 10 * SECOND;
    // It looks perfect, being empty, but has to earn its share.
    selector.on_probe(now, A, &LoadLine { boot: 8, ..line(1, 0, 64) });
    let mut sent = 0;
    for _ in 0..300 {
        let at = selector.pick(now, ASK, &candidates).unwrap();
        sent += usize::from(at == 0);
        answer(
            &mut selector,
            now,
            candidates[at].node,
            MS,
            &LoadLine {
                boot: if at == 0 { 8 } else { 7 },
                ..line(if at == 0 { 1 } else { MS }, 0, 4)
            },
        );
        now += MS;
    }
    assert!((50..200).contains(&sent), "{sent} of 300");
}

/// The share that a new node C gets beside two that are known, between two seconds after it came,
/// if its `n`-th request takes `run_ns(n)`.
fn share_of_new(run_ns: impl Fn(u32) -> u64, from_s: u64, to_s: u64) -> f64 {
    let mut selector = grown(&[A, B], MS);
    let candidates = near(&[A, B, C]);
    let (mut served, mut counted, mut of_new) = (0, 0, 0);
    for now in (10 * SECOND..(10 + to_s) * SECOND).step_by(2_000_000) {
        let at = selector.pick(now, ASK, &candidates).unwrap();
        let (boot, took_ns) = if at == 2 { (9, run_ns(served)) } else { (7, MS) };
        served += u32::from(at == 2);
        let told = LoadLine { boot, runs: served.min(2_500), ..line(took_ns, 0, 4) };
        answer(&mut selector, now, candidates[at].node, took_ns, &told);
        if now >= (10 + from_s) * SECOND {
            counted += 1;
            of_new += u32::from(at == 2);
        }
    }
    f64::from(of_new) / f64::from(counted)
}

#[test]
fn a_cold_node_gets_enough_to_warm_up_and_a_slow_one_does_not() {
    let cold = |n: u32| MS + crate::average::whole(9e6 * (-f64::from(n) / 200.0).exp());
    let warming = share_of_new(cold, 1, 5);
    assert!((0.03..0.3).contains(&warming), "{warming}");
    let warm = share_of_new(cold, 40, 41);
    assert!((0.2..0.5).contains(&warm), "{warm}");
    let slow = share_of_new(|_| 10 * MS, 10, 15);
    assert!(slow < 0.01, "{slow}");
}

#[test]
fn a_run_time_counts_by_the_runs_that_it_rests_on() {
    let mut selector = grown(&[A, B], MS);
    let now = 10 * SECOND;
    let cost = |selector: &Selector| selector.cost(now, ASK, Candidate::near(A));
    let costs = [0, 1, 10, 1_000].map(|runs| {
        selector.on_probe(now, A, &LoadLine { runs, ..line(20 * MS, 0, 4) });
        cost(&selector)
    });
    assert!(costs.is_sorted(), "{costs:?}");
    assert!(costs[0] < 3.0 * MS as f64 && costs[3] > 15.0 * MS as f64, "{costs:?}");
}

#[test]
fn shared_processors_are_a_queue_that_does_not_show() {
    let mut selector = grown(&[A, B], MS);
    let now = 10 * SECOND;
    // Pools so wide that nothing waits in them, on eight processors each.
    let wide = |in_flight: u32, cpu_demand_permille: u32| LoadLine {
        cpus: 8,
        cpu_demand_permille,
        ..line(MS, in_flight, 64)
    };
    selector.on_probe(now, A, &wide(6, 3_000));
    selector.on_probe(now, B, &wide(12, 1_500));
    // A has fewer requests, and eighteen threads of others beside them.
    assert_eq!(picks(&mut selector, now, &near(&[A, B]), 50), [0, 50]);
}

#[test]
fn the_zone_is_a_price_and_not_a_wall() {
    let mut selector = grown(&[A, B], MS);
    let far = Candidate { node: B, zone_penalty_us: 2_000 };
    let candidates = [Candidate::near(A), far];
    let now = 10 * SECOND;
    assert_eq!(picks(&mut selector, now, &candidates, 50), [50, 0]);
    // Once the near one is hot, the far one is worth its price.
    selector.on_probe(now, A, &line(MS, 30, 4));
    selector.on_probe(now, B, &line(MS, 0, 4));
    assert_eq!(picks(&mut selector, now, &candidates, 50), [0, 50]);
}

#[test]
fn a_long_request_of_another_class_is_not_held_against_a_node() {
    let mut selector = grown(&[A, B], MS);
    let search = Ask { class: Class::Search, partition: 0 };
    let now = 10 * SECOND;
    let _long = selector.on_send(now, search, A);
    let cost = |ask: Ask| selector.cost(now + 500 * MS, ask, Candidate::near(A));
    assert!(cost(ASK) < 10.0 * MS as f64);
    assert!(cost(search) >= 500.0 * MS as f64);
}

#[test]
fn a_hedged_node_that_stays_silent_falls_sick() {
    let mut selector = grown(&[A, B], MS);
    let mut now = 10 * SECOND;
    for _ in 0..3 {
        let flight = selector.on_send(now, ASK, A);
        selector.on_cancel(now + 20 * MS, flight);
        now += 100 * MS;
    }
    assert_eq!(picks(&mut selector, now, &near(&[A, B]), 100), [0, 100]);
}

#[test]
fn write_debt_is_a_price_for_writes_only() {
    let mut selector = grown(&[A, B], MS);
    let now = 10 * SECOND;
    selector.on_probe(now, A, &LoadLine { write_debt_permille: 990, ..line(MS, 0, 4) });
    selector.on_probe(now, B, &line(MS, 0, 4));
    let cost = |class: Class, node: NodeId| {
        selector.cost(now, Ask { class, partition: 0 }, Candidate::near(node))
    };
    assert!(cost(Class::Write, A) > 3.0 * cost(Class::Write, B));
    assert_eq!(cost(Class::Get, A), cost(Class::Get, B));
}

#[test]
fn a_rule_in_the_shadow_is_asked_and_changes_nothing() {
    let drive = |mut selector: Selector| {
        let candidates = near(&[A, B, C]);
        let mut chosen = Vec::new();
        for step in 0..200u64 {
            let now = step * 10 * MS;
            let at = selector.pick(now, ASK, &candidates).unwrap();
            chosen.push(at);
            let run_ns = if at == 0 { 20 * MS } else { MS };
            answer(&mut selector, now, candidates[at].node, run_ns, &line(run_ns, 0, 4));
        }
        (chosen, selector.shadow_picks())
    };
    let (alone, none) = drive(Selector::new(Rule::RoundRobin, 3));
    let (shadowed, seen) = drive(Selector::with_shadow(Rule::RoundRobin, Rule::LoadAware, 3));
    assert_eq!(alone, shadowed);
    assert_eq!(none, ShadowPicks::default());
    assert_eq!(seen.picks, 200);
    // Rotation asks the slow copy every third time, and ours would not have.
    assert!(seen.differed >= 60, "{seen:?}");
}
