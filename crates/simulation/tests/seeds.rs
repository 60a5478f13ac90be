//! Seeds of whole clusters: the same seed is the same history, and none breaks a promise.

#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use plimsoll_simulation::plan::Plan;
use plimsoll_simulation::run::{Outcome, run};

/// How many seeds are tried; `make simulate` tries more.
const SEEDS: u64 = 200;

/// Seeds that break a promise which is not mended yet: one that passes has to leave the list.
const BROKEN: [u64; 0] = [];

fn outcome(plan: &Plan) -> Outcome {
    run(plan).unwrap()
}

#[test]
fn a_seed_is_one_history() {
    for plan in [Plan::calm(1), Plan::of(1), Plan::of(2), Plan::of(3), Plan::of_two(4)] {
        let once = outcome(&plan);
        assert!(once.counts.answered > 100, "{once:?}");
        assert_eq!(outcome(&plan), once, "{plan:?}");
    }
}

#[test]
fn faults_break_no_promise() {
    let (next, broken) = (AtomicU64::new(1), Mutex::new(Vec::new()));
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > SEEDS {
                return;
            }
            // On a thread of its own, as what a thread remembers (hash keys) must not come from another seed.
            let found = std::thread::scope(|scope| {
                scope.spawn(|| outcome(&Plan::of(seed)).violations).join()
            });
            match found {
                Ok(violations) if violations.is_empty() != BROKEN.contains(&seed) => {}
                found => broken.lock().push((seed, found.ok())),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    let broken = broken.into_inner();
    assert!(broken.is_empty(), "simulate --from SEED --seeds 1 --verbose: {broken:#?}");
}
