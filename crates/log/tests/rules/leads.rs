//! A lead's records are taken once and in its order.

use plimsoll_log::LeadId;
use plimsoll_log::record::LeadStamp;
use plimsoll_log::rules::WINDOW_MS;
use plimsoll_log::rules::leads::{LeadState, LeadVerdict, admit};

const LEAD: LeadId = LeadId(9);

fn at(epoch: u32, n: u64) -> LeadStamp {
    LeadStamp { lead: LEAD, epoch, n }
}

#[test]
fn takes_the_next_and_nothing_else() {
    let state = LeadState { epoch: 2, last: 4, seen_ms: 1000 };
    let verdict = |stamp| admit(Some(&state), &stamp, 1000, 1000);
    assert_eq!(verdict(at(2, 4)), LeadVerdict::Duplicate);
    assert_eq!(verdict(at(2, 6)), LeadVerdict::Gap { expected: 5 });
    assert_eq!(verdict(at(1, 5)), LeadVerdict::StaleEpoch);
    assert_eq!(verdict(at(3, 2)), LeadVerdict::Gap { expected: 1 });
    let next = LeadState { epoch: 2, last: 5, seen_ms: 1000 };
    assert_eq!(verdict(at(2, 5)), LeadVerdict::Take(next));
    let raised = LeadState { epoch: 3, last: 1, seen_ms: 1000 };
    assert_eq!(verdict(at(3, 1)), LeadVerdict::Take(raised));
}

#[test]
fn what_may_have_been_forgotten_is_refused_and_what_is_forgotten_starts_again() {
    let state = LeadState { epoch: 2, last: 4, seen_ms: 1000 };
    let edge = 1000 + WINDOW_MS;
    assert_eq!(admit(Some(&state), &at(2, 4), 1000, edge), LeadVerdict::Duplicate);
    assert_eq!(admit(Some(&state), &at(2, 4), 1000, edge + 1), LeadVerdict::TooOld);
    assert_eq!(admit(None, &at(2, 4), 1000, edge + 1), LeadVerdict::TooOld);
    // Whether a replica has got round to deleting the state does not matter.
    for known in [None, Some(&state)] {
        let gap = LeadVerdict::Gap { expected: 1 };
        assert_eq!(admit(known, &at(2, 5), edge + 1, edge + 1), gap);
        let taken = LeadState { epoch: 3, last: 1, seen_ms: edge + 1 };
        assert_eq!(admit(known, &at(3, 1), edge + 1, edge + 1), LeadVerdict::Take(taken));
    }
}
