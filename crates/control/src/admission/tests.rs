//! Scripts for the queue's rules, and a step to overload against a pool of workers.

mod several_parts;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;
use crate::load_line::Class;
use crate::random::Random;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn arrival(id: u64, class: Class, deadline_ns: u64) -> Arrival {
    let tier = Tier::Interactive;
    // Where nothing else is said, a request of its own, and a later one goes first.
    let rank = u32::try_from(id).unwrap();
    Arrival { id, class, tier, cost_ns: None, deadline_ns, alternatives: 0, rank }
}

/// Teaches a fresh admission what a class's run takes.
fn taught(workers: usize, runs: &[(Class, u64)]) -> Admission {
    let mut admission = Admission::new(AdmissionRule::LoadAware, workers, 0);
    for (class, run_ns) in runs {
        for id in 0..20 {
            assert_eq!(admission.offer(0, arrival(id, *class, u64::MAX)), Ok(()));
            let started = admission.next(0, &mut Vec::new()).unwrap();
            admission.on_finish(0, &started, *run_ns);
        }
    }
    admission
}

/// What came of an open-loop run.
#[derive(Default)]
struct Load {
    /// (arrived, response)
    served: Vec<(u64, u64)>,
    refused: usize,
    refused_after_ns: u64,
}

/// [`drive_within`] the limit of the lab's `overload-step`.
fn drive(rule: AdmissionRule, workers: usize, end_ns: u64, rate: impl Fn(u64) -> f64) -> Load {
    drive_within(250 * MS, rule, workers, end_ns, rate)
}

/// Poisson arrivals at `rate(now)` a second to `workers` with exponential runs of 5 ms, each worth
/// an answer for so long.
fn drive_within(
    limit_ns: u64,
    rule: AdmissionRule,
    workers: usize,
    end_ns: u64,
    rate: impl Fn(u64) -> f64,
) -> Load {
    let mut random = Random::new(11);
    let mut exponential =
        move |mean: f64| crate::average::whole(-(1.0 - random.unit()).ln() * mean);
    let mut admission = Admission::new(rule, workers, 0);
    let mut load = Load::default();
    let mut arrived = std::collections::HashMap::new();
    let mut runs = BinaryHeap::new();
    let mut running = std::collections::HashMap::new();
    let (mut next_arrival, mut id) = (0, 0u64);
    loop {
        let finish = runs.peek().map(|Reverse((at, _))| *at);
        let now = finish.map_or(next_arrival, |at: u64| at.min(next_arrival));
        if now >= end_ns {
            return load;
        }
        if finish == Some(now) {
            let Some(Reverse((_, id))) = runs.pop() else { return load };
            let (started, run_ns): (Started, u64) = running.remove(&id).unwrap();
            admission.on_finish(now, &started, run_ns);
            let from: u64 = arrived[&id];
            load.served.push((from, now - from));
        } else {
            next_arrival = now + exponential(1e9 / rate(now));
            id += 1;
            arrived.insert(id, now);
            let refused = admission.offer(now, arrival(id, Class::Get, now + limit_ns)).is_err();
            load.refused += usize::from(refused);
        }
        let mut dropped = Vec::new();
        while let Some(started) = admission.next(now, &mut dropped) {
            let run_ns = exponential(5e6).max(1);
            runs.push(Reverse((now + run_ns, started.arrival.id)));
            running.insert(started.arrival.id, (started, run_ns));
        }
        for (arrival, _) in dropped {
            load.refused += 1;
            load.refused_after_ns = load.refused_after_ns.max(now - arrived[&arrival.id]);
        }
    }
}

impl Load {
    fn p99_ms(&self, from_ns: u64) -> f64 {
        let mut times: Vec<u64> =
            self.served.iter().filter(|s| s.0 >= from_ns).map(|s| s.1).collect();
        times.sort_unstable();
        times[times.len() * 99 / 100] as f64 / 1e6
    }

    fn per_second(&self, from_ns: u64, to_ns: u64) -> f64 {
        let done = |s: &&(u64, u64)| s.0 + s.1 >= from_ns && s.0 + s.1 < to_ns;
        self.served.iter().filter(done).count() as f64 / ((to_ns - from_ns) as f64 / 1e9)
    }
}

#[test]
fn a_step_to_1_4_of_capacity_costs_the_excess_and_not_the_rest() {
    for workers in [4usize, 16, 64] {
        let capacity = workers as f64 / 0.005;
        let step = |now: u64| if now < SECOND { 0.5 * capacity } else { 1.4 * capacity };
        let load = drive(AdmissionRule::LoadAware, workers, 3 * SECOND, step);
        let unloaded = drive(AdmissionRule::LoadAware, workers, 3 * SECOND, |_| 0.1 * capacity);
        let settled = SECOND + 100 * MS;
        let goodput = load.per_second(settled, 3 * SECOND);
        assert!(goodput > 0.95 * capacity, "{workers}: {goodput} of {capacity}");
        let (p99, base) = (load.p99_ms(settled), unloaded.p99_ms(0));
        assert!(p99 < 2.0 * base, "{workers}: {p99} against {base}");
        // Those refused once it has settled learn it within the bound; those of the step itself
        // within the time to notice.
        assert!(load.refused_after_ns < 100 * MS, "{workers}: {}", load.refused_after_ns);
        let fixed = drive(AdmissionRule::Fixed { capacity: 1_000 }, workers, 3 * SECOND, step);
        assert!(p99 < fixed.p99_ms(settled));
    }
}

#[test]
fn whoever_allows_a_minute_is_refused_after_a_second() {
    for (workers, load) in [(2usize, 1.4), (4, 1.1), (4, 1.4), (16, 1.05), (16, 3.0)] {
        let capacity = workers as f64 / 0.005;
        let step = |now: u64| if now < SECOND { 0.5 * capacity } else { load * capacity };
        let (settled, end) = (30 * SECOND, 40 * SECOND);
        let run = drive_within(60 * SECOND, AdmissionRule::LoadAware, workers, end, step);
        let goodput = run.per_second(settled, end);
        assert!(goodput > 0.95 * capacity, "{workers} {load}: {goodput} of {capacity}");
        let p99 = run.p99_ms(settled);
        assert!(p99 < 1_500.0, "{workers} {load}: {p99}");
        assert!(run.refused > 0, "{workers} {load}");
    }
}

#[test]
fn below_capacity_nothing_is_refused() {
    for load in [0.3, 0.6, 0.9] {
        let run = drive(AdmissionRule::LoadAware, 16, 3 * SECOND, |_| load * 16.0 / 0.005);
        assert_eq!(run.refused, 0, "{load}");
    }
}

#[test]
fn a_closed_loop_is_not_overload_even_when_the_node_turns_slow() {
    // A hundred clients, sixteen workers; after a second every run takes three times longer.
    let mut random = Random::new(3);
    let mut admission = Admission::new(AdmissionRule::LoadAware, 16, 0);
    let mut runs = BinaryHeap::new();
    let mut running = std::collections::HashMap::new();
    let (mut now, mut id) = (0, 0);
    for _ in 0..100 {
        id += 1;
        assert_eq!(admission.offer(0, arrival(id, Class::Search, u64::MAX)), Ok(()));
    }
    while now < 4 * SECOND {
        let mut dropped = Vec::new();
        while let Some(started) = admission.next(now, &mut dropped) {
            let mean = if now < SECOND { 5e6 } else { 15e6 };
            let run_ns = crate::average::whole(-(1.0 - random.unit()).ln() * mean).max(1);
            runs.push(Reverse((now + run_ns, started.arrival.id)));
            running.insert(started.arrival.id, (started, run_ns));
        }
        assert_eq!(dropped.len(), 0, "at {now}");
        let Some(Reverse((at, done))) = runs.pop() else { break };
        now = at;
        let (started, run_ns): (Started, u64) = running.remove(&done).unwrap();
        admission.on_finish(now, &started, run_ns);
        id += 1;
        assert_eq!(admission.offer(now, arrival(id, Class::Search, u64::MAX)), Ok(()), "at {now}");
    }
    assert!(id > 1_000);
}

#[test]
fn overload_ends_with_its_cause() {
    let rate = |now: u64| if now < SECOND { 1.4 * 3_200.0 } else { 0.7 * 3_200.0 };
    let load = drive(AdmissionRule::LoadAware, 16, 3 * SECOND, rate);
    let after = load.served.iter().filter(|s| s.0 > SECOND + 200 * MS);
    let offered = 0.7 * 3_200.0 * 1.8;
    assert!(after.count() as f64 > 0.95 * offered);
}

#[test]
fn a_hopeless_request_is_refused_when_it_arrives() {
    let mut admission = taught(1, &[(Class::Search, 100 * MS)]);
    for id in 0..3 {
        assert_eq!(admission.offer(0, arrival(id, Class::Search, u64::MAX)), Ok(()));
    }
    // 300 ms of work wait before it, and it runs for 100 ms itself.
    let now = 300 * MS;
    let refusal = admission.offer(now, arrival(9, Class::Search, now + 350 * MS)).unwrap_err();
    assert_eq!(refusal.reason, Reason::Hopeless);
    assert_eq!(refusal.retry_after_ns, 300 * MS);
    assert_eq!(admission.offer(now, arrival(9, Class::Search, now + 450 * MS)), Ok(()));
}

#[test]
fn what_is_only_predicted_is_believed_as_far_as_the_queue_has_stood() {
    // The first runs took a second each: cold. What they say of a hundred others is a guess.
    let mut admission = taught(1, &[(Class::Search, SECOND)]);
    let told = Arrival { cost_ns: Some(SECOND), ..arrival(0, Class::Search, SECOND / 2) };
    assert_eq!(admission.offer(0, told), Ok(()), "nothing waits");
    assert!(admission.next(0, &mut Vec::new()).is_some(), "and nothing is lost by a run");
    for id in 1..100 {
        assert_eq!(admission.offer(0, arrival(id, Class::Search, 10 * SECOND)), Ok(()));
    }
    let late = admission.offer(9 * SECOND + MS, arrival(100, Class::Search, 19 * SECOND));
    assert_eq!(late.map_err(|refusal| refusal.reason), Err(Reason::Hopeless));
}

#[test]
fn a_request_that_became_hopeless_is_not_run() {
    let mut admission = taught(1, &[(Class::Get, MS)]);
    assert_eq!(admission.offer(0, arrival(1, Class::Get, 5 * MS)), Ok(()));
    assert_eq!(admission.offer(0, arrival(2, Class::Get, SECOND)), Ok(()));
    let mut dropped = Vec::new();
    let started = admission.next(6 * MS, &mut dropped).map(|s| s.arrival.id);
    assert_eq!(started, Some(2));
    assert_eq!(dropped.len(), 1);
    assert_eq!(dropped[0].1.reason, Reason::Hopeless);
}

#[test]
fn control_work_is_never_refused_and_goes_first() {
    let mut admission = taught(1, &[(Class::Get, 10 * MS)]);
    for id in 0..50 {
        assert_eq!(admission.offer(0, arrival(id, Class::Get, u64::MAX)), Ok(()));
    }
    let control = Arrival { tier: Tier::Control, ..arrival(99, Class::Get, 0) };
    assert_eq!(admission.offer(0, control), Ok(()));
    let first = admission.next(0, &mut Vec::new()).map(|s| s.arrival.id);
    assert_eq!(first, Some(99));
}

#[test]
fn cheap_classes_do_not_wait_behind_every_dear_one() {
    let mut admission = taught(1, &[(Class::Search, 100 * MS), (Class::Get, MS)]);
    for id in 0..10 {
        assert_eq!(admission.offer(0, arrival(id, Class::Search, u64::MAX)), Ok(()));
    }
    for id in 100..110 {
        assert_eq!(admission.offer(0, arrival(id, Class::Get, u64::MAX)), Ok(()));
    }
    let mut order = Vec::new();
    while let Some(started) = admission.next(0, &mut Vec::new()) {
        order.push(started.arrival.id);
        admission.on_finish(0, &started, if started.arrival.id < 100 { 100 * MS } else { MS });
    }
    let last_get = order.iter().rposition(|id| *id >= 100).unwrap();
    assert!(last_get <= 11, "{order:?}");
    assert_eq!(order.len(), 20);
}

#[test]
fn heavy_requests_leave_workers_to_the_others() {
    let mut admission = taught(8, &[(Class::Get, MS)]);
    for id in 0..8 {
        let heavy = Arrival { cost_ns: Some(SECOND), ..arrival(id, Class::Search, u64::MAX) };
        assert_eq!(admission.offer(0, heavy), Ok(()));
    }
    let mut started = 0;
    while admission.next(0, &mut Vec::new()).is_some() {
        started += 1;
    }
    assert_eq!(started, 7);
    assert_eq!(admission.offer(0, arrival(9, Class::Get, u64::MAX)), Ok(()));
    assert!(admission.next(0, &mut Vec::new()).is_some());
}

#[test]
fn a_standing_queue_sends_away_what_has_another_copy() {
    let mut admission = taught(2, &[(Class::Search, 10 * MS)]);
    let mut outcomes = Vec::new();
    for step in 0..20u64 {
        let now = step * 30 * MS;
        // A closed loop: six are always there, so the queue stands and does not grow.
        while admission.waiting() + admission.running() < 12 {
            assert_eq!(admission.offer(now, arrival(1, Class::Search, u64::MAX)), Ok(()));
        }
        let movable = Arrival { alternatives: 1, ..arrival(2, Class::Search, u64::MAX) };
        outcomes.push(admission.offer(now, movable).map_err(|refusal| refusal.reason));
        while let Some(started) = admission.next(now, &mut Vec::new()) {
            admission.on_finish(now, &started, 10 * MS);
            if admission.waiting() <= 8 {
                break;
            }
        }
    }
    assert_eq!(outcomes[0], Ok(()));
    assert_eq!(outcomes[19], Err(Reason::Elsewhere));
}

#[test]
fn nodes_that_know_nothing_of_each_other_shed_the_same_requests() {
    // Two nodes get a part of each request at 1.4 times of what they can do, with different runs.
    let served = |seed: u64, ranked: bool| {
        let mut random = Random::new(seed);
        let mut admission = Admission::new(AdmissionRule::LoadAware, 32, 0);
        let mut runs = BinaryHeap::new();
        let mut running = std::collections::HashMap::new();
        let mut served = std::collections::BTreeSet::new();
        for id in 0..20_000u64 {
            let now = id * 5 * MS / 32 * 10 / 14;
            while let Some(Reverse((at, done))) = runs.pop() {
                if at > now {
                    runs.push(Reverse((at, done)));
                    break;
                }
                let (started, run_ns): (Started, u64) = running.remove(&done).unwrap();
                admission.on_finish(at, &started, run_ns);
                served.insert(done);
                run_free(at, &mut admission, &mut runs, &mut running, &mut random);
            }
            let rank = if ranked {
                u32::try_from(id.wrapping_mul(0x9E37_79B9) >> 8 & 0xFFFF).unwrap()
            } else {
                u32::try_from(id).unwrap()
            };
            let one = Arrival { rank, ..arrival(id, Class::Search, now + 250 * MS) };
            let _ = admission.offer(now, one);
            run_free(now, &mut admission, &mut runs, &mut running, &mut random);
        }
        served
    };
    let both = |ranked: bool| {
        let (one, two) = (served(1, ranked), served(2, ranked));
        one.intersection(&two).count() as f64 / one.len() as f64
    };
    let (by_rank, by_chance) = (both(true), both(false));
    assert!(by_rank > 0.9 && by_chance < 0.8, "{by_rank} {by_chance}");
}

type Runs = BinaryHeap<Reverse<(u64, u64)>>;

/// Starts what may start, with exponential runs of 5 ms.
fn run_free(
    now: u64,
    admission: &mut Admission,
    runs: &mut Runs,
    running: &mut std::collections::HashMap<u64, (Started, u64)>,
    random: &mut Random,
) {
    while let Some(started) = admission.next(now, &mut Vec::new()) {
        let run_ns = crate::average::whole(-(1.0 - random.unit()).ln() * 5e6).max(1);
        runs.push(Reverse((now + run_ns, started.arrival.id)));
        running.insert(started.arrival.id, (started, run_ns));
    }
}

#[test]
fn a_fetch_is_not_shed() {
    let mut admission = taught(1, &[(Class::Search, 10 * MS), (Class::Fetch, 10 * MS)]);
    let mut dropped = Vec::new();
    for step in 0..400u64 {
        let now = step * 5 * MS;
        let class = if step % 8 == 0 { Class::Fetch } else { Class::Search };
        assert_eq!(admission.offer(now, arrival(step, class, now + 250 * MS)), Ok(()));
        let free = step % 2 == 0;
        if let Some(started) = free.then(|| admission.next(now, &mut dropped)).flatten() {
            admission.on_finish(now, &started, 10 * MS);
        }
    }
    assert!(dropped.len() > 50, "{}", dropped.len());
    assert!(dropped.iter().all(|(one, _)| one.class == Class::Search));
}

#[test]
fn in_the_shadow_a_rule_counts_and_refuses_nobody() {
    let fixed = AdmissionRule::Fixed { capacity: 100_000 };
    let mut admission = Admission::in_shadow(fixed, AdmissionRule::LoadAware, 4, 0);
    let (mut id, mut started) = (0, Vec::new());
    // Half as much again arrives as can be served: one run of 4 ms on each of four workers.
    for now in (0..2_000).map(|step| step * MS) {
        if now % (4 * MS) == 0 {
            for one in started.drain(..) {
                admission.on_finish(now, &one, 4 * MS);
            }
        }
        for _ in 0..if now % (2 * MS) == 0 { 2 } else { 1 } {
            id += 1;
            assert_eq!(admission.offer(now, arrival(id, Class::Get, now + SECOND / 2)), Ok(()));
        }
        let mut dropped = Vec::new();
        started.extend(std::iter::from_fn(|| admission.next(now, &mut dropped)));
        assert_eq!(dropped, []);
    }
    let would = admission.would_refuse();
    let excess = id / 3;
    assert!(would.overload + would.hopeless > excess / 2, "{would:?} of {excess}");
    assert_eq!(would.full + would.elsewhere, 0);
    assert_eq!(
        Admission::new(AdmissionRule::LoadAware, 4, 0).would_refuse(),
        WouldRefuse::default()
    );
}

#[test]
fn what_is_cancelled_leaves_the_queue() {
    for rule in [AdmissionRule::LoadAware, AdmissionRule::Fixed { capacity: 10 }] {
        let mut admission = Admission::new(rule, 1, 0);
        for id in 0..3 {
            assert_eq!(admission.offer(0, arrival(id, Class::Get, u64::MAX)), Ok(()));
        }
        assert_eq!(admission.cancel(1).map(|one| one.id), Some(1));
        assert_eq!(admission.cancel(1), None);
        assert_eq!(admission.waiting(), 2);
        let mut order = Vec::new();
        while let Some(started) = admission.next(0, &mut Vec::new()) {
            order.push(started.arrival.id);
            admission.on_finish(0, &started, MS);
        }
        assert_eq!(order, [0, 2]);
        assert_eq!(admission.oldest_arrived_ns(), None);
    }
}

#[test]
fn the_other_readings_of_the_law_go_wrong_as_described() {
    let frame = |form, seconds: u64, task_ns: u64| {
        let settings = LittlesLawSettings { frame_window: 100, ..LittlesLawSettings::default() };
        let mut sizer = QueueSizer::new(settings, form, 0);
        let step = seconds * SECOND / 100;
        let frames = (1..=100).filter_map(|task| sizer.on_finish(task * step, task_ns));
        frames.last().map(|frame| frame.optimal)
    };
    // Task time: 100 ms tasks and a target of 5 s ask for 50 whatever the rate.
    let es7 = LittlesLawForm::TaskTime;
    assert_eq!(frame(es7, 1, 100 * MS), Some(50));
    assert_eq!(frame(es7, 100, 100 * MS), Some(50));
    // Measured: slower tasks ask for a longer queue.
    let measured = LittlesLawForm::Measured;
    assert!(frame(measured, 10, 10 * SECOND) > frame(measured, 10, SECOND));
    // Maximum less L: the other way round, and only by the choice of the maximum.
    let max_minus = LittlesLawForm::MaxMinus;
    assert!(frame(max_minus, 10, 10 * SECOND) < frame(max_minus, 10, SECOND));
}
