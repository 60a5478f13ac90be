//! Laws of joining and ageing, and scripts for the meter.

use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn any_line() -> impl Strategy<Value = LoadLine> {
    let counts = (1u32..64, 0u32..500, 0u32..500, 0u64..1 << 40, 0u64..1 << 34, 0u64..1 << 34);
    let debts = (0u32..2000, 0u32..1000, 0u32..1000);
    let rest = (prop::array::uniform5(0u64..1 << 34), debts, 0u32..9, 0u32..100);
    (counts, rest).prop_map(
        |((workers, in_flight, queued, work_ns, queue_wait_ns, oldest), rest)| {
            let (run_ns, debts, cpus, runs) = rest;
            let (cpu_demand_permille, memory_debt_permille, write_debt_permille) = debts;
            // Every field, so that none is left out of the laws.
            LoadLine {
                boot: 1,
                workers,
                cpus,
                in_flight,
                queued,
                work_ns,
                queue_wait_ns,
                oldest_wait_ns: oldest,
                run_ns,
                runs,
                latency_ns: oldest / 2,
                cpu_demand_permille,
                memory_debt_permille,
                write_debt_permille,
            }
        },
    )
}

proptest! {
    #[test]
    fn joining_is_a_join(a in any_line(), b in any_line(), c in any_line()) {
        prop_assert_eq!(a.join(&b), b.join(&a));
        prop_assert_eq!(a.join(&b).join(&c), a.join(&b.join(&c)));
        prop_assert_eq!(a.join(&a), a);
    }

    #[test]
    fn a_joined_line_looks_no_better_than_a_part(a in any_line(), b in any_line()) {
        let joined = a.join(&b);
        prop_assert!(joined.in_flight >= a.in_flight && joined.work_ns >= a.work_ns);
        prop_assert!(joined.oldest_wait_ns >= a.oldest_wait_ns && joined.workers <= a.workers);
        prop_assert!(joined.run_ns.iter().zip(a.run_ns).all(|(j, a)| *j >= a));
    }

    #[test]
    fn the_later_heard_wins_by_the_receivers_clock(a in any_line(), b in any_line(), at in 0u64..100, after in 1u64..100) {
        let (old, new) = (Heard { line: a, at_ns: at }, Heard { line: b, at_ns: at + after });
        prop_assert_eq!(old.newer(new), new);
        prop_assert_eq!(new.newer(old), new);
        // A clock that steps back makes a line new, never of negative age.
        prop_assert_eq!(new.age_ns(at), 0);
    }
}

#[test]
fn a_meter_counts_and_predicts() {
    let mut meter = Meter::new(9, 2);
    let mut first = meter.arrive(0, Class::Search);
    meter.start(0, &mut first);
    meter.finish(10 * MS, first, true);
    let mut second = meter.arrive(20 * MS, Class::Search);
    meter.start(25 * MS, &mut second);
    let _third = meter.arrive(30 * MS, Class::Search);

    let line = meter.line(40 * MS, Some(30 * MS), &Outside::default());
    assert_eq!((line.boot, line.workers, line.in_flight, line.queued), (9, 2, 2, 1));
    assert_eq!(line.run_ns[Class::Search.slot()], 10 * MS);
    assert_eq!(line.work_ns, 10 * MS);
    assert_eq!(line.oldest_wait_ns, 10 * MS);
    assert_eq!(line.latency_ns, 10 * MS);
    assert!(line.queue_wait_ns > 2 * MS && line.queue_wait_ns < 3 * MS);
}

#[test]
fn a_failure_is_no_sample_of_run_time() {
    let mut meter = Meter::new(1, 1);
    let mut slow = meter.arrive(0, Class::Get);
    meter.start(0, &mut slow);
    meter.finish(8 * MS, slow, true);
    for _ in 0..100 {
        let mut job = meter.arrive(8 * MS, Class::Get);
        meter.start(8 * MS, &mut job);
        meter.finish(8 * MS, job, false);
    }
    assert_eq!(meter.run_ns(Class::Get), Some(8 * MS));
    assert_eq!(meter.in_flight(), 0);
}

#[test]
fn what_is_abandoned_leaves_nothing_behind() {
    let mut meter = Meter::new(1, 1);
    let job = meter.arrive(0, Class::Scan);
    meter.abandon(job);
    let line = meter.line(MS, None, &Outside::default());
    assert_eq!(line, LoadLine::idle(1, 1));
}

#[test]
fn latency_is_that_of_the_present_concurrency() {
    let mut meter = Meter::new(1, 64);
    let finish_at = |meter: &mut Meter, others: usize, latency: u64| {
        let held: Vec<_> = (0..others).map(|_| meter.arrive(0, Class::Get)).collect();
        let mut job = meter.arrive(0, Class::Get);
        meter.start(0, &mut job);
        meter.finish(latency, job, true);
        held.into_iter().for_each(|job| meter.abandon(job));
    };
    finish_at(&mut meter, 0, MS);
    finish_at(&mut meter, 20, 50 * MS);
    assert_eq!(meter.line(0, None, &Outside::default()).latency_ns, MS);
    let _held: Vec<_> = (0..20).map(|_| meter.arrive(0, Class::Get)).collect();
    assert_eq!(meter.line(0, None, &Outside::default()).latency_ns, 50 * MS);
}
