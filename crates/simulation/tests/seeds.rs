//! Seeds of whole clusters.

#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use plimsoll_simulation::run::{Outcome, Plan, run};

fn outcome(plan: &Plan) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    run(plan, dir.path()).unwrap()
}

#[test]
fn a_seed_is_one_history() {
    for plan in [Plan::calm(1), Plan::of(1), Plan::of(2), Plan::of(3)] {
        let once = outcome(&plan);
        assert!(once.counts.answered > 100, "{once:?}");
        assert_eq!(outcome(&plan), once, "{plan:?}");
    }
}

#[test]
fn faults_break_no_promise() {
    let from: u64 = std::env::var("SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(1);
    let count: u64 = std::env::var("SEEDS").ok().and_then(|it| it.parse().ok()).unwrap_or(20);
    let mut failed = Vec::new();
    for seed in from..from + count {
        let plan = Plan::of(seed);
        let found = outcome(&plan);
        if !found.violations.is_empty() {
            failed.push((seed, found.violations));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
