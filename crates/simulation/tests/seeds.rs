//! Seeds of whole clusters.

#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use plimsoll_simulation::run::{Outcome, Plan, run};

fn outcome(plan: Plan) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    run(plan, dir.path()).unwrap()
}

#[test]
fn a_seed_is_one_history() {
    let plan = Plan::of(1);
    let once = outcome(plan);
    assert!(once.counts.answered > 100, "{once:?}");
    assert_eq!(once.violations, Vec::<String>::new());
    assert_eq!(outcome(plan), once);
}
